"""A linear layer whose gradient goes where the optimizer wants it: into the flat vector, or at once off the weights.

Autograd would give each weight a gradient of its own, which is then copied into the flat vector, read again and
taken from the weights.  These matrices fit no cache, so on a processor the traffic costs as much as a matrix product.
Here the product itself writes to its target; for plain ``w <- w - lr g`` the target is w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr_parallel.layers import InPlace

BLOCK = 2**19  # values of a gradient of lower precision that are made at a time: they stay in the cache


class Rule(Protocol):
    """What is done to the two sides of a gradient ``D^T X`` before they are multiplied."""

    def sides(self, x: Tensor, deriv: Tensor, has_bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """From inputs ``x`` [N, in] and derivatives ``deriv`` [N, out] of the loss with respect to the outputs: both as
        they shall be multiplied, and the gradient of the bias [out]."""


class Plain:
    """The gradient as it is."""

    def sides(self, x: Tensor, deriv: Tensor, has_bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        return x, deriv, deriv.sum(0) if has_bias else None


@dataclass
class Sink:
    """Where a layer's gradient goes: ``grads`` are views into the flat vector, in the order of ``parameters``.

    With a ``rate`` the parameters move by it at once, and ``grads`` stay as they are.
    """

    parameters: list[Tensor]
    grads: list[Tensor]
    rate: float | None = None
    used: bool = False  # since the step began

    def begin(self, rate: float | None) -> None:
        self.rate, self.used = rate, False

    @torch.no_grad()
    def take(self, x: Tensor, deriv: Tensor, bias: Tensor | None) -> None:
        """Add the gradient ``deriv^T x`` and that of the bias; the first one in a step replaces what is there."""
        if self.rate is not None:
            if self.used:
                raise RuntimeError(
                    "a layer that is used twice in a step cannot move at once: set optimizer.on_gradient"
                )
            _add(self.parameters, x, deriv, bias, scale=-self.rate)
        else:
            _add(self.grads, x, deriv, bias, keep=self.used)
        self.used = True

    def end(self) -> None:
        """The step's gradients are complete: of a layer that was not used they are 0."""
        if self.rate is None and not self.used:
            for grad in self.grads:
                grad.zero_()


def _add(
    targets: list[Tensor], x: Tensor, deriv: Tensor, bias: Tensor | None, scale: float = 1.0, keep: bool = True
) -> None:
    """Add ``scale deriv^T x`` to the first target and ``scale bias`` to the second; without ``keep`` overwrite them."""
    weight = targets[0]
    if not keep:
        for target in targets[1:] if x.dtype == weight.dtype else targets:
            target.zero_()
    if x.dtype == weight.dtype:
        torch.addmm(weight, deriv.T, x, beta=float(keep), alpha=scale, out=weight)
    else:  # of lower precision; a gradient as a whole would be memory that the system must find and clear each time
        rows = max(1, BLOCK // x.shape[1])
        for some, of_some in zip(weight.split(rows), deriv.T.split(rows)):
            some.add_(of_some @ x, alpha=scale)
    if bias is not None:
        targets[1].add_(bias, alpha=scale)


class _Chain(torch.autograd.Function):
    """Linear layers with an activation between each two, as one operation: each step in Python costs microseconds.

    Without a sink a layer's gradient goes to autograd.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[Linear], between: InPlace | None, *parameters: Tensor) -> Tensor:
        device = x.device.type
        ctx.x_dtype, dtype = x.dtype, x.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        x = x.to(dtype)
        ctx.inputs, ctx.weights, ctx.layers, ctx.between = [], [], layers, between
        for i, layer in enumerate(layers):
            if i and between:
                between.forward(x)
            weight, bias = layer.weight_in(dtype), layer.bias
            ctx.inputs.append(x)
            ctx.weights.append(weight)
            x = F.linear(x, weight, bias if bias is None else bias.detach().to(dtype))
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, deriv: Any) -> tuple[Any, ...]:
        grads: list[Tensor | None] = []
        for i in reversed(range(len(ctx.layers))):
            layer, x = ctx.layers[i], ctx.inputs.pop()
            below = deriv @ ctx.weights[i] if i or ctx.needs_input_grad[0] else None
            grads[:0] = layer.backward_of(x, deriv)
            if i and ctx.between:
                ctx.between.backward(below, x)
            deriv = below
        return None if below is None else below.to(ctx.x_dtype), None, None, *grads


class Linear(nn.Linear):
    """``nn.Linear`` with the parameters of ``layer``, and the same names; its backward pass follows ``rule``."""

    def __init__(self, layer: nn.Linear, rule: Rule):
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight = layer.weight
        self.register_parameter("bias", layer.bias)
        self.rule, self.sink = rule, cast(Sink | None, None)
        self.low = cast(Tensor | None, None)  # memory of the weight in lower precision

    def __getstate__(self) -> dict[str, Any]:
        """A copy is not the optimizer's any more."""
        return self.__dict__ | {"sink": None, "low": None}

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or not self.weight.requires_grad:
            return super().forward(x)
        return chain(x, [self])

    def weight_in(self, dtype: torch.dtype) -> Tensor:
        """The weight as ``dtype``; valid until it changes."""
        weight = self.weight.detach()
        if dtype == weight.dtype:
            return weight
        if self.low is None or (self.low.dtype, self.low.device) != (dtype, weight.device):
            self.low = torch.empty_like(weight, dtype=dtype)
        return self.low.copy_(weight)

    def backward_of(self, x: Tensor, deriv: Tensor) -> list[Tensor | None]:
        """The gradients of weight and bias, if there is one; they are None if the sink has taken them."""
        has_bias = self.bias is not None
        x, deriv, bias = self.rule.sides(x.flatten(0, -2), deriv.flatten(0, -2), has_bias)
        grads: list[Tensor | None] = [None, None]
        if self.sink is not None:
            self.sink.take(x, deriv, bias)
        else:
            grads = [(deriv.T @ x).to(self.weight.dtype), bias if bias is None else bias.to(self.weight.dtype)]
        return grads if has_bias else grads[:1]


def chain(x: Tensor, layers: Sequence[Linear], between: InPlace | None = None) -> Tensor:
    """``layers`` one after the other on x [..., in]: each but the first on ``between`` of what the one before gave."""
    parameters = [p for layer in layers for p in (layer.weight, layer.bias) if p is not None]
    return cast(Tensor, _Chain.apply(x, layers, between, *parameters))


def own_linears(module: nn.Module) -> dict[str, Linear]:
    """Replace every ``nn.Linear`` inside ``module`` by a ``Linear`` with its parameters; give them by name.

    Parameters stay the same objects, so a flat vector made before stays valid.
    """
    found = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear) and name}
    layers = {name: Linear(layer, Plain()) for name, layer in found.items()}
    for name, layer in layers.items():
        parent, _, child = name.rpartition(".")
        module.get_submodule(parent).register_module(child, layer)
    return layers
