"""Options of networks and of their training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from asr_parallel.config.verb import FeatureKind, VerbConfig, cuts_path


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
