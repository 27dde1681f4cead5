"""Minibatches of spliced, normalised frames with their labels, in an order that is drawn anew each epoch.

Nothing of the corpus is copied or kept: a batch is gathered by index from the memory-mapped store.
"""

from __future__ import annotations

import mmap
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from asr_parallel.align.labels import Labels
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.permutation import Permutation
from asr_parallel.data.transforms import deltas, splice
from asr_parallel.log import UserError, logger

__all__ = ["Batch", "FeatureSet", "FrameSource", "deltas", "splice"]

log = logger(__name__)

TOLERANCE = 2  # frames that labels may be longer or shorter than features
BLOCK = 128  # rows gathered and normalised at once, while they are in the cache
RELEASE_BYTES = 1 << 29  # from a store that is bigger,
RELEASE_FRAMES = 8192  # let go of mapped pages after so many frames


@dataclass
class Batch:
    """``x`` float32 [B, D * (2 * context + 1)], ``y`` int64 [B]."""

    x: torch.Tensor
    y: torch.Tensor

    def __len__(self) -> int:
        return len(self.y)


class FrameSource:
    """The frames of ``utts`` with their labels.

    Utterances whose labels are up to ``TOLERANCE`` frames longer or shorter than their features are cut to
    the shorter (``num_cut`` counts them); others, and those without features or labels, are left out and
    listed in ``bad`` with the reason.  Raises ``UserError`` if these are more than ``max_bad`` of all.
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
    ):
        self.context, self.batch, self.seed = context, batch, seed
        self.dim = features.dim * (2 * context + 1)
        self.utts, self.bad, self.num_cut = _matched(features, labels, utts)
        _check(features, labels, self.utts, self.bad, len(utts), max_bad)

        place = np.array([features.row_of[u] for u in self.utts])
        begin = np.array([labels.span(u)[0] for u in self.utts])
        labelled = np.array([len(labels[u]) for u in self.utts])
        self._first, self._end = features.offsets[place], features.offsets[place + 1]
        self._speaker = features.speaker_of[place]
        # frame g of this source belongs to the utterance i with _start[i] <= g < _start[i + 1]
        self._start = np.concatenate([[0], np.cumsum(np.minimum(self._end - self._first, labelled))])
        self._label_shift = begin - self._start[:-1]
        self._frames, self._pdfs = features.frames, labels.pdfs
        self._mean = np.tile(features.mean, 2 * context + 1)
        self._scale = np.tile(1.0 / features.std, 2 * context + 1)
        self._since_release = 0
        mapped = getattr(features.frames, "_mmap", None)
        self._big_map: mmap.mmap | None = mapped if features.frames.nbytes > RELEASE_BYTES else None
        if self._big_map is not None:  # reading ahead of a frame drawn at random costs 100 times the frame
            self._big_map.madvise(mmap.MADV_RANDOM)

    @property
    def num_frames(self) -> int:
        """Frames of an epoch, before the last smaller batch is dropped."""
        return int(self._start[-1])

    @property
    def num_batches(self) -> int:
        """Batches of an epoch."""
        return self.num_frames // self.batch

    def epoch(self, epoch: int, start_batch: int = 0, prefetch: int = 0) -> Iterator[Batch]:
        """The batches of ``epoch`` from ``start_batch`` on, at no cost for those before.

        The order depends on the seed and ``epoch`` alone.  Frames that do not fill a last batch are left out,
        others each epoch.  ``prefetch`` batches are prepared ahead by a thread (0: none); it pays where the
        step leaves a core free.
        """
        order = Permutation(self.num_frames, self.seed, epoch)

        def make(i: int) -> Batch:
            return self.gather(order(np.arange(i * self.batch, (i + 1) * self.batch)))

        return _batches(make, range(start_batch, self.num_batches), prefetch)

    def chunks(self, size: int = 8192, prefetch: int = 0) -> Iterator[Batch]:
        """All frames, in the order of ``utts``, in batches of ``size``; the last one may be smaller."""

        def make(i: int) -> Batch:
            return self.gather(np.arange(i, min(i + size, self.num_frames)))

        return _batches(make, range(0, self.num_frames, size), prefetch)

    def gather(self, index: np.ndarray) -> Batch:
        """The frames at ``index`` (int64 [B]) of this source, in that order."""
        i = np.searchsorted(self._start, index, side="right") - 1
        y = self._pdfs[index + self._label_shift[i]].astype(np.int64)
        row = self._first[i] + index - self._start[i]
        rows = row[:, None] + np.arange(-self.context, self.context + 1)
        np.maximum(rows, self._first[i][:, None], out=rows)  # beyond the edges the first and last frame repeat
        np.minimum(rows, self._end[i][:, None] - 1, out=rows)
        speaker = self._speaker[i]
        x = np.empty((len(index), self.dim), np.float32)
        for begin in range(0, len(index), BLOCK):
            b = slice(begin, begin + BLOCK)
            raw = np.take(self._frames, rows[b], axis=0, mode="clip").reshape(-1, self.dim)
            np.subtract(raw, self._mean[speaker[b]], out=x[b])
            x[b] *= self._scale[speaker[b]]
        self._release(len(index))
        return Batch(torch.from_numpy(x), torch.from_numpy(y))

    def _release(self, count: int) -> None:
        """Unmap pages of a big store now and then: the kernel keeps what is worth keeping, our share stays small."""
        self._since_release += count
        if self._big_map is not None and self._since_release >= RELEASE_FRAMES:
            self._since_release = 0
            self._big_map.madvise(mmap.MADV_DONTNEED)


def _matched(features: FeatureSet, labels: Labels, utts: Sequence[str]) -> tuple[list[str], dict[str, str], int]:
    """Utterances that can be used, reasons against the others, number of those with labels a little off."""
    good, bad, cut = [], {}, 0
    for utt in utts:
        if utt not in features:
            bad[utt] = "no features"
        elif utt not in labels:
            bad[utt] = "no labels"
        else:
            have, want = features.num_frames(utt), len(labels[utt])
            if abs(have - want) > TOLERANCE or min(have, want) == 0:
                bad[utt] = f"{have} frames but {want} labels"
            else:
                good.append(utt)
                cut += have != want
    return good, bad, cut


def _check(
    features: FeatureSet, labels: Labels, good: list[str], bad: dict[str, str], total: int, max_bad: float
) -> None:
    """Warn of bad utterances; raise ``UserError`` if they are too many, and say what it looks like."""
    if total == 0:
        raise UserError(f"no utterances of {features.name} to train on or validate with")
    if not bad:
        return
    utt, reason = next(iter(bad.items()))
    text = f"{len(bad)} of {total} utterances of {features.name} cannot be used (first: {utt}: {reason})"
    if good and len(bad) <= max_bad * total:
        log.warning("%s", text)
        return
    both = [u for u in bad if u in features and u in labels and len(labels[u])]
    ratio = float(np.median([features.num_frames(u) / len(labels[u]) for u in both])) if both else 1.0
    if not 0.8 < ratio < 1.25:
        text += f". Features are {ratio:.2g} x as long as labels: the frame shifts differ"
    raise UserError(f"{text}. Make features and labels from the same manifests: run `features` and `align` again")


def _batches(make: Callable[[int], Batch], numbers: Sequence[int], prefetch: int) -> Iterator[Batch]:
    """``make(i)`` for each of ``numbers``, made ahead by a thread if ``prefetch``.

    An error in the thread is raised here; the thread ends when this iterator is closed.
    """
    if prefetch <= 0:
        yield from map(make, numbers)
        return
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(prefetch)
    closed = threading.Event()

    def put(item: Batch | BaseException | None) -> bool:
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for i in numbers:
                if not put(make(i)):
                    return
            put(None)
        except BaseException as e:
            put(e)

    threading.Thread(target=work, name="frames", daemon=True).start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
