"""Bootstrap intervals of WER and paired comparisons of two systems.

Bisani & Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP 2004: whole
utterances are drawn with replacement, and the rate of each draw is sum over sum.  Utterances of one speaker are
alike, so that with many speakers whole speakers are drawn; with few of them this would be too coarse, and the
interval then speaks of new utterances of the same speakers, not of new speakers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MIN_SPEAKERS = 10  # with as many speakers or more, speakers are drawn instead of utterances
SAMPLES = 10_000
_CELLS = 4_000_000  # drawn indices held at a time


@dataclass(frozen=True)
class Interval:
    """WER in percent with its 95 % interval; ``unit`` is what was drawn."""

    wer: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True)
class Comparison:
    """System B against system A on the same utterances, in percent.

    ``relative`` is (A - B) / A: positive if B is better; nan if A has no errors.  ``low`` and ``high`` bound the
    difference A - B (95 %, absolute).  ``p_better`` is the share of draws in which B has the lower rate; equal
    counts half, so that a system against itself has 0.5.
    """

    wer_a: float
    wer_b: float
    relative: float
    low: float
    high: float
    p_better: float
    unit: str

    @property
    def p(self) -> float:
        """Two-sided p value: how often draws as far on the other side of "no difference" are to be expected."""
        return 2 * min(self.p_better, 1 - self.p_better)


def bootstrap(
    errors: Sequence[int], words: Sequence[int], spks: Sequence[str] = (), samples: int = SAMPLES, seed: int = 0
) -> Interval | None:
    """95 % percentile interval from errors and reference words [U] of each utterance (and its speaker).

    None if there is no reference word.  Draws without a reference word are put aside.
    """
    if not np.sum(words):
        return None
    columns, unit = _grouped(np.array([errors, words], dtype=np.int64), spks)
    drawn = _draw(columns, samples, seed)
    rates = 100 * drawn[0] / drawn[1]
    low, high = np.percentile(rates, [2.5, 97.5])
    return Interval(100 * columns[0].sum() / columns[1].sum(), float(low), float(high), unit)


def compare(
    errors_a: Sequence[int],
    errors_b: Sequence[int],
    words: Sequence[int],
    spks: Sequence[str] = (),
    samples: int = SAMPLES,
    seed: int = 0,
    words_b: Sequence[int] | None = None,
) -> Comparison | None:
    """Paired bootstrap: both systems see the same draws [U].  None if there is no reference word.

    Alternates may give B other reference words, ``words_b``.
    """
    words_b = words if words_b is None else words_b
    if not (np.sum(words) and np.sum(words_b)):
        return None
    columns, unit = _grouped(np.array([errors_a, words, errors_b, words_b], dtype=np.int64), spks)
    drawn = _draw(columns, samples, seed)
    drawn = drawn[:, drawn[3] > 0]
    gain = drawn[0] / drawn[1] - drawn[2] / drawn[3]
    low, high = np.percentile(100 * gain, [2.5, 97.5])
    a, n, b, n_b = (int(column.sum()) for column in columns)
    return Comparison(
        wer_a=100 * a / n,
        wer_b=100 * b / n_b,
        relative=100 * (1 - b * n / (a * n_b)) if a else float("nan"),
        low=float(low),
        high=float(high),
        p_better=float(np.mean((gain > 0) + 0.5 * (gain == 0))),
        unit=unit,
    )


def _grouped(columns: np.ndarray, spks: Sequence[str]) -> tuple[np.ndarray, str]:
    """Columns [C, U] summed by speaker if there are enough of them, and the name of the unit."""
    names, index = np.unique(np.asarray(spks, dtype=str), return_inverse=True)
    if len(names) < MIN_SPEAKERS:
        return columns, "utterances"
    sums = np.zeros((len(columns), len(names)), dtype=np.int64)
    for row, column in zip(sums, columns):
        np.add.at(row, index, column)
    return sums, "speakers"


def _draw(columns: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """Sums [C, <= samples] of the columns [C, U] over U units drawn with replacement; row 1 (words) is positive."""
    units = columns.shape[1]
    rng = np.random.default_rng(seed)
    rows = max(1, _CELLS // units)
    sums = []
    for start in range(0, samples, rows):
        picked = rng.integers(units, size=(min(rows, samples - start), units))
        sums.append(columns[:, picked].sum(axis=2))
    drawn = np.concatenate(sums, axis=1)
    return drawn[:, drawn[1] > 0]
