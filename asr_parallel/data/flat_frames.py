"""The file format ``flat_frames``: a header page, then the frames of a whole set, row after row.

    bytes 0-7    magic ``ASRFRMS1`` (the last character is the version)
    bytes 8-15   numpy type string, padded with blanks: ``<f4`` or ``<f2``
    bytes 16-23  dim, uint64, little-endian
    bytes 24-31  number of rows, uint64, little-endian
    from 4096    rows

The header fills a page so that rows start on one: the file is meant to be memory-mapped.
Nothing here needs Lhotse or torch; ``store.py`` makes it a Lhotse storage.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np

from asr_parallel.files import atomic
from asr_parallel.log import UserError

HEADER = struct.Struct("<8s8sQQ")
HEADER_BYTES = 4096
MAGIC = b"ASRFRMS1"
DTYPES: dict[str, np.dtype] = {"<f4": np.dtype("<f4"), "<f2": np.dtype("<f2")}


def header(dtype: np.dtype, dim: int, rows: int) -> bytes:
    """The first ``HEADER_BYTES`` of a file."""
    return HEADER.pack(MAGIC, dtype.newbyteorder("<").str.encode().ljust(8), dim, rows).ljust(HEADER_BYTES, b"\0")


def open_frames(path: str | Path) -> np.memmap:
    """Map the frames of ``path``, [rows, dim], read-only.  Raises ``UserError`` if it is missing or damaged."""
    path = Path(path)
    try:
        with open(path, "rb") as f:
            head = f.read(HEADER_BYTES)
    except OSError as e:
        raise UserError(f"cannot read the frames in {path} ({e.strerror}): run `features` first") from None
    again = "run `features` with --force"
    if len(head) < HEADER_BYTES:
        raise UserError(f"{path} is cut short, {len(head)} bytes: {again}")
    magic, dtype_name, dim, rows = HEADER.unpack_from(head)
    if magic != MAGIC:
        raise UserError(f"{path} is not a flat_frames file of version {MAGIC[-1:].decode()}: {again}")
    dtype = DTYPES.get(dtype_name.decode("ascii", "replace").strip())
    if dtype is None or dim == 0:
        raise UserError(f"{path} has a damaged header (type {dtype_name!r}, dim {dim}): {again}")
    size, expected = path.stat().st_size, HEADER_BYTES + rows * dim * dtype.itemsize
    if size != expected:
        raise UserError(f"{path} has {size} bytes instead of {expected}, it is cut short or damaged: {again}")
    if rows == 0:
        raise UserError(f"{path} holds no frames: {again}")
    return np.memmap(path, dtype, "r", HEADER_BYTES, (rows, dim))


class FrameFile:
    """Writes a file, one utterance after the other; it appears at ``path`` when the ``with`` block succeeds."""

    def __init__(self, path: str | Path, dtype: str = "<f4"):
        self.path, self.dtype = Path(path), DTYPES[dtype]
        self.rows = self.dim = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> FrameFile:
        temporary = self._stack.enter_context(atomic(self.path))
        self._file = self._stack.enter_context(open(temporary, "wb"))
        self._file.write(bytes(HEADER_BYTES))
        return self

    def append(self, frames: np.ndarray) -> tuple[int, int]:
        """Add ``frames`` [T, D]; return (first row, T).  Raises ``ValueError`` if D differs from before."""
        if frames.ndim != 2 or frames.shape[1] == 0 or (self.dim and frames.shape[1] != self.dim):
            raise ValueError(f"frames of shape {frames.shape} where [T, {self.dim or 'D'}] is expected")
        self.dim = frames.shape[1]
        self._file.write(frames.astype(self.dtype).tobytes())
        self.rows += len(frames)
        return self.rows - len(frames), len(frames)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self._file.seek(0)
            self._file.write(header(self.dtype, self.dim, self.rows))
        self._stack.__exit__(kind, error, trace)  # type: ignore[arg-type]
