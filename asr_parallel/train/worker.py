"""What one worker trains with, and its state as a set of tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from asr_parallel.optim.flat import flatten
from asr_parallel.optim.optimizer import Optimizer
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.ledger import Ledger
from asr_parallel.parallel.strategy import Strategy
from asr_parallel.schedule.schedule import Schedule
from asr_parallel.train import statistics
from asr_parallel.train.growth import Growth


class Frames(Protocol):
    """What the loop asks of ``data.frames.FrameSource``: minibatches with ``x`` [N, dim] and ``y`` int64 [N]."""

    def epoch(self, epoch: int, start_batch: int = 0) -> Iterator[Any]: ...


@dataclass
class DevSet:
    """A set to validate on: ``batches`` holds all of its frames, once, in the same order each time."""

    name: str
    batches: Iterable[Any]


@dataclass
class Worker:
    """The parts of one worker.  ``model`` is what ``strategy.start`` gave."""

    model: nn.Module
    strategy: Strategy
    optimizer: Optimizer
    schedule: Schedule
    comm: Comm
    frames: Frames
    minibatches: int  # in an epoch, the same on every worker
    batch: int  # frames in a minibatch
    dev: list[DevSet]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    bf16: bool = False
    save_every: int = 1000  # minibatches between checkpoints inside an epoch
    seed: int | None = None  # of what is random in a step, which is dropout; None: nothing is
    growth: Growth | None = None
    ledger: Ledger = field(default_factory=Ledger)
    tally: Tensor = field(init=False)  # float64 [5] of this epoch: loss, right frames, frames, seconds; first rate

    def __post_init__(self) -> None:
        self.tally = torch.zeros(5, dtype=torch.float64, device=self.device)

    def logits(self, model: nn.Module, x: Tensor) -> Tensor:
        """Scores of ``model``, float32.  In bf16 the matrix products are, the parameters stay float32."""
        with self.precision():
            return model(x).float()

    def precision(self) -> contextlib.AbstractContextManager:
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else contextlib.nullcontext()

    def prepare(self, clock: Clock) -> None:
        """Prepare for the coming minibatch: random numbers depend on (seed, epoch, minibatch, rank) alone."""
        if self.seed is not None:
            key = (self.seed, clock.epoch, clock.minibatch, self.comm.rank)
            torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))
        if self.growth is not None:
            self.growth.prepare(clock)

    def snapshot(self) -> dict[str, Tensor]:
        """A copy, in main memory, of all that training changes in this worker."""
        state = {"values": flatten(self.strategy.consensus()), "tally": self.tally}
        state |= {f"buffers/{name}": value for name, value in statistics.buffers(self.model).items()}
        state |= {f"optimizer/{name}": value for name, value in self.optimizer.state().items()}
        state |= {f"strategy/{name}": value for name, value in self.strategy.state().items()}
        return {name: value.detach().to("cpu", copy=True) for name, value in state.items()}

    def restore(self, state: dict[str, Tensor], epoch_too: bool = True) -> None:
        """Go back to a snapshot; without ``epoch_too`` the sums of the epoch stay as they are."""
        flatten(self.strategy.consensus()).copy_(state["values"])
        self.optimizer.restore(_part(state, "optimizer/"))
        self.strategy.restore(_part(state, "strategy/"))
        for name, buffer in statistics.buffers(self.model).items():
            buffer.copy_(state[f"buffers/{name}"])
        statistics.give(self.model, self.strategy)
        if epoch_too:
            self.tally.copy_(state["tally"])


def _part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
