"""Whether a graph has a path for an utterance, whatever its scores: is the beam too narrow, or the graph wrong?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asr_parallel.decode.search_graph import Graph, expand


@dataclass(frozen=True)
class Reach:
    """Paths of a graph take up to ``frames``, or as many as were asked for; ``ends`` if one of so many is final."""

    frames: int
    ends: bool


def reach(graph: Graph, frames: int) -> Reach:
    """Follow all arcs at once for ``frames`` frames, or until the states reached stay the same."""
    reached = np.zeros(len(graph.finals), bool)
    reached[graph.start] = True
    for t in range(frames):
        after = _next(graph, _with_epsilons(graph, reached), 0)
        if not after.any():
            return Reach(t, False)
        if (after == reached).all():
            break
        reached = after
    return Reach(frames, bool(np.isfinite(graph.finals[_with_epsilons(graph, reached)]).any()))


def _with_epsilons(graph: Graph, reached: np.ndarray) -> np.ndarray:
    return reached | _next(graph, reached, 2)


def _next(graph: Graph, states: np.ndarray, column: int) -> np.ndarray:
    """States that arcs (``column`` 0 of ``Graph.spans``) or epsilon paths (2) lead to, bool [S]."""
    first, count = graph.spans[np.flatnonzero(states), column : column + 2].T
    after = np.zeros(len(states), bool)
    after[graph.arcs[expand(first, count)[1], 3]] = True
    return after
