"""Options of graphs, of decoding and of lattices."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from asr_parallel.config.verb import VerbConfig, cuts_path, features_of, model_files


@dataclass(frozen=True)
class GraphConfig(VerbConfig):
    """Make the decoding graph of a model that is there: with another language model, other probabilities, or by CTC."""

    model: Path = Path("exp/fotaq/tri")  # directory of the model
    lang: Path = Path("data/fotaq/lang")  # language directory, whose phones are the model's
    out: Path = Path("exp/fotaq/graph")  # gets HCLG.fst and words.txt; give it to `decode` as its --graph
    transition_scale: float = 1.0  # scale of transition log-probabilities, without self-loops
    self_loop_scale: float = 0.1  # scale of self-loop log-probabilities
    lexicon_probs: Path | None = (
        None  # of pronunciations and silences: a system's lexicon_probs.txt. By default all even
    )

    def inputs(self) -> list[Path]:
        names = ("lexicon.txt", "words.txt", "phones.txt", "L_disambig.fst", "G.fst")
        own = [self.lexicon_probs] if self.lexicon_probs else []
        return [self.model / "hmm.json", *(self.lang / n for n in names), *own]

    def outputs(self) -> list[Path]:
        return [self.out / n for n in ("HCLG.fst", "words.txt", "graph.json")]


@dataclass(frozen=True)
class DecodeConfig(VerbConfig):
    """Decode sets into lattices with a GMM or a DNN."""

    model: Path = Path("exp/fotaq/tri")  # model directory: gmm.npz or final.pt beside hmm.json
    graph: Path = Path("exp/fotaq/tri/graph")  # directory of HCLG.fst and words.txt
    data: Path = Path("data/fotaq")  # corpus directory
    sets: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new", "test_joe", "test_new"])
    acwt: float = 0.083333  # acoustic scale while decoding
    beam: float = 12.0
    lattice_beam: float = 6.0
    max_active: int = 7000  # most states of the graph that go on from a frame
    max_bad: float = 0.02  # share of utterances without hypothesis that is survived

    def inputs(self) -> list[Path]:
        kind = features_of(self.model)
        return [*model_files(self.model), self.graph / "HCLG.fst", *(cuts_path(self.data, s, kind) for s in self.sets)]

    def outputs(self) -> list[Path]:
        return [self.model / f"decode_{s}" / n for s in self.sets for n in ("lattices.npz", "decode.json")]


@dataclass(frozen=True)
class ClassifyConfig(VerbConfig):
    """Tell the class of each utterance of one frame, and how many are right: accuracy with intervals, confusions."""

    model: Path = Path("exp/speech_commands/2layer_single_1")  # directory of a network that learnt labels of `classes`
    data: Path = Path("data/speech_commands")  # corpus directory
    sets: list[str] = field(default_factory=lambda: ["dev", "test"])
    seed: int = 0  # of the bootstrap

    def inputs(self) -> list[Path]:
        cuts = [cuts_path(self.data, s, k) for s in self.sets for k in ("", features_of(self.model))]
        return [self.model / "final.pt", self.model / "hmm.json", *cuts]

    def outputs(self) -> list[Path]:
        names = ("classes.tsv", "confusion.tsv", "score.json")
        return [self.model / f"decode_{s}" / n for s in self.sets for n in names]


@dataclass(frozen=True)
class RescoreConfig(VerbConfig):
    """Put another language model into lattices, such as one that is too large for a graph."""

    model: Path = Path("exp/fotaq/tri")  # model directory with decode_SET inside
    lang: Path = Path("data/fotaq/lang")  # language directory of the graph that decoded: its G.fst is taken off
    lm: Path = Path("data/fotaq/lang/lm.arpa.gz")  # ARPA file that is put on
    out: Path = Path("exp/fotaq/tri_rescored")  # gets decode_SET/lattices.npz; give it to `score` as its --model
    sets: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new", "test_joe", "test_new"])
    lmwt: float = 10.0  # LM weight of `beam` and of `hyp.txt`; lattices are good for any
    beam: float = 100.0  # paths that cost more than this above the best one are left out before

    def inputs(self) -> list[Path]:
        lattices = [self.model / f"decode_{s}" / "lattices.npz" for s in self.sets]
        return [*lattices, self.lang / "G.fst", self.lang / "words.txt", self.lm]

    def outputs(self) -> list[Path]:
        return [self.out / f"decode_{s}" / n for s in self.sets for n in ("lattices.npz", "rescore.json")]


@dataclass(frozen=True)
class ImportLatticesConfig(VerbConfig):
    """Take in lattices that Kaldi has made, to score, rescore and take hypotheses from them."""

    lattices: Path = Path("lat.txt")  # text archive, as `lattice-copy ark:lat.1 ark,t:lat.txt` writes
    words: Path | None = None  # `words.txt` of their graph, if `int2sym.pl -f 3` has not put words for numbers
    out: Path = Path("exp/fotaq/kaldi/decode_test_joe")  # gets lattices.npz; the directory above is `score`'s --model
    lmwt: float = 10.0  # LM weight of `hyp.txt`; lattices are good for any

    def inputs(self) -> list[Path]:
        return [self.lattices, *([self.words] if self.words else [])]

    def outputs(self) -> list[Path]:
        return [self.out / n for n in ("lattices.npz", "import.json")]


@dataclass(frozen=True)
class HypothesesConfig(VerbConfig):
    """Take out of lattices the n best, minimum Bayes risk words with confidences, and a CTM with times."""

    model: Path = Path("exp/fotaq/tri")  # model directory with decode_SET inside
    data: Path = Path("data/fotaq")  # corpus directory, for the features that times are found with
    lang: Path = Path("data/fotaq/lang")  # language directory, for the pronunciations of words
    sets: list[str] = field(default_factory=lambda: ["test_joe", "test_new"])
    lmwt: float = 0.0  # LM weight; 0 means what `score` has chosen, and its penalty
    wip: float = 0.0  # word insertion penalty; used if `lmwt` is given
    beam: float = 8.0  # paths that cost more than this above the best one are left out
    nbest: int = 10  # hypotheses in `nbest.tsv`
    mbr: bool = True  # words of minimum Bayes risk rather than those of the best path in `mbr.txt` and `ctm`
    ctm: bool = True  # find times and write `ctm`
    calibrate: str = ""  # set whose words tell how sure to be; "" is that which `score` tuned on, "none" none
    kaldi: Literal["none", "words", "numbers"] = "none"  # write `lat.txt` for Kaldi, with words or their numbers

    def inputs(self) -> list[Path]:
        where = [self.model / f"decode_{s}" for s in self.sets]
        return [w / "lattices.npz" for w in where] + ([] if self.lmwt else [w / "score.json" for w in where])

    def outputs(self) -> list[Path]:
        return [self.model / f"decode_{s}" / "hypotheses.json" for s in self.sets]
