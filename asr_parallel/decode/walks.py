"""Sums and minima over all paths of a lattice, and edit distances to all of them, compiled like ``passing.py``.

Arcs are those of a ``WordLattice``: sorted by ``dst``, and every arc leads to a state of a higher number.  So one
pass over the arcs sees all ways to a state before it leaves it; one pass backward does so from the end.
"""

from __future__ import annotations

import numpy as np
from numba import njit

INTS, FLOATS = "int32[::1]", "float64[::1]"
EDIT = np.int32(0)  # the word of an arc, or of a bin of the hypothesis, that has none
SKIP = 1e-5  # a word is rather said to stand in an empty bin than in none (as in Kaldi)


@njit("float64(float64, float64, boolean)", cache=True)
def _join(a, b, summed):
    """The less of two costs, or the cost of both together."""
    least = min(a, b)
    if not summed or np.isinf(least):
        return least
    return least - np.log1p(np.exp(least - max(a, b)))


@njit(f"{FLOATS}({INTS}, {INTS}, {FLOATS}, int64, boolean)", cache=True)
def from_start(src, dst, cost, states, summed):
    """Cost of the best path from state 0 to each state; with ``summed`` that of all paths: -log of their sum."""
    alpha = np.full(states, np.inf)
    alpha[0] = 0.0
    for a in range(len(src)):
        alpha[dst[a]] = _join(alpha[dst[a]], alpha[src[a]] + cost[a], summed)
    return alpha


@njit(f"{FLOATS}({INTS}, {INTS}, {FLOATS}, int64, boolean)", cache=True)
def to_end(src, dst, cost, states, summed):
    """Cost of the best path from each state to the last; with ``summed`` that of all paths."""
    beta = np.full(states, np.inf)
    beta[states - 1] = 0.0
    for a in range(len(src) - 1, -1, -1):
        beta[src[a]] = _join(beta[src[a]], beta[dst[a]] + cost[a], summed)
    return beta


@njit("float64(float64, float64, float64, int32, int32)", cache=True)
def _least(pair, skipped, missed, word, bin_word):
    """The least of three: ``word`` stands in the bin, it stands in no bin, or the bin has no word of the path."""
    pair += word != bin_word
    skipped += (1.0 + SKIP) * (word != EDIT)
    missed += bin_word != EDIT
    return min(pair, skipped, missed)


@njit(f"Tuple((float64[:, ::1], float64[:, ::1]))({INTS}, {INTS}, {INTS}, {FLOATS}, {INTS}, int64)", cache=True)
def edits(src, dst, word, share, hyp, states):
    """Expected edit distances of partial paths to the first q words of ``hyp`` [Q] (Xu et al. 2011, fig. 3).

    ``share`` [A] is the probability of an arc among those into its state.  Gives them at states [S, Q + 1] and at
    the ends of arcs [A, Q + 1].
    """
    size = len(hyp)
    at_state, at_arc = np.zeros((states, size + 1)), np.zeros((len(src), size + 1))
    for q in range(size):
        at_state[0, q + 1] = at_state[0, q] + (hyp[q] != EDIT)
    for a in range(len(src)):
        before, here, after = at_state[src[a]], at_arc[a], at_state[dst[a]]
        here[0] = before[0] + (1.0 + SKIP) * (word[a] != EDIT)
        for q in range(size):
            here[q + 1] = _least(before[q], before[q + 1], here[q], word[a], hyp[q])
        for q in range(size + 1):
            after[q] += share[a] * here[q]
    return at_state, at_arc


@njit(f"float64[:, ::1]({INTS}, {INTS}, {INTS}, {FLOATS}, {INTS}, float64[:, ::1], float64[:, ::1], int64)", cache=True)
def fill_bins(src, dst, word, share, hyp, at_state, at_arc, words):
    """Probability of each word (below ``words``) in each bin of ``hyp``, float64 [Q, words]; 0 is no word.

    The rest is as ``edits`` takes and gives it.
    """
    size = len(hyp)
    bins, mass = np.zeros((size, words)), np.zeros_like(at_state)
    mass[len(at_state) - 1, size] = 1.0
    for a in range(len(src) - 1, -1, -1):
        before, here = at_state[src[a]], at_arc[a]
        left = 0.0  # of the probability that came through this arc to a place in the hypothesis
        for q in range(size, -1, -1):
            left += share[a] * mass[dst[a], q]
            if q == 0 or left == 0.0:
                mass[src[a], 0] += left if q == 0 else 0.0
                continue
            w, b = word[a], hyp[q - 1]
            if here[q] == before[q - 1] + (w != b) and (w != EDIT or b != EDIT):
                mass[src[a], q - 1] += left
                bins[q - 1, w] += left
                left = 0.0
            elif here[q] == before[q] + (1.0 + SKIP) * (w != EDIT):
                mass[src[a], q] += left
                left = 0.0
            else:
                bins[q - 1, EDIT] += left
    left = 0.0
    for q in range(size, 0, -1):
        left += mass[0, q]
        bins[q - 1, EDIT] += left
    return bins
