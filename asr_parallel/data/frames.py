"""Minibatches of spliced, normalised frames with their labels, in an order that is drawn anew each epoch.

Nothing of the corpus is copied or kept: a batch is gathered by index from the memory-mapped store, or, with
``shuffle blocks``, from the block of utterances that is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from asr_parallel.align.labels import Labels
from asr_parallel.config import FramesConfig
from asr_parallel.data.ahead import made_ahead
from asr_parallel.data.block_cache import BlockCache
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.mapped import MappedFrames
from asr_parallel.data.matching import check, matched
from asr_parallel.data.order import BlockOrder, FullOrder
from asr_parallel.data.specaugment import SpecAugment
from asr_parallel.data.transforms import deltas, splice
from asr_parallel.log import UserError

__all__ = ["Batch", "FeatureSet", "FrameSource", "deltas", "splice"]

BLOCK = 128  # rows gathered and normalised at once, while they are in the cache


@dataclass
class Batch:
    """``x`` float32 [B, D * (2 * context + 1)], ``y`` int64 [B]."""

    x: torch.Tensor
    y: torch.Tensor

    def __len__(self) -> int:
        return len(self.y)


class FrameSource:
    """The frames of ``utts`` with their labels.

    Utterances whose labels are a frame or two longer or shorter than their features are cut to the shorter
    (``num_cut`` counts them); others, and those without features or labels, are left out and listed in ``bad`` with
    the reason.  Raises ``UserError`` if these are more than ``max_bad`` of all.  ``options`` say how epochs are drawn;
    ``prefetch`` is for ``epoch``.  With ``pin`` batches are made in page-locked memory, from which a GPU can
    fetch them while the processor goes on.
    """

    def __init__(
        self,
        features: FeatureSet,
        labels: Labels,
        utts: Sequence[str],
        context: int,
        batch: int,
        seed: int,
        max_bad: float = 0.05,
        options: FramesConfig | None = None,
        prefetch: int = 0,
        pin: bool = False,
    ):
        self.context, self.batch, self.seed, self.prefetch, self.pin = context, batch, seed, prefetch, pin
        self.options = options or FramesConfig()
        self.dim = features.dim * (2 * context + 1)
        if self.options.cache_frames < 1:
            raise UserError(f"--frames.cache_frames {self.options.cache_frames}: give 1 or more, such as 250000")
        self._mask = SpecAugment(self.options, features.dim, 2 * context + 1, features.kind, seed)
        self.utts, self.bad, self.num_cut = matched(features, labels, utts)
        check(features, labels, self.utts, self.bad, len(utts), max_bad)

        place = np.array([features.row_of[u] for u in self.utts])
        begin = np.array([labels.span(u)[0] for u in self.utts])
        labelled = np.array([len(labels[u]) for u in self.utts])
        self._first, self._end = features.offsets[place], features.offsets[place + 1]
        self._speaker = features.speaker_of[place]
        # frame g of this source belongs to the utterance i with _start[i] <= g < _start[i + 1]
        self._start = np.concatenate([[0], np.cumsum(np.minimum(self._end - self._first, labelled))])
        self._label_shift = begin - self._start[:-1]
        self._store, self._pdfs = MappedFrames(features.frames), labels.pdfs
        self._mean, self._scale = features.mean, 1.0 / features.std
        self._tiled_mean, self._tiled_scale = (np.tile(m, 2 * context + 1) for m in (self._mean, self._scale))

    @property
    def num_frames(self) -> int:
        """Frames of an epoch, before the last smaller batch is dropped."""
        return int(self._start[-1])

    @property
    def num_batches(self) -> int:
        """Batches of an epoch."""
        return self.num_frames // self.batch

    def epoch(self, epoch: int, start_batch: int = 0, prefetch: int | None = None) -> Iterator[Batch]:
        """The batches of ``epoch`` from ``start_batch`` on, at no cost for those before.

        The order depends on the seed and ``epoch`` alone.  Frames that do not fill a last batch are left out,
        others each epoch.  ``prefetch`` batches are prepared ahead by a thread (0: none; the source's own number
        if it is not given); it pays where the step leaves a core free.
        """
        cache = BlockCache(self._store, self._first, self._end) if self.options.shuffle == "blocks" else None
        order: FullOrder | BlockOrder = FullOrder(self.num_frames, self.seed, epoch)
        if cache:
            order = BlockOrder(self._start, self.options.cache_frames, self.seed, epoch)

        def make(i: int) -> Batch:
            parts = []
            for block, index in order.parts(i * self.batch, (i + 1) * self.batch):
                if cache and isinstance(order, BlockOrder) and block != cache.block:
                    utts = order.utts(block)
                    cache.hold(block, utts, self._mean[self._speaker[utts]], self._scale[self._speaker[utts]])
                parts.append(self.gather(index, cache))
                self._mask(parts[-1].x.numpy(), index, epoch)
            return _joined(parts)

        return made_ahead(make, range(start_batch, self.num_batches), self.prefetch if prefetch is None else prefetch)

    def chunks(self, size: int = 8192, prefetch: int = 0) -> Iterator[Batch]:
        """All frames, in the order of ``utts``, in batches of ``size``; the last one may be smaller."""

        def make(i: int) -> Batch:
            return self.gather(np.arange(i, min(i + size, self.num_frames)))

        return made_ahead(make, range(0, self.num_frames, size), prefetch)

    def gather(self, index: np.ndarray, cache: BlockCache | None = None) -> Batch:
        """The frames at ``index`` (int64 [B]) of this source, in that order; out of ``cache`` if it is given."""
        i = np.searchsorted(self._start, index, side="right") - 1
        y = self._pdfs[index + self._label_shift[i]].astype(np.int64)
        row = self._first[i] + index - self._start[i]
        rows = row[:, None] + np.arange(-self.context, self.context + 1)
        np.maximum(rows, self._first[i][:, None], out=rows)  # beyond the edges the first and last frame repeat
        np.minimum(rows, self._end[i][:, None] - 1, out=rows)
        x = torch.empty((len(index), self.dim), dtype=torch.float32, pin_memory=self.pin)
        if cache:
            rows += cache.shift[i][:, None]
            np.take(cache.frames, rows, axis=0, mode="clip", out=x.numpy().reshape(*rows.shape, -1))
        else:
            self._normalised(rows, self._speaker[i], x.numpy())
        return Batch(x, torch.from_numpy(y))

    def _normalised(self, rows: np.ndarray, speaker: np.ndarray, out: np.ndarray) -> None:
        """Fill ``out`` [B, dim] with the ``rows`` [B, window] of the store, normalised for ``speaker`` [B]."""
        for begin in range(0, len(rows), BLOCK):
            b = slice(begin, begin + BLOCK)
            raw = np.take(self._store.frames, rows[b], axis=0, mode="clip").reshape(-1, self.dim)
            np.subtract(raw, self._tiled_mean[speaker[b]], out=out[b])
            out[b] *= self._tiled_scale[speaker[b]]
        self._store.release(len(rows))


def _joined(parts: list[Batch]) -> Batch:
    """One batch of several; a single one is left as it is."""
    if len(parts) == 1:
        return parts[0]
    x, y = torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts])
    return Batch(x.pin_memory() if parts[0].x.is_pinned() else x, y)
