"""Walks over a lattice in topological order, compiled like ``passing.py``."""

from __future__ import annotations

import numpy as np
from numba import njit

INTS, FLOATS = "int64[::1]", "float64[::1]"
ARCS = f"{INTS}, {INTS}, {FLOATS}, {FLOATS}"


@njit("boolean(float64, float64, float64, float64, float64, float64)", cache=True)
def _not_below(ax, ay, bx, by, cx, cy):
    """Whether b is on or above the line from a to c."""
    return (by - ay) * (cx - ax) >= (cy - ay) * (bx - ax)


@njit(f"boolean(int64, int64, {ARCS})", cache=True)
def _before(i, j, src, word, graph, acoustic):
    """Whether arc i comes before arc j in the order of (src, word, graph, acoustic)."""
    if src[i] != src[j]:
        return src[i] < src[j]
    if word[i] != word[j]:
        return word[i] < word[j]
    if graph[i] != graph[j]:
        return graph[i] < graph[j]
    return acoustic[i] < acoustic[j]


@njit(f"void({INTS}, int64, {ARCS})", cache=True)
def _sort(which, size, src, word, graph, acoustic):
    """Shell sort of the arcs ``which[:size]``: they are mostly one or two."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, size):
            moved, j = which[i], i
            while j >= gap and _before(moved, which[j - gap], src, word, graph, acoustic):
                which[j] = which[j - gap]
                j -= gap
            which[j] = moved
        gap //= 3


@njit(f"int64({INTS}, int64, {ARCS})", cache=True)
def useful(which, size, src, word, graph, acoustic):
    """Keep the arcs of ``which[:size]`` that, among those of equal (src, word), are least for some positive LM weight.

    They are the lower left convex hull of (graph, acoustic).  They come first in ``which``; gives their number.
    """
    if size < 2:
        return size
    _sort(which, size, src, word, graph, acoustic)
    kept = group = 0
    for n in range(size):
        i = which[n]
        if kept and (src[which[kept - 1]] != src[i] or word[which[kept - 1]] != word[i]):
            group = kept
        if kept > group and acoustic[i] >= acoustic[which[kept - 1]]:
            continue
        while kept > group + 1:
            a, b = which[kept - 2], which[kept - 1]
            if not _not_below(graph[a], acoustic[a], graph[b], acoustic[b], graph[i], acoustic[i]):
                break
            kept -= 1
        which[kept] = i
        kept += 1
    return kept


@njit(f"Tuple(({INTS}, {INTS}, {INTS}, {FLOATS}, {FLOATS}))"
      f"(int64, int64, {INTS}, {INTS}, {INTS}, {FLOATS}, {FLOATS}, {INTS}, boolean[::1])", cache=True)  # fmt: skip
def join(start, final, first, dst, word, graph, acoustic, missing, bears_word):
    """``arcs.sweep`` of arcs sorted by source: those of state s are ``first[s]`` to ``first[s + 1]``.

    ``missing`` [states] is the number of arcs into each and is used up: what is left of it is in a cycle.
    ``bears_word`` says which states have arcs with words.  Gives src, dst, word, graph and acoustic.
    """
    size, number = len(dst), 0
    # an arc, once its source was visited, is known by where its path begins, its word and its costs
    src, label = np.empty(size, np.int64), np.empty(size, np.int64)
    lm, am = np.empty(size, np.float64), np.empty(size, np.float64)
    latest, previous = np.full(len(missing), -1, np.int64), np.empty(size, np.int64)  # arcs into a state, a list
    out, end, which = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    ready = np.empty(len(missing), np.int64)
    ready[0], waiting, arcs = start, 1, 0
    while number < waiting:
        state, number = ready[number], number + 1
        count, i = 0, latest[state]
        while i >= 0:
            which[count], count, i = i, count + 1, previous[i]
        count = useful(which, count, src, label, lm, am)
        before, pushed, lm_cost, am_cost = state, 0, 0.0, 0.0
        if count == 1 and state != final and not (label[which[0]] and bears_word[state]):
            i, count = which[0], 0
            before, pushed, lm_cost, am_cost = src[i], label[i], lm[i], am[i]
        for n in range(count):
            out[arcs], end[arcs], arcs = which[n], state, arcs + 1
        for a in range(first[state], first[state + 1]):
            src[a], label[a] = before, word[a] if word[a] else pushed
            lm[a], am[a] = lm_cost + graph[a], am_cost + acoustic[a]
            previous[a], latest[dst[a]] = latest[dst[a]], a
            missing[dst[a]] -= 1
            if not missing[dst[a]]:
                ready[waiting], waiting = dst[a], waiting + 1
    kept = out[:arcs]
    return src[kept], end[:arcs].copy(), label[kept], lm[kept], am[kept]


@njit(f"int64({INTS}, {INTS}, {INTS}, {INTS}, int64)", cache=True)
def levels(first, dst, missing, level, start):
    """Set ``level`` [states], all 0, to the most arcs on a path from ``start``; gives the states reached.

    The arguments are as for ``join``.
    """
    ready = np.empty(len(missing), np.int64)
    ready[0], waiting, number = start, 1, 0
    while number < waiting:
        state, number = ready[number], number + 1
        for a in range(first[state], first[state + 1]):
            level[dst[a]] = max(level[dst[a]], level[state] + 1)
            missing[dst[a]] -= 1
            if not missing[dst[a]]:
                ready[waiting], waiting = dst[a], waiting + 1
    return number
