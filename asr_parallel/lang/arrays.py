"""A weighted transducer as numpy arrays, and the way to and from OpenFst.

Python loops over the arcs of a big graph take minutes; here a graph is a few arrays.  The bridge is
OpenFst's ``const`` file, which is a header and two plain arrays (``fst/const-fst.h``, file version 2).
"""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from kaldifst import StdConstFst, StdFst, StdVectorFst
from numba import njit

from asr_parallel.log import UserError

ARC = np.dtype([("ilabel", "<i4"), ("olabel", "<i4"), ("weight", "<f4"), ("next", "<i4")])
_STATE = np.dtype([("final", "<f4"), ("pos", "<u4"), ("arcs", "<u4"), ("iepsilons", "<u4"), ("oepsilons", "<u4")])
_MAGIC = 2125659606
_EXPANDED = 1  # the only property that is claimed; OpenFst works out the others when asked


@dataclass
class FstArrays:
    """``arcs[offsets[s]:offsets[s + 1]]`` leave state s; ``finals[s]`` is inf where s is not final.

    ``arcs`` is [A] of ``ARC``, ``offsets`` int64 [S + 1], ``finals`` float32 [S].  Weights are costs.
    """

    start: int
    finals: np.ndarray
    offsets: np.ndarray
    arcs: np.ndarray

    @classmethod
    def build(cls, start: int, finals: np.ndarray, source: np.ndarray, arcs: np.ndarray) -> FstArrays:
        """Put arcs in the order of their ``source`` state; arcs of one state keep their order."""
        order = np.argsort(source, kind="stable")
        offsets = np.zeros(len(finals) + 1, np.int64)
        np.cumsum(np.bincount(source, minlength=len(finals)), out=offsets[1:])
        return cls(start, finals.astype(np.float32), offsets, arcs[order])

    def sources(self) -> np.ndarray:
        """The state that each arc leaves, int64 [A]."""
        return np.repeat(np.arange(len(self.finals)), np.diff(self.offsets))

    def minimized(self, delta: float = 1 / 1024) -> FstArrays:
        """Merge states with the same arcs and final weight (to ``delta``) until no two are left.

        For a deterministic graph whose weights stand as early as determinisation puts them this is
        minimisation, but for states that are equal only by way of a cycle; Kaldi's ``fstminimizeencoded``
        takes many times longer.  States are compared by a 64-bit sum of hashes.
        """
        start, finals, offsets, arcs = self.start, self.finals, self.offsets, self.arcs
        labels = np.zeros(len(arcs), np.uint64)  # a hash of what does not change
        for value in (arcs["ilabel"], arcs["olabel"], np.rint(arcs["weight"] / delta)):
            labels = _mix(labels + value.astype(np.int64).astype(np.uint64))
        ends = np.where(np.isfinite(finals), np.rint(finals / delta), -(2.0**40))
        ends = _mix(ends.astype(np.int64).astype(np.uint64))
        while True:
            total = np.zeros(len(arcs) + 1, np.uint64)
            np.cumsum(_mix(labels + arcs["next"].astype(np.uint64)), out=total[1:])
            first = first_equal(np.diff(total[offsets]) + ends)
            kept = first == np.arange(len(finals))
            if kept.all():
                return FstArrays(start, finals, offsets, arcs)
            number = (np.cumsum(kept) - 1)[first]  # kept states stay in their order, and so do their arcs
            sizes = np.diff(offsets)
            stay = np.repeat(kept, sizes)
            arcs, labels = arcs[stay], labels[stay]
            arcs["next"] = number[arcs["next"]]
            start, finals, ends = int(number[start]), finals[kept], ends[kept]
            offsets = np.concatenate([[0], np.cumsum(sizes[kept])])

    @classmethod
    def read(cls, path: Path) -> FstArrays:
        """Read an OpenFst file of type ``const``.

        Raises:
            UserError: the file is another thing, or shorter than its header says.
        """
        data = Path(path).read_bytes()
        header = _header(b"const", 0, 0, 0)
        size = len(header)
        if data[: size - 32] != header[: size - 32] and data[: size - 36] != header[: size - 36]:
            raise UserError(f"{path} is not an OpenFst const file of standard arcs; make it again")
        start, num_states, num_arcs = struct.unpack("<3q", data[size - 24 : size])
        if len(data) != size + num_states * _STATE.itemsize + num_arcs * ARC.itemsize:
            raise UserError(f"{path} has {len(data)} bytes, not what its header says; make it again")
        states = np.frombuffer(data, _STATE, num_states, size)
        arcs = np.frombuffer(data, ARC, num_arcs, size + states.nbytes).copy()
        offsets = np.zeros(num_states + 1, np.int64)
        np.cumsum(states["arcs"], out=offsets[1:])
        return cls(start, states["final"].copy(), offsets, arcs)

    def write(self, path: Path) -> None:
        """Write an OpenFst file of type ``const``."""
        source = self.sources()
        states = np.zeros(len(self.finals), _STATE)
        states["final"], states["pos"], states["arcs"] = self.finals, self.offsets[:-1], np.diff(self.offsets)
        for side in ("i", "o"):
            epsilon = self.arcs[f"{side}label"] == 0
            states[f"{side}epsilons"] = np.bincount(source[epsilon], minlength=len(states))
        with open(path, "wb") as file:
            file.write(_header(b"const", self.start, len(states), len(self.arcs)))
            file.write(states.tobytes())
            file.write(self.arcs.astype(ARC, copy=False).tobytes())

    @classmethod
    def from_fst(cls, fst: StdFst) -> FstArrays:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.fst"
            if not StdConstFst(fst).write(str(path)):
                raise OSError(f"cannot write {path}; is the disk full?")
            return cls.read(path)

    def to_fst(self) -> StdVectorFst:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.fst"
            self.write(path)
            return StdVectorFst(StdConstFst.read(str(path)))


@njit("int64[::1](uint64[::1])", cache=True)
def first_equal(keys):
    """Index of the first of ``keys`` that is equal to each, by a hash table; keys are hashes themselves."""
    size = 16
    while size < 2 * len(keys):
        size *= 2
    table, first = np.full(size, -1, np.int64), np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        slot = np.int64(keys[i] & np.uint64(size - 1))
        while table[slot] >= 0 and keys[table[slot]] != keys[i]:
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = i
        first[i] = table[slot]
    return first


def _mix(x: np.ndarray) -> np.ndarray:
    """A good hash of 64-bit integers (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = (x + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _header(kind: bytes, start: int, num_states: int, num_arcs: int) -> bytes:
    arc_type = b"standard"
    return (
        struct.pack("<ii", _MAGIC, len(kind))
        + kind
        + struct.pack("<i", len(arc_type))
        + arc_type
        + struct.pack("<iiQqqq", 2, 0, _EXPANDED, start, num_states, num_arcs)
    )


def read_const(path: Path) -> StdConstFst:
    """Load a ``const`` file for decoding; forked processes share it."""
    fst = StdConstFst.read(str(path)) if Path(path).exists() else None
    if fst is None:
        raise UserError(f"{path} is missing or not a readable FST; make it again")
    return fst
