"""What stands between two linear layers, and what their weights begin with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asr_parallel.config import ModelConfig

Activation = Callable[[Tensor], Tensor]
ATEN = torch.ops.aten


@dataclass(frozen=True)
class InPlace:
    """An activation that overwrites its input; ``backward`` overwrites derivatives, and is told the outputs."""

    forward: Activation
    backward: Callable[[Tensor, Tensor], object]


IN_PLACE = {
    "sigmoid": InPlace(torch.sigmoid_, lambda d, y: ATEN.sigmoid_backward.grad_input(d, y, grad_input=d)),
    "tanh": InPlace(torch.tanh_, lambda d, y: ATEN.tanh_backward.grad_input(d, y, grad_input=d)),
    "relu": InPlace(torch.relu_, lambda d, y: ATEN.threshold_backward.grad_input(d, y, 0, grad_input=d)),
}
GLOROT_GAIN = {"sigmoid": 4.0, "tanh": 1.0, "relu": 2.0**0.5, "pnorm": 1.0}  # sigmoid's slope at 0: a fourth of tanh's
NORM_FLOOR = 2.0**-66  # of the mean square, as in Kaldi's NormalizeComponent


def make_activation(config: ModelConfig) -> Activation:
    """The hidden layers' function.  It may work in place: a linear layer needs no copy of what it gave."""
    if config.activation == "pnorm":
        return functools.partial(normalised_pnorm, group=config.pnorm_group, p=config.pnorm_p)
    return IN_PLACE[config.activation].forward


def pnorm(x: Tensor, group: int, p: float) -> Tensor:
    """p-norm of each ``group`` consecutive values: x [N, W group] to [N, W] (Zhang et al. 2014; Kaldi's nnet2).

    A group of zeros has derivative 0.
    """
    return torch.linalg.vector_norm(x.unflatten(-1, (-1, group)), ord=p, dim=-1)


def normalise(x: Tensor) -> Tensor:
    """Each row of x [N, W] scaled to a root mean square of 1, as nnet2 does after p-norm, which has no bound."""
    return x * x.square().mean(-1, keepdim=True).clamp_min(NORM_FLOOR).rsqrt()


def normalised_pnorm(x: Tensor, group: int, p: float) -> Tensor:
    return normalise(pnorm(x, group, p))


@torch.no_grad()
def init_nnet1(layers: list[nn.Linear], generator: torch.Generator) -> None:
    """Kaldi's ``make_nnet_proto.py`` for sigmoids; the last of ``layers`` is the softmax layer.

    Weights N(0, s^2) with s = 3.5 sqrt(2 / (in + out)), the first layer's x sqrt(1 / 12); hidden biases uniform
    in [-4, 0], so that most units are off at first; the output's bias is 0.
    """
    for i, layer in enumerate(layers):
        stddev = 3.5 * (2 / sum(layer.weight.shape)) ** 0.5 * ((1 / 12) ** 0.5 if i == 0 else 1.0)
        layer.weight.normal_(0.0, stddev, generator=generator)
        if layer.bias is None:
            continue
        if layer is layers[-1]:
            layer.bias.zero_()
        else:
            layer.bias.uniform_(-4.0, 0.0, generator=generator)


@torch.no_grad()
def init_glorot(layers: list[nn.Linear], generator: torch.Generator, hidden_gain: float) -> None:
    """Uniform within gain sqrt(6 / (in + out)) (Glorot & Bengio 2010), the softmax layer with gain 1; biases 0."""
    for layer in layers:
        gain = 1.0 if layer is layers[-1] else hidden_gain
        limit = gain * (6 / sum(layer.weight.shape)) ** 0.5
        layer.weight.uniform_(-limit, limit, generator=generator)
        if layer.bias is not None:
            layer.bias.zero_()
