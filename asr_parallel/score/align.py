"""The one alignment of a reference and a hypothesis that every figure of the scorer comes from.

The smallest cost is unique, its split into insertions, deletions and substitutions is not: ties have a rule.
``LEVENSHTEIN`` makes the fewest errors, and breaks ties as Kaldi's ``compute-wer`` does (src/util/edit-distance-inl.h):
the diagonal step is taken only if it is strictly cheaper than both others, so that ``A B C`` against ``B X C`` is one
deletion and one insertion.  ``SCLITE`` weighs as NIST's sclite does: a substitution costs 4, an insertion or a
deletion 3, and the diagonal wins ties; now and then this makes more errors than need be.  With both, a deletion is
taken if it is strictly cheaper than an insertion, else an insertion.  Of alternates the cheapest is taken, then the one
with the fewest empty words, then the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from asr_parallel.log import UserError
from asr_parallel.score.network import EMPTY, Network, Words, linear

Pair = tuple[str | None, str | None]  # (reference word, hypothesis word); None where the other side has no partner

MAX_CELLS = 1 << 29  # of one alignment: 2 GiB
_NOWHERE = 1 << 30  # costs more than any alignment
_PASS = 1  # costs the empty word, which is not free so that words win ties


class TooLong(UserError):
    """Two texts that are too long for one alignment."""


@dataclass(frozen=True)
class Costs:
    """Of a substitution and of a gap (an insertion or a deletion), in units far above that of the empty word."""

    substitution: int
    gap: int
    diagonal_wins: bool  # a tie against a gap


LEVENSHTEIN = Costs(1000, 1000, False)
SCLITE = Costs(4000, 3000, True)
COSTS = {"levenshtein": LEVENSHTEIN, "sclite": SCLITE}


def align(ref: Words, hyp: Words, costs: Costs = LEVENSHTEIN) -> list[Pair]:
    """Pairs of words, in order: (word, word) correct or substituted, (word, None) deleted, (None, word) inserted.

    TooLong if the two would need more memory than ``MAX_CELLS``.
    """
    if not (isinstance(ref, Network) or isinstance(hyp, Network)) and list(ref) == list(hyp):
        return [(word, word) for word in ref]
    nets = [side if isinstance(side, Network) else linear(side) for side in (ref, hyp)]
    size = [len(net.words) for net in nets]
    if size[0] * size[1] > MAX_CELLS:
        raise TooLong(f"{size[0]} against {size[1]} are too many for one alignment")
    number: dict[str, int] = {EMPTY: 0}
    sides = [(np.array([number.setdefault(w, len(number)) for w in n.words], np.int32), *n.arrays) for n in nets]
    prices = (costs.substitution, costs.gap, costs.diagonal_wins)
    cells = _fill(*sides, prices)
    ends = [(int(cells[a, b]), i, j) for i, a in enumerate(nets[0].last) for j, b in enumerate(nets[1].last)]
    _, i, j = min(ends)
    steps = _trace(cells, nets[0].last[i], nets[1].last[j], *sides, prices)
    return _pairs(nets[0], nets[1], steps.tolist())


def _pairs(ref: Network, hyp: Network, steps: list[list[int]]) -> list[Pair]:
    """Words of the arcs that ``steps`` enter, last step first; an empty word on its own is no pair."""
    pairs = [(ref.words[a] or None if a else None, hyp.words[b] or None if b else None) for a, b in steps]
    return [pair for pair in reversed(pairs) if pair != (None, None)]


_SIDE = "Tuple((int32[::1], int32[::1], int32[::1]))"  # word numbers [A + 1], and Network.arrays
_PRICES = "Tuple((int64, int64, boolean))"
_CELLS = "int32[:, ::1]"


@njit(f"Tuple((int64, int64, int64))({_CELLS}, int64, int64, {_SIDE}, {_SIDE}, {_PRICES})", cache=True)
def _best(cells, a, b, ref, hyp, prices):
    """Least cost of having ended with arcs ``a`` and ``b``, and the arcs before: one of them is the same in a gap."""
    (words_a, begin_a, before_a), (words_b, begin_b, before_b) = ref, hyp
    substitution, gap, diagonal_wins = prices
    delete, insert, diagonal = _NOWHERE, _NOWHERE, _NOWHERE
    del_a, ins_b, diag_a, diag_b = 0, 0, 0, 0
    for i in range(begin_a[a], begin_a[a + 1]):
        p = before_a[i]
        if cells[p, b] < delete:
            delete, del_a = cells[p, b], p
        for j in range(begin_b[b], begin_b[b + 1]):
            q = before_b[j]
            if cells[p, q] < diagonal:
                diagonal, diag_a, diag_b = cells[p, q], p, q
    for j in range(begin_b[b], begin_b[b + 1]):
        q = before_b[j]
        if cells[a, q] < insert:
            insert, ins_b = cells[a, q], q
    delete += gap if words_a[a] else _PASS
    insert += gap if words_b[b] else _PASS
    if words_a[a] == 0 or words_b[b] == 0:
        diagonal = _NOWHERE  # the empty word takes no partner
    elif words_a[a] != words_b[b]:
        diagonal += substitution
    other = min(delete, insert)
    if diagonal < other or (diagonal_wins and diagonal == other):
        return diagonal, diag_a, diag_b
    if delete < insert:
        return delete, del_a, b
    return insert, a, ins_b


@njit(f"{_CELLS}({_SIDE}, {_SIDE}, {_PRICES})", cache=True)
def _fill(ref, hyp, prices):
    """Least cost of all that ends with each pair of arcs, int32 [arcs of ref + 1, arcs of hyp + 1]."""
    cells = np.empty((len(ref[0]), len(hyp[0])), np.int32)
    for a in range(len(ref[0])):
        for b in range(len(hyp[0])):
            cells[a, b] = _best(cells, a, b, ref, hyp, prices)[0] if a or b else 0
    return cells


@njit(f"int64[:, :]({_CELLS}, int64, int64, {_SIDE}, {_SIDE}, {_PRICES})", cache=True)
def _trace(cells, a, b, ref, hyp, prices):
    """(arc of ref, arc of hyp) that each step enters, 0 on the side of a gap, from the last step to the first."""
    steps = np.zeros((a + b, 2), np.int64)
    taken = 0
    while a or b:
        _, p, q = _best(cells, a, b, ref, hyp, prices)
        steps[taken, 0] = a if p != a else 0
        steps[taken, 1] = b if q != b else 0
        a, b = p, q
        taken += 1
    return steps[:taken]
