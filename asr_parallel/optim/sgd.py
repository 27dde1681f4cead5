"""Stochastic gradient descent, with momentum and Nesterov's as in ``torch.optim.SGD``.

The gradient is the mean over the minibatch.  Kaldi's nnet1 sums instead: its rate 0.008 at minibatch 256
is 0.008 x 256 = 2.05 here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr_parallel.optim.optimizer import Optimizer


class Sgd(Optimizer):
    """``v <- momentum v + g;  w <- w - lr v``, with Nesterov's momentum ``w <- w - lr (g + momentum v)``."""

    def __init__(self, module: nn.Module, momentum: float = 0.0, nesterov: bool = False):
        super().__init__(module)
        self.momentum, self.nesterov = momentum, nesterov
        self.velocity = torch.zeros_like(self.flat.values) if momentum else None

    @property
    def additive(self) -> bool:
        return self.velocity is None

    def update(self, lr: float) -> None:
        direction = self.flat.grads
        if self.velocity is not None:
            self.velocity.mul_(self.momentum).add_(direction)
            direction = direction.add_(self.velocity, alpha=self.momentum) if self.nesterov else self.velocity
        self.flat.values.add_(direction, alpha=-lr)

    def state(self) -> dict[str, Tensor]:
        return {} if self.velocity is None else {"velocity": self.velocity}
