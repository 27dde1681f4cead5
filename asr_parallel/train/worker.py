"""What one worker trains with, and its state as a set of tensors."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

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

if TYPE_CHECKING:
    from asr_parallel.train.probe import Probe


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
    clock: Clock = field(init=False)  # where training stands
    before: dict[str, Tensor] | None = None  # the state at the beginning of the epoch under way
    probe: Probe | None = None
    tally: Tensor = field(init=False)  # float64 [5] of this epoch: loss, right frames, frames, seconds; first rate

    def __post_init__(self) -> None:
        self.tally = torch.zeros(5, dtype=torch.float64, device=self.device)
        self.exchanged = self.tally.clone()  # the tally at the latest exchange
        self.clock = Clock(1, self.minibatches)

    def logits(self, model: nn.Module, x: Tensor) -> Tensor:
        """Scores of ``model``, float32.  In bf16 the matrix products are, the parameters stay float32."""
        with self.precision():
            return model(x).float()

    def precision(self) -> contextlib.AbstractContextManager:
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else contextlib.nullcontext()

    def prepare(self, clock: Clock) -> None:
        """Prepare for the coming minibatch: random numbers depend on (seed, epoch, minibatch, rank) alone."""
        self.clock = clock
        if self.seed is not None:
            key = (self.seed, clock.epoch, clock.minibatch, self.comm.rank)
            torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))
        if self.growth is not None:
            self.growth.prepare(clock)

    def place(self, batch: Any) -> Any:
        """``batch`` with its tensors on the device."""
        batch.x = batch.x.to(self.device, non_blocking=True)
        batch.y = batch.y.to(self.device, non_blocking=True)
        return batch

    def coming(self, count: int) -> Iterator[Any]:
        """The minibatch that is prepared for and those that follow it in this epoch, at most ``count``: drawn again."""
        count = min(count, self.minibatches - self.clock.minibatch)
        batches = self.frames.epoch(self.clock.epoch, self.clock.minibatch)
        return map(self.place, itertools.islice(batches, count))

    @property
    def size(self) -> dict[str, float]:
        """What depends on the number of workers: of the rate, and of the epoch under way."""
        return {
            "workers": self.comm.size,
            "lr": self.schedule.lr * self.strategy.lr_scale,
            "minibatches": self.minibatches,
            "exchanges": self.strategy.per_epoch(self.minibatches, self.batch),
        }

    @property
    def common(self) -> nn.Module:
        """The model whose parameters a state holds: the consensus, but for an ensemble this worker's own."""
        return self.model if self.strategy.exchanges == "outputs" else self.strategy.consensus()

    def snapshot(self) -> dict[str, Tensor]:
        """A copy, in main memory, of all that training changes in this worker."""
        values, state = flatten(self.common), {"tally": self.tally}
        if self.comm.rank == 0 or self.strategy.exchanges != "subnets":  # where nobody else keeps the whole
            state["values"] = values
        state |= {f"buffers/{name}": value for name, value in statistics.stored(self.model, self.strategy).items()}
        state |= {f"optimizer/{name}": value for name, value in self.optimizer.state().items()}
        state |= {f"strategy/{name}": value for name, value in self.strategy.state().items()}
        return {name: value.detach().to("cpu", copy=True) for name, value in state.items()}

    def go_back(self) -> None:
        """Undo the epoch under way, but for its sums."""
        assert self.before is not None
        self.restore(self.before, epoch_too=False)

    def forgetful(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """``state`` of another worker: with nothing in the optimizer's, which has no meaning here."""
        return state | {f"optimizer/{name}": torch.zeros_like(v) for name, v in self.optimizer.state().items()}

    def restore(self, state: dict[str, Tensor], epoch_too: bool = True) -> None:
        """Go back to a snapshot; without ``epoch_too`` the sums of the epoch stay as they are."""
        values = flatten(self.common)
        values.copy_(state.get("values", values))
        if self.strategy.exchanges == "subnets":
            self.comm.broadcast(values)
        self.optimizer.restore(_part(state, "optimizer/"))
        self.strategy.restore(_part(state, "strategy/"))
        for name, buffer in statistics.stored(self.model, self.strategy).items():
            buffer.copy_(state[f"buffers/{name}"])
        if self.common is not self.model:
            statistics.give(self.model, self.strategy)
        if epoch_too:
            self.tally.copy_(state["tally"])
            self.exchanged.copy_(self.tally)  # states are taken at exchanges


def _part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
