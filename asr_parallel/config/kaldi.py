"""Options of verbs that exchange files with Kaldi."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from asr_parallel.config.verb import FeatureKind, VerbConfig, cuts_path, model_files


@dataclass(frozen=True)
class ImportKaldiConfig(VerbConfig):
    """Take in data, features, alignments and graph of a Kaldi experiment, for `train`, `decode` and `score`."""

    kaldi: Path = Path(".")  # where Kaldi's recipe ran: the directory of its data/ and exp/; paths begin there
    sets: list[str] = field(default_factory=lambda: ["train", "dev", "test"])  # NAME is data/NAME; or NAME=PATH
    train: str = "train"  # set whose labels are counted for the priors
    ali: list[Path] = field(default_factory=list)  # directories of ali.*.gz and final.mdl, such as exp/tri3_ali
    ali_ids: Literal["transitions", "pdfs"] = "transitions"  # what their archives hold
    graph: Path | None = None  # directory of HCLG.fst and words.txt, such as exp/tri3/graph
    lang: Path | None = None  # lang directory, such as data/lang_test
    arpa: Path | None = None  # with `lang`: language model to keep beside it, for `rescore`
    transform: Path | None = None  # nnet1's final.feature_transform: becomes a part of the normalisation
    cmvn: str = "own"  # own: mean and variance by speaker; kaldi: cmvn.scp; none; or a file of global statistics
    kind: FeatureKind = "kaldi"  # what the features are called; `train --features` wants it
    data: Path = Path("data/kaldi")  # corpus directory to leave
    out: Path = Path("exp/kaldi/gmm")  # leaves labels, priors and graph; give it to `train` as its --ali
    allow_commands: bool = False  # run the commands in wav.scp and feats.scp, through a shell
    max_bad: float = 0.02  # share of a set's utterances that may be left out

    def folders(self) -> dict[str, Path]:
        """The data directory of each set."""
        given = dict(s.partition("=")[::2] for s in self.sets)
        return {name: self.kaldi / (path or f"data/{name}") for name, path in given.items()}

    def inputs(self) -> list[Path]:
        files = [f for folder in self.folders().values() for f in sorted(folder.glob("*")) if f.is_file()]
        files += [f for a in self.ali for f in [self.kaldi / a / "final.mdl", *sorted((self.kaldi / a).glob("ali.*"))]]
        own = [p for p in (self.arpa, self.transform) if p]
        if self.graph:
            own += [self.graph / "HCLG.fst", self.graph / "words.txt"]
        return files + [self.kaldi / p for p in own]

    def outputs(self) -> list[Path]:
        """Labels of other sets than `train` are there if their utterances are aligned."""
        kinds = {s: self.kind if (f / "feats.scp").exists() else "" for s, f in self.folders().items()}
        found = [cuts_path(self.data, name, kind) for name, kind in kinds.items()] + [self.data / "import.json"]
        if self.ali:
            found += [self.out / n for n in ("hmm.json", "priors.npz", f"ali_{self.train}.npz")]
        return found + ([self.out / "graph" / "HCLG.fst"] if self.graph else [])

    def home(self) -> Path:
        return self.data


@dataclass(frozen=True)
class ExportKaldiConfig(VerbConfig):
    """Give Kaldi our data, features, alignments, scores, networks and word times."""

    data: Path = Path("data/fotaq")  # corpus directory
    sets: list[str] = field(default_factory=lambda: ["test_joe", "test_new"])  # sets to give
    kind: FeatureKind | Literal["none"] = "none"  # features to give with them, and their cmvn.scp
    model: Path | None = None  # model whose scores, network and word times (decode_SET/ctm) are given
    scores: Literal["none", "loglikes", "posteriors"] = "none"  # of the frames of each set, by `model`
    nnet: list[Literal["nnet1", "nnet3"]] = field(default_factory=list)  # forms to write the network of `model` in
    ali: Path | None = None  # directory of ali_SET.npz: labels to give as pdf alignments
    out: Path = Path("exp/fotaq/to_kaldi")  # leaves data/SET, and what is asked for

    def inputs(self) -> list[Path]:
        files = [cuts_path(self.data, s, "" if self.kind == "none" else self.kind) for s in self.sets]
        if self.model:
            files += model_files(self.model)
            ctms = (self.model / f"decode_{s}" / "ctm" for s in self.sets)
            files += [ctm for ctm in ctms if ctm.exists()]
        return files + ([self.ali / f"ali_{s}.npz" for s in self.sets] if self.ali else [])

    def outputs(self) -> list[Path]:
        return [self.out / "data" / s / "utt2spk" for s in self.sets] + [self.out / "export.json"]

    def home(self) -> Path:
        return self.out
