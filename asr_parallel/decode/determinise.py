"""A lattice in which every word sequence has one path: the best one it had.

This is the subset construction of Mohri (2009) over pairs of costs, as Kaldi's ``lattice-determinize``: which path is
best is decided by ``graph + acoustic / lmwt``, and its graph and acoustic costs are kept apart.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from asr_parallel.decode.arcs import Arcs, sort_states
from asr_parallel.decode.lattice import WordLattice
from asr_parallel.decode.walks import from_start, to_end
from asr_parallel.log import logger

log = logger(__name__)
GROWTH, LEAST = 20, 50_000  # a result of more arcs than this many times the lattice's, and than this, is too large
NARROWER = 0.7  # of the beam, when it is
DECIMALS = 4  # to which costs must agree for subsets to be the same

Pair = tuple[float, float]  # graph and acoustic cost
Subset = dict[int, Pair]  # how much worse than the best of them the states are that a word sequence leads to


@dataclass(frozen=True)
class Determinised:
    """``lattice`` has at most one arc for a word from each state, no other arcs without a word than those to its end.

    Paths that cost more than ``beam`` above the best one may be missing.
    """

    lattice: WordLattice
    beam: float


def costs(lattice: WordLattice, lmwt: float, wip: float) -> np.ndarray:
    """Cost of each arc, float64 [A]."""
    acoustic = lattice.acoustic.astype(np.float64) / lmwt
    return lattice.graph.astype(np.float64) + acoustic + wip * (lattice.word > 0)


def pruned(lattice: WordLattice, lmwt: float, wip: float, beam: float) -> WordLattice:
    """Without arcs whose best path is more than ``beam`` worse than the best."""
    cost, size = costs(lattice, lmwt, wip), len(lattice.level)
    alpha = from_start(lattice.src, lattice.dst, cost, size, False)
    beta = to_end(lattice.src, lattice.dst, cost, size, False)
    kept = alpha[lattice.src] + cost + beta[lattice.dst] <= beta[0] + beam + 1e-9
    if kept.all():
        return lattice
    columns = (getattr(lattice, n)[kept].astype(np.int64) for n in ("src", "dst", "word"))
    arcs = Arcs(0, size - 1, *columns, *(getattr(lattice, n)[kept].astype(np.float64) for n in ("graph", "acoustic")))
    return sorted_lattice(arcs)


def sorted_lattice(arcs: Arcs) -> WordLattice:
    """The lattice of connected, acyclic ``arcs``, as they are."""
    arcs, level = sort_states(arcs)
    src, dst, word = (a.astype(np.int32) for a in (arcs.src, arcs.dst, arcs.word))
    return WordLattice(level, src, dst, word, arcs.graph.astype(np.float32), arcs.acoustic.astype(np.float32))


def determinise(lattice: WordLattice, lmwt: float, wip: float = 0.0, beam: float = np.inf) -> Determinised:
    """Best paths of all word sequences within ``beam``; a narrower beam is tried while the result is too large."""
    if not len(lattice.src):
        return Determinised(lattice, beam)
    if np.isinf(beam):  # so that it can be narrowed: no path is worse than the worst, nor by 1 when costs are rounded
        beam = 1 + float(np.abs(costs(lattice, lmwt, wip)).sum())
    while True:
        small = pruned(lattice, lmwt, wip, beam)
        rows = _Subsets(small, lmwt).expand(max(LEAST, GROWTH * len(small.src)))
        if rows is not None:
            break
        log.info("a lattice is too large when determinised: beam %.3g instead of %.3g", NARROWER * beam, beam)
        beam *= NARROWER
    src, dst, word, graph, acoustic = (np.array(c) for c in zip(*rows, strict=True))
    end = int(src.max()) + 1  # rows have -1 for it
    arcs = Arcs(0, end, src, np.where(dst < 0, end, dst), word, graph, acoustic)
    return Determinised(pruned(sorted_lattice(arcs), lmwt, wip, beam), beam)


class _Subsets:
    """Sets of states that word sequences lead to, each with the costs left over."""

    def __init__(self, lattice: WordLattice, lmwt: float):
        self.lmwt, self.final = lmwt, len(lattice.level) - 1
        self.silent: dict[int, list[tuple[int, Pair]]] = defaultdict(list)
        self.spoken: dict[int, list[tuple[int, int, Pair]]] = defaultdict(list)
        columns = (getattr(lattice, n).tolist() for n in ("src", "dst", "word", "graph", "acoustic"))
        for src, dst, word, graph, acoustic in zip(*columns):
            if word:
                self.spoken[src].append((word, dst, (graph, acoustic)))
            else:
                self.silent[src].append((dst, (graph, acoustic)))

    def expand(self, most: int) -> list[tuple[int, int, int, float, float]] | None:
        """Rows (src, dst, word, graph, acoustic), dst -1 for the end; None if there are more than ``most``."""
        start, (graph, acoustic) = self._reduced({0: (0.0, 0.0)})
        start = {s: (g + graph, a + acoustic) for s, (g, a) in start.items()}  # which no arc before could bear
        number, waiting = {self._key(start): 0}, [start]
        rows: list[tuple[int, int, int, float, float]] = []
        for src, subset in enumerate(waiting):  # which grows
            if self.final in subset:
                rows.append((src, -1, 0, *subset[self.final]))
            for word, ends in sorted(self._after(subset).items()):
                reached, cost = self._reduced(ends)
                dst = number.setdefault(self._key(reached), len(waiting))
                if dst == len(waiting):
                    waiting.append(reached)
                rows.append((src, dst, word, *cost))
            if len(rows) > most:
                return None
        return rows

    def _key(self, subset: Subset) -> tuple:
        return tuple((s, round(g, DECIMALS), round(a, DECIMALS)) for s, (g, a) in sorted(subset.items()))

    def _total(self, pair: Pair) -> float:
        return pair[0] + pair[1] / self.lmwt

    def _better(self, found: Subset, state: int, pair: Pair) -> bool:
        if state in found and self._total(found[state]) <= self._total(pair):
            return False
        found[state] = pair
        return True

    def _after(self, subset: Subset) -> dict[int, Subset]:
        """The states that each word leads to."""
        ends: dict[int, Subset] = defaultdict(dict)
        for state, cost in subset.items():
            for word, dst, more in self.spoken[state]:
                self._better(ends[word], dst, (cost[0] + more[0], cost[1] + more[1]))
        return ends

    def _reduced(self, subset: Subset) -> tuple[Subset, Pair]:
        """With the states that arcs without a word lead to, without those of no use, less the cost of the best."""
        found = dict(subset)
        waiting = sorted(found, reverse=True)
        while waiting:
            state = waiting.pop()
            for dst, more in self.silent[state]:
                new = dst not in found
                self._better(found, dst, (found[state][0] + more[0], found[state][1] + more[1]))
                if new:
                    _insert(waiting, dst)
        useful = {s: c for s, c in found.items() if s == self.final or self.spoken[s]}
        graph, acoustic = min(useful.values(), key=self._total)
        return {s: (g - graph, a - acoustic) for s, (g, a) in useful.items()}, (graph, acoustic)


def _insert(waiting: list[int], state: int) -> None:
    """Keep ``waiting`` sorted, the least last: states are left in the order of their numbers."""
    place = len(waiting)
    while place and waiting[place - 1] < state:
        place -= 1
    waiting.insert(place, state)
