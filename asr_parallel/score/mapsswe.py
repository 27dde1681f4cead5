"""Matched pairs sentence-segment word error test (MAPSSWE): do two systems differ on the same speech?

Gillick & Cox, "Some statistical issues in the comparison of speech recognition algorithms", ICASSP 1989: an utterance
falls into segments, each from where one of the two systems goes wrong to where both have had two words right again, so
that errors in different segments are independent.  The mean of the differences between the systems' errors in a segment
is compared with its standard deviation; with enough segments (50, say) their ratio is normally distributed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from asr_parallel.score.align import Pair

GOOD = 2  # words that both systems have right, one after the other, end a segment


@dataclass(frozen=True)
class Mapsswe:
    """``mean`` of errors of A less errors of B in a segment, ``z`` and the two-sided ``p``.

    ``z`` and ``p`` are None where the differences have no spread to compare the mean with.
    """

    segments: int
    mean: float
    z: float | None
    p: float | None


def mapsswe(alignments: Iterable[tuple[Sequence[Pair], Sequence[Pair]]]) -> Mapsswe:
    """The test over (alignment of A, alignment of B) of each utterance."""
    differences = np.array([a - b for pair in alignments for a, b in segments(*pair)], dtype=float)
    n = len(differences)
    if not n or not differences.any():
        return Mapsswe(n, 0.0, 0.0, 1.0)
    spread = float(differences.std(ddof=1)) if n > 1 else 0.0
    mean = float(differences.mean())
    if spread == 0:
        return Mapsswe(n, mean, None, None)
    z = mean / (spread / math.sqrt(n))
    return Mapsswe(n, mean, z, math.erfc(abs(z) / math.sqrt(2)))


def segments(a: Sequence[Pair], b: Sequence[Pair]) -> list[tuple[int, int]]:
    """Errors of A and of B in each segment of an utterance; those without an error are none.

    If alternates made the two references differ, the utterance is one segment.
    """
    said_a, wrong_a, added_a = _by_word(a)
    said_b, wrong_b, added_b = _by_word(b)
    if said_a != said_b:
        return _with_errors([(sum(wrong_a) + sum(added_a), sum(wrong_b) + sum(added_b))])
    found, errors, good = [], (0, 0), 0
    for i in range(len(said_a)):
        inserted = added_a[i] + added_b[i]
        errors = (errors[0] + added_a[i] + wrong_a[i], errors[1] + added_b[i] + wrong_b[i])
        good = 0 if wrong_a[i] or wrong_b[i] else 1 if inserted else good + 1
        if good >= GOOD:
            found.append(errors)
            errors = (0, 0)
    found.append((errors[0] + added_a[-1], errors[1] + added_b[-1]))
    return _with_errors(found)


def _with_errors(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [errors for errors in found if any(errors)]


def _by_word(pairs: Sequence[Pair]) -> tuple[list[str], list[int], list[int]]:
    """Reference words [N], whether each is wrong [N], and insertions before each and at the end [N + 1]."""
    said: list[str] = []
    wrong: list[int] = []
    added = [0]
    for ref, hyp in pairs:
        if ref is None:
            added[-1] += 1
        else:
            said.append(ref)
            wrong.append(int(ref != hyp))
            added.append(0)
    return said, wrong, added
