"""Every option of every verb, declared once: name, type, default, help, what it reads, what it leaves.

A verb is one frozen dataclass here and one ``run(config)`` elsewhere (the table is in ``cli.py``).
``inputs()`` and ``outputs()`` are what ``stages.py`` needs to tell whether a result is fresh; this
module therefore imports nothing heavy.  A comment after a field becomes its ``--help`` text.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from tyro.conf import arg

from asr_parallel.files import files_under

MadeKind = Literal["mfcc", "fbank", "mfcc_hires", "image"]  # features that verb `features` makes
FeatureKind = Literal["mfcc", "fbank", "mfcc_hires", "image", "fmllr", "kaldi"]  # by `adapt` of mfcc; `import-kaldi`


def cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class VerbConfig:
    """What all verbs share."""

    jobs: int = 0  # processes to use; 0 means one a core. Results do not depend on it
    force: bool = False  # run even if the result is fresh

    # fields that change how long a verb takes, but not what it leaves
    NOT_HASHED: ClassVar[tuple[str, ...]] = ("jobs", "force")

    def inputs(self) -> list[Path]:
        """Files that the result depends on."""
        return []

    def outputs(self) -> list[Path]:
        """Files that must exist for the result to be there."""
        return []

    def state(self) -> dict[str, str]:
        """What else the result depends on, told in few words that change with it."""
        return {}

    def home(self) -> Path:
        """The folder that holds all outputs; log and stamp go there."""
        parents = [str(p.parent) for p in self.outputs()]
        return Path(os.path.commonpath(parents)) if parents else Path(".")

    def num_jobs(self) -> int:
        return self.jobs or cores()


def model_files(model: Path) -> list[Path]:
    """Files in a model directory that scores depend on."""
    return [p for n in ("hmm.json", "gmm.npz", "gmm_si.npz", "space.npz", "final.pt") if (p := model / n).exists()]


def features_of(model: Path) -> str:
    """Kind of features that the model in a directory takes: of a DNN what it was trained on, of a GMM mfcc or fmllr."""
    if (model / "final.pt").exists():
        try:
            return str(json.loads((model / "config.json").read_text(encoding="utf-8"))["features"])
        except (OSError, ValueError, KeyError, TypeError):
            return "fbank"  # the decoder reads it off the model
    return "fmllr" if (model / "gmm_si.npz").exists() else "mfcc"


def cuts_path(data: Path, name: str, kind: str = "") -> Path:
    """The cut manifest of set ``name`` under corpus directory ``data``, with features if ``kind``."""
    return Path(data) / name / (f"cuts_{kind}.jsonl.gz" if kind else "cuts.jsonl.gz")


@dataclass(frozen=True)
class ValidateConfig(VerbConfig):
    """Check the manifests of a corpus: ids, times, texts, sample rates, speakers."""

    data: Path = Path("data/fotaq")  # corpus directory
    sets: list[str] = field(default_factory=list)  # sets to check; empty means all
    max_bad: float = 0.0  # share of bad utterances that is survived

    def outputs(self) -> list[Path]:
        return [self.data / "validated.json"]

    def inputs(self) -> list[Path]:
        return [cuts_path(self.data, s) for s in (self.sets or found_sets(self.data))]


Form = Literal["auto", "kaldi", "lhotse", "librispeech", "stm", "common_voice", "table", "files"]


@dataclass(frozen=True)
class PrepareConfig(VerbConfig):
    """Make the manifests of a corpus of your own: audio with transcripts in one of several forms."""

    source: Annotated[Path, arg(name="from")] = Path("corpus")  # folder with audio and transcripts, or one table
    out: Path = Path("data/corpus")  # leaves OUT/{train,dev,test}
    form: Form = "auto"  # what the corpus looks like
    rate: int = 0  # Hz; other audio is converted. 0 means the rate of most of the corpus
    channel: int | None = None  # channel to use of files with several, from 0, where the corpus does not say it
    text: Literal["english", "upper", "keep"] = "english"  # numbers spelt out, upper case without marks, as it is
    speaker: Literal["given", "folder", "one", "utt"] = "given"  # who speaks: as told, the folder, always the same
    dev: float = 0.05  # share of the seconds that is drawn for dev, if the corpus has no such set
    test: float = 0.1  # share of the seconds that is drawn for test
    seed: int = 0  # of the draw
    max_seconds: float = 60.0  # longer utterances are left out; 0 means any length
    max_bad: float = 0.02  # share of utterances of no use that is survived

    def outputs(self) -> list[Path]:
        shares = {"train": 1.0, "dev": self.dev, "test": self.test}
        return [self.out / "prepare.json", *(cuts_path(self.out, name) for name, share in shares.items() if share > 0)]

    def state(self) -> dict[str, str]:
        """Names, sizes and times of all files of the corpus."""
        return {"files": listing(p for p in files_under(self.source) if not p.is_relative_to(self.out))}


def listing(files: Iterable[Path]) -> str:
    """How many files, and in eight letters their names, sizes and times."""
    lines = [f"{path} {s.st_size} {s.st_mtime_ns}\n" for path in files if path.is_file() for s in [path.stat()]]
    return f"{len(lines)} ({hashlib.sha256(''.join(lines).encode()).hexdigest()[:8]})"


def found_sets(data: Path) -> list[str]:
    """Names of the sets that have a cut manifest under ``data``, sorted."""
    return sorted(p.parent.name for p in Path(data).glob("*/cuts.jsonl.gz"))


@dataclass(frozen=True)
class FeaturesConfig(VerbConfig):
    """Compute MFCC and log-mel features with Lhotse into one memory-mapped store a set."""

    data: Path = Path("data/fotaq")  # corpus directory
    sets: list[str] = field(default_factory=list)  # sets; empty means all
    kinds: list[MadeKind] = field(default_factory=lambda: ["mfcc", "fbank"])  # image: a word as one frame
    num_mel: int = 40  # filters of `fbank`, and filters and coefficients of `mfcc_hires`
    num_ceps: int = 13  # coefficients of `mfcc`
    speed: list[float] = field(default_factory=list)  # copies at these speeds, such as 0.9 1.1
    noise: Path | None = None  # copies with noises from this folder of audio files, such as MUSAN's noise/
    snr: list[float] = field(default_factory=lambda: [5.0, 20.0])  # their signal-to-noise ratio, dB, from and to
    reverb: Path | None = None  # copies in rooms: a folder of impulse responses, or the word `random`
    volume: list[float] = field(default_factory=list)  # gains to draw for all of these, from and to, such as 0.125 2
    perturb_sets: list[str] = field(default_factory=lambda: ["train"])  # sets that are perturbed so
    seed: int = 0  # of all that is drawn
    max_bad: float = 0.02  # share of unreadable utterances that is survived

    def state(self) -> dict[str, str]:
        """Names, sizes and times of noises and impulse responses."""
        folders = {"noise": self.noise, "reverb": self.reverb}
        return {name: listing(files_under(folder)) for name, folder in folders.items() if folder}

    def inputs(self) -> list[Path]:
        return [cuts_path(self.data, s) for s in (self.sets or found_sets(self.data))]

    def outputs(self) -> list[Path]:
        sets = self.sets or found_sets(self.data)
        return [cuts_path(self.data, s, k) for s in sets for k in self.kinds]


@dataclass(frozen=True)
class LangConfig(VerbConfig):
    """Make lexicon, phones, words, n-gram language model, L and G."""

    data: Path = Path("data/fotaq")  # corpus directory
    out: Path = Path("data/fotaq/lang")  # where the language directory goes
    train: str = "train"  # set whose texts train the language model
    dev: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new"])  # sets that tune it
    test: list[str] = field(default_factory=lambda: ["test_joe", "test_new"])  # sets reported only
    units: Literal["phone", "grapheme", "subword"] = "phone"  # words as they sound, as spelt, or in pieces, spelt
    grapheme_positions: bool = False  # grapheme: letters differ at begin, end and inside of words
    pieces: int = 1000  # subword: most pieces, which SentencePiece learns on the texts; the graph is over these
    spelling: Literal["letters", "whole"] = "letters"  # subword: pieces are said as letters, or are units (for CTC)
    order: int = 3  # n-gram order
    general: Literal["none", "pocketsphinx"] = "pocketsphinx"  # general English to interpolate with
    general_sentences: int = 100_000  # subword: sentences drawn from it, for their pieces
    vocab_size: int = 40000  # words in the graph: all training words, then the likeliest general ones
    prune: float = 1e-7  # entropy pruning threshold of the interpolated model
    lexicon: Path | None = None  # Kaldi's lexicon.txt to use instead of dictionaries and guesses
    lm: Path | None = None  # ARPA file to use instead of a model of the training texts
    text: list[Path] = field(default_factory=list)  # more text like that of `train`: a sentence a line, plain or .gz

    def inputs(self) -> list[Path]:
        own = [p for p in (self.lexicon, self.lm, *self.text) if p is not None]
        return [cuts_path(self.data, s) for s in (self.train, *self.dev, *self.test)] + own

    def outputs(self) -> list[Path]:
        names = (
            "lexicon.txt",
            "words.txt",
            "phones.txt",
            "lm.arpa.gz",
            "L.fst",
            "L_disambig.fst",
            "G.fst",
            "vocabulary.txt",
            "lang.json",
            *(["pieces.model"] if self.units == "subword" else []),
        )
        return [self.out / n for n in names]


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
    lexicon_probs: Literal["even", "learnt"] = "even"  # of pronunciations and silences in graphs: from the alignments?
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


@dataclass(frozen=True)
class PretrainConfig(VerbConfig):
    """Pretrain the hidden layers of a sigmoid network, from features alone, as a stack of RBMs."""

    data: Path = Path("data/fotaq")  # corpus directory
    out: Path = Path("exp/fotaq/dbn")  # where the stack goes
    train: str = "train"  # set to train on; no labels are needed
    dev: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new"])  # sets that held-out frames come from
    features: FeatureKind = "fbank"
    context: int = 5  # frames spliced on either side
    layers: int = 4  # hidden layers
    width: int = 512  # units of a hidden layer
    batch: int = 100  # frames in a minibatch of one worker; rates and momentum are stated for 100 and follow it
    gaussian_lr: float = 0.01  # rate of the first RBM, whose visible units are Gaussian
    gaussian_epochs: int = 2
    lr: float = 0.4  # rate of the RBMs above
    epochs: int = 1  # epochs of each RBM above the first
    epoch_frames: int = 0  # frames of an epoch, drawn at random, of all workers together; 0 means all
    stddev: float = 0.1  # of the initial weights; less means fewer rescues with large minibatches
    l2: float = 0.0002  # weight decay
    momentum: Literal["kaldi", "intended"] = "kaldi"  # kaldi: 0.9 from the start; intended: rises from 0.5 to 0.9
    cd_steps: int = 1  # k of CD-k
    held_out: int = 5000  # frames of the dev sets whose free energy is followed; 0 means none
    workers: int = 1  # processes, which average their parameters; under torchrun the launcher's number
    average_every: int = 100  # minibatches between averages
    lr_scale: Literal["workers", "sqrt", "none"] = "workers"  # rate x K, as in training
    threads: int = 0  # threads a worker; 0 means cores / workers
    backend: Literal["auto", "gloo", "nccl", "mpi", "simulated"] = "auto"  # auto: nccl on GPUs, else gloo
    device: Literal["auto", "cpu", "cuda"] = "auto"
    timeout: float = 300.0  # seconds that an average may wait for the slowest worker
    seed: int = 0

    NOT_HASHED = ("jobs", "force", "timeout", "backend")

    def inputs(self) -> list[Path]:
        return [cuts_path(self.data, s, self.features) for s in (self.train, *(self.dev if self.held_out else []))]

    def outputs(self) -> list[Path]:
        names = ["dbn.pt", "rbm.tsv", "pretrain.json", *(f"rbm_{layer}.pt" for layer in range(self.layers))]
        return [self.out / n for n in names]


@dataclass(frozen=True)
class ModelConfig:
    """The network."""

    layers: int = 4  # hidden layers
    width: int = 512  # units of a hidden layer
    activation: Literal["sigmoid", "tanh", "relu", "pnorm"] = "relu"
    init: Literal["nnet1", "glorot", "dbn", "network"] = "glorot"  # Kaldi's (sigmoids), Glorot's, `dbn`, `network`
    context: int = 5  # frames spliced on either side
    dbn: str = "exp/fotaq/dbn"  # init dbn: directory that `pretrain` left
    network: str = "exp/fotaq/dnn"  # init network: a training of as many hidden layers or fewer; they are taken over
    add_layer_every: str = ""  # "N minibatches" or "N frames" (of one worker) in epoch 1 between added hidden layers
    batch_norm: bool = False  # normalise what enters the activation over the minibatch
    bias: bool = True  # of linear layers
    output_norm: bool = False  # normalise the logits over the minibatch, without gain and bias (IST's network)
    dropout: float = 0.0  # probability that an output of a hidden layer is dropped in training
    pnorm_group: int = 10  # pnorm: inputs of one unit; `width` counts units
    pnorm_p: float = 2.0  # pnorm: p


@dataclass(frozen=True)
class OptimConfig:
    """The optimiser. Learning rates are for the mean gradient of a minibatch."""

    name: Literal["sgd", "ngsgd", "adamw"] = "ngsgd"  # sgd wants about lr 0.05 and momentum 0.9, adamw lr 0.001
    lr: float = 1.0  # rate of one worker; `lr_scale` of the strategy multiplies it
    momentum: float = 0.0  # sgd
    nesterov: bool = False  # sgd: Nesterov's momentum
    beta1: float = 0.9  # adamw: decay of the mean gradient
    beta2: float = 0.999  # adamw: decay of the mean squared gradient
    eps: float = 1e-8  # adamw: added to the root of the latter
    l1: float = 0.0  # weight decay l1 sign(w); as l2
    l2: float = 0.0  # weight decay l2 w: added to the gradient, with adamw decoupled (taken from w times lr)
    clip: float = 0.0  # sgd, adamw: greatest norm of the whole gradient; 0 means any
    max_norm: float = 0.0  # greatest norm of a row of a weight matrix (a unit's inputs); 0 means any
    variant: Literal["kaldi", "su2015"] = "kaldi"  # ngsgd: Kaldi's, or as the code of Su & Chen 2015 ran
    rank_in: int = 20  # ngsgd: rank of the factor of a layer's inputs
    rank_out: int = 80  # ngsgd: rank of the factor of its output derivatives
    update_period: int = 4  # ngsgd: minibatches between updates of the factors
    max_change: float = 0.075  # ngsgd: bound on the change of parameters, per frame; 0 means none


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning-rate schedule."""

    name: Literal["exponential", "newbob", "constant", "list"] = "exponential"
    epochs: int = 3  # epochs; with newbob the most epochs
    warmup: str = ""  # "N minibatches" or "N frames" (of one worker) in which the rate rises to the schedule's
    final_ratio: float = 0.02  # exponential: last rate / first rate
    unit: Literal["exchange", "epoch"] = "exchange"  # exponential: fall at each `strategy.every`, or at each epoch
    rates: list[float] = field(default_factory=list)  # list: the rate of each epoch; the last one stays
    preset: Literal["kaldi", "su2015", "speechbrain", "returnn"] = "kaldi"  # newbob: whose; what is given below wins
    metric: Literal["loss", "accuracy"] | None = None  # newbob: dev cross-entropy or dev frame accuracy
    gain: Literal["relative", "relative_to_new", "absolute"] | None = None  # newbob: what thresholds are for
    start_halving: float | None = None  # newbob: start to halve below this gain
    stop: float | None = None  # newbob: stop below this gain, once halving
    factor: float | None = None  # newbob: what a rate is multiplied by
    latch: Literal["yes", "no"] | None = None  # newbob: once halving has started it goes on every epoch
    reject: Literal["yes", "no"] | None = None  # newbob: an epoch that is no better is undone
    keep_lr: int | None = None  # newbob: first epochs that are kept, and after which it neither halves nor stops
    min_epochs: int | None = None  # newbob: first epochs that are kept, and after which it does not stop
    patience: int | None = None  # newbob: epochs of low gain that are let pass before one halves


@dataclass(frozen=True)
class StrategyConfig:
    """How workers work together."""

    name: Literal[
        "single", "gradient_average", "model_average", "block_momentum", "elastic_average", "ensemble",
        "ensemble_compression", "independent_subnets",
    ] = "single"  # fmt: skip
    every: str = "10 minibatches"  # "N minibatches", "N frames" (of one worker), "N s"; "A until SPAN, then B"
    lr_scale: Literal["auto", "workers", "sqrt", "none"] = "auto"  # rate x K, x sqrt(K), x 1; auto: as is usual
    topology: Literal["all", "ring", "hopping_ring", "butterfly"] = "all"  # model_average: who with whom
    block_momentum: float | None = None  # block_momentum: eta; 1 - 1/K by default
    block_lr: float = 1.0  # block_momentum: zeta
    block_nesterov: bool = False  # block_momentum: begin blocks where momentum will carry the model
    elasticity: float | None = None  # elastic_average: alpha; 0.9 / K by default
    ensemble_mean: Literal["posteriors", "logits"] = "posteriors"  # ensembles: of which outputs the mean is taken
    ensemble_by: Literal["gather", "ring"] = "gather"  # ensembles: K models on each worker, or one guest at a time
    pseudo_weight: float = 1.0  # ensemble_compression: lambda, the weight of the pseudo labels' cross-entropy
    pseudo_decay: float = 1.0  # ensemble_compression: lambda is multiplied by this at each exchange
    pseudo_minibatches: int = 0  # ensemble_compression: p, minibatches after an exchange that have them; 0: all
    pseudo_fraction: float = 1.0  # ensemble_compression: share of the frames of such a minibatch that are relabelled
    pseudo_labels: Literal["soft", "hard"] = "soft"  # ensemble_compression: posteriors, or the best pdf alone
    servers: Literal["central", "partitioned"] = "central"  # independent_subnets: who keeps the weights: rank 0, or all
    subnet_scale: Literal["fan_in", "none"] = "fan_in"  # independent_subnets: hidden outputs x width / subnet's width
    optimizer_state: Literal["keep", "average", "reset"] = "keep"  # what becomes of momentum at an exchange
    wire: Literal["fp32", "bf16", "int8"] = "fp32"  # what vectors are sent as; what is lost is made up for later
    overlap: bool = False  # an exchange runs while the next minibatches train, and arrives at the next exchange
    alone: str = ""  # "N minibatches", "N frames" or "N epochs" from the start in which rank 0 trains alone
    first: Literal["mean", "best"] = "mean"  # what the first exchange takes: the mean, or the worker of least loss
    max_gap: float | None = None  # a worker whose loss is more nats above the best's is left out; NaN always is
    probe: int = 0  # dev frames on which exchanges are probed for `ledger.tsv`, `tb/`, `probe.png`; 0 means none
    probe_every: int = 1  # probe: which exchanges, of those of an epoch: every N-th, and the last


@dataclass(frozen=True)
class FramesConfig:
    """How the frames of an epoch are drawn."""

    shuffle: Literal["full", "blocks"] = "full"  # blocks: utterances, then frames inside blocks of `cache_frames`
    cache_frames: int = 250_000  # blocks: frames in memory (40 MB of 40 filters)
    freq_masks: int = 0  # SpecAugment: masks over filters, on each spliced frame
    freq_width: int = 8  # most filters that a mask hides
    time_masks: int = 0  # SpecAugment: masks over the frames of the context
    time_width: int = 3  # most frames that a mask hides


@dataclass(frozen=True)
class TrainConfig(VerbConfig):
    """Train a DNN on frame labels with K workers."""

    data: Path = Path("data/fotaq")  # corpus directory
    criterion: Literal["ce", "ctc"] = "ce"  # ce: the labels of frames in `ali`; ctc: of words alone, spelt by `lang`
    ali: Path = Path("exp/fotaq/tri")  # ce: directory of frame labels, tree and priors
    lang: Path = Path("data/fotaq/lang")  # ctc: language directory, whose lexicon gives the labels of words
    out: Path = Path("exp/fotaq/dnn")  # experiment directory
    train: str = "train"  # set to train on
    dev: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new"])  # sets to validate on
    features: FeatureKind = "fbank"
    workers: int = 1  # processes; under torchrun, mpirun or Slurm the launcher's number
    threads: int = 0  # threads a worker; 0 means cores / workers
    backend: Literal["auto", "gloo", "nccl", "mpi", "simulated"] = "auto"  # auto: nccl on GPUs, else gloo
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    batch: int = 256  # frames in a minibatch of one worker
    frames: FramesConfig = field(default_factory=FramesConfig)
    prefetch: int = 0  # minibatches that a thread makes ahead; it pays where a worker has a core to spare
    label_smoothing: float = 0.0  # share of each frame's label that is spread over all pdfs; counts in the train loss
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    timeout: float = 300.0  # seconds that an exchange may wait for the slowest worker
    on_failure: Literal["stop", "continue"] = "stop"  # a worker dies or hangs: end all, or go on with those left
    restarts: int = 3  # on_failure continue: how often a lost worker is started again, to rejoin
    save_every: int = 1000  # minibatches of a worker between checkpoints inside an epoch
    seed: int = 0

    NOT_HASHED = ("jobs", "force", "timeout", "on_failure", "restarts", "backend", "save_every", "prefetch")

    def inputs(self) -> list[Path]:
        sets = (self.train, *self.dev)
        labels = [self.ali / n for n in (*(f"ali_{s}.npz" for s in sets), "hmm.json", "priors.npz")]
        if self.criterion == "ctc":
            pieces = [p] if (p := self.lang / "pieces.model").exists() else []
            labels = [self.lang / n for n in ("lexicon.txt", "phones.txt")] + pieces
        return (
            [cuts_path(self.data, s, self.features) for s in sets]
            + labels
            + ([Path(self.model.dbn) / "dbn.pt"] if self.model.init == "dbn" else [])
            + ([Path(self.model.network) / "final.pt"] if self.model.init == "network" else [])
        )

    def outputs(self) -> list[Path]:
        return [self.out / n for n in ("final.pt", "history.tsv", "ledger.tsv", "train.json", "hmm.json", "run.sh")]


@dataclass(frozen=True)
class GraphConfig(VerbConfig):
    """Make the decoding graph of a model that is there: with another language model, or of a network trained by CTC."""

    model: Path = Path("exp/fotaq/tri")  # directory of the model
    lang: Path = Path("data/fotaq/lang")  # language directory, whose phones are the model's
    out: Path = Path("exp/fotaq/graph")  # gets HCLG.fst and words.txt; give it to `decode` as its --graph
    transition_scale: float = 1.0  # scale of transition log-probabilities, without self-loops
    self_loop_scale: float = 0.1  # scale of self-loop log-probabilities

    def inputs(self) -> list[Path]:
        names = ("lexicon.txt", "words.txt", "phones.txt", "L_disambig.fst", "G.fst")
        return [self.model / "hmm.json", *(self.lang / n for n in names)]

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


@dataclass(frozen=True)
class CompareWordsConfig(VerbConfig):
    """How texts are read and compared word by word."""

    # without hypothesis an utterance is an error, counts as deleted, is left out; by default strict of files, else all
    mode: Literal["strict", "all", "present"] | None = None
    format: Literal["auto", "text", "trn", "stm", "ctm", "jsonl"] = "auto"  # of --ref and --hyp; auto: by extension
    hyp_format: Literal["auto", "text", "trn", "stm", "ctm", "jsonl"] = "auto"  # of hypotheses, if it is another one
    utt2spk: Path | None = None  # speakers, if the references do not say
    filter: list[Path] = field(default_factory=list)  # GLM files: rules for references and hypotheses, one by one
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"  # normal form of both sides
    fold_case: bool = False  # letter case makes no difference
    alternates: Literal["auto", "yes", "no"] = "auto"  # braces hold a choice; auto: in trn, stm, ctm, or filtered
    costs: Literal["levenshtein", "sclite"] = "levenshtein"  # fewest errors, or 3 for a gap and 4 for a substitution
    json: bool = False  # print JSON instead of tables
    seed: int = 0  # of the bootstrap

    NOT_HASHED = ("jobs", "force", "json")


@dataclass(frozen=True)
class ScoreConfig(CompareWordsConfig):
    """Word error rates: of lattices, tuned on dev sets (--model, --data, --pairs), or of a file (--ref, --hyp)."""

    ref: Path | None = None  # references, instead of a model: Kaldi text, trn, stm, ctm or JSON lines
    hyp: Path | None = None  # hypotheses for `ref`
    out: Path | None = None  # with `ref`: where details go, per speaker, utterance and word
    vocabulary: Path | None = None  # words that training had, a line each (LANG/vocabulary.txt): others are told apart
    model: Path = Path("exp/fotaq/tri")  # model directory with decode_SET inside
    data: Path = Path("data/fotaq")  # corpus directory, for the references
    pairs: list[str] = field(default_factory=lambda: ["dev_joe:test_joe", "dev_new:test_new"])  # DEV:TEST
    lmwt: list[int] = field(default_factory=lambda: list(range(5, 21)))  # LM weights to try (1 / acoustic scale)
    wip: list[float] = field(default_factory=lambda: [0.0, 0.5, 1.0])  # word insertion penalties to try

    @property
    def of_files(self) -> bool:
        return self.ref is not None or self.hyp is not None

    def inputs(self) -> list[Path]:
        sets = dict.fromkeys(s for pair in self.pairs for s in pair.split(":"))
        lattices = [self.model / f"decode_{s}" / "lattices.npz" for s in sets]
        lists = [*self.filter, *([self.vocabulary] if self.vocabulary else [])]
        return [] if self.of_files else [*lattices, *(cuts_path(self.data, s) for s in sets), *lists]

    def outputs(self) -> list[Path]:
        """None of files: their rates are printed every time."""
        tests = [] if self.of_files else [pair.rpartition(":")[2] for pair in self.pairs]
        return [self.model / f"decode_{test}" / "score.json" for test in tests]


@dataclass(frozen=True, kw_only=True)
class CompareConfig(CompareWordsConfig):
    """Compare two systems on the same speech: paired bootstrap and MAPSSWE with p values."""

    old: Path  # model directory, directory that `score --out` wrote, or file of hypotheses
    new: Path  # what is compared with it
    ref: Path | None = None  # references, if the two are files


@dataclass(frozen=True)
class ResultsConfig(VerbConfig):
    """Write the table of results and the training curves of all experiments of a recipe."""

    exp: Path = Path("exp/fotaq")  # experiments
    data: Path = Path("data/fotaq")  # corpus directory
    out: Path = Path("recipes/fotaq/RESULTS.md")  # page to write; plots go beside it
    title: str = "fotaq"
    command: str = "make demo"  # the command that prints these figures
    measure: Literal["wer", "accuracy"] = "wer"  # accuracy: of classes, as `classify` has left it

    def inputs(self) -> list[Path]:
        return sorted(self.exp.glob("*/decode_*/score.json")) + sorted(self.exp.glob("*/train.json"))

    def outputs(self) -> list[Path]:
        return [self.out]

    def home(self) -> Path:
        return self.exp  # the page may lie in the project's root


@dataclass(frozen=True, kw_only=True)
class ReportConfig(VerbConfig):
    """Write an experiment as one HTML page: curves, error rates, the worst utterances to hear, configuration."""

    exp: Path  # experiment, or a folder of experiments: each gets its page, and the folder a table of them
    data: Path | None = None  # corpus directory, for audio; by default the one that was scored
    out: Path | None = None  # page to write; by default report.html in `exp`
    worst: int = 10  # utterances shown of each set
    audio_mb: float = 8.0  # audio that a page holds at most; 0 means none


@dataclass(frozen=True)
class InfoConfig(VerbConfig):
    """Sum a training up: what it is, what it has reached, and where the time of its workers has gone."""

    model: Path = Path("exp/fotaq/dnn_2")  # directory of a training, finished or not, or of a pretraining
    against: Path | None = None  # training with one worker that the speed-up is told against
    plot: bool = False  # draw what was probed at exchanges to `probe.png` in `model`
    json: bool = False  # print JSON instead of text


@dataclass(frozen=True)
class ProjectConfig(VerbConfig):
    """Tell how fast a training would be with other workers on another network, from its ledger."""

    model: Path = Path("exp/fotaq/dnn_2")  # directory of a training with several workers
    workers: str = "2,4,8,16,32"  # numbers of workers
    bandwidth: str = "10Gbit"  # of the network, a second, for each worker and each way: 10Gbit, 100Mbit, 1.25GB
    latency: str = "50us"  # of a message from one worker to another: 50us, 0.2ms
    measured_bandwidth: str = ""  # of the network that `model` was trained on; "" (one machine): it cost no time
    measured_latency: str = "0us"  # likewise
    against: Path | None = None  # training with one worker that speed-ups are told against
    json: bool = False  # print JSON instead of a table


@dataclass(frozen=True)
class DoctorConfig(VerbConfig):
    """Say what is broken in this installation and how to mend it."""

    json: bool = False  # print JSON instead of a table
