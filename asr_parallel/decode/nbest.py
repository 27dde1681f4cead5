"""The n best word sequences of a lattice, no two of them alike."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from asr_parallel.decode.determinise import costs
from asr_parallel.decode.lattice import WordLattice
from asr_parallel.decode.walks import to_end


@dataclass(frozen=True)
class Hypothesis:
    """``words`` are numbers; ``cost`` is that of the path at the weights of the search, the others are not scaled."""

    words: tuple[int, ...]
    cost: float
    graph: float
    acoustic: float


def n_best(determinised: WordLattice, n: int, lmwt: float, wip: float = 0.0) -> list[Hypothesis]:
    """The ``n`` hypotheses of least cost, the best first, of a lattice that ``determinise`` gave; fewer if it has less.

    Partial paths are extended in the order of what they cost with the best way to the end (A*, whose estimate is
    exact here): no path is looked at in vain.
    """
    return list(islice(_by_cost(determinised, lmwt, wip), n)) if len(determinised.src) else []


def _by_cost(lattice: WordLattice, lmwt: float, wip: float) -> Iterator[Hypothesis]:
    cost, last = costs(lattice, lmwt, wip), len(lattice.level) - 1
    beta = to_end(lattice.src, lattice.dst, cost, last + 1, False).tolist()
    leaving = defaultdict(list)
    columns = (lattice.src, lattice.dst, lattice.word, cost, lattice.graph, lattice.acoustic)
    for src, *arc in zip(*(c.tolist() for c in columns)):
        leaving[src].append(arc)
    heap: list[tuple[float, tuple[int, ...], int, float, float, float]] = [(beta[0], (), 0, 0.0, 0.0, 0.0)]
    while heap:
        _, words, state, spent, graph, acoustic = heapq.heappop(heap)
        if state == last:
            yield Hypothesis(words, spent, graph, acoustic)
        for dst, word, price, lm, am in leaving[state]:
            reached = (*words, word) if word else words
            total = spent + price
            heapq.heappush(heap, (total + beta[dst], reached, dst, total, graph + lm, acoustic + am))
