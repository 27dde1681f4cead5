"""The acoustic model: spliced features in, one score a pdf out."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from asr_parallel.config import FeatureKind, ModelConfig
from asr_parallel.files import atomic
from asr_parallel.log import UserError
from asr_parallel.pretrain.dbn import load_dbn

FORMAT = 1  # of final.pt
ACTIVATIONS = {"sigmoid": torch.sigmoid_, "tanh": torch.tanh_, "relu": torch.relu_}
GLOROT_GAIN = {"sigmoid": 4.0, "tanh": 1.0, "relu": 2.0**0.5}  # sigmoid's slope at 0 is a fourth of tanh's


class Dnn(nn.Module):
    """Fully connected layers; ``forward`` maps x [N, input_dim] to logits [N, num_pdfs]."""

    def __init__(self, config: ModelConfig, input_dim: int, num_pdfs: int):
        super().__init__()
        self.config, self.input_dim, self.num_pdfs = config, input_dim, num_pdfs
        sizes = [input_dim] + [config.width] * config.layers + [num_pdfs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        *hidden, output = self.layers
        for layer in hidden:
            x = self.activation(layer(x))  # in place: a linear layer needs no copy of what it gave
        return output(x)


def make_model(config: ModelConfig, input_dim: int, num_pdfs: int, seed: int) -> Dnn:
    """A network with random weights that depend on ``seed`` alone; with ``init`` dbn only the softmax layer's are.

    Raises ``UserError`` if ``init`` does not suit the activation, or the DBN the network.
    """
    if config.init != "glorot" and config.activation != "sigmoid":
        raise UserError(
            f"--model.init {config.init} is made for sigmoids: give --model.activation sigmoid with it, "
            f"or for {config.activation} --model.init glorot"
        )
    model = Dnn(config, input_dim, num_pdfs)
    generator = torch.Generator().manual_seed(seed)
    (init_glorot if config.init == "glorot" else init_nnet1)(model, generator)
    if config.init == "dbn":
        load_dbn(config.dbn).start(model)
    return model


@torch.no_grad()
def init_nnet1(model: Dnn, generator: torch.Generator) -> None:
    """Kaldi's ``make_nnet_proto.py`` for sigmoids.

    Weights N(0, s^2) with s = 3.5 sqrt(2 / (in + out)), the first layer's x sqrt(1 / 12); hidden biases uniform
    in [-4, 0], so that most units are off at first; the output's bias is 0.
    """
    for i, layer in enumerate(model.layers):
        weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
        stddev = 3.5 * (2 / sum(weight.shape)) ** 0.5 * ((1 / 12) ** 0.5 if i == 0 else 1.0)
        weight.normal_(0.0, stddev, generator=generator)
        if i == len(model.layers) - 1:
            bias.zero_()
        else:
            bias.uniform_(-4.0, 0.0, generator=generator)


@torch.no_grad()
def init_glorot(model: Dnn, generator: torch.Generator) -> None:
    """Uniform within gain sqrt(6 / (in + out)) (Glorot & Bengio 2010), the output layer with gain 1; biases 0."""
    for i, layer in enumerate(model.layers):
        weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
        gain = 1.0 if i == len(model.layers) - 1 else GLOROT_GAIN[model.config.activation]
        limit = gain * (6 / sum(weight.shape)) ** 0.5
        weight.uniform_(-limit, limit, generator=generator)
        bias.zero_()


def num_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@dataclass(frozen=True)
class Predictor:
    """A trained network as the decoder uses it.  ``log_priors`` is float32 [num_pdfs]."""

    features: FeatureKind
    context: int
    model: Dnn
    log_priors: np.ndarray

    @torch.inference_mode()
    def log_posteriors(self, feats: np.ndarray) -> np.ndarray:
        """Natural log-posteriors, float32 [T, num_pdfs], of normalised features [T, D] that are not spliced."""
        from asr_parallel.data.transforms import splice

        x = torch.from_numpy(np.ascontiguousarray(splice(feats, self.context), dtype=np.float32))
        if x.shape[1] != self.model.input_dim:
            raise UserError(
                f"features of {feats.shape[1]} values spliced to {x.shape[1]} do not fit a network that takes "
                f"{self.model.input_dim}: use the features ({self.features}) that it was trained on"
            )
        return torch.log_softmax(self.model(x), dim=1).numpy()


def log_priors(counts: np.ndarray) -> np.ndarray:
    """Log of the share of frames, float32 [num_pdfs]; a pdf that was never seen counts as seen once."""
    floored = np.maximum(np.asarray(counts, np.float64), 1.0)
    return np.log(floored / floored.sum()).astype(np.float32)


def save_model(path: Path, model: Dnn, features: FeatureKind, counts: np.ndarray) -> None:
    """Write ``final.pt``: tensors and plain values alone, atomically.  ``counts`` [num_pdfs] are training frames."""
    value: dict[str, Any] = {
        "format": FORMAT,
        "model": dataclasses.asdict(model.config),
        "input_dim": model.input_dim,
        "num_pdfs": model.num_pdfs,
        "features": features,
        "counts": torch.from_numpy(np.asarray(counts, np.int64)),
        "state": {name: value.detach().cpu().clone() for name, value in model.state_dict().items()},
    }
    with atomic(path) as temporary:
        torch.save(value, temporary)


def load_predictor(model_dir: Path) -> Predictor:
    """Read ``model_dir/final.pt``.  Raises ``UserError`` if it is missing, damaged or of another format."""
    path = Path(model_dir) / "final.pt"
    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: train the network first (verb `train`)") from None
    except (RuntimeError, OSError, EOFError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}): train again") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise UserError(f"{path} is not a model of format {FORMAT}: train again with this version")
    model = Dnn(ModelConfig(**value["model"]), value["input_dim"], value["num_pdfs"])
    model.load_state_dict(value["state"])
    counts = value["counts"].numpy()
    if len(counts) != model.num_pdfs:
        raise UserError(f"{path}: {len(counts)} prior counts for {model.num_pdfs} pdfs: train again")
    return Predictor(value["features"], model.config.context, model.eval(), log_priors(counts))
