"""NG-SGD: plain SGD whose gradients of linear layers were preconditioned while they were made.

Kaldi's nnet2 ``AffineComponentPreconditionedOnline``, as a backward pass: where a linear layer's gradient
``D^T [X, 1]`` is formed, from its inputs X and the derivatives D with respect to its outputs, both sides go
through a natural-gradient factor of their own first (``linear.Rule``); derivatives passed on to the layer below are
untouched.  ``docs/ngsgd.md`` explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from asr_parallel.optim.linear import Linear, own_linears
from asr_parallel.optim.natural_gradient import FactorOptions, OnlineNaturalGradient, Variant
from asr_parallel.optim.optimizer import Optimizer

SIDES = ("input", "output")  # of a layer; each has a factor
PAD = 16  # columns to which a row of inputs with its 1 is padded in memory


@dataclass(frozen=True)
class NgOptions:
    """Options of NG-SGD; the defaults are Kaldi's (nnet2, nnet3)."""

    rank_in: int = 20  # rank of the factor of inputs; at most (dim + 1) / 2, as for outputs
    rank_out: int = 80  # rank of the factor of output derivatives
    update_period: int = 4  # minibatches from one update of the factors to the next
    num_samples_history: float = 2000.0  # frames after which the past counts 1/e
    alpha: float = 4.0  # smoothing of the Fisher matrix with its trace
    epsilon: float = 1e-10  # absolute floor of Fisher eigenvalues
    delta: float = 5e-4  # floor of Fisher eigenvalues relative to the largest
    max_change_per_sample: float = 0.075  # bound on the sum of norms of the frames' changes, per frame; 0: none
    reduction: Literal["mean", "sum"] = "mean"  # what the loss is over the frames of a minibatch
    variant: Variant = "kaldi"  # su2015: as the code of Su & Chen 2015 ran; see SU2015

    def factor(self, rank: int, dim: int) -> FactorOptions:
        """Options of a factor of ``dim`` values."""
        rank = rank if self.variant == "su2015" else min(rank, (dim + 1) // 2)
        return FactorOptions(
            rank, self.update_period, self.num_samples_history, self.alpha, self.epsilon, self.delta, self.variant
        )


# The binary of Su & Chen 2015 did not read the options that its script wrote, and so ran with class defaults.
SU2015 = NgOptions(rank_in=40, rank_out=40, update_period=1, delta=1e-5, variant="su2015")


class Scratch:
    """Memory for the preconditioned sides, shared by all layers of a network since one is formed at a time."""

    def __init__(self) -> None:
        self.memory: dict[str, Tensor] = {}
        self.views: dict[tuple[str, int, int, bool], tuple[Tensor, Tensor, Tensor]] = {}

    def copy(self, side: str, x: Tensor, ones: bool = False) -> Tensor:
        """A float32 copy of ``x`` [N, D], with a column of ones after it if ``ones``; valid until the next one."""
        n, dim = x.shape
        if (side, n, dim, ones) not in self.views:
            self._make(side, n, dim, ones, x.device)
        rows, data, column = self.views[side, n, dim, ones]
        data.copy_(x)
        if ones:
            column.fill_(1.0)
        return rows

    def _make(self, side: str, n: int, dim: int, ones: bool, device: torch.device) -> None:
        width = (dim + ones + PAD - 1) // PAD * PAD  # aligned rows: a GEMM on rows of 513 takes half as long again
        if side not in self.memory or len(self.memory[side]) < n * width:
            self.memory[side] = torch.empty(n * width, device=device)
            self.views = {key: value for key, value in self.views.items() if key[0] != side}
        rows = self.memory[side][: n * width].view(n, width)[:, : dim + ones]
        self.views[side, n, dim, ones] = rows, rows[:, :dim], rows[:, dim:]


class LayerFactors:
    """The two factors of a linear layer: the ``Rule`` that preconditions its gradient.

    ``lr`` must hold the learning rate of the coming step before its ``backward``: the bound on the change needs it.
    """

    def __init__(self, layer: nn.Linear, options: NgOptions, scratch: Scratch | None = None):
        self.options = options
        self.lr: float | None = None
        dim_in, dim_out, device = layer.in_features + (layer.bias is not None), layer.out_features, layer.weight.device
        self.input = OnlineNaturalGradient(dim_in, options.factor(options.rank_in, dim_in), device)
        self.output = OnlineNaturalGradient(dim_out, options.factor(options.rank_out, dim_out), device)
        self.minibatches = 0
        self.limited = torch.zeros((), device=device)  # of them, those that max_change_per_sample shortened
        self.scratch = scratch or Scratch()

    def sides(self, x: Tensor, deriv: Tensor, has_bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Preconditioned sides of the weight's gradient, and the bias' gradient; see ``Rule``.

        ``deriv`` is already divided by N if the loss is a mean.
        """
        n, dim = x.shape
        dtype = deriv.dtype
        x_hat, gamma_in, x_norm = self.input.precondition_rows(self.scratch.copy("input", x, has_bias))
        unit = float(n) if self.options.reduction == "mean" else 1.0
        d_hat, gamma_out, d_norm = self.output.precondition_rows(self.scratch.copy("output", deriv), unit)
        scale = gamma_in * gamma_out
        d_hat.mul_(scale * self._shorten(scale * (x_norm @ d_norm), n, unit))
        bias = x_hat[:, dim].contiguous() @ d_hat if has_bias else None
        return x_hat[:, :dim].to(dtype), d_hat.to(dtype), bias

    def _shorten(self, norms: Tensor, n: int, unit: float) -> Tensor:
        """Factor that bounds the change of a minibatch: sum_i lr |x_i| |d_i| <= max_change_per_sample N.

        ``norms`` is that sum without the rate.  Divided by N in a mean, it fits the rate of a mean.  Su & Chen's
        code left the rate out, but had the derivatives of a sum.
        """
        if self.lr is None:
            raise RuntimeError("set the learning rate (LayerFactors.lr, or use NgSgd.step) before the backward pass")
        rate = self.lr if self.options.variant == "kaldi" else unit
        self.minibatches += 1
        if not self.options.max_change_per_sample or not rate:
            return torch.ones_like(norms)
        factor = (self.options.max_change_per_sample * n / rate / norms).clamp_(max=1.0)
        self.limited += factor < 1
        return factor


def precondition_linears(module: nn.Module, options: NgOptions) -> dict[str, LayerFactors]:
    """Make the linear layers inside ``module`` leave preconditioned gradients; give their factors by name.

    Raises ``ValueError`` if there is none.
    """
    layers = own_linears(module)
    if not layers:
        raise ValueError(f"{type(module).__name__} holds no linear layer to precondition")
    return _precondition(layers, options)


def _precondition(layers: dict[str, Linear], options: NgOptions) -> dict[str, LayerFactors]:
    scratch = Scratch()
    factors = {name: LayerFactors(layer, options, scratch) for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.rule = factors[name]
    return factors


class NgSgd(Optimizer):
    """Natural-gradient SGD: ``w <- w - lr g`` with preconditioned g.  No momentum, as in Kaldi.

    The factors belong to this worker: a strategy neither averages nor resets them.  Raises ``ValueError`` if there is
    no linear layer inside ``module``.
    """

    def __init__(self, module: nn.Module, options: NgOptions | None = None):
        super().__init__(module)
        self.options = options or NgOptions()
        if not self.linears:
            raise ValueError(f"{type(module).__name__} holds no linear layer to precondition")
        self.layers = _precondition(self.linears, self.options)
        sides = [(f"{name}.{side}", getattr(layer, side)) for name, layer in self.layers.items() for side in SIDES]
        self.factors: dict[str, OnlineNaturalGradient] = dict(sides)

    def step(self, loss: Tensor, lr: float) -> None:
        for layer in self.layers.values():
            layer.lr = lr
        super().step(loss, lr)

    @property
    def additive(self) -> bool:
        return True

    def new_epoch(self) -> None:
        """Su & Chen's code forgot its factors at each epoch, Kaldi's keeps them."""
        if self.options.variant == "su2015":
            for factor in self.factors.values():
                factor.reset()

    def state(self) -> dict[str, Tensor]:
        """A copy of all factors: ``LAYER.input.w`` and so on."""
        return {f"{name}.{key}": v for name, factor in self.factors.items() for key, v in factor.state().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue exactly from what ``state`` gave; from zeros, begin anew."""
        for name, factor in self.factors.items():
            factor.restore({key: state[f"{name}.{key}"] for key in ("w", "d", "numbers")})

    def shared(self) -> dict[str, Tensor]:
        return {}

    def limited(self) -> float:
        """Share of the layers' minibatches, so far, that ``max_change_per_sample`` has shortened."""
        layers = self.layers.values()
        return sum(float(v.limited) for v in layers) / max(1, sum(v.minibatches for v in layers))
