"""HCLG in the form that the search reads: emitting arcs, and the ways through epsilons worked out beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.decode.passing import by_cost
from asr_parallel.lang.arrays import FstArrays
from asr_parallel.log import UserError

MOST_PATHS = 4  # epsilon paths of a graph, as a multiple of its arcs


@dataclass(frozen=True)
class Graph:
    """Rows of ``arcs`` int32 [A, 4] are ilabel, olabel (word), cost as float32, next state.

    First come the emitting arcs (ilabel = pdf + 1), then the paths through epsilons, one row a path, as
    short-cuts to states that emit or are final.  Word -1 - i of a path stands for the words ``phrases[i]``.
    Those of a state are sorted by their cost.  ``spans`` int32 [S, 4] has, for each state, the first row and the
    number of rows of its emitting arcs, then of its epsilon paths.
    """

    start: int
    finals: np.ndarray
    spans: np.ndarray
    arcs: np.ndarray
    phrases: list[tuple[int, ...]]

    @classmethod
    def of(cls, fst: FstArrays) -> Graph:
        """Raises UserError if there is a cycle of epsilons."""
        silent = fst.arcs["ilabel"] == 0
        source, size = fst.sources(), len(fst.finals)
        counts = np.bincount(source[~silent], minlength=size)
        emitting = _sorted(fst.arcs[~silent].view(np.int32).reshape(-1, 4), counts)
        useful = (counts > 0) | np.isfinite(fst.finals)
        phrases = _Phrases()
        begin, paths = _epsilon_paths(source[silent], fst.arcs[silent].view(np.int32).reshape(-1, 4), size, phrases)
        kept = useful[paths[:, 3]]
        numbers = np.bincount(begin[kept], minlength=size)
        paths = _sorted(paths[kept], numbers)
        spans = np.stack([_starts(counts), counts, len(emitting) + _starts(numbers), numbers], axis=1)
        return cls(
            fst.start, fst.finals, spans.astype(np.int32), np.concatenate([emitting, paths]), list(phrases.numbers)
        )

    @classmethod
    def read(cls, path: Path) -> Graph:
        """Read ``HCLG.fst``.  Raises UserError if it is no OpenFst ``const`` file, or as ``of`` does."""
        try:
            return cls.of(FstArrays.read(path))
        except FileNotFoundError:
            raise UserError(f"{path} is missing: make the graph (verb `align`)") from None

    def most_labels(self) -> tuple[int, int]:
        """The largest ilabel and the largest word."""
        words = max((w for phrase in self.phrases for w in phrase), default=0)
        return int(self.arcs[:, 0].max(initial=0)), max(words, int(self.arcs[:, 1].max(initial=0)))


class _Phrases:
    """Numbers for word sequences: 0 for none, the word itself for one, -1 - i for longer ones."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, ...], int] = {}

    def join(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Number of the sequence ``before`` [N] and then the word ``after`` [N]."""
        joined = before + after
        for i in np.flatnonzero((before != 0) & (after != 0)).tolist():
            first = int(before[i])
            words = (*(list(self.numbers)[-1 - first] if first < 0 else (first,)), int(after[i]))
            joined[i] = -1 - self.numbers.setdefault(words, len(self.numbers))
        return joined


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts


def _sorted(rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The rows of each state, which has ``counts`` [S] of them, sorted by their cost."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return rows[by_cost(offsets, np.ascontiguousarray(rows[:, 2]).view(np.float32))]


def expand(first: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All rows of items with ``count`` [N] rows from ``first`` [N] on: (item, row), each [sum of count]."""
    which = np.repeat(np.arange(len(count)), count)
    return which, np.arange(len(which)) + (first - _starts(count))[which]


def _epsilon_paths(source: np.ndarray, arcs: np.ndarray, size: int, phrases: _Phrases) -> tuple[np.ndarray, np.ndarray]:
    """(first state [P], row [P, 4]) of all paths over epsilon ``arcs``, sorted by first state."""
    counts = np.bincount(source, minlength=size)
    first = _starts(counts)
    begins, rows, number = [source], [arcs], len(arcs)
    while len(begins[-1]):
        ends = rows[-1][:, 3]
        which, added = expand(first[ends], counts[ends])
        longer = arcs[added]
        before = rows[-1][which]
        words = phrases.join(before[:, 1], longer[:, 1])
        cost = before[:, 2].view(np.float32) + longer[:, 2].view(np.float32)
        rows.append(np.stack([longer[:, 0], words, cost.view(np.int32), longer[:, 3]], axis=1))
        begins.append(begins[-1][which])
        number += len(longer)
        if number > MOST_PATHS * (size + len(arcs)):
            raise UserError("the graph has a cycle of epsilons, or far too many epsilon paths: make it again")
    begin, paths = np.concatenate(begins), np.concatenate(rows)
    order = np.lexsort((paths[:, 2].view(np.float32), paths[:, 1], paths[:, 3], begin))
    begin, paths = begin[order], paths[order]
    same = np.ones(len(begin), bool)  # as the path before, but for a cost that is no less
    same[:1] = False
    same[1:] = (begin[1:] == begin[:-1]) & (paths[1:, 3] == paths[:-1, 3]) & (paths[1:, 1] == paths[:-1, 1])
    return begin[~same], paths[~same]
