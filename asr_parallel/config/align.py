"""Options of GMM systems and of labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from asr_parallel.config.verb import FeatureKind, VerbConfig, cuts_path, features_of, model_files


@dataclass(frozen=True)
class MonoConfig:
    """Monophone stage of the GMM-HMM."""

    iterations: int = 20  # EM iterations
    gaussians: int = 1000  # Gaussians to reach
    utterances: int = 2000  # shortest utterances used; 0 means all


@dataclass(frozen=True)
class TriConfig:
    """Tied-state triphone stage of the GMM-HMM."""

    iterations: int = 20  # EM iterations
    leaves: int = 1200  # leaves of the decision tree
    gaussians: int = 9000  # Gaussians to reach


@dataclass(frozen=True)
class LdaMlltConfig(TriConfig):
    """Triphones on spliced frames, projected by LDA and rotated by MLLT."""

    context: int = 3  # frames joined on either side
    dim: int = 40  # dimensions that LDA keeps
    mllt: list[int] = field(default_factory=lambda: [2, 4, 6, 10])  # iterations that begin with a rotation


@dataclass(frozen=True)
class SatConfig(TriConfig):
    """Triphones on frames that are adapted to each speaker by fMLLR."""

    fmllr: list[int] = field(default_factory=lambda: [2, 4, 6, 10])  # iterations that begin with new transforms
    min_frames: int = 500  # frames of speech below which a speaker is not adapted


GmmSystem = Literal["mono", "tri", "lda_mllt", "sat"]


@dataclass(frozen=True)
class LabelConfig(VerbConfig):
    """How frames are labelled by forced alignment."""

    data: Path = Path("data/fotaq")  # corpus directory
    lang: Path = Path("data/fotaq/lang")  # language directory
    train: str = "train"  # training set
    dev: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new"])  # sets that are labelled too
    beam: float = 10.0  # alignment beam
    retry_beam: float = 40.0  # beam for utterances that failed at `beam`
    transition_scale: float = 1.0  # scale of transition log-probabilities in graphs, without self-loops
    self_loop_scale: float = 0.1  # scale of self-loop log-probabilities in graphs
    max_bad: float = 0.05  # share of utterances without alignment that is survived


@dataclass(frozen=True)
class AlignConfig(LabelConfig):
    """Train GMM-HMMs from monophones to speaker-adapted triphones; leave frame labels, priors, trees and HCLG."""

    out: Path = Path("exp/fotaq")  # leaves OUT/mono, OUT/tri, OUT/lda_mllt and OUT/sat
    mono: MonoConfig = field(default_factory=MonoConfig)
    tri: TriConfig = field(default_factory=TriConfig)
    lda_mllt: LdaMlltConfig = field(default_factory=LdaMlltConfig)
    sat: SatConfig = field(default_factory=SatConfig)
    last: GmmSystem = "sat"  # system to end with; each is made with the labels of the one before
    lexicon_probs: Literal["even", "learnt"] = "learnt"  # of pronunciations, silences in graphs: from alignments?
    seed: int = 0

    def inputs(self) -> list[Path]:
        sets = (self.train, *self.dev)
        return [cuts_path(self.data, s, "mfcc") for s in sets] + [
            self.lang / n for n in ("lexicon.txt", "words.txt", "phones.txt", "L.fst", "L_disambig.fst", "G.fst")
        ]

    def systems(self) -> list[str]:
        """Names of all systems up to the last."""
        names = get_args(GmmSystem)
        return list(names[: names.index(self.last) + 1])

    def outputs(self) -> list[Path]:
        return [p for s in self.systems() for p in self.leaves(s)] + [self.out / "align.json"]

    def leaves(self, system: str) -> list[Path]:
        """What a system leaves."""
        labels = [self.train] if system == "mono" else [self.train, *self.dev]
        names = ["hmm.json", "gmm.npz", "graph/HCLG.fst", "priors.npz", "lexicon_probs.txt"]
        names += [f"ali_{s}.npz" for s in labels]
        if system == "sat":
            names += ["gmm_si.npz", f"fmllr_{self.train}.npz"]
        return [self.out / system / n for n in names]


@dataclass(frozen=True)
class RealignConfig(LabelConfig):
    """Label frames anew with a trained model, such as a DNN: labels for a second round of training."""

    model: Path = Path("exp/fotaq/dnn_1")  # directory of the model and its tree
    out: Path = Path("exp/fotaq/dnn_1_ali")  # leaves labels, tree and priors; give it to `train` as its --ali

    def inputs(self) -> list[Path]:
        kind, lang = features_of(self.model), [self.lang / n for n in ("lexicon.txt", "words.txt", "phones.txt")]
        return model_files(self.model) + lang + [cuts_path(self.data, s, kind) for s in (self.train, *self.dev)]

    def outputs(self) -> list[Path]:
        labels = [f"ali_{s}.npz" for s in (self.train, *self.dev)]
        of_words = [] if (self.model / "ctc.json").exists() else ["lexicon_probs.txt"]
        return [self.out / n for n in ("hmm.json", "priors.npz", *of_words, *labels)]


@dataclass(frozen=True)
class AdaptConfig(VerbConfig):
    """Adapt features to each speaker by fMLLR (kind `fmllr`): test speakers by what a first pass has recognised."""

    model: Path = Path("exp/fotaq/sat")  # speaker-adaptively trained GMM with its graph; gets fmllr_SET.npz
    data: Path = Path("data/fotaq")  # corpus directory
    lang: Path = Path("data/fotaq/lang")  # language directory
    train: str = "train"  # set whose transforms `align` has left
    sets: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new", "test_joe", "test_new"])  # sets to recognise
    passes: int = 1  # recognitions; from the second on of frames that are adapted by the one before
    min_frames: int = 500  # frames of speech below which a speaker is not adapted
    acwt: float = 0.0714  # acoustic scale while decoding
    beam: float = 10.0
    max_active: int = 2500  # most states of the graph that go on from a frame

    def inputs(self) -> list[Path]:
        sets = (self.train, *self.sets)
        own = [self.model / n for n in ("graph/HCLG.fst", f"fmllr_{self.train}.npz")]
        return model_files(self.model) + own + [cuts_path(self.data, s, "mfcc") for s in sets]

    def outputs(self) -> list[Path]:
        own = [self.model / f"fmllr_{s}.npz" for s in self.sets]
        return own + [cuts_path(self.data, s, "fmllr") for s in (self.train, *self.sets)]

    def home(self) -> Path:
        return self.model


@dataclass(frozen=True)
class ClassesConfig(VerbConfig):
    """Label utterances of one frame (features `image`) with their classes, which are the texts of the training set."""

    data: Path = Path("data/speech_commands")  # corpus directory
    out: Path = Path("exp/speech_commands/classes")  # leaves labels and classes; the --ali of `train`
    train: str = "train"  # training set; its texts are the classes
    dev: list[str] = field(default_factory=lambda: ["dev"])  # sets that are labelled too
    features: FeatureKind = "image"

    def inputs(self) -> list[Path]:
        return [cuts_path(self.data, s, self.features) for s in (self.train, *self.dev)]

    def outputs(self) -> list[Path]:
        labels = [f"ali_{s}.npz" for s in (self.train, *self.dev)]
        return [self.out / n for n in ("hmm.json", "priors.npz", *labels)]
