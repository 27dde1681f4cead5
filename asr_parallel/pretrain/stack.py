"""A stack of RBMs, trained greedily from the bottom, and the hidden layers it gives a network."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from asr_parallel.files import atomic, write_text
from asr_parallel.log import UserError, logger
from asr_parallel.pretrain.rbm import ContrastiveDivergence, Rbm, RbmOptions

FORMAT = 1  # of rbm_N.pt
PARAMETERS = ("weight", "visible_bias", "hidden_bias")
COLUMNS = (
    "layer", "epoch", "frames", "seconds", "error", "energy_train", "energy_held_out", "gap", "lr", "momentum",
    "rescues",
)  # fmt: skip
VARIANCE = (0.25, 4.0)  # mean variance of the visible units that a Gaussian RBM takes
MEAN_SQUARE = 0.25  # mean square of their means that it takes
Average = Callable[[Tensor], None]


class Frames(Protocol):
    """Where minibatches come from: ``epoch`` yields batches with ``x`` [N, D], in an order that epochs shuffle."""

    def epoch(self, epoch: int, /) -> Iterator[Any]: ...


@dataclass(frozen=True)
class StackOptions:
    """The stack; the defaults are those of Kaldi's ``pretrain_dbn.sh``."""

    layers: int = 6
    width: int = 2048
    gaussian: RbmOptions = field(default_factory=lambda: RbmOptions(lr=0.01, epochs=2))
    bernoulli: RbmOptions = field(default_factory=RbmOptions)
    statistics_frames: int = 100_000  # first frames that give means and variances
    average_every: int = 100  # minibatches between two calls of ``average`` (100 of 100: Kaldi-SU's 10000 frames)
    seed: int = 0


def train_stack(
    frames: Frames,
    options: StackOptions,
    out: Path,
    held_out: Tensor | None = None,
    average: Average | None = None,
    rank: int = 0,
    device: torch.device | str = "cpu",
) -> list[Rbm]:
    """Train ``options.layers`` RBMs, each on the hidden probabilities of those below; give them from the bottom.

    Each finished layer is kept in ``out/rbm_N.pt`` and taken from there in a rerun with the same options, which
    therefore ends where an undisturbed run does.  ``out/rbm.tsv`` has a row an epoch: the reconstruction error,
    and the mean free energy of the first training frames and of ``held_out`` [M, D], whose growing difference
    shows overfitting.  ``average`` (in place, over workers that differ in ``rank``) makes training parallel;
    every worker must then have as many minibatches, and only rank 0 writes.
    """
    stack: list[Rbm] = []
    rows: list[dict[str, Any]] = []
    for layer in range(options.layers):
        path = Path(out) / f"rbm_{layer}.pt"
        description = _describe(options, layer)
        found = _load(path, description, device) if path.exists() else None
        if found is None:
            found = _train_layer(frames, options, stack, held_out, average, rank, device)
            if rank == 0:
                _save(path, description, *found)
        stack.append(found[0])
        rows += found[1]
    if rank == 0:
        lines = ["\t".join(COLUMNS)] + ["\t".join(str(row[c]) for c in COLUMNS) for row in rows]
        write_text(Path(out) / "rbm.tsv", "\n".join(lines) + "\n")
    return stack


def dbn_to_layers(stack: Sequence[Rbm]) -> list[tuple[Tensor, Tensor]]:
    """Weight [out, in] and bias [out] of each hidden layer of a sigmoid network, from the bottom."""
    return [(rbm.weight, rbm.hidden_bias) for rbm in stack]


@torch.no_grad()
def start_from_dbn(layers: Sequence[nn.Module], stack: Sequence[Rbm]) -> None:
    """Copy ``stack`` into the first of the linear ``layers`` of a network; the others (the softmax's) stay fresh.

    Raises ``UserError`` if they do not fit.
    """
    if len(stack) >= len(layers):
        raise UserError(
            f"{len(stack)} pretrained layers for a network of {len(layers) - 1} hidden ones: pretrain fewer"
        )
    for i, (layer, (weight, bias)) in enumerate(zip(layers, dbn_to_layers(stack))):
        assert isinstance(layer, nn.Linear)
        if layer.weight.shape != weight.shape:
            raise UserError(
                f"pretrained layer {i} is {_by(weight)} (inputs x units), the network's is {_by(layer.weight)}: "
                "pretrain with the features, context and width of the network"
            )
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)


def _by(weight: Tensor) -> str:
    return f"{weight.shape[1]} x {weight.shape[0]}"


def propagate(stack: Sequence[Rbm], x: Tensor) -> Tensor:
    """Hidden probabilities of the top of ``stack`` for x [N, D]."""
    for i, rbm in enumerate(stack):
        if x.shape[1] != rbm.num_visible:
            raise UserError(
                f"RBM {i} takes {rbm.num_visible} values, got {x.shape[1]}: pretrain anew with these features"
            )
        x = rbm.hidden_probs(x)
    return x


def _train_layer(
    frames: Frames,
    options: StackOptions,
    below: list[Rbm],
    held_out: Tensor | None,
    average: Average | None,
    rank: int,
    device: torch.device | str,
) -> tuple[Rbm, list[dict[str, Any]]]:
    layer, o = len(below), options.bernoulli if below else options.gaussian
    name = f"RBM {layer}"

    def inputs(epoch: int) -> Iterator[Tensor]:
        for batch in frames.epoch(epoch):
            yield propagate(below, batch.x.to(device, torch.float32))

    mean, variance, sample = _statistics(
        inputs(0), options.statistics_frames, len(held_out) if held_out is not None else 1000
    )
    if average is not None:
        average(mean)
    if not below:
        _check_gaussian(mean, variance)
    rbm = Rbm("bernoulli" if below else "gaussian", len(mean), options.width, device)
    rbm.initialise(_generator(options.seed, layer, 0, 0, device=device), o.stddev, mean)
    trainer = ContrastiveDivergence(rbm, o, _generator(options.seed, layer, 1, rank, device=device), name)
    held = None if held_out is None else propagate(below, held_out.to(device, torch.float32))
    rows, begin, minibatches = [], time.perf_counter(), 0
    for epoch in range(o.epochs):
        errors = []
        for v in inputs(epoch):
            errors.append(trainer.step(v))
            minibatches += 1
            if average is not None and minibatches % options.average_every == 0:
                average(rbm.flat)
        if average is not None:
            average(rbm.flat)
        _check_progress(name, errors, float(variance.mean()))
        row = {"layer": layer, "epoch": epoch + 1, "seconds": round(time.perf_counter() - begin, 1)}
        rows.append(row | _row(trainer, errors, sample, held))
        logger(__name__).info(
            "%s, epoch %d: %s", name, epoch + 1, {k: rows[-1][k] for k in ("error", "gap", "rescues")}
        )
    return rbm, rows


def _row(trainer: ContrastiveDivergence, errors: list[float], sample: Tensor, held: Tensor | None) -> dict[str, Any]:
    rbm, o = trainer.rbm, trainer.options
    train = float(rbm.free_energy(sample).mean())
    test = float("nan") if held is None else float(rbm.free_energy(held).mean())
    ramp = o.ramp(trainer.frames)
    momentum = o.momentum_last if o.momentum == "kaldi" else ramp
    return {
        "frames": trainer.frames, "error": round(float(np.mean(errors)), 6), "energy_train": round(train, 4),
        "energy_held_out": round(test, 4), "gap": round(test - train, 4), "lr": round(o.lr * (1 - ramp), 8),
        "momentum": round(momentum, 4), "rescues": trainer.rescues,
    }  # fmt: skip


def _statistics(batches: Iterator[Tensor], most: int, keep: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean [D] and variance [D] of the first ``most`` frames, and the first ``keep`` frames themselves."""
    count, kept, total, square = 0, [], torch.zeros(()), torch.zeros(())
    for x in batches:
        if count < keep:
            kept.append(x[: keep - count].clone())
        total = total.to(x.device) + x.sum(0, dtype=torch.float64)
        square = square.to(x.device) + x.square().sum(0, dtype=torch.float64)
        count += len(x)
        if count >= most:
            break
    if not count:
        raise UserError("there is no frame to pretrain on: the training set is smaller than one minibatch")
    mean = total / count
    return mean.float(), (square / count - mean**2).float(), torch.cat(kept)


def _check_gaussian(mean: Tensor, variance: Tensor) -> None:
    """Gaussian units have variance 1: with other inputs contrastive divergence explodes or learns nothing."""
    measured, offset = float(variance.mean()), float(mean.square().mean())
    if not (VARIANCE[0] <= measured <= VARIANCE[1]) or offset > MEAN_SQUARE:
        raise UserError(
            f"the inputs of the Gaussian RBM have variance {measured:.4g} and mean square offset {offset:.4g} instead "
            "of 1 and 0: normalise the features to mean 0 and variance 1 (CMVN with variance) first"
        )


def _check_progress(name: str, errors: list[float], variance: float) -> None:
    """Sigmoid units saturate instead of becoming infinite: then reconstructions get worse than any constant."""
    part = max(1, len(errors) // 10)
    first, last = float(np.mean(errors[:part])), float(np.mean(errors[-part:]))
    if last > first and last > 2 * variance:
        raise UserError(
            f"{name} diverges: its reconstruction error went from {first:.4g} to {last:.4g}, where the mean of "
            f"the data would have {variance:.4g}; lower its learning rate"
        )


def _generator(*key: int, device: torch.device | str) -> torch.Generator:
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0])
    return torch.Generator(device).manual_seed(seed)


def _describe(options: StackOptions, layer: int) -> str:
    """What a layer depends on beside the data: the options of it and of those below."""
    used: dict[str, Any] = {
        "width": options.width,
        "seed": options.seed,
        "statistics": options.statistics_frames,
        "layer": layer,
    }
    used |= {"gaussian": dataclasses.asdict(options.gaussian)}
    return repr(used | ({"bernoulli": dataclasses.asdict(options.bernoulli)} if layer else {}))


def _save(path: Path, description: str, rbm: Rbm, rows: list[dict[str, Any]]) -> None:
    value = {
        "format": FORMAT, "options": description, "visible": rbm.visible, "rows": rows,
        **{name: getattr(rbm, name).cpu().clone() for name in PARAMETERS},
    }  # fmt: skip
    with atomic(path) as temporary:
        torch.save(value, temporary)


def _load(path: Path, description: str, device: torch.device | str) -> tuple[Rbm, list[dict[str, Any]]]:
    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path} is damaged ({str(error).splitlines()[0]}): remove it to train the layer again"
        ) from None
    if value.get("format") != FORMAT or value["options"] != description:
        raise UserError(f"{path} was made with other options: remove it and the layers above, or choose another place")
    rbm = Rbm(value["visible"], value["weight"].shape[1], value["weight"].shape[0], device)
    for name in PARAMETERS:
        getattr(rbm, name).copy_(value[name])
    return rbm, value["rows"]
