"""Lattices as arrays of arcs, and an equivalent lattice that is small.

What a search leaves has an arc for every frame.  The frames in between words are joined: that keeps every
word sequence and, for every positive LM weight and any word penalty, the cost of the best path of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from asr_parallel.decode.joining import join, levels


@dataclass(frozen=True)
class Arcs:
    """A lattice with one start and one final state.

    ``src``, ``dst``, ``word`` int64 [A], word 0 for none; ``graph``, ``acoustic`` float64 [A] are costs.
    """

    start: int
    final: int
    src: np.ndarray
    dst: np.ndarray
    word: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray

    def __len__(self) -> int:
        """Number of arcs."""
        return len(self.src)

    @property
    def num_states(self) -> int:
        """States are below this number; not all of them need to have arcs."""
        return max(self.start, self.final, int(self.src.max(initial=0)), int(self.dst.max(initial=0))) + 1

    def __getitem__(self, which: np.ndarray) -> Arcs:
        """The arcs at indices or mask ``which``."""
        arrays = (self.src, self.dst, self.word, self.graph, self.acoustic)
        return Arcs(self.start, self.final, *(a[which] for a in arrays))

    def renumbered(self) -> Arcs:
        """The same with states 0, 1, 2, ... in the order of their numbers."""
        ends = np.concatenate([[self.start, self.final], self.src, self.dst])
        number = np.unique(ends, return_inverse=True)[1]
        (start, final), arcs = number[:2].tolist(), number[2:].reshape(2, -1)
        return replace(self, start=start, final=final, src=arcs[0], dst=arcs[1])

    def with_phrases(self, phrases: Sequence[tuple[int, ...]]) -> Arcs:
        """Make an arc whose word is -1 - i a chain of arcs, one for each word of ``phrases[i]``."""
        whole = np.flatnonzero(self.word < 0)
        if not len(whole):
            return self
        columns = [a.tolist() for a in (self.src, self.dst, self.word, self.graph, self.acoustic)]
        state = self.num_states
        for i in whole.tolist():
            first, *others = phrases[-1 - columns[2][i]]
            end, columns[1][i], columns[2][i] = columns[1][i], state, first
            for word in others:
                for column, value in zip(columns, (state, state + 1, word, 0.0, 0.0)):
                    column.append(value)
                state += 1
            columns[1][-1] = end
        src, dst, word, graph, acoustic = (np.array(c) for c in columns)
        return Arcs(self.start, self.final, src, dst, word, graph, acoustic)

    def reverse(self) -> Arcs:
        return replace(self, start=self.final, final=self.start, src=self.dst, dst=self.src)


def compact(arcs: Arcs) -> Arcs:
    """An equivalent lattice with fewer arcs: no dead ends, few chains, no parallel arcs of no use."""
    arcs = _without_dead_ends(arcs)
    return sweep(sweep(arcs).reverse()).reverse()


def _without_dead_ends(arcs: Arcs) -> Arcs:
    while True:
        entered = np.bincount(arcs.dst, minlength=arcs.num_states) > 0
        left = np.bincount(arcs.src, minlength=arcs.num_states) > 0
        entered[arcs.start] = left[arcs.final] = True
        alive = entered[arcs.src] & left[arcs.dst]
        if alive.all():
            return arcs
        arcs = arcs[alive]


def sweep(arcs: Arcs) -> Arcs:
    """Join states with a single arc in to the state before, in topological order.

    A state can be joined if the arc into it has no word or no arc out of it has one.  Of parallel arcs with
    the same word only the useful (see ``joining.useful``) stay.  All states must be reachable.  Raises ValueError
    if there is a cycle.
    """
    size = arcs.num_states
    order = np.argsort(arcs.src, kind="stable")
    first = np.searchsorted(arcs.src[order], np.arange(size + 1))
    dst, word, graph, acoustic = (a[order] for a in (arcs.dst, arcs.word, arcs.graph, arcs.acoustic))
    missing = np.bincount(arcs.dst, minlength=size)
    bears_word = np.bincount(arcs.src, arcs.word > 0, minlength=size) > 0
    src, ends, words, *costs = join(arcs.start, arcs.final, first, dst, word, graph, acoustic, missing, bears_word)
    if missing.any():
        raise ValueError("the lattice has a cycle")
    return Arcs(arcs.start, arcs.final, src, ends, words, *costs)


def sort_states(arcs: Arcs) -> tuple[Arcs, np.ndarray]:
    """Number the states by level, the most arcs on a path from the start; sort arcs by (dst, src, word).

    Gives the lattice, whose start is 0 and whose final state is the last, and ``level`` int32 [states].
    Raises ValueError if the lattice has a cycle.
    """
    states = np.unique(np.concatenate([[arcs.start, arcs.final], arcs.src, arcs.dst]))
    src, dst = np.searchsorted(states, arcs.src), np.searchsorted(states, arcs.dst)
    by_src = np.argsort(src, kind="stable")
    begin = np.searchsorted(src[by_src], np.arange(len(states) + 1))
    missing, level = np.bincount(dst, minlength=len(states)), np.zeros(len(states), np.int64)
    if levels(begin, dst[by_src], missing, level, int(np.searchsorted(states, arcs.start))) != len(states):
        raise ValueError("the lattice has a cycle or a state that cannot be reached")
    last = np.searchsorted(states, arcs.final)
    order = np.argsort(level, kind="stable")
    number = np.empty(len(states), np.int64)
    number[order] = np.arange(len(states))
    arcs = replace(arcs, start=0, final=int(number[last]), src=number[src], dst=number[dst])
    return arcs[np.lexsort((arcs.word, arcs.src, arcs.dst))], level[order].astype(np.int32)
