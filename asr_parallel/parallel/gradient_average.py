"""Gradient averaging: synchronous data-parallel SGD, the baseline that every other strategy saves exchanges against.

After each minibatch, before the update, all workers take the mean of their gradients,

    g <- (1/K) sum_k g_k ,        w <- w - lr g ,

so K workers with minibatches of B frames do what one does with minibatches of K B.  NG-SGD's gradients are averaged
as they are preconditioned, each by its worker's own Fisher factors.

A gradient that is no longer made of numbers is left out of the mean; its worker goes on with that of the others.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from asr_parallel.log import UserError, logger
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Report, Strategy, together
from asr_parallel.parallel.wire import Wire

LOG = logger(__name__)


class GradientAverage(Strategy):
    exchanges = "gradients"

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.model, self.comm = model, comm
        self.report = Report()
        self.lr_scale = self.scale(comm.size, "workers")
        values = flatten(model)
        comm.broadcast(values)
        self.wire = Wire(self.config.wire)
        self.wire.start(values, comm)
        return model

    def gradient(self, flat: Tensor) -> None:
        """Replace the gradient by the mean of all workers'."""
        report = together(self.comm, lambda: self._share(flat))
        self.report = replace(report, left_out=self.taken is not None and self.comm.rank not in self.taken)

    def _share(self, flat: Tensor) -> int:
        self.taken = self._sound(flat)
        return self.wire.mean(self.comm, flat, self.taken)

    def _sound(self, flat: Tensor) -> tuple[int, ...] | None:
        """The ranks whose gradient is made of numbers; None: all.  Raises ``UserError`` if there is none."""
        if self.comm.size == 1:
            return None
        every = torch.zeros(self.comm.size)
        every[self.comm.rank] = float(torch.isfinite(flat.sum()))
        sound = tuple(self.comm.sum(every).nonzero().view(-1).tolist())
        if not sound:
            raise UserError("the gradient is no longer made of numbers on any worker: give a lower --optim.lr")
        if len(sound) == self.comm.size:
            return None
        if self.comm.rank == sound[0]:
            left_out = [str(seat) for rank, seat in enumerate(self.comm.seats) if rank not in sound]
            LOG.warning("the gradient of rank %s is not made of numbers, and is left out", ", ".join(left_out))
        return sound

    def due(self, clock: Clock) -> bool:
        return True

    def per_epoch(self, minibatches: int, batch: int) -> int:
        return minibatches

    def exchange(self, comm: Comm) -> Report:
        """What the exchange of this minibatch's gradient has cost; the weights are equal already."""
        return self.report

    def consensus(self) -> nn.Module:
        return self.model

    def state(self) -> dict[str, Tensor]:
        return self.wire.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        self.wire.restore(state)

    def regroup(self, clock: Clock) -> list[Tensor]:
        return [flatten(self.model)]
