"""Gradient averaging: synchronous data-parallel SGD, the baseline that every other strategy saves exchanges against.

After each minibatch, before the update, all workers take the mean of their gradients,

    g <- (1/K) sum_k g_k ,        w <- w - lr g ,

so K workers with minibatches of B frames do what one does with minibatches of K B.  NG-SGD's gradients are averaged
as they are preconditioned, each by its worker's own Fisher factors.
"""

from __future__ import annotations

from torch import Tensor, nn

from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Report, Strategy, together
from asr_parallel.parallel.wire import Wire


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
        self.report = together(self.comm, lambda: self.wire.mean(self.comm, flat))

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
