"""The acoustic model: spliced features in, one score a pdf out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr_parallel.config import FeatureKind, ModelConfig
from asr_parallel.ensemble import Ensemble
from asr_parallel.layers import GLOROT_GAIN, IN_PLACE, init_glorot, init_nnet1, make_activation
from asr_parallel.log import UserError
from asr_parallel.optim.linear import Linear, chain
from asr_parallel.pretrain.dbn import load_dbn
from asr_parallel.tensors import load_tensors, save_tensors

FORMAT, ENSEMBLE_FORMAT = 1, 2  # of final.pt: one network, several
# of networks with the same hidden layers
ALIKE = ("width", "activation", "context", "batch_norm", "bias", "pnorm_group", "pnorm_p")


class Dnn(nn.Module):
    """Fully connected layers; ``forward`` maps x [N, input_dim] to logits [N, num_pdfs].

    A hidden layer is linear, then batch norm and activation, then dropout.  ``depth`` is how many of them are in
    use: all, unless the network is still growing.
    """

    def __init__(self, config: ModelConfig, input_dim: int, num_pdfs: int):
        super().__init__()
        self.config, self.input_dim, self.num_pdfs, self.depth = config, input_dim, num_pdfs, config.layers
        wide = config.width * (config.pnorm_group if config.activation == "pnorm" else 1)
        sizes = [(input_dim, wide), *[(config.width, wide)] * (config.layers - 1), (config.width, num_pdfs)]
        self.gain = 1.0  # of hidden outputs: in a subnet, whose units stand for more of them (IST)
        self.layers = nn.ModuleList(nn.Linear(*size, bias=config.bias) for size in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm1d(wide) for _ in range(config.layers if config.batch_norm else 0))
        self.activation = make_activation(config)
        plain = not (config.batch_norm or config.output_norm or config.dropout)
        self.between = IN_PLACE.get(config.activation) if plain else None  # if that is all between two linear layers
        self.output_norm = nn.BatchNorm1d(num_pdfs, affine=False) if config.output_norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        *hidden, output = self.layers
        if self.between and self.gain == 1 and torch.is_grad_enabled() and isinstance(output, Linear):
            return chain(x, cast(list[Linear], [*hidden[: self.depth], output]), self.between)
        for i, layer in enumerate(hidden[: self.depth]):
            x = layer(x)
            if self.config.batch_norm:
                x = self.norms[i](x)
            x = self.activation(x)
            if self.config.dropout:
                x = F.dropout(x, self.config.dropout, self.training)
            if self.gain != 1:
                x = x * self.gain
        return self.output_norm(output(x))

    def keep_no_statistics(self) -> None:
        """Let batch norm be by the statistics of the minibatch always, and keep no others."""
        for module in self.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.track_running_stats = False
                module.running_mean = module.running_var = module.num_batches_tracked = None


def make_model(config: ModelConfig, input_dim: int, num_pdfs: int, seed: int) -> Dnn:
    """A network with random weights that depend on ``seed`` alone, but for hidden layers that ``init`` takes elsewhere.

    Raises ``UserError`` if ``init`` does not suit the activation or the network, or for a value that makes no sense.
    """
    check(config)
    model = Dnn(config, input_dim, num_pdfs)
    generator, layers = torch.Generator().manual_seed(seed), cast(list[nn.Linear], list(model.layers))
    if config.init in ("nnet1", "dbn") or (config.init == "network" and config.activation == "sigmoid"):
        init_nnet1(layers, generator)
    else:
        init_glorot(layers, generator, GLOROT_GAIN[config.activation])
    if config.init == "dbn":
        load_dbn(config.dbn).start(model)
    elif config.init == "network":
        start_from(model, load_network(Path(config.network)))
    return model


def check(config: ModelConfig) -> None:
    """Raise ``UserError`` for options that make no sense, alone or together."""
    if config.init in ("nnet1", "dbn") and config.activation != "sigmoid":
        raise UserError(
            f"--model.init {config.init} is made for sigmoids: give --model.activation sigmoid with it, "
            f"or for {config.activation} --model.init glorot"
        )
    if config.init == "dbn" and config.batch_norm:
        raise UserError("--model.init dbn: RBMs know no batch norm; leave out --model.batch_norm")
    if config.init == "dbn" and not config.bias:
        raise UserError("--model.init dbn: RBMs have biases; leave out --model.no_bias")
    if config.layers < 1:
        raise UserError(f"--model.layers {config.layers}: give at least 1")
    if not 0 <= config.dropout < 1:
        raise UserError(f"--model.dropout {config.dropout:g}: give a probability from 0 up to, but not, 1")
    if config.pnorm_group < 1 or config.pnorm_p < 1:
        raise UserError(f"--model.pnorm_group {config.pnorm_group}, pnorm_p {config.pnorm_p:g}: give at least 1")


@torch.no_grad()
def start_from(model: Dnn, other: Dnn) -> None:
    """Copy the hidden layers of ``other`` into the lowest ones of ``model``; the rest and the softmax layer stay.

    Raises ``UserError`` if they do not fit.
    """
    path = f"{model.config.network}/final.pt"
    for name in ALIKE:
        here, wanted = getattr(other.config, name), getattr(model.config, name)
        if here != wanted:
            raise UserError(f"{path} has --model.{name} {here}, the network {wanted}: give them the same")
    if other.input_dim != model.input_dim:
        raise UserError(f"{path} takes {other.input_dim} values, the network {model.input_dim}: give the same features")
    if other.config.layers > model.config.layers:
        raise UserError(f"{path} has {other.config.layers} hidden layers: give at least as many --model.layers")
    for ours, theirs in ((model.layers, other.layers[:-1]), (model.norms, other.norms)):
        for mine, its in zip(ours, theirs):
            mine.load_state_dict(its.state_dict())


def num_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@dataclass(frozen=True)
class Predictor:
    """A trained network as the decoder uses it.  ``log_priors`` is float32 [num_pdfs]."""

    features: FeatureKind
    context: int
    model: Dnn | Ensemble
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


def save_model(path: Path, model: Dnn | Ensemble, features: FeatureKind, counts: np.ndarray) -> None:
    """Write ``final.pt``: tensors and plain values alone, atomically.  ``counts`` [num_pdfs] are training frames."""
    members = cast(list[Dnn], list(model.members)) if isinstance(model, Ensemble) else [model]
    value: dict[str, Any] = {
        "format": FORMAT,
        "model": dataclasses.asdict(members[0].config),
        "input_dim": model.input_dim,
        "num_pdfs": model.num_pdfs,
        "features": features,
        "counts": torch.from_numpy(np.asarray(counts, np.int64)),
        "state": {name: value.detach().cpu().clone() for name, value in model.state_dict().items()},
    }
    if isinstance(model, Ensemble):
        value |= {"format": ENSEMBLE_FORMAT, "members": len(members), "mean": model.mean}
    save_tensors(path, value)


def load_predictor(model_dir: Path) -> Predictor:
    """Read ``model_dir/final.pt``.  Raises ``UserError`` if it is missing, damaged or of another format."""
    path = Path(model_dir) / "final.pt"
    value = load_tensors(path, (FORMAT, ENSEMBLE_FORMAT), "train the network, with this version (verb `train`)")
    try:
        config = ModelConfig(**value["model"])  # options that an older file lacks are at their defaults
    except TypeError as error:
        raise UserError(f"{path} has an option that is not known here ({error}): it is of a newer version") from None
    networks = [Dnn(config, value["input_dim"], value["num_pdfs"]) for _ in range(value.get("members", 1))]
    model = Ensemble(networks, value["mean"]) if value["format"] == ENSEMBLE_FORMAT else networks[0]
    model.load_state_dict(value["state"])
    counts = value["counts"].numpy()
    if len(counts) != model.num_pdfs:
        raise UserError(f"{path}: {len(counts)} prior counts for {model.num_pdfs} pdfs: train again")
    return Predictor(value["features"], config.context, model.eval(), log_priors(counts))


def load_network(model_dir: Path) -> Dnn:
    """The one network in ``model_dir``.  Raises ``UserError`` if there are several."""
    model = load_predictor(model_dir).model
    if isinstance(model, Ensemble):
        raise UserError(f"{model_dir} is an ensemble, not one network: give one of its models, {model_dir}/local_0")
    return model
