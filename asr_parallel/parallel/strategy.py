"""How several workers train one model: the interface.  One file each; ``docs/strategies.md`` tells how to write one.

A strategy owns no optimizer, no schedule and no files.  It says what this worker trains, what its loss is,
when workers exchange, what they exchange, and what is validated and kept.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from asr_parallel.config import StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.clock import Clock, Every
from asr_parallel.parallel.comm import Comm


@dataclass(frozen=True)
class Report:
    """What an exchange has cost this worker: bytes sent, seconds waiting for the others, seconds sending."""

    bytes: int = 0
    wait_s: float = 0.0
    send_s: float = 0.0


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

    exchanges: Literal["nothing", "parameters", "gradients", "outputs", "subnets"] = "nothing"
    optimizer_state: Literal["keep", "average", "reset"] = "keep"  # what becomes of it at an exchange

    def __init__(self, config: StrategyConfig):
        self.config = config
        self.lr_scale = 1.0  # multiplies the schedule's rate

    def check(self, workers: int) -> None:  # noqa: B027
        """Raise ``UserError`` if the options do not suit this number of workers."""

    def scale(self, workers: int, usual: Literal["workers", "none"]) -> float:
        """What ``--strategy.lr_scale`` says the rate is multiplied by; ``auto`` is ``usual``."""
        return rate_scale(usual if self.config.lr_scale == "auto" else self.config.lr_scale, workers)

    @abstractmethod
    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        """Take the common model; give the one that this worker trains (often the same)."""

    def loss(self, logits: Tensor, batch: Any) -> Tensor:
        """Mean loss of a minibatch: ``logits`` [N, num_pdfs], ``batch.y`` int64 [N]."""
        return F.cross_entropy(logits, batch.y)

    def gradient(self, flat: Tensor) -> None:  # noqa: B027
        """Told the gradient of each minibatch as one vector, before the update; may replace it."""

    def due(self, clock: Clock) -> bool:
        """Whether an exchange follows the minibatch just counted.  Must be the same on every worker."""
        return False

    def per_epoch(self, minibatches: int, batch: int) -> int:
        """Exchanges in an epoch, for the record."""
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


class Periodic(Strategy):
    """Exchanges parameters every so often, as ``--strategy.every`` says, and at the end of an epoch."""

    exchanges = "parameters"

    def __init__(self, config: StrategyConfig):
        super().__init__(config)
        self.every = Every.parse(config.every)
        self.optimizer_state = config.optimizer_state

    def due(self, clock: Clock) -> bool:
        return self.every.due(clock)

    def per_epoch(self, minibatches: int, batch: int) -> int:
        return self.every.per_epoch(minibatches, batch)

    def exchange(self, comm: Comm) -> Report:
        return together(comm, lambda: self.share(comm))

    @abstractmethod
    def share(self, comm: Comm) -> int:
        """Exchange with the others, who are there; give the bytes sent.  Work on a copy, then commit."""


OWNERS = {
    "topology": ("model_average",),
    "block_momentum": ("block_momentum",),
    "block_lr": ("block_momentum",),
    "block_nesterov": ("block_momentum",),
    "elasticity": ("elastic_average",),
}  # options that not all strategies read, and which do


def make_strategy(config: StrategyConfig) -> Strategy:
    """The strategy that ``config`` names.  Raises ``UserError`` for an option that it does not read."""
    from asr_parallel.parallel.block_momentum import BlockMomentum
    from asr_parallel.parallel.elastic_average import ElasticAverage
    from asr_parallel.parallel.gradient_average import GradientAverage
    from asr_parallel.parallel.model_average import ModelAverage
    from asr_parallel.parallel.single import Single

    kinds: dict[str, type[Strategy]] = {
        "single": Single,
        "gradient_average": GradientAverage,
        "model_average": ModelAverage,
        "block_momentum": BlockMomentum,
        "elastic_average": ElasticAverage,
    }
    for option, owners in OWNERS.items():
        if config.name not in owners and getattr(config, option) != getattr(StrategyConfig(), option):
            raise UserError(f"--strategy.name {config.name} does not read --strategy.{option}: leave it out")
    return kinds[config.name](config)
