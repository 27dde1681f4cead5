"""The frames of one block of utterances, in memory."""

from __future__ import annotations

import numpy as np

from asr_parallel.data.mapped import MappedFrames


class BlockCache:
    """Utterance i owns the rows ``first[i]`` to ``end[i]`` of ``store``; x becomes (x - mean[i]) * scale[i].

    ``frames`` float32 [M, D] are the normalised frames of the utterances that are held; row r of the store, if it
    is of utterance i, is row ``r + shift[i]`` of ``frames``.
    """

    def __init__(self, store: MappedFrames, first: np.ndarray, end: np.ndarray):
        self._store, self._first, self._end = store, first, end
        self.block = -1
        self.shift = np.zeros(len(first), np.int64)
        self.frames = np.empty((0, store.frames.shape[1]), np.float32)

    def hold(self, block: int, utts: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> None:
        """Read ``utts`` (int64 [n]), each as a whole and in the order of the store, in place of what was held before.

        ``mean`` and ``scale`` [n, D] are theirs.
        """
        order = np.argsort(self._first[utts])
        utts, mean, scale = utts[order], mean[order], scale[order]
        first, end = self._first[utts], self._end[utts]
        place = np.concatenate([[0], np.cumsum(end - first)])
        if len(self.frames) < place[-1]:
            self.frames = self.frames[:0]  # gives its memory back before more is taken
            self.frames = np.empty((int(place[-1]), self.frames.shape[1]), np.float32)
        for a, b in zip(first.tolist(), end.tolist()):
            self._store.expect(a, b)
        for i, (a, b) in enumerate(zip(first.tolist(), end.tolist())):
            mine = self.frames[place[i] : place[i + 1]]
            np.subtract(self._store.frames[a:b], mean[i], out=mine)
            mine *= scale[i]
            self._store.release(b - a)
        self.shift[utts] = place[:-1] - first
        self.block = block
