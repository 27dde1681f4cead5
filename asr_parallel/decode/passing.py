"""Token passing, compiled: the tokens of a frame, and the links to them from those of the frame before.

These functions are plain loops that numba turns into machine code, once for a machine (it keeps the result on
disk).  They know nothing of utterances or lattices; ``search.py`` calls them once a frame.  A token is reached
through random access to a graph that is larger than the caches, so what counts is to look at few arcs and to
look only once: arcs that cannot stay within the beam are passed over before their next state is looked up.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BEAM_DELTA = np.float32(0.5)  # what max_active leaves of the beam grows by this in the next frame, as in Kaldi
NONE = np.int32(-1)  # number of a state that has no token
INFINITY = np.float32(np.inf)
INTS, FLOATS, ROWS, WEIGHTS = "int32[::1]", "float32[::1]", "int32[:, ::1]", "float32[:, ::1]"
LINKS = f"{INTS}, {INTS}, {INTS}, {FLOATS}"  # source, target, arc, delta


@njit(
    f"Tuple(({INTS}, {FLOATS}, {LINKS}))({INTS}, {FLOATS}, {INTS}, {INTS}, {FLOATS}, float32, {ROWS}, {INTS}, float32)",
    cache=True,
)
def _enter(state, cost, source, arc, value, cutoff, arcs, number, lattice_beam):
    """Enter the next states of ``arc`` [L] at costs ``value`` [L] up to ``cutoff``.

    There already are the states ``state`` [N] at costs ``cost`` [N]; ``number`` has the places of all entered.
    Gives all states, their costs, and the links to them whose delta is at most ``lattice_beam``: source, target,
    arc and delta.
    """
    tokens, few = len(state), 0
    states, least = np.empty(tokens + len(arc), np.int32), np.empty(tokens + len(arc), np.float32)
    states[:tokens], least[:tokens] = state, cost
    target = np.empty(len(arc), np.int32)
    for i in range(len(arc)):
        if value[i] > cutoff:
            continue
        entered = arcs[arc[i], 3]
        place = number[entered]
        new = place == NONE  # hard to predict: a choice of values is faster than one of ways
        place = np.int32(tokens) if new else place
        number[entered], states[place] = place, entered
        least[place] = value[i] if new else min(least[place], value[i])
        tokens += new
        source[few], target[few], arc[few], value[few] = source[i], place, arc[i], value[i]
        few += 1
    kept = 0
    for i in range(few):
        delta = value[i] - least[target[i]]
        if delta <= lattice_beam:
            source[kept], target[kept], arc[kept], value[kept] = source[i], target[i], arc[i], delta
            kept += 1
    return (states[:tokens].copy(), least[:tokens].copy(),
            source[:kept].copy(), target[:kept].copy(), arc[:kept].copy(), value[:kept].copy())  # fmt: skip


@njit(
    f"Tuple(({INTS}, {FLOATS}, float32, {LINKS}))"
    f"({FLOATS}, {ROWS}, {FLOATS}, {ROWS}, {WEIGHTS}, {INTS}, float32, float32, int64)",
    cache=True,
)
def emit(cost, spans, scores, arcs, weights, number, beam, lattice_beam, max_active):
    """Follow the emitting arcs of tokens with ``cost`` [N] and ``spans`` [N, 4] into a frame of ``scores`` [1 + pdfs].

    ``arcs`` are those of ``Graph``, ``weights`` is the same memory as float32.  Gives the states entered, their
    costs (relative to the best token before), the cutoff, and the links to them: source, target, arc and delta.
    ``number`` [states of the graph] is all NONE before; after that it has the places of the states entered.
    """
    least, best, room = INFINITY, 0, 0
    for i in range(len(cost)):
        room += spans[i, 1]
        if cost[i] < least:
            least, best = cost[i], i
    limit = beam
    if len(cost) > max_active:
        widest = np.partition(cost, max_active)[max_active] - least
        limit, beam = min(beam, widest), min(beam, widest + BEAM_DELTA)
    lowest, likeliest = INFINITY, scores[1:].min()
    for a in range(spans[best, 0], spans[best, 0] + spans[best, 1]):  # the best token gives a bound for the others
        lowest = min(lowest, weights[a, 2] + scores[arcs[a, 0]])
    source, arc, value = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.float32)
    links = 0
    for i in range(len(cost)):
        before = cost[i] - least
        if before > limit:
            continue
        for a in range(spans[i, 0], spans[i, 0] + spans[i, 1]):
            if before + weights[a, 2] + likeliest > lowest + beam:
                break  # arcs of a state are sorted by their cost
            after = before + weights[a, 2] + scores[arcs[a, 0]]
            if after <= lowest + beam:
                lowest = min(lowest, after)
                source[links], arc[links], value[links] = i, a, after
                links += 1
    cutoff = lowest + beam
    none, free = np.empty(0, np.int32), np.empty(0, np.float32)
    state, entered, source, target, arc, delta = _enter(
        none, free, source[:links], arc[:links], value[:links], cutoff, arcs, number, lattice_beam
    )
    return state, entered, cutoff, source, target, arc, delta


@njit(f"{ROWS}({ROWS}, {INTS}, int64)", cache=True)
def _spans(table, state, first):
    """Rows of ``table`` for the states from place ``first`` on."""
    spans = np.empty((len(state) - first, 4), np.int32)
    for i in range(first, len(state)):
        for j in range(4):  # numba is slow to copy a row
            spans[i - first, j] = table[state[i], j]
    return spans


@njit(
    f"Tuple(({INTS}, {FLOATS}, {ROWS}, {LINKS}))"
    f"({INTS}, {FLOATS}, {ROWS}, {ROWS}, {WEIGHTS}, {INTS}, float32, float32)",
    cache=True,
)
def close(entered, cost, table, arcs, weights, number, cutoff, lattice_beam):
    """Add the tokens that epsilon paths lead to from the ``entered`` states [N] of ``cost`` [N].

    ``number`` has the places of the states entered; after that it is all NONE.  ``table`` is ``Graph.spans``.
    Gives states, costs and spans of all tokens, the N first, and the links along the paths.
    """
    size, paths = len(entered), 0
    before = _spans(table, entered, 0)
    for i in range(size):
        paths += before[i, 3]
    source, arc, value = np.empty(paths, np.int32), np.empty(paths, np.int32), np.empty(paths, np.float32)
    links = 0
    for i in range(size):
        for a in range(before[i, 2], before[i, 2] + before[i, 3]):
            after = cost[i] + weights[a, 2]
            if after > cutoff:
                break  # paths of a state are sorted by their cost
            source[links], arc[links], value[links] = i, a, after
            links += 1
    state, least, source, target, arc, delta = _enter(
        entered, cost, source[:links], arc[:links], value[:links], cutoff, arcs, number, lattice_beam
    )
    spans = np.concatenate((before, _spans(table, state, size)))
    for i in range(len(state)):
        number[state[i]] = NONE
    return state, least, spans, source, target, arc, delta


@njit(f"Tuple(({LINKS}, {FLOATS}))({LINKS}, {FLOATS}, float32)", cache=True)
def _within(source, target, arc, delta, extra, lattice_beam):
    """Links whose delta and the ``extra`` cost of their target are together at most ``lattice_beam``; and that sum."""
    kept = np.empty(len(source), np.int64)
    total, few = np.empty_like(delta), 0
    for i in range(len(source)):
        cost = delta[i] + extra[target[i]]
        if cost <= lattice_beam:
            kept[few], total[few] = i, cost
            few += 1
    found = kept[:few]
    return source[found], target[found], arc[found], delta[found], total[:few].copy()


@njit(f"Tuple(({LINKS}, {FLOATS}, {LINKS}, {FLOATS}, {FLOATS}, {FLOATS}))"
      f"({LINKS}, {LINKS}, {FLOATS}, {FLOATS}, int64, float32)", cache=True)  # fmt: skip
def prune(s1, t1, a1, d1, s2, t2, a2, d2, stay, extra, before, lattice_beam):
    """Prune the emitting (1) and epsilon (2) links of a frame, given the ``extra`` cost of each of its tokens.

    Gives both kinds of links within ``lattice_beam``, each with its extra costs, then the extra costs of the ways
    from i to i (``stay``) and of the ``before`` tokens of the frame before.
    """
    s2, t2, a2, d2, e2 = _within(s2, t2, a2, d2, extra, lattice_beam)
    stay_extra = stay + extra[: len(stay)]
    entered = stay_extra.copy()
    for i in range(len(s2)):
        entered[s2[i]] = min(entered[s2[i]], e2[i])
    s1, t1, a1, d1, e1 = _within(s1, t1, a1, d1, entered, lattice_beam)
    least = np.full(before, INFINITY)
    for i in range(len(s1)):
        least[s1[i]] = min(least[s1[i]], e1[i])
    return s1, t1, a1, d1, e1, s2, t2, a2, d2, e2, stay_extra, least


@njit(f"int64[::1](int64[::1], {FLOATS})", cache=True)
def by_cost(offsets, cost):
    """The order that sorts the arcs ``offsets[s]`` to ``offsets[s + 1]`` of each state s by ``cost``; ties stay."""
    order = np.arange(len(cost))
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        if end - begin > 16:
            order[begin:end] = begin + np.argsort(cost[begin:end], kind="mergesort")
            continue
        for i in range(begin + 1, end):  # most states have two or three
            j = i
            while j > begin and cost[order[j - 1]] > cost[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    return order
