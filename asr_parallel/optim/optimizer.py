"""What an optimizer is: turns a loss into a step, and keeps its own state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from asr_parallel.config import OptimConfig
from asr_parallel.log import UserError
from asr_parallel.optim.flat import Flat, flatten


class Optimizer(ABC):
    """Minimises the mean loss of a minibatch over the parameters of ``module``, which becomes flat."""

    def __init__(self, module: nn.Module):
        self.parameters = list(module.parameters())
        values = flatten(module)
        self.flat = Flat(values, torch.zeros_like(values))

    def step(self, loss: Tensor, lr: float) -> None:
        """Take the gradient of ``loss`` (a mean over frames) and move the parameters once, with rate ``lr``."""
        for p in self.parameters:
            p.grad = None  # then autograd gives us its own tensors, and neither clears nor adds
        loss.backward()
        pieces = (torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters)
        torch.cat([piece.reshape(-1) for piece in pieces], out=self.flat.grads)
        self.update(lr)

    @abstractmethod
    def update(self, lr: float) -> None:
        """Move the parameters by the gradient that is there."""

    def new_epoch(self) -> None:  # noqa: B027
        """Told before each epoch."""

    def state(self) -> dict[str, Tensor]:
        """All that is needed to continue: tensors of one dimension or more, by name. Views: copy to keep."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take back what ``state`` gave."""
        for name, value in self.state().items():
            value.copy_(state[name])

    def shared(self) -> dict[str, Tensor]:
        """The part of the state that a strategy may average or reset at an exchange: views of the same shape on
        every worker (momentum; not what an optimizer wants to keep to itself)."""
        return self.state()


def make_optimizer(config: OptimConfig, module: nn.Module) -> Optimizer:
    """The optimizer that ``config`` names, on ``module``.  Raises ``UserError`` for options it does not have."""
    from asr_parallel.optim.ngsgd import SU2015, NgOptions, NgSgd
    from asr_parallel.optim.sgd import Sgd

    if config.name == "sgd":
        return Sgd(module, momentum=config.momentum, l2=config.l2)
    if config.momentum or config.l2:
        raise UserError("--optim.name ngsgd has neither momentum nor l2 (as in Kaldi): leave both at 0")
    if config.variant == "su2015":
        return NgSgd(module, SU2015)
    options = NgOptions(config.rank_in, config.rank_out, config.update_period)
    return NgSgd(module, replace(options, max_change_per_sample=config.max_change))
