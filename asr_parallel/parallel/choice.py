"""Whose parameters an exchange takes: all workers', but for those that have diverged or lag, or one worker's alone.

Each worker brings its mean training loss since the exchange before.  One whose loss or parameters are no longer
numbers is left out, and so is one whose loss is more than ``max_gap`` (nats a frame) above the best; it takes over what
the others come to, and its optimizer begins anew.  (Not by a maximum: any comparison with NaN is false.)

The first exchange may take the best worker's parameters alone, since random networks are no better for being averaged
(Kaldi's nnet2 does so in its first iteration); and in the beginning rank 0 may train alone, whose parameters
all then have.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asr_parallel.config import StrategyConfig
from asr_parallel.log import UserError, logger
from asr_parallel.parallel.clock import Clock, Span
from asr_parallel.parallel.comm import Comm

LOG = logger(__name__)


class Choice:
    """``taken`` and ``left_out`` are the ranks of the latest exchange, the same on all workers."""

    def __init__(self, config: StrategyConfig):
        self.config = config
        self.alone = Span.parse(config.alone, "--strategy.alone") if config.alone else None
        if config.max_gap is not None and not config.max_gap > 0:
            raise UserError(f"--strategy.max_gap {config.max_gap:g}: give a number above 0, in nats a frame")
        self.brought: Tensor | None = None  # float64 [2]: sum of losses, frames, since the latest exchange
        self.first_done = torch.zeros(1, dtype=torch.int64)  # whether there was an exchange of several workers
        self.only_first = False  # whether the exchange that is due ends minibatches of rank 0 alone
        self.taken: tuple[int, ...] = ()
        self.left_out: tuple[int, ...] = ()

    def idle(self, clock: Clock, comm: Comm) -> bool:
        """Whether this worker sits out the coming minibatch."""
        return self.alone is not None and comm.rank > 0 and self.alone.holds(clock)

    def tick(self, clock: Clock) -> tuple[bool, bool]:
        """Told of the minibatch just counted: whether rank 0 goes on alone, and whether it has just ended doing so."""
        before = Clock(clock.epoch, clock.minibatches, clock.minibatch - 1, clock.frames - clock.latest)
        self.only_first = self.alone is not None and self.alone.holds(before)
        goes_on = self.alone is not None and self.alone.holds(clock)
        return goes_on, self.only_first and not goes_on

    @torch.no_grad()
    def count(self, loss: Tensor, frames: int) -> None:
        """Add the mean loss of a minibatch."""
        if self.brought is None:
            self.brought = torch.zeros(2, dtype=torch.float64, device=loss.device)
        self.brought[0] += loss.detach().double() * frames
        self.brought[1] += frames

    def choose(self, comm: Comm, values: Tensor) -> tuple[int, ...]:
        """The ranks whose parameters are taken; ``values`` are this worker's.  ``UserError`` if there is none."""
        losses = self._losses(comm, values)
        if self.only_first:
            losses[1:] = [math.nan] * (comm.size - 1)
        sound = [rank for rank, loss in enumerate(losses) if math.isfinite(loss)]
        if not sound:
            raise UserError(
                "the loss is no longer a number on any worker: give a lower --optim.lr, or --strategy.lr_scale none"
            )
        best = min(sound, key=lambda rank: losses[rank])
        gap = math.inf if self.config.max_gap is None else self.config.max_gap
        self.taken = tuple(rank for rank in sound if losses[rank] - losses[best] <= gap)
        self.left_out = () if self.only_first else tuple(r for r in range(comm.size) if r not in self.taken)
        if self.left_out and comm.rank == 0:
            told = ", ".join(f"rank {comm.seats[rank]} (loss {losses[rank]:.3f})" for rank in self.left_out)
            LOG.warning("%s left out of the mean, and goes on from it; the best is rank %d (%.3f)",
                        told, comm.seats[best], losses[best])  # fmt: skip
        if self.config.first == "best" and not self.first_done:
            self.taken = (best,)
        if not self.only_first:
            self.first_done.fill_(1)
        return self.taken

    def _losses(self, comm: Comm, values: Tensor) -> list[float]:
        """Mean losses of all workers since the latest exchange; NaN of one whose parameters are not all numbers."""
        every = torch.zeros(comm.size, dtype=torch.float64)
        brought = torch.zeros(2) if self.brought is None else self.brought.cpu()
        loss = float(brought[0] / brought[1].clamp_min(1))
        every[comm.rank] = loss if bool(torch.isfinite(values.sum())) else math.nan
        losses = comm.sum(every).tolist()
        self.brought = None
        return losses
