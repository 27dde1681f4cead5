"""The frames that a worker trains on, and those that all validate on."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from asr_parallel.align.labels import Labels
from asr_parallel.config import TrainConfig
from asr_parallel.data.frames import Batch, FeatureSet, FrameSource
from asr_parallel.data.shards import make_shards
from asr_parallel.log import UserError
from asr_parallel.parallel.comm import Comm
from asr_parallel.train.worker import DevSet

DEV_BATCH = 2048  # frames


@dataclass(frozen=True)
class Chunks:
    """All frames of a source, again each time it is iterated."""

    source: FrameSource

    def __iter__(self) -> Iterator[Batch]:
        return self.source.chunks(DEV_BATCH)


@dataclass(frozen=True)
class Corpus:
    """``frames`` are this worker's; ``shards`` are the numbers of frames of all.  ``counts`` [num_pdfs] are of
    the whole training set.  ``identity`` changes when the data do."""

    frames: FrameSource
    shards: list[int]
    minibatches: int
    dev: list[DevSet]
    counts: np.ndarray
    identity: dict[str, Any]


def open_corpus(config: TrainConfig, comm: Comm) -> Corpus:
    """Open features and labels, deal the utterances to the workers, agree on the length of an epoch."""
    whole, labels = _source(config, config.train, config.batch)
    lengths = {utt: len(labels[utt]) for utt in whole.utts}
    shard = make_shards(lengths, comm.size)[comm.rank]
    frames, _ = _source(config, config.train, config.batch, shard, config.prefetch)
    shards = torch.zeros(comm.size, dtype=torch.int64)
    shards[comm.rank] = frames.num_frames
    shards = comm.sum(shards)
    minibatches = int(shards.min()) // config.batch
    if minibatches < 1:
        raise UserError(
            f"rank {int(shards.argmin())} has {int(shards.min())} frames, fewer than a minibatch of {config.batch}: "
            "give fewer --workers or a smaller --batch"
        )
    counts = load_counts(config.ali / "priors.npz")
    sources = {name: _source(config, name, DEV_BATCH) for name in config.dev}
    for each in (labels, *(labels for _, labels in sources.values())):
        each.counts(len(counts))  # raises if a label is beyond the network's outputs
    identity = {"utterances": len(whole.utts), "frames": whole.num_frames, "num_pdfs": len(counts)}
    identity["labels"] = zlib.crc32(np.ascontiguousarray(labels.pdfs).tobytes())
    dev = [DevSet(name, Chunks(source)) for name, (source, _) in sources.items()]
    return Corpus(frames, shards.tolist(), minibatches, dev, counts, identity)


def _source(
    config: TrainConfig, name: str, batch: int, utts: list[str] | None = None, prefetch: int = 0
) -> tuple[FrameSource, Labels]:
    """The frames of set ``name``; all utterances that have features and labels, unless ``utts`` are given."""
    features = FeatureSet.open(config.data, name, config.features)
    labels = Labels.load(config.ali / f"ali_{name}.npz")
    chosen = features.utts if utts is None else utts
    pin = config.device != "cpu" and torch.cuda.is_available()
    source = FrameSource(
        *(features, labels, chosen, config.model.context, batch, config.seed),
        options=config.frames,
        prefetch=prefetch,
        pin=pin,
    )
    return source, labels


def load_counts(path: Path) -> np.ndarray:
    """Training frames of each pdf, int64 [num_pdfs], from ``priors.npz``.  Raises ``UserError``."""
    try:
        with np.load(path, allow_pickle=False) as npz:
            return npz["counts"].astype(np.int64)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run `align` first") from None
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged ({error}): run `align` again") from None
