"""The orders in which an epoch may visit the frames of a source: ``full`` and ``blocks``.

Both are computed from (seed, epoch), not stored, so that an epoch can begin at any minibatch.  Positions 0..N-1 are
the frames as they are visited; an index is a frame as ``FrameSource`` numbers them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asr_parallel.data.permutation import Permutation

Parts = Iterator[tuple[int, np.ndarray]]  # a block, and the indices (int64) of frames in it


class FullOrder:
    """All orders of the frames are possible; there is one block, number 0, which holds everything."""

    def __init__(self, size: int, seed: int, epoch: int):
        self._permutation = Permutation(size, seed, epoch)

    def parts(self, begin: int, end: int) -> Parts:
        """The frames at positions ``begin`` to ``end``."""
        yield 0, self._permutation(np.arange(begin, end))


class BlockOrder:
    """Utterances are shuffled and dealt, in that order, to blocks of at most ``cache_frames`` frames; then frames are
    shuffled inside each block.

    This is what Kaldi's nnet1 does with --randomizer-size on a shuffled list of utterances (nnet-randomizer.h),
    except that here utterances are drawn anew each epoch.  An utterance that is longer is a block by itself.
    ``start`` int64 [U + 1]: utterance i owns the frames ``start[i]`` to ``start[i + 1]``.
    """

    def __init__(self, start: np.ndarray, cache_frames: int, seed: int, epoch: int):
        self._seed, self._epoch = seed, epoch
        self._utts = Permutation(len(start) - 1, seed, epoch)(np.arange(len(start) - 1))
        self._begin = np.concatenate([[0], np.cumsum(np.diff(start)[self._utts])])  # positions, utterances in new order
        self._shift = start[self._utts] - self._begin[:-1]
        edges = [0]
        while edges[-1] < len(self._utts):
            fits = int(np.searchsorted(self._begin, self._begin[edges[-1]] + cache_frames, side="right")) - 1
            edges.append(max(fits, edges[-1] + 1))
        self._edges = np.array(edges)  # block b holds the utterances _edges[b] to _edges[b + 1] of the new order
        self._bounds = self._begin[self._edges]

    def utts(self, block: int) -> np.ndarray:
        """The utterances of ``block``, int64."""
        return self._utts[self._edges[block] : self._edges[block + 1]]

    def parts(self, begin: int, end: int) -> Parts:
        """The frames at positions ``begin`` to ``end``, those of one block after those of another."""
        while begin < end:
            block = int(np.searchsorted(self._bounds, begin, side="right")) - 1
            low, high = int(self._bounds[block]), int(self._bounds[block + 1])
            stop = min(end, high)
            # part 0 is the order of the utterances
            shuffled = Permutation(high - low, self._seed, self._epoch, block + 1)
            position = low + shuffled(np.arange(begin - low, stop - low))
            yield block, position + self._shift[np.searchsorted(self._begin, position, side="right") - 1]
            begin = stop
