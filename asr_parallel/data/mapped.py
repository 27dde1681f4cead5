"""Frames that are read from a mapped file, in little memory however big the file is."""

from __future__ import annotations

import mmap

import numpy as np

RELEASE_BYTES = 1 << 29  # from a store that is bigger,
RELEASE_FRAMES = 8192  # let go of mapped pages after so many frames


class MappedFrames:
    """``frames`` [N, D] with advice for the kernel; an array that is not mapped, or is small, needs none."""

    def __init__(self, frames: np.ndarray):
        self.frames = frames
        self._since_release = 0
        mapped = getattr(frames, "_mmap", None)
        self._map: mmap.mmap | None = mapped if frames.nbytes > RELEASE_BYTES else None
        self._row_bytes = frames.strides[0]
        self._offset = getattr(frames, "offset", 0) % mmap.ALLOCATIONGRANULARITY  # of the first row in the map
        if self._map is not None:  # reading ahead of a frame drawn at random costs 100 times the frame
            self._map.madvise(mmap.MADV_RANDOM)

    def expect(self, first: int, end: int) -> None:
        """Say that the rows ``first`` to ``end`` will be read at once: the kernel fetches them in one go."""
        if self._map is not None:
            begin = (self._offset + first * self._row_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, begin, self._offset + end * self._row_bytes - begin)

    def release(self, count: int) -> None:
        """Say that ``count`` frames have been read.

        Pages of a big store are unmapped now and then: the kernel keeps what is worth keeping, our share stays small.
        """
        self._since_release += count
        if self._map is not None and self._since_release >= RELEASE_FRAMES:
            self._since_release = 0
            self._map.madvise(mmap.MADV_DONTNEED)
