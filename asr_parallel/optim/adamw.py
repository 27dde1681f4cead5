"""AdamW (Loshchilov & Hutter 2019): each parameter has a rate of its own, and decay does not go through it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from asr_parallel.optim.optimizer import Optimizer


class AdamW(Optimizer):
    """``m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  w <- w - lr m' / (sqrt(v') + eps)``.

    m' and v' are m / (1 - b1^t) and v / (1 - b2^t) in step t.  Decay comes before: ``w <- w - lr (l2 w + l1 sign(w))``.
    The step is torch's, in one pass over the flat vector.
    """

    decoupled = True

    def __init__(self, module: nn.Module, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8):
        super().__init__(module)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.m, self.v = (torch.zeros_like(self.flat.values) for _ in range(2))
        self.steps = torch.zeros(1, device=self.flat.values.device)  # t; torch wants float32

    def update(self, lr: float) -> None:
        adamw(
            [self.flat.values],
            [self.flat.grads],
            [self.m],
            [self.v],
            [],
            [self.steps[0]],
            lr=lr,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
            weight_decay=0.0,  # that is ``decoupled``
            amsgrad=False,
            maximize=False,
            fused=True,
        )

    def state(self) -> dict[str, Tensor]:
        """An exchange that resets it resets ``steps`` too, so that the correction of m and v begins anew."""
        return {"m": self.m, "v": self.v, "steps": self.steps}
