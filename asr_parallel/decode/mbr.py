"""Minimum Bayes risk decoding: the words with the fewest errors to expect, and how sure each of them is.

H. Xu, D. Povey, L. Mangu, J. Zhu, "Minimum Bayes Risk decoding and system combination based on a recursion for
edit distance", Computer Speech & Language 25 (2011).  A hypothesis is aligned with all paths of a lattice at once,
which fills a bin for each of its words and for each gap between them with the words said there; the likeliest word
of each bin makes the next hypothesis, whose risk is no more.  The recursion takes minima of means where the
expected edit distance is a mean of minima: it is exact where every path has states of its own, else a bound from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_parallel.decode.determinise import costs
from asr_parallel.decode.lattice import WordLattice
from asr_parallel.decode.nbest import n_best
from asr_parallel.decode.walks import edits, fill_bins, from_start

Bin = dict[int, float]  # word (0 for none) -> probability
MOST_ROUNDS = 20  # two or three are the rule
BELOW = 1e-4  # words of less probability are not listed


@dataclass(frozen=True)
class Judged:
    """A hypothesis: ``words`` [N] with ``confidence`` [N], the probability of each in its place.

    ``risk`` is the expected number of errors.  ``bins`` [2 N + 1] are, by turns, a gap and a word: what is said
    there and how probable it is (a sausage, or confusion network).
    """

    words: tuple[int, ...]
    confidence: tuple[float, ...]
    risk: float
    bins: tuple[Bin, ...]


class Judge:
    """A determinised lattice at one LM weight and word penalty, ready to be compared with hypotheses."""

    def __init__(self, determinised: WordLattice, lmwt: float, wip: float = 0.0):
        arcs, cost, size = determinised, costs(determinised, lmwt, wip), len(determinised.level)
        alpha = from_start(arcs.src, arcs.dst, cost, size, True)
        self.table, words = np.unique(np.append(0, arcs.word), return_inverse=True)
        self.arcs = (arcs.src, arcs.dst, words[1:].astype(np.int32), np.exp(alpha[arcs.dst] - alpha[arcs.src] - cost))
        self.states = size

    def of(self, words: Sequence[int]) -> Judged:
        """Risk and confidences of ``words``, whether the lattice has them or not."""
        number = {w: i for i, w in enumerate(self.table.tolist())}
        padded = np.zeros(2 * len(words) + 1, np.int32)
        padded[1::2] = [number.get(w, -1) for w in words]  # -1: a word that is nowhere
        at_state, at_arc = edits(*self.arcs, padded, self.states)
        table = fill_bins(*self.arcs, padded, at_state, at_arc, len(self.table))
        bins = [{int(self.table[i]): float(b[i]) for i in np.flatnonzero(b >= BELOW)} for b in table]
        sure = (float(b[i]) if i >= 0 else 0.0 for i, b in zip(padded[1::2], table[1::2]))
        return Judged(tuple(words), tuple(sure), float(at_state[-1, -1]), tuple(bins))


def confidences(determinised: WordLattice, words: Sequence[int], lmwt: float, wip: float = 0.0) -> Judged:
    """How sure the lattice is of each of ``words``, such as those of the best path."""
    return Judge(determinised, lmwt, wip).of(words)


def minimum_bayes_risk(determinised: WordLattice, lmwt: float, wip: float = 0.0) -> Judged | None:
    """The hypothesis of least risk that is found from the best path on; None for an empty lattice."""
    start = n_best(determinised, 1, lmwt, wip)
    if not start:
        return None
    judge = Judge(determinised, lmwt, wip)
    best = judge.of(start[0].words)
    for _ in range(MOST_ROUNDS):
        likeliest = (max(b, key=lambda w: (b[w], -w)) for b in best.bins)
        found = judge.of([w for w in likeliest if w])
        if found.words == best.words or found.risk >= best.risk:
            break
        best = found
    return best
