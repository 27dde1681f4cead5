"""Our network as Kaldi's formats can say it: linear layers with the same activation between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from asr_parallel.model import Dnn


@dataclass(frozen=True)
class Layer:
    """``weight`` [out, in] and ``bias`` [out], float64."""

    weight: np.ndarray
    bias: np.ndarray


def layers_of(model: Dnn) -> list[Layer]:
    """The layers of a trained network, the softmax layer last; batch norm is folded into the layer before it."""
    norms = [*(model.norms or [nn.Identity()] * (len(model.layers) - 1)), model.output_norm]
    return [_folded(layer, norm) for layer, norm in zip(model.layers, norms, strict=True)]


@torch.no_grad()
def _folded(linear: nn.Module, norm: nn.Module) -> Layer:
    """The layer followed by what ``norm`` does after training: (y - mean) / sqrt(variance + eps) gain + offset."""
    assert isinstance(linear, nn.Linear)
    weight = linear.weight.double().numpy()
    bias = np.zeros(len(weight)) if linear.bias is None else linear.bias.double().numpy()
    if isinstance(norm, nn.Identity):
        return Layer(weight, bias)
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = (norm.running_var.double() + norm.eps).rsqrt().numpy()
    bias, offset = bias - norm.running_mean.double().numpy(), np.zeros(len(bias))
    if norm.affine:
        scale, offset = scale * norm.weight.double().numpy(), norm.bias.double().numpy()
    return Layer(weight * scale[:, None], bias * scale + offset)
