"""What keeps gradients and weights small, whatever the optimizer: clipping, decay, max-norm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Regularisation:
    """Each part is off at 0.  Decay and clipping see the whole flat vector, biases too; max-norm weight matrices."""

    l1: float = 0.0
    l2: float = 0.0
    clip: float = 0.0
    max_norm: float = 0.0

    @property
    def leaves_gradients(self) -> bool:
        """Whether neither clipping nor decay is on."""
        return not (self.l1 or self.l2 or self.clip)

    def clip_gradient(self, grads: Tensor) -> None:
        """Shorten the gradient, as one vector, to a length of ``clip``; ``nan`` stays to be noticed."""
        if self.clip:
            grads.mul_((self.clip / torch.linalg.vector_norm(grads)).clamp_(max=1.0))

    def add_decay(self, target: Tensor, values: Tensor, scale: float) -> None:
        """Add ``scale (l2 w + l1 sign(w))``, w being ``values``, to ``target``, which may be ``values`` itself."""
        if self.l2:
            target.add_(values, alpha=scale * self.l2)
        if self.l1:  # after l2, which may have changed ``values`` but not their signs
            target.add_(values.sign(), alpha=scale * self.l1)

    @torch.no_grad()
    def shorten_rows(self, parameters: Iterable[Tensor]) -> None:
        """Shorten rows of weight matrices [out, in] that are longer than ``max_norm`` to that (as in Kaldi's nnet1)."""
        if self.max_norm:
            for weight in (p for p in parameters if p.dim() > 1):
                norms = torch.linalg.vector_norm(weight, dim=1, keepdim=True)
                weight.mul_((self.max_norm / norms).clamp_(max=1.0))
