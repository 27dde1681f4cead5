"""Matrices, vectors, numbers and tokens as Kaldi writes them, in its binary and its text form."""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO, cast

import numpy as np

BINARY = b"\0B"
TYPES = {"FM": "<f4", "DM": "<f8", "FV": "<f4", "DV": "<f8"}
LONGEST = 100  # bytes of a token
INTS = np.dtype([("size", "i1"), ("value", "<i4")])  # an element of a std::vector<int32> in a table


class Reader:
    """Reads one value after another; ``binary`` says in which form, which ``header`` finds out.

    Methods raise ``ValueError`` for what is not there or is cut short.
    """

    def __init__(self, file: BinaryIO):
        self.file: Any = file if hasattr(file, "peek") else io.BufferedReader(cast(Any, file))
        self.binary = False

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        if size < 0:
            raise ValueError(f"a size of {size}")
        data = self.file.read(size)
        if len(data) < size:
            raise ValueError(f"it ends {size - len(data)} bytes early")
        return data

    def next_byte(self) -> bytes:
        """What comes next, which stays; empty at the end of the file."""
        return self.file.peek(1)[:1]

    def header(self) -> None:
        """Take the mark of the binary form, if it is there."""
        self.binary = self.next_byte() == BINARY[:1]
        if self.binary and self.take(2) != BINARY:
            raise ValueError("a zero byte that is not followed by B")

    def skip_blanks(self) -> None:
        while self.next_byte().isspace():
            self.take(1)

    def token(self) -> str:
        """The next word, such as ``<TransitionModel>``."""
        self.skip_blanks()
        word = bytearray()
        while len(word) < LONGEST and (byte := self.next_byte()) and not byte.isspace():
            word += self.take(1)
        if self.binary:
            self.take(1)  # a token ends with one blank; in text it may stand before what is read by line
        if not word:
            raise ValueError("it ends where a token should stand")
        return word.decode("utf-8", "replace")

    def expect(self, *tokens: str) -> str:
        """The next token, which must be one of ``tokens``."""
        found = self.token()
        if found not in tokens:
            raise ValueError(f"{found[:40]!r} where {' or '.join(tokens)} should stand")
        return found

    def integer(self) -> int:
        """An int32, which is four bytes after a byte 4."""
        return int(self._number("<i")) if self.binary else int(self.token())

    def real(self) -> float:
        """A float or a double, after a byte that tells their size."""
        if not self.binary:
            return float(self.token())
        return float(self._number("<f" if self.next_byte() == b"\4" else "<d"))

    def _number(self, form: str) -> float:
        size = struct.calcsize(form)
        if (found := self.take(1)[0]) != size:
            raise ValueError(f"a number of {found} bytes where one of {size} should stand")
        return struct.unpack(form, self.take(size))[0]

    def integers(self) -> np.ndarray:
        """A vector of ``WriteIntegerVector``, int32 [N]."""
        if not self.binary:
            return self._bracketed()[0].astype(np.int32)
        if (size := self.take(1)[0]) != 4:
            raise ValueError(f"integers of {size} bytes, not 4")
        return np.frombuffer(self.take(4 * self._length()), "<i4").copy()

    def table_integers(self) -> np.ndarray:
        """A ``std::vector<int32>`` of a table, such as an alignment, int32 [N]; in text a line."""
        if not self.binary:
            return np.array([int(word) for word in self.file.readline().split()], np.int32)
        rows = np.frombuffer(self.take(INTS.itemsize * self.integer()), INTS)
        if not (rows["size"] == 4).all():
            raise ValueError("its elements are not int32")
        return rows["value"].copy()

    def vector(self) -> np.ndarray:
        """Floats or doubles [N]."""
        if not self.binary:
            return self._bracketed()[0]
        dtype = np.dtype(TYPES[self.expect("FV", "DV")])
        return np.frombuffer(self.take(dtype.itemsize * self.integer()), dtype).copy()

    def matrix(self) -> np.ndarray:
        """Floats or doubles [rows, columns]; compressed ones as float32."""
        if not self.binary:
            rows = self._bracketed()
            if len({len(row) for row in rows}) > 1:
                raise ValueError(f"rows of {len(rows[0])} and of other numbers of values")
            return np.stack(rows) if len(rows[0]) else np.zeros((0, 0), np.float32)
        kind = self.expect("FM", "DM", "CM", "CM2", "CM3")
        if kind not in TYPES:
            return self._compressed(kind)
        dtype, height, width = np.dtype(TYPES[kind]), self.integer(), self.integer()
        return np.frombuffer(self.take(dtype.itemsize * height * width), dtype).reshape(height, width).copy()

    def _length(self) -> int:
        return struct.unpack("<i", self.take(4))[0]

    def _bracketed(self) -> list[np.ndarray]:
        """Rows of numbers in ``[ ]``; float32, as Kaldi keeps them.  There is one row at least, which may be empty."""
        self.skip_blanks()
        if self.take(1) != b"[":
            raise ValueError("no `[` where numbers should stand")
        text = bytearray()
        while b"]" not in text:
            if not (line := self.file.readline()):
                raise ValueError("it ends before `]`")
            text += line
        inside, _, after = bytes(text).partition(b"]")
        if after.strip():
            raise ValueError(f"{after.strip()[:20]!r} after `]`")
        rows = [row for line in inside.split(b"\n") if (row := line.split())]
        return [np.array(row, np.float64).astype(np.float32) for row in rows or [[]]]

    def _compressed(self, kind: str) -> np.ndarray:
        """Kaldi's ``matrix/compressed-matrix.h``.

        ``CM``: a byte a value, between four percentiles of its column; ``CM2``: two bytes, ``CM3``: one, on one scale.
        """
        low, span, rows, columns = struct.unpack("<ffii", self.take(16))
        if kind != "CM":
            dtype = np.dtype("<u2" if kind == "CM2" else "u1")
            raw = np.frombuffer(self.take(dtype.itemsize * rows * columns), dtype).reshape(rows, columns)
            return (low + raw * np.float32(span / np.iinfo(dtype).max)).astype(np.float32)
        heads = np.frombuffer(self.take(8 * columns), "<u2").reshape(columns, 4)
        at = low + span * heads.astype(np.float32) / np.float32(65535)  # percentiles 0, 25, 75, 100
        raw = np.frombuffer(self.take(rows * columns), "u1").reshape(columns, rows).T
        return np.stack([np.interp(raw[:, c], (0, 64, 192, 255), at[c]) for c in range(columns)], 1).astype(np.float32)


def write_matrix(file: BinaryIO, matrix: np.ndarray) -> None:
    """Write ``matrix`` [rows, columns] in the binary form, as floats, or doubles if it has them."""
    double = matrix.dtype == np.float64
    head = BINARY + (b"DM " if double else b"FM ") + struct.pack("<bibi", 4, matrix.shape[0], 4, matrix.shape[1])
    file.write(head + np.ascontiguousarray(matrix, "<f8" if double else "<f4").tobytes())


def write_integers(file: BinaryIO, values: np.ndarray) -> None:
    """Write ``values`` [N] in the binary form of a table's ``std::vector<int32>``."""
    rows = np.empty(len(values), INTS)
    rows["size"], rows["value"] = 4, values
    file.write(BINARY + struct.pack("<bi", 4, len(values)) + rows.tobytes())


def text_vector(values: np.ndarray) -> str:
    """``[ 1 2 3 ]`` and a line end; floats with the nine digits that give them back."""
    return f" [ {' '.join(f'{v:.9g}' for v in values.tolist())} ]\n"


def text_matrix(matrix: np.ndarray) -> str:
    """A line a row, in brackets."""
    rows = "\n".join("  " + " ".join(f"{v:.9g}" for v in row) for row in matrix.tolist())
    return f" [\n{rows} ]\n"
