"""The one alignment of a reference and a hypothesis that every figure of the scorer comes from.

Costs are 1 for an insertion, a deletion and a substitution.  The smallest total is unique, its split into the
three kinds is not.  Ties are broken as in Kaldi's ``compute-wer`` (src/util/edit-distance-inl.h): in each cell,
the diagonal step is taken only if it is strictly cheaper than both others, else a deletion if it is strictly
cheaper than an insertion, else an insertion.  So ``A B C`` against ``B X C`` is one deletion and one insertion,
not two substitutions.
"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str | None, str | None]  # (reference word, hypothesis word); None where the other side has no partner

_DIAGONAL, _DELETION, _INSERTION = 0, 1, 2


def align(ref: Sequence[str], hyp: Sequence[str]) -> list[Pair]:
    """Pairs of words, in order: (word, word) correct or substituted, (word, None) deleted, (None, word) inserted."""
    if list(ref) == list(hyp):
        return [(word, word) for word in ref]
    return _trace_back(ref, hyp, _steps(ref, hyp))


def _steps(ref: Sequence[str], hyp: Sequence[str]) -> list[bytearray]:
    """Best last step of each cell: row j, column i aligns the first i reference to the first j hypothesis words."""
    size = len(ref) + 1
    above = list(range(size))
    rows = [bytearray([_DELETION]) * size]
    for j, said in enumerate(hyp, start=1):
        left = j  # cost of the cell to the left; column 0 is j insertions
        costs, steps = [left], bytearray([_INSERTION]) * size
        for i, word in enumerate(ref, start=1):
            insertion, deletion = above[i] + 1, left + 1
            diagonal = above[i - 1] + (said != word)
            if diagonal < insertion and diagonal < deletion:
                left, steps[i] = diagonal, _DIAGONAL
            elif deletion < insertion:
                left, steps[i] = deletion, _DELETION
            else:
                left = insertion
            costs.append(left)
        above = costs
        rows.append(steps)
    return rows


def _trace_back(ref: Sequence[str], hyp: Sequence[str], rows: list[bytearray]) -> list[Pair]:
    pairs: list[Pair] = []
    i, j = len(ref), len(hyp)
    while i or j:
        step = rows[j][i]
        i -= step != _INSERTION
        j -= step != _DELETION
        pairs.append((None if step == _INSERTION else ref[i], None if step == _DELETION else hyp[j]))
    return pairs[::-1]
