"""Verb ``pretrain``: the stack of RBMs that a network's hidden layers start from, on one worker or many."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asr_parallel import log
from asr_parallel.align.labels import Labels
from asr_parallel.config import PretrainConfig
from asr_parallel.data.frames import Batch, FeatureSet, FrameSource
from asr_parallel.data.shards import make_shards
from asr_parallel.files import write_json
from asr_parallel.heap import keep_freed_memory
from asr_parallel.parallel.comm import Comm, Stopped
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.place import Place
from asr_parallel.parallel.start import joined, start
from asr_parallel.pretrain.dbn import save_dbn
from asr_parallel.pretrain.rbm import RbmOptions
from asr_parallel.pretrain.stack import COLUMNS, StackOptions, Trainer
from asr_parallel.train.machine import machine
from asr_parallel.train.record import Table
from asr_parallel.train.settings import plain

LOG = log.logger(__name__)


@dataclass(frozen=True)
class Shard:
    """The first ``num_batches`` minibatches of each epoch of a source: what every worker can afford."""

    source: FrameSource
    num_batches: int

    def epoch(self, epoch: int) -> Iterator[Batch]:
        return itertools.islice(self.source.epoch(epoch), self.num_batches)


def run(config: PretrainConfig) -> int:
    """Pretrain; give 0, or 143 when asked to stop (finished layers are kept).  Raises ``UserError``."""
    code = start(config, work, "asr_parallel.pretrain")
    if code == STOPPED:
        LOG.warning("stopped as asked; the same command goes on with the layer that was under way")
    return code


def work(config: PretrainConfig, place: Place) -> int:
    """Be one worker."""
    keep_freed_memory()
    with joined(config, place) as (comm, device):
        begin = time.perf_counter()
        finished = _make_way(config, comm)
        frames, identity = open_frames(config, comm)
        held_out = held_out_frames(config)
        trainer = Trainer(frames, options(config), config.out, held_out, comm, device, identity, replace=finished)
        if comm.rank == 0:
            _say(config, trainer)
        try:
            stack = trainer.train()
        except Stopped:
            return STOPPED
        if comm.rank == 0:
            save_dbn(config.out / "dbn.pt", stack, config.features, config.context)
            _summarise(config, trainer, time.perf_counter() - begin, device)
    return 0


def options(config: PretrainConfig) -> StackOptions:
    """The stack that ``config`` describes."""
    common: dict[str, Any] = {name: getattr(config, name) for name in ("l2", "momentum", "stddev")}
    common["k"] = config.cd_steps
    return StackOptions(
        layers=config.layers,
        width=config.width,
        gaussian=RbmOptions(lr=config.gaussian_lr, epochs=config.gaussian_epochs, **common),
        bernoulli=RbmOptions(lr=config.lr, epochs=config.epochs, **common),
        average_every=config.average_every,
        lr_scale=config.lr_scale,
        seed=config.seed,
    )


def open_frames(config: PretrainConfig, comm: Comm) -> tuple[Shard, dict[str, Any]]:
    """This worker's share of the training set, and what tells these data from others."""
    features = FeatureSet.open(config.data, config.train, config.features)
    lengths = {utt: features.num_frames(utt) for utt in features.utts}
    source = _source(config, features, make_shards(lengths, comm.size)[comm.rank], config.batch)
    counts = torch.zeros(comm.size, dtype=torch.int64)
    counts[comm.rank] = source.num_batches
    counts = comm.sum(counts)
    if int(counts.min()) < 1:
        raise log.UserError(
            f"rank {int(counts.argmin())} has fewer frames than a minibatch of {config.batch}: "
            "give fewer --workers or a smaller --batch"
        )
    minibatches = int(counts.min())
    if config.epoch_frames:
        minibatches = max(1, min(minibatches, config.epoch_frames // (config.batch * comm.size)))
    identity = {name: getattr(config, name) for name in ("features", "context", "batch", "train", "epoch_frames")}
    identity |= {"data_utterances": len(features), "data_frames": len(features.frames)}
    identity |= {"data_sum": float(np.asarray(features.frames[:: max(1, len(features.frames) // 1000)]).sum())}
    return Shard(source, minibatches), identity


def held_out_frames(config: PretrainConfig) -> Tensor | None:
    """About ``config.held_out`` frames [M, D] from all of the dev sets, drawn at random; None if there are none."""
    if not config.held_out or not config.dev:
        return None
    found = []
    for name in config.dev:
        features = FeatureSet.open(config.data, name, config.features)
        share = min(len(features.frames), max(1, config.held_out // len(config.dev)))
        found.append(next(_source(config, features, features.utts, share).epoch(0)).x)
    return torch.cat(found)


def _source(config: PretrainConfig, features: FeatureSet, utts: list[str], batch: int) -> FrameSource:
    """Frames whose labels are all 0: one number, as often as it is asked for."""
    nothing = np.broadcast_to(np.int32(0), len(features.frames))
    labels = Labels(features.utts, features.offsets, nothing)
    return FrameSource(features, labels, utts, config.context, batch, config.seed)


def _make_way(config: PretrainConfig, comm: Comm) -> bool:
    """Remove what no longer holds; tell whether an earlier run had ended, whose layers may be replaced."""
    summary = config.out / "pretrain.json"
    finished = summary.exists()
    comm.meet()  # all have looked before anything is removed
    if comm.rank == 0:
        layers = sorted(config.out.glob("rbm_*.pt")) if config.force else []
        for path in (summary, config.out / "dbn.pt", *layers):
            path.unlink(missing_ok=True)
    comm.meet()
    return finished


def _say(config: PretrainConfig, trainer: Trainer) -> None:
    size, batches = trainer.comm.size, trainer.frames.num_batches
    frames = config.batch * size * batches
    LOG.info("workers %d, %s, %d minibatches of %d an epoch each", size, trainer.device, batches, config.batch)
    for what, o in (("first RBM", trainer.options.gaussian), ("others", trainer.options.bernoulli)):
        ramp = f"momentum {config.momentum}, ramp at {o.ramp(frames * o.epochs):.3f} in the end"
        LOG.info("%s: lr %g (%s), %d epochs, CD-%d, %s", what, o.lr, config.lr_scale, o.epochs, o.k, ramp)


def _summarise(config: PretrainConfig, trainer: Trainer, seconds: float, device: torch.device) -> None:
    """Write ``pretrain.json``: configuration, cost, last row of each layer.  Drop rows of layers not asked for."""
    table = Table(config.out / "rbm.tsv", COLUMNS)
    table.load(lambda row: int(row["layer"]) < config.layers)
    table.add([])
    rows = [dict(zip(COLUMNS, row)) for row in table.rows]
    last = {int(row["layer"]): row for row in rows}
    spent = sum(float(row["seconds"]) for row in last.values())
    frames = sum(int(row["frames"]) for row in last.values())
    summary: dict[str, Any] = {"seconds": round(seconds, 1), "layer_seconds": round(spent, 1), "trained_frames": frames}
    summary |= {"frames_per_s": round(frames / spent) if spent else 0, "workers": trainer.comm.size}
    summary |= {"layers": [{k: float(row[k]) for k in ("error", "gap", "rescues", "dead")} for row in last.values()]}
    summary |= {"config": plain(dataclasses.replace(config, force=False)), "machine": machine(device)}
    write_json(config.out / "pretrain.json", summary)
    LOG.info("done: %s, %s, %d frames/s", config.out / "dbn.pt", log.duration(seconds), summary["frames_per_s"])
