"""What an optimizer is: turns a loss into a step, and keeps its own state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asr_parallel.config import OptimConfig
from asr_parallel.log import UserError, logger
from asr_parallel.optim.flat import Flat, flatten
from asr_parallel.optim.linear import Sink, own_linears
from asr_parallel.optim.regularisation import Regularisation

if TYPE_CHECKING:
    from asr_parallel.optim.ngsgd import NgOptions

LOG = logger(__name__)


class Optimizer:
    """Minimises the mean loss of a minibatch over the parameters of ``module``, which becomes flat.

    A step clips the gradient, adds decay to it (or, if ``decoupled``, takes the decay from the parameters), moves
    the parameters and shortens the rows of weight matrices, as far as ``regularisation`` says.
    """

    decoupled = False  # decay acts on the parameters and not through the gradient
    regularisation = Regularisation()

    def __init__(self, module: nn.Module):
        values = flatten(module)
        self.parameters = list(module.parameters())
        self.flat = Flat(values, torch.zeros_like(values))
        self.linears = own_linears(module)
        self.on_gradient: Callable[[Tensor], None] | None = None  # may replace the gradient before anything else does
        pieces = self.flat.grads.split([p.numel() for p in self.parameters])
        grads = {p: piece.view(p.shape) for p, piece in zip(self.parameters, pieces)}
        for layer in self.linears.values():
            own = list(layer.parameters())  # weight, then bias
            layer.sink = Sink([p.data for p in own], [grads.pop(p) for p in own])
        self.others = list(grads.items())

    @property
    def additive(self) -> bool:
        """Whether a step is no more than ``w <- w - lr g``, so that nothing else is needed of the gradient."""
        return False

    def step(self, loss: Tensor, lr: float) -> None:
        """Take the gradient of ``loss`` (a mean over frames) and move the parameters once, with rate ``lr``."""
        at_once = self.additive and self.on_gradient is None and self.regularisation.leaves_gradients
        sinks = [layer.sink for layer in self.linears.values() if layer.sink]
        for sink in sinks:
            sink.begin(lr if at_once else None)
        for p, _ in self.others:
            p.grad = None  # then autograd gives us its own tensors, and neither clears nor adds
        loss.backward()
        if at_once:
            for p, _ in self.others:
                if p.grad is not None:
                    p.data.add_(p.grad, alpha=-lr)
        else:
            for sink in sinks:
                sink.end()
            for p, grad in self.others:
                grad.zero_() if p.grad is None else grad.copy_(p.grad)
            self._move(lr)
        self.regularisation.shorten_rows(self.parameters)

    def _move(self, lr: float) -> None:
        """Regularise the gradient that is there, then follow it."""
        if self.on_gradient is not None:
            self.on_gradient(self.flat.grads)
        regularisation, values = self.regularisation, self.flat.values
        regularisation.clip_gradient(self.flat.grads)
        if self.decoupled:
            regularisation.add_decay(values, values, -lr)
        else:
            regularisation.add_decay(self.flat.grads, values, 1.0)
        self.update(lr)

    def update(self, lr: float) -> None:
        """Move the parameters by the gradient that is there."""
        self.flat.values.add_(self.flat.grads, alpha=-lr)

    def new_epoch(self) -> None:
        """Told before each epoch."""

    def state(self) -> dict[str, Tensor]:
        """All that is needed to continue: tensors of one dimension or more, by name. Views: copy to keep."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take back what ``state`` gave."""
        for name, value in self.state().items():
            value.copy_(state[name])

    def begin_anew(self) -> None:
        """Forget everything, as before the first step."""
        self.restore({name: torch.zeros_like(value) for name, value in self.state().items()})

    def shared(self) -> dict[str, Tensor]:
        """The part of the state that a strategy may average or reset at an exchange: views of the same shape on
        every worker (momentum; not what an optimizer wants to keep to itself)."""
        return self.state()


NATURAL = {"rank_in", "rank_out", "update_period", "max_change"}  # of Kaldi's variant; that of Su & Chen has them fixed
OPTIONS = {  # of each optimizer, beside the rate and those of all
    "sgd": {"momentum", "nesterov", "clip"},
    "adamw": {"beta1", "beta2", "eps", "clip"},
    "ngsgd": {"variant"} | NATURAL,
}
OF_ALL = {"name", "lr", "l1", "l2", "max_norm"}
HIGH_ADAMW_LR = 0.1  # beyond this somebody has left the rate at the default, which is for NG-SGD


def make_optimizer(config: OptimConfig, module: nn.Module) -> Optimizer:
    """The optimizer that ``config`` names, on ``module``.  Raises ``UserError`` for options it does not have."""
    from asr_parallel.optim.adamw import AdamW
    from asr_parallel.optim.ngsgd import NgSgd
    from asr_parallel.optim.sgd import Sgd

    check(config)
    makers: dict[str, Callable[[], Optimizer]] = {
        "sgd": lambda: Sgd(module, config.momentum, config.nesterov),
        "adamw": lambda: AdamW(module, config.beta1, config.beta2, config.eps),
        "ngsgd": lambda: NgSgd(module, ng_options(config)),
    }
    optimizer = makers[config.name]()
    optimizer.regularisation = Regularisation(config.l1, config.l2, config.clip, config.max_norm)
    return optimizer


def check(config: OptimConfig) -> None:
    """Raise ``UserError`` for an option that the optimizer does not have, or a value that makes no sense."""
    has = OF_ALL | OPTIONS[config.name] - (NATURAL if config.variant == "su2015" else set())
    who = config.name + (" as in su2015" if config.name == "ngsgd" and config.variant == "su2015" else "")
    for option in fields(config):
        value = getattr(config, option.name)
        if option.name not in has and value != option.default:
            own = ", ".join(sorted(has - {"name"}))
            raise UserError(f"--optim.{option.name} {value}: {who} has no such option, only {own}; leave it out")
        if isinstance(value, int | float) and value < 0:
            raise UserError(f"--optim.{option.name} {value}: must not be negative")
    for name in ("momentum", "beta1", "beta2"):
        if getattr(config, name) >= 1:
            raise UserError(f"--optim.{name} {getattr(config, name)}: must be below 1")
    if config.nesterov and not config.momentum:
        raise UserError("--optim.nesterov needs a --optim.momentum, e.g. 0.9")
    if config.name == "adamw" and config.lr > HIGH_ADAMW_LR:
        LOG.warning("--optim.lr %g is high for adamw, which wants about 0.001", config.lr)


def ng_options(config: OptimConfig) -> NgOptions:
    """The options of NG-SGD in ``config``."""
    from asr_parallel.optim.ngsgd import SU2015, NgOptions

    if config.variant == "su2015":
        return SU2015
    options = NgOptions(config.rank_in, config.rank_out, config.update_period)
    return replace(options, max_change_per_sample=config.max_change)
