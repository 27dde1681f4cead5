"""A pretrained stack as the start of a network: ``dbn.pt``, which ``pretrain`` leaves and ``train`` reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from asr_parallel.config import FeatureKind
from asr_parallel.log import UserError
from asr_parallel.pretrain.rbm import Rbm
from asr_parallel.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    from asr_parallel.model import Dnn

FORMAT = 1  # of dbn.pt
VARIANCE = (0.25, 4.0)  # mean variance of the inputs that a Gaussian RBM takes
MEAN_SQUARE = 0.25  # mean square of their means that it takes
CHECKED = 20  # minibatches whose variance is measured before a network starts from a DBN


class Frames(Protocol):
    """Where inputs come from: ``epoch`` yields minibatches with ``x`` [N, D], shuffled."""

    def epoch(self, epoch: int, /) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Dbn:
    """Weight [out, in] and bias [out] of each hidden layer, from the bottom, and the inputs they were trained on."""

    features: FeatureKind
    context: int
    layers: list[tuple[Tensor, Tensor]]
    path: Path = Path("dbn.pt")  # named in errors

    @torch.no_grad()
    def start(self, model: Dnn) -> None:
        """Copy the hidden layers into ``model``; its softmax layer stays.  Raises ``UserError`` if they do not fit."""
        *hidden, _ = model.layers
        if self.context != model.config.context:
            raise UserError(self._misfit("context", self.context, model.config.context))
        if len(self.layers) != len(hidden):
            raise UserError(self._misfit("layers", len(self.layers), len(hidden)))
        for i, (layer, (weight, bias)) in enumerate(zip(hidden, self.layers)):
            assert isinstance(layer, nn.Linear)
            if len(layer.weight) != len(weight):
                raise UserError(self._misfit("width", len(weight), len(layer.weight)))
            if layer.weight.shape != weight.shape:
                raise UserError(
                    f"layer {i} of {self.path} takes {weight.shape[1]} values, the network's takes "
                    f"{layer.weight.shape[1]}: run `pretrain` again on these features"
                )
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)

    def _misfit(self, option: str, here: int, wanted: int) -> str:
        return (
            f"{self.path} was made with --{option} {here}, the network has {wanted}: "
            f"give `train` --model.{option} {here}, or run `pretrain` again with --{option} {wanted}"
        )

    def check_inputs(self, features: FeatureKind, frames: Frames) -> None:
        """Raise ``UserError`` unless ``frames`` are such as the DBN was trained on: kind, mean 0, variance 1."""
        if features != self.features:
            raise UserError(
                f"{self.path} was made of {self.features} features, the network takes {features}: "
                f"give `train` --features {self.features}, or run `pretrain` again with --features {features}"
            )
        x = torch.cat([batch.x for batch in itertools.islice(frames.epoch(0), CHECKED)])
        check_normalised(x.mean(0), x.var(0, correction=0), f"a network that starts from {self.path}")


def check_normalised(mean: Tensor, variance: Tensor, whose: str) -> None:
    """Refuse inputs of mean [D] and variance [D] that are far from 0 and 1.

    Gaussian units have variance 1: with other inputs contrastive divergence explodes or learns nothing.
    """
    measured, offset = float(variance.mean()), float(mean.square().mean())
    if not (VARIANCE[0] <= measured <= VARIANCE[1]) or offset > MEAN_SQUARE:
        raise UserError(
            f"the inputs of {whose} have variance {measured:.4g} and mean square offset {offset:.4g} instead of 1 and "
            "0: they are not normalised. The cmvn_KIND.npz beside them belongs to other features, or was edited: "
            "run `features` with --force"
        )


def save_dbn(path: Path, stack: Sequence[Rbm], features: FeatureKind, context: int) -> None:
    """Write ``dbn.pt``: tensors and plain values alone.  W and c of an RBM are weight and bias of a sigmoid layer."""
    layers = [{"weight": r.weight.cpu().clone(), "bias": r.hidden_bias.cpu().clone()} for r in stack]
    save_tensors(path, {"format": FORMAT, "features": features, "context": context, "layers": layers})


def load_dbn(folder: Path | str) -> Dbn:
    """Read ``folder/dbn.pt``.  Raises ``UserError`` if it is missing, damaged or of another format."""
    path = Path(folder) / "dbn.pt"
    if not path.exists():
        raise UserError(f"{path} is missing: run `pretrain` first, or name its --out with --model.dbn")
    value = load_tensors(path, (FORMAT,), "run `pretrain` again")
    layers = [(layer["weight"], layer["bias"]) for layer in value["layers"]]
    return Dbn(value["features"], value["context"], layers, path)
