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
from asr_parallel.train.ctc import UtteranceLabels
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


class FrameLabels:
    """Frames with a label each, as ``align`` leaves them; ``counts`` [num_pdfs] are of the whole training set."""

    def __init__(self, config: TrainConfig):
        self.config, self.counts = config, load_counts(config.ali / "priors.npz")
        self._labels: dict[str, Labels] = {}

    def open(self, name: str, batch: int, utts: list[str] | None = None, prefetch: int = 0) -> FrameSource:
        """The frames of set ``name``; all utterances that have features and labels, unless ``utts`` are given."""
        c, features = self.config, FeatureSet.open(self.config.data, name, self.config.features)
        labels = self._labels[name] = Labels.load(c.ali / f"ali_{name}.npz")
        labels.counts(len(self.counts))  # raises if a label is beyond the network's outputs
        chosen = features.utts if utts is None else utts
        pin = c.device != "cpu" and torch.cuda.is_available()
        return FrameSource(
            *(features, labels, chosen, c.model.context, batch, c.seed), options=c.frames, prefetch=prefetch, pin=pin
        )

    def lengths(self, name: str) -> dict[str, int]:
        """Labels of each utterance."""
        return {utt: len(self._labels[name][utt]) for utt in self._labels[name].utts}

    def checksum(self, name: str) -> int:
        """Changes when the labels do."""
        return zlib.crc32(np.ascontiguousarray(self._labels[name].pdfs).tobytes())


def open_corpus(config: TrainConfig, comm: Comm) -> Corpus:
    """Open features and labels, deal the utterances to the workers, agree on the length of an epoch."""
    labels = UtteranceLabels(config) if config.criterion == "ctc" else FrameLabels(config)
    whole = labels.open(config.train, config.batch)
    every = labels.lengths(config.train)
    shard = make_shards({utt: every[utt] for utt in whole.utts}, comm.size)[comm.rank]
    frames = labels.open(config.train, config.batch, shard, config.prefetch)
    shards = torch.zeros(comm.size, dtype=torch.int64)
    shards[comm.rank] = frames.num_frames
    shards = comm.sum(shards)
    minibatches = int(shards.min()) // config.batch
    if minibatches < 1:
        raise UserError(
            f"rank {int(shards.argmin())} has {int(shards.min())} frames, fewer than a minibatch of {config.batch}: "
            "give fewer --workers or a smaller --batch"
        )
    dev = [DevSet(name, Chunks(labels.open(name, DEV_BATCH))) for name in config.dev]
    identity = {"utterances": len(whole.utts), "frames": whole.num_frames, "num_pdfs": len(labels.counts)}
    identity["labels"] = labels.checksum(config.train)
    return Corpus(frames, shards.tolist(), minibatches, dev, labels.counts, identity)


def load_counts(path: Path) -> np.ndarray:
    """Training frames of each pdf, int64 [num_pdfs], from ``priors.npz``.  Raises ``UserError``."""
    try:
        with np.load(path, allow_pickle=False) as npz:
            return npz["counts"].astype(np.int64)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run `align` first") from None
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged ({error}): run `align` again") from None
