"""How several workers train one model: the interface.  One file each; ``docs/strategies.md`` tells how to write one.

A strategy owns no optimizer, no schedule and no files.  It says what this worker trains, what its loss is,
when workers exchange, what they exchange, and what is validated and kept.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from asr_parallel.config import StrategyConfig
from asr_parallel.criterion import Criterion, FrameCrossEntropy
from asr_parallel.log import UserError
from asr_parallel.parallel.choice import Choice
from asr_parallel.parallel.clock import Cadence, Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.pace import Pace
from asr_parallel.parallel.wire import Wire

Exchanged = Literal["nothing", "parameters", "gradients", "outputs", "subnets"]


@dataclass(frozen=True)
class Report:
    """What an exchange has cost this worker: bytes sent, seconds waiting for the others, seconds sending.

    ``left_out``: whether this worker had to take over what the others have come to, and so begins anew.
    """

    bytes: int = 0
    wait_s: float = 0.0
    send_s: float = 0.0
    left_out: bool = False


def rate_scale(rule: Literal["workers", "sqrt", "none"], workers: int) -> float:
    """What a rate is multiplied by for so many workers."""
    return {"workers": float(workers), "sqrt": workers**0.5, "none": 1.0}[rule]


def together(comm: Comm, share: Callable[[], int]) -> Report:
    """Meet all, then ``share``, which gives the bytes it has sent: what that has cost."""
    begin = time.perf_counter()
    comm.meet()
    met = time.perf_counter()
    sent = share()
    return Report(sent, met - begin, time.perf_counter() - met)


class Strategy(ABC):
    """See the module's text.  ``start`` is called once, before everything else."""

    exchanges: Exchanged = "nothing"
    optimizer_state: Literal["keep", "average", "reset"] = "keep"  # what becomes of it at an exchange
    taken: tuple[int, ...] | None = None  # ranks whose parameters the latest exchange took; None: all

    def __init__(self, config: StrategyConfig):
        self.config = config
        self.lr_scale = 1.0  # multiplies the schedule's rate
        self.seed = 0  # of what the strategy draws; the loop's, which sets it before `start`
        self.criterion: Criterion = FrameCrossEntropy()  # set likewise
        self.label_smoothing = 0.0  # share of each label that goes to all pdfs alike; set likewise

    def check(self, workers: int) -> None:  # noqa: B027
        """Raise ``UserError`` if the options do not suit this number of workers."""

    def scale(self, workers: int, usual: Literal["workers", "none"]) -> float:
        """What ``--strategy.lr_scale`` says the rate is multiplied by; ``auto`` is ``usual``."""
        return rate_scale(usual if self.config.lr_scale == "auto" else self.config.lr_scale, workers)

    @abstractmethod
    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        """Take the common model; give the one that this worker trains (often the same)."""

    def loss(self, logits: Tensor, batch: Any) -> Tensor:
        """Mean loss of the frames of a minibatch, by the criterion: ``logits`` [N, num_pdfs]."""
        return self.criterion.loss(logits, batch, self.label_smoothing)

    def gradient(self, flat: Tensor) -> None:  # noqa: B027
        """Told the gradient of each minibatch as one vector, before the update; may replace it."""

    def idle(self, clock: Clock, comm: Comm) -> bool:
        """Whether this worker sits out the coming minibatch."""
        return False

    def due(self, clock: Clock) -> bool:
        """Whether an exchange follows the minibatch just counted.  Must be the same on every worker."""
        return False

    def per_epoch(self, minibatches: int, batch: int) -> int:
        """Exchanges in the first ``minibatches`` of the epoch under way, for the record."""
        return 0

    def exchange(self, comm: Comm) -> Report:
        """Exchange with the others.  Work on a copy, then commit: a failure must leave the weights as they were."""
        return Report()

    @abstractmethod
    def consensus(self) -> nn.Module:
        """The model that is validated, kept and decoded; maps x to logits.  Asked of every worker."""

    def state(self) -> dict[str, Tensor]:
        """What this worker needs to continue, beside the consensus' parameters and the optimizer's state."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Take back what ``state`` gave; the consensus' parameters are already in place."""

    def regroup(self, clock: Clock) -> list[Tensor]:
        """Told, after ``start`` and ``restore``, that there are other workers than before, who go on from ``clock``.

        Gives what must be the same on all of them, which is then made that of rank 0: who was in the middle of an
        exchange when a worker was lost may have changed it, or not.
        """
        return []


class Periodic(Strategy):
    """Exchanges parameters every so often, as ``--strategy.every`` says, and at the end of an epoch.

    It has the ``wire`` that vectors travel on, and the ``choice`` of workers whose parameters are taken.  ``last`` says
    whether the exchange that is due ends an epoch.  Who has ``state`` of their own add it to what is given here.
    """

    exchanges: Exchanged = "parameters"

    def __init__(self, config: StrategyConfig):
        super().__init__(config)
        self.pace = Pace(Cadence.parse(config.every))
        self.every = self.pace.cadence.first
        self.wire, self.choice = Wire(config.wire), Choice(config)
        self.optimizer_state = config.optimizer_state
        self.last = False

    def loss(self, logits: Tensor, batch: Any) -> Tensor:
        loss = super().loss(logits, batch)
        self.choice.count(loss, len(batch.y))
        return loss

    def idle(self, clock: Clock, comm: Comm) -> bool:
        return self.choice.idle(clock, comm)

    def due(self, clock: Clock) -> bool:
        self.last = clock.last
        return self.pace.due(clock, *self.choice.tick(clock))

    def per_epoch(self, minibatches: int, batch: int) -> int:
        return self.pace.per_epoch(minibatches, batch)

    def exchange(self, comm: Comm) -> Report:
        report = together(comm, lambda: self.share(comm))
        self.pace.exchanged(comm, self.last)
        return replace(report, left_out=comm.rank in self.choice.left_out)

    @abstractmethod
    def share(self, comm: Comm) -> int:
        """Exchange with the others, who are there; give the bytes sent.  Work on a copy, then commit."""

    def choose(self, comm: Comm, values: Tensor) -> tuple[int, ...] | None:
        """The ranks whose parameters this exchange takes, given this worker's; None: all."""
        self.taken = None
        if comm.size > 1:
            taken = self.choice.choose(comm, values)
            self.taken = taken if len(taken) < comm.size else None
        return self.taken

    def state(self) -> dict[str, Tensor]:
        return self.wire.state() | {"pace": self.pace.state, "first_done": self.choice.first_done}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.wire.restore(state)
        if "pace" in state:
            self.pace.state.copy_(state["pace"])
            self.choice.first_done.copy_(state["first_done"])

    def regroup(self, clock: Clock) -> list[Tensor]:
        """The next exchange is one of all, as at the end of an epoch."""
        self.pace.move(clock)
        self.last = True
        return [self.pace.state, self.choice.first_done]


OWNERS = {
    "topology": ("model_average",),
    "wire": ("gradient_average", "model_average", "block_momentum", "elastic_average"),
    "overlap": ("model_average", "block_momentum"),
    "alone": ("model_average", "block_momentum"),
    "first": ("model_average", "block_momentum"),
    "probe": ("model_average", "block_momentum", "elastic_average"),
    "probe_every": ("model_average", "block_momentum", "elastic_average"),
    "max_gap": ("model_average", "block_momentum", "elastic_average"),
    "block_momentum": ("block_momentum",),
    "block_lr": ("block_momentum",),
    "block_nesterov": ("block_momentum",),
    "elasticity": ("elastic_average",),
    "ensemble_mean": ("ensemble", "ensemble_compression"),
    "ensemble_by": ("ensemble", "ensemble_compression"),
    "pseudo_weight": ("ensemble_compression",),
    "pseudo_decay": ("ensemble_compression",),
    "pseudo_minibatches": ("ensemble_compression",),
    "pseudo_fraction": ("ensemble_compression",),
    "pseudo_labels": ("ensemble_compression",),
    "servers": ("independent_subnets",),
    "subnet_scale": ("independent_subnets",),
}  # options that not all strategies read, and which do


def make_strategy(config: StrategyConfig) -> Strategy:
    """The strategy that ``config`` names.  Raises ``UserError`` for an option that it does not read."""
    from asr_parallel.parallel.block_momentum import BlockMomentum
    from asr_parallel.parallel.elastic_average import ElasticAverage
    from asr_parallel.parallel.ensemble import EnsembleTraining
    from asr_parallel.parallel.ensemble_compression import EnsembleCompression
    from asr_parallel.parallel.gradient_average import GradientAverage
    from asr_parallel.parallel.independent_subnets import IndependentSubnets
    from asr_parallel.parallel.model_average import ModelAverage
    from asr_parallel.parallel.single import Single

    kinds: dict[str, type[Strategy]] = {
        "single": Single,
        "gradient_average": GradientAverage,
        "model_average": ModelAverage,
        "block_momentum": BlockMomentum,
        "elastic_average": ElasticAverage,
        "ensemble": EnsembleTraining,
        "ensemble_compression": EnsembleCompression,
        "independent_subnets": IndependentSubnets,
    }
    for option, owners in OWNERS.items():
        if config.name not in owners and getattr(config, option) != getattr(StrategyConfig(), option):
            raise UserError(f"--strategy.name {config.name} does not read --strategy.{option}: leave it out")
    if config.probe_every != 1 and not (config.probe > 0 and config.probe_every > 0):
        raise UserError(f"--strategy.probe_every {config.probe_every}: give 1 or more, and --strategy.probe dev frames")
    return kinds[config.name](config)
