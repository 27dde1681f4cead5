"""``flat_frames`` as a Lhotse storage: import this module and ``cut.load_features()`` reads our stores.

Lhotse looks storages up by name in a table of its own, which this module enters on import.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from lhotse.features.io import FeaturesReader, FeaturesWriter, register_reader, register_writer

from asr_parallel.data.flat_frames import FrameFile, open_frames
from asr_parallel.log import UserError

STORAGE = "flat_frames"


@register_writer
class FlatFramesWriter(FeaturesWriter):
    """Writes all frames of a set into one file, as Lhotse's other writers do::

        with FlatFramesWriter("feats_fbank.frames") as storage:
            cuts = cuts.compute_and_store_features(extractor, storage)

    One process writes, in order.  The file appears under its name only when the block succeeds.
    ``dtype`` is ``<f4``, or ``<f2`` for half the size.
    """

    name = STORAGE

    def __init__(self, storage_path: str | Path, dtype: str = "<f4", **_: object):
        self._file = FrameFile(storage_path, dtype)

    @property
    def storage_path(self) -> str:
        return str(self._file.path)

    def write(self, key: str, value: np.ndarray) -> str:
        """Append ``value`` [T, D]; return the storage key ``FIRST_ROW,T``."""
        first, rows = self._file.append(value)
        return f"{first},{rows}"

    def __enter__(self) -> FlatFramesWriter:
        self._file.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._file.__exit__(*error)


@register_reader
class FlatFramesReader(FeaturesReader):
    """Reads one utterance at a time; Lhotse makes one of these for each ``load``, so maps are kept."""

    name = STORAGE

    def __init__(self, storage_path: str | Path, **_: object):
        self._path = Path(storage_path)

    def read(self, key: str, left_offset_frames: int = 0, right_offset_frames: int | None = None) -> np.ndarray:
        """Frames ``left_offset_frames`` to ``right_offset_frames`` of the utterance at ``key``, a float32 copy."""
        frames = _mapped(self._path)
        try:
            first, rows = (int(n) for n in key.split(","))
        except ValueError:
            raise UserError(f"storage key {key!r} is not FIRST_ROW,ROWS: the manifest is damaged") from None
        if first < 0 or rows < 0 or first + rows > len(frames):
            raise UserError(
                f"storage key {key!r} points beyond the {len(frames)} rows of {self._path}: "
                "manifest and store are of different runs, run `features` with --force"
            )
        return np.array(frames[first : first + rows][left_offset_frames:right_offset_frames], np.float32)


def _mapped(path: Path) -> np.memmap:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return open_frames(path)  # for its message
    return _mapped_version(path, stat.st_ino, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _mapped_version(path: Path, *version: int) -> np.memmap:
    return open_frames(path)
