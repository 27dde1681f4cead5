"""Stochastic gradient descent, with momentum and L2 as in ``torch.optim.SGD``.

The gradient is the mean over the minibatch.  Kaldi's nnet1 sums instead: its rate 0.008 at minibatch 256
is 0.008 x 256 = 2.05 here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr_parallel.optim.optimizer import Optimizer


class Sgd(Optimizer):
    """``v <- momentum v + g + l2 w;  w <- w - lr v``."""

    def __init__(self, module: nn.Module, momentum: float = 0.0, l2: float = 0.0):
        super().__init__(module)
        self.momentum, self.l2 = momentum, l2
        self.velocity = torch.zeros_like(self.flat.values) if momentum else None

    def update(self, lr: float) -> None:
        values, direction = self.flat.values, self.flat.grads
        if self.l2:
            direction.add_(values, alpha=self.l2)
        if self.velocity is not None:
            direction = self.velocity.mul_(self.momentum).add_(direction)
        values.add_(direction, alpha=-lr)

    def state(self) -> dict[str, Tensor]:
        return {} if self.velocity is None else {"velocity": self.velocity}
