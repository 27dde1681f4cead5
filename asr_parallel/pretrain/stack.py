"""A stack of RBMs, trained greedily from the bottom, on one worker or by model averaging on many."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from asr_parallel.log import Progress, UserError, logger
from asr_parallel.parallel.comm import Comm, SoloComm, Stopped
from asr_parallel.parallel.strategy import rate_scale
from asr_parallel.pretrain.dbn import check_normalised
from asr_parallel.pretrain.rbm import ContrastiveDivergence, Rbm, RbmOptions
from asr_parallel.tensors import load_tensors, save_tensors
from asr_parallel.train.record import Table

LOG = logger(__name__)
FORMAT = 2  # of rbm_N.pt
PARAMETERS = ("weight", "visible_bias", "hidden_bias")
COLUMNS = [
    "layer", "epoch", "frames", "seconds", "error", "energy_train", "energy_held_out", "gap", "lr", "momentum",
    "rescues", "dead",
]  # fmt: skip
STILL = 0.01  # a hidden unit whose activation has a smaller standard deviation than this is dead
MOST_DEAD = 0.2  # share of dead units from which on there is a warning


class Frames(Protocol):
    """This worker's frames: ``epoch`` yields ``num_batches`` minibatches with ``x`` [N, D], which epochs shuffle.

    All workers have the same ``num_batches``.
    """

    @property
    def num_batches(self) -> int: ...

    def epoch(self, epoch: int, /) -> Iterator[Any]: ...


@dataclass(frozen=True)
class StackOptions:
    """The stack; the defaults are those of Kaldi's ``pretrain_dbn.sh``."""

    layers: int = 6
    width: int = 2048
    gaussian: RbmOptions = field(default_factory=lambda: RbmOptions(lr=0.01, epochs=2))
    bernoulli: RbmOptions = field(default_factory=RbmOptions)
    statistics_frames: int = 100_000  # first frames that give means and variances
    average_every: int = 100  # minibatches between two averages (100 of 100: Kaldi-SU's 10000 frames)
    lr_scale: Literal["workers", "sqrt", "none"] = "workers"  # K workers take 1/K of the steps each
    seed: int = 0


@dataclass
class Trainer:
    """What the layers of a stack are trained with.  ``identity`` tells the data, in values that JSON knows."""

    frames: Frames
    options: StackOptions
    out: Path
    held_out: Tensor | None = None  # [M, D]
    comm: Comm = field(default_factory=SoloComm)
    device: torch.device | str = "cpu"
    identity: dict[str, Any] = field(default_factory=dict)
    replace: bool = False  # layers of other options are trained anew, not refused

    def train(self) -> list[Rbm]:
        """Train ``options.layers`` RBMs, each on the hidden probabilities of those below; give them from the bottom.

        Each finished layer is kept in ``out/rbm_N.pt`` and taken from there in a rerun with the same options and
        data, which therefore ends where an undisturbed run does.  ``out/rbm.tsv`` has a row an epoch.  Rank 0
        writes.  Raises ``Stopped`` when asked to stop, ``UserError`` when training diverges or a file is refused.
        """
        stack: list[Rbm] = []
        table = Table(self.out / "rbm.tsv", COLUMNS)
        for layer in range(self.options.layers):
            rbm = self._found(layer)
            if rbm is None:
                if self.comm.rank == 0:
                    table.load(lambda row, layer=layer: int(row["layer"]) < layer)  # type: ignore[misc]
                rbm = self._layer(stack, table)
                if self.comm.rank == 0:
                    _save(self.out / f"rbm_{layer}.pt", self._describe(layer), rbm)
            stack.append(rbm)
        return stack

    def _found(self, layer: int) -> Rbm | None:
        """Layer ``layer`` from an earlier run; None if there is none.  All workers must find the same."""
        path = self.out / f"rbm_{layer}.pt"
        rbm = _load(path, self._describe(layer), self.device, self.replace) if path.exists() else None
        have = int(self.comm.sum(torch.tensor([int(rbm is not None)])))
        if have not in (0, self.comm.size):
            raise UserError(f"only {have} of {self.comm.size} workers find {path}: all need the same folder")
        return rbm

    def _layer(self, below: list[Rbm], table: Table) -> Rbm:
        o, layer, comm = self.options, len(below), self.comm
        single = o.bernoulli if below else o.gaussian
        single = dataclasses.replace(single, lr=single.lr * rate_scale(o.lr_scale, comm.size))
        mean, variance, sample = self._statistics(below)
        if not below:
            check_normalised(mean, variance, "the first RBM")
        rbm = Rbm("bernoulli" if below else "gaussian", len(mean), o.width, self.device)
        rbm.initialise(self._generator(layer, 0, 0), single.stddev, mean)
        name = f"RBM {layer} of {o.layers}"
        trainer = ContrastiveDivergence(rbm, single, self._generator(layer, 1, comm.rank), name, comm.size)
        held = None if self.held_out is None else propagate(below, self.held_out.to(self.device, torch.float32))
        bar = Progress(name, single.epochs * self.frames.num_batches, "minibatches")
        begin = time.perf_counter()
        for epoch in range(single.epochs):
            errors = self._epoch(trainer, self._inputs(below, epoch), bar)
            _check_progress(name, errors, float(variance.mean()))
            rescues = int(comm.sum(torch.tensor([trainer.rescues])))
            row = {"layer": layer, "epoch": epoch + 1, "seconds": round(time.perf_counter() - begin, 1)}
            row |= _row(trainer, errors, sample, held) | {"rescues": rescues}
            _tell(name, row)
            if comm.rank == 0:
                table.add([[str(row[c]) for c in COLUMNS]])
        bar.close()
        return rbm

    def _epoch(self, trainer: ContrastiveDivergence, inputs: Iterator[Tensor], bar: Progress) -> list[float]:
        """Train on all minibatches; give the reconstruction error of each, the mean over workers."""
        errors, last = [], self.frames.num_batches
        for i, v in enumerate(inputs, 1):
            errors.append(trainer.step(v))
            if i % self.options.average_every == 0 or i == last:
                self._average(trainer.rbm.flat)
            if self.comm.stopping:
                raise Stopped
            bar.add()
        return (self.comm.sum(torch.tensor(errors, dtype=torch.float64)) / self.comm.size).tolist()

    def _average(self, flat: Tensor) -> None:
        """Replace ``flat`` by its mean over workers; momentum stays local."""
        self.comm.meet()
        mean = flat.clone()
        self.comm.all_reduce_mean(mean)
        flat.copy_(mean)

    def _inputs(self, below: list[Rbm], epoch: int) -> Iterator[Tensor]:
        for batch in self.frames.epoch(epoch):
            yield propagate(below, batch.x.to(self.device, torch.float32))

    def _statistics(self, below: list[Rbm]) -> tuple[Tensor, Tensor, Tensor]:
        """Mean [D] and variance [D] of the first frames of all workers, and some of those of this one."""
        count, kept = 0, []
        keep = 1000 if self.held_out is None else len(self.held_out)
        sums: Tensor | None = None
        for x in self._inputs(below, 0):
            if count < keep:
                kept.append(x[: keep - count].clone())
            moments = torch.stack([x.sum(0, dtype=torch.float64), x.square().sum(0, dtype=torch.float64)])
            sums = moments if sums is None else sums + moments
            count += len(x)
            if count * self.comm.size >= self.options.statistics_frames:
                break
        if sums is None:
            raise UserError("there is no frame to pretrain on: the training set is smaller than one minibatch")
        mean, square = self.comm.sum(sums.cpu()).to(self.device) / (count * self.comm.size)
        return mean.float(), (square - mean**2).float(), torch.cat(kept)

    def _generator(self, *key: int) -> torch.Generator:
        seed = np.random.SeedSequence((self.options.seed, *key)).generate_state(1, np.uint32)[0]
        return torch.Generator(self.device).manual_seed(int(seed))

    def _describe(self, layer: int) -> str:
        """What a layer depends on: the data, its options and those of the layers below."""
        used = dataclasses.asdict(self.options) | {"layer": layer, "workers": self.comm.size}
        del used["layers"]
        if not layer:
            del used["bernoulli"]
        return json.dumps(used | self.identity, sort_keys=True)


def propagate(stack: Sequence[Rbm], x: Tensor) -> Tensor:
    """Hidden probabilities of the top of ``stack`` for x [N, D]."""
    for i, rbm in enumerate(stack):
        if x.shape[1] != rbm.num_visible:
            raise UserError(
                f"RBM {i} takes {rbm.num_visible} values, got {x.shape[1]}: pretrain anew with these features"
            )
        x = rbm.hidden_probs(x)
    return x


def _tell(name: str, row: dict[str, Any]) -> None:
    LOG.info("%s, epoch %d: %s", name, row["epoch"], {k: row[k] for k in ("error", "gap", "rescues", "dead")})
    if row["dead"] > MOST_DEAD:
        LOG.warning("%s: %.0f %% of its hidden units hardly vary; lower its learning rate", name, 100 * row["dead"])


def _row(trainer: ContrastiveDivergence, errors: list[float], sample: Tensor, held: Tensor | None) -> dict[str, Any]:
    rbm, o = trainer.rbm, trainer.options
    train = float(rbm.free_energy(sample).mean())
    test = float("nan") if held is None else float(rbm.free_energy(held).mean())
    ramp = o.ramp(trainer.frames)
    momentum = o.momentum_last if o.momentum == "kaldi" else ramp
    dead = float((rbm.hidden_probs(sample).std(0) < STILL).float().mean())
    return {
        "frames": trainer.frames, "error": round(float(np.mean(errors)), 6), "energy_train": round(train, 4),
        "energy_held_out": round(test, 4), "gap": round(test - train, 4), "lr": round(o.lr * (1 - ramp), 8),
        "momentum": round(momentum, 4), "dead": round(dead, 4),
    }  # fmt: skip


def _check_progress(name: str, errors: list[float], variance: float) -> None:
    """Sigmoid units saturate instead of becoming infinite: then reconstructions get worse than any constant."""
    part = max(1, len(errors) // 10)
    first, last = float(np.mean(errors[:part])), float(np.mean(errors[-part:]))
    if last > first and last > 2 * variance:
        raise UserError(
            f"{name} diverges: its reconstruction error went from {first:.4g} to {last:.4g}, where the mean of "
            f"the data would have {variance:.4g}; lower its learning rate"
        )


def _save(path: Path, description: str, rbm: Rbm) -> None:
    parameters = {name: getattr(rbm, name).cpu().clone() for name in PARAMETERS}
    save_tensors(path, {"format": FORMAT, "options": description, "visible": rbm.visible, **parameters})


def _load(path: Path, description: str, device: torch.device | str, replace: bool) -> Rbm | None:
    value = load_tensors(path, (FORMAT,), "remove it to train the layer again")
    if value["options"] != description:
        if replace:
            return None
        before, now = json.loads(value["options"]), json.loads(description)
        changed = [
            f"{k}: {before.get(k)} -> {now.get(k)}" for k in sorted({*before, *now}) if before.get(k) != now.get(k)
        ]
        raise UserError(
            f"{path} was made with other options or data ({'; '.join(changed[:4])}): give those options to go on, "
            "--force to begin anew, or another --out"
        )
    rbm = Rbm(value["visible"], value["weight"].shape[1], value["weight"].shape[0], device)
    for name in PARAMETERS:
        getattr(rbm, name).copy_(value[name])
    return rbm
