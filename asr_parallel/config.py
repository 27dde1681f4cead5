"""Every option of every verb, declared once: name, type, default, help, what it reads, what it leaves.

A verb is one frozen dataclass here and one ``run(config)`` elsewhere (the table is in ``cli.py``).
``inputs()`` and ``outputs()`` are what ``stages.py`` needs to tell whether a result is fresh; this
module therefore imports nothing heavy.  A comment after a field becomes its ``--help`` text.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, get_args

MadeKind = Literal["mfcc", "fbank", "mfcc_hires"]  # features that verb `features` makes
FeatureKind = Literal["mfcc", "fbank", "mfcc_hires", "fmllr"]  # and those that `adapt` makes of mfcc


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


def found_sets(data: Path) -> list[str]:
    """Names of the sets that have a cut manifest under ``data``, sorted."""
    return sorted(p.parent.name for p in Path(data).glob("*/cuts.jsonl.gz"))


@dataclass(frozen=True)
class FeaturesConfig(VerbConfig):
    """Compute MFCC and log-mel features with Lhotse into one memory-mapped store a set."""

    data: Path = Path("data/fotaq")  # corpus directory
    sets: list[str] = field(default_factory=list)  # sets; empty means all
    kinds: list[MadeKind] = field(default_factory=lambda: ["mfcc", "fbank"])  # features to make
    num_mel: int = 40  # filters of `fbank`, and filters and coefficients of `mfcc_hires`
    num_ceps: int = 13  # coefficients of `mfcc`
    speed: list[float] = field(default_factory=list)  # tempo and pitch of copies of `speed_sets`, such as 0.9 1.1
    speed_sets: list[str] = field(default_factory=lambda: ["train"])  # sets that get copies
    max_bad: float = 0.02  # share of unreadable utterances that is survived

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
    order: int = 3  # n-gram order
    general: Literal["none", "pocketsphinx"] = "pocketsphinx"  # general English to interpolate with
    vocab_size: int = 40000  # words in the graph: all training words, then the likeliest general ones
    prune: float = 1e-7  # entropy pruning threshold of the interpolated model
    lexicon: Path | None = None  # Kaldi's lexicon.txt to use instead of dictionaries and guesses
    lm: Path | None = None  # ARPA file to use instead of a model of the training texts

    def inputs(self) -> list[Path]:
        own = [p for p in (self.lexicon, self.lm) if p is not None]
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
            "lang.json",
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
        names = ["hmm.json", "gmm.npz", "graph/HCLG.fst", "priors.npz", *(f"ali_{s}.npz" for s in labels)]
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
        return [self.out / n for n in ("hmm.json", "priors.npz", *labels)]


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
    ali: Path = Path("exp/fotaq/tri")  # directory of frame labels, tree and priors
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
        return (
            [cuts_path(self.data, s, self.features) for s in sets]
            + [self.ali / f"ali_{s}.npz" for s in sets]
            + [self.ali / n for n in ("hmm.json", "priors.npz")]
            + ([Path(self.model.dbn) / "dbn.pt"] if self.model.init == "dbn" else [])
            + ([Path(self.model.network) / "final.pt"] if self.model.init == "network" else [])
        )

    def outputs(self) -> list[Path]:
        return [self.out / n for n in ("final.pt", "history.tsv", "ledger.tsv", "train.json", "hmm.json", "run.sh")]


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
        return [] if self.of_files else [*lattices, *(cuts_path(self.data, s) for s in sets), *self.filter]

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

    def inputs(self) -> list[Path]:
        return sorted(self.exp.glob("*/decode_*/score.json")) + sorted(self.exp.glob("*/train.json"))

    def outputs(self) -> list[Path]:
        return [self.out]

    def home(self) -> Path:
        return self.exp  # the page may lie in the project's root


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
