"""Accuracy of a classifier by class, and which class is taken for which.

Utterances are scored as those of one word are: a wrong class is a substitution, so that the accuracy is 100 - WER, and
what there is for word errors (intervals by speakers, comparisons of two systems) holds for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from asr_parallel.score.report import GAP
from asr_parallel.score.significance import bootstrap
from asr_parallel.score.wer import SetScore, UttScore

CONFUSED = 3  # classes that are named as what a class is taken for


def accuracy(utts: Sequence[UttScore], seed: int) -> dict[str, Any]:
    """Right utterances of ``utts`` in percent with the 95 % interval, which is None if there are no utterances."""
    errors, spks = [u.counts.errors for u in utts], [u.spk for u in utts]
    interval = bootstrap(errors, [1] * len(utts), spks, seed=seed)
    right = len(utts) - sum(errors)
    return {
        "utts": len(utts),
        "right": right,
        "accuracy": 100 * right / len(utts) if utts else None,
        "ci95": [100 - interval.high, 100 - interval.low] if interval else None,
    }


def confusion(score: SetScore) -> dict[str, Counter[str]]:
    """How often each class that was said was taken for which, itself among them; ``GAP`` is no answer."""
    counts: dict[str, Counter[str]] = {}
    for u in score.utts:
        (said, heard), *_ = u.pairs
        counts.setdefault(said or GAP, Counter())[heard or GAP] += 1
    return {said: counts[said] for said in sorted(counts)}


def matrix(score: SetScore) -> str:
    """``confusion`` as a table: a row a class that was said, a column a class that was heard."""
    counts = confusion(score)
    heard = sorted({name for row in counts.values() for name in row} | counts.keys())
    rows = [["said", *heard], *([said, *(str(row[name]) for name in heard)] for said, row in counts.items())]
    return "".join("\t".join(row) + "\n" for row in rows)


def by_class(score: SetScore, seed: int) -> str:
    """A row a class: utterances, how many are right, the accuracy with its interval, what it was taken for."""
    rows = [["class", "utts", "right", "accuracy", "low", "high", "taken_for"]]
    for said, heard in confusion(score).items():
        found = accuracy([u for u in score.utts if u.pairs[0][0] == said], seed)
        others = [(name, n) for name, n in heard.most_common() if name != said][:CONFUSED]
        cells = [f"{value:.2f}" for value in (found["accuracy"], *found["ci95"])]
        rows.append(
            [said, str(found["utts"]), str(found["right"]), *cells, ", ".join(f"{name} {n}" for name, n in others)]
        )
    return "".join("\t".join(row) + "\n" for row in rows)
