"""Lattices as arrays of arcs, and an equivalent lattice that is small.

What a search leaves has an arc for every frame.  The frames in between words are joined: that keeps every
word sequence and, for every positive LM weight and any word penalty, the cost of the best path of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

Cost = tuple[float, float]  # graph, acoustic
Entries = dict[tuple[int, int], list[Cost]]  # arcs into a state, by (src, word)


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
    the same word only the ``useful`` stay.  All states must be reachable.  Raises ValueError if there is a cycle.
    """
    order = np.argsort(arcs.src, kind="stable")
    first = np.searchsorted(arcs.src[order], np.arange(arcs.num_states + 1)).tolist()
    dst, word, graph, acoustic = (a[order].tolist() for a in (arcs.dst, arcs.word, arcs.graph, arcs.acoustic))
    missing = np.bincount(arcs.dst, minlength=arcs.num_states).tolist()
    bears_word = (np.bincount(arcs.src, arcs.word > 0, minlength=arcs.num_states) > 0).tolist()
    into: list[Entries] = [{} for _ in range(arcs.num_states)]
    ready = [arcs.start]
    for state in ready:  # grows while it is read
        before, pushed, graph_cost, acoustic_cost = state, 0, 0.0, 0.0
        for key, costs in into[state].items():
            if len(costs) > 1:
                into[state][key] = useful(costs)
        if len(into[state]) == 1 and state != arcs.final:
            (((single, label), costs),) = into[state].items()
            if len(costs) == 1 and not (label and bears_word[state]):
                before, pushed = single, label
                graph_cost, acoustic_cost = costs[0]
                into[state] = {}
        for i in range(first[state], first[state + 1]):
            target = dst[i]
            cost = graph_cost + graph[i], acoustic_cost + acoustic[i]
            into[target].setdefault((before, word[i] or pushed), []).append(cost)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    if any(missing):
        raise ValueError("the lattice has a cycle")
    rows = [(*key, state, *cost) for state in ready for key, costs in into[state].items() for cost in costs]
    table = np.array(rows, np.float64).reshape(-1, 5)
    src, words, ends = table[:, :3].astype(np.int64).T
    return Arcs(arcs.start, arcs.final, src, ends, words, table[:, 3], table[:, 4])


def useful(costs: list[Cost]) -> list[Cost]:
    """Those of ``costs`` that are least for some positive LM weight: their lower left convex hull."""
    hull: list[Cost] = []
    for cost in sorted(costs):
        if hull and cost[1] >= hull[-1][1]:
            continue
        while len(hull) > 1 and _not_below(hull[-2], hull[-1], cost):
            hull.pop()
        hull.append(cost)
    return hull


def _not_below(a: Cost, b: Cost, c: Cost) -> bool:
    """Whether ``b`` is on or above the line from ``a`` to ``c``."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


def sort_states(arcs: Arcs) -> tuple[Arcs, np.ndarray]:
    """Number the states by level, the most arcs on a path from the start; sort arcs by (dst, src, word).

    Gives the lattice, whose start is 0 and whose final state is the last, and ``level`` int32 [states].
    Raises ValueError if the lattice has a cycle.
    """
    states = np.unique(np.concatenate([[arcs.start, arcs.final], arcs.src, arcs.dst]))
    src, dst = np.searchsorted(states, arcs.src), np.searchsorted(states, arcs.dst)
    by_src = np.argsort(src, kind="stable")
    begin = np.searchsorted(src[by_src], np.arange(len(states) + 1)).tolist()
    next_of: list[int] = dst[by_src].tolist()
    missing: list[int] = np.bincount(dst, minlength=len(states)).tolist()
    level = [0] * len(states)
    ready = [int(np.searchsorted(states, arcs.start))]
    for state in ready:  # grows while it is read
        for target in next_of[begin[state] : begin[state + 1]]:
            level[target] = max(level[target], level[state] + 1)
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    if len(ready) != len(states):
        raise ValueError("the lattice has a cycle or a state that cannot be reached")
    last, levels = np.searchsorted(states, arcs.final), np.array(level, np.int32)
    order = np.argsort(levels, kind="stable")
    number = np.empty(len(states), np.int64)
    number[order] = np.arange(len(states))
    arcs = replace(arcs, start=0, final=int(number[last]), src=number[src], dst=number[dst])
    return arcs[np.lexsort((arcs.word, arcs.src, arcs.dst))], levels[order]
