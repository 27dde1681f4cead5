"""Confidences that can be believed: probabilities of lattices, bent by a curve that is fitted where words are known.

A lattice leaves out most of what might have been said, so its words look likelier than they are.  The probability p
of a word becomes 1 / (1 + exp(-offset - slope log(p / (1 - p)))) (Platt 1999), with the two numbers that give the words
of a dev set, right or wrong, the greatest likelihood.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from asr_parallel.score.align import align
from asr_parallel.score.network import Words

EDGE = 1e-4  # probabilities stay that far from 0 and 1
ROUNDS = 50  # of Newton's method; fewer than ten are the rule
TINY = 1e-12  # what a round gains when there is no more to gain
RIDGE = 1e-6  # keeps its matrix regular where all probabilities are alike


@dataclass(frozen=True)
class Curve:
    """A straight line between log-odds; as it stands it changes nothing."""

    offset: float = 0.0
    slope: float = 1.0

    def __call__(self, p: np.ndarray) -> np.ndarray:
        """Confidences for probabilities ``p`` [N]."""
        return _sigmoid(self.offset + self.slope * _log_odds(p))


def _log_odds(p: np.ndarray) -> np.ndarray:
    inside = np.clip(p, EDGE, 1 - EDGE)
    return np.log(inside / (1 - inside))


def fit(p: np.ndarray, right: np.ndarray) -> Curve:
    """The curve for probabilities ``p`` [N] of words that are ``right`` (bool [N]) or not, by Newton's method.

    Instead of 0 and 1 it aims a little inside, as Platt does, so that few words do not make it sure of itself.
    Changes nothing where all words are right, or none is.
    """
    good, bad = int(right.sum()), int((~right).sum())
    if not good or not bad:
        return Curve()
    aim = np.where(right, (good + 1) / (good + 2), 1 / (bad + 2))
    x, line = np.stack([np.ones(len(p)), _log_odds(p)], axis=1), np.array([0.0, 1.0])
    cost = _cost(x @ line, aim)
    for _ in range(ROUNDS):
        now = _sigmoid(x @ line)
        step = np.linalg.solve((x.T * (now * (1 - now))) @ x + RIDGE * np.eye(2), x.T @ (aim - now))
        while (found := _cost(x @ (line + step), aim)) > cost:  # it went too far (Lin, Lin & Weng 2007)
            step = step / 2
        line, gain, cost = line + step, cost - found, found
        if gain < TINY:
            break
    return Curve(*line.tolist())


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -z))


def _cost(z: np.ndarray, aim: np.ndarray) -> float:
    """Negative log-likelihood of ``aim`` at log-odds ``z``."""
    return float((np.logaddexp(0.0, z) - aim * z).sum())


def right_words(refs: Iterable[Words], hyps: Iterable[Sequence[str]]) -> np.ndarray:
    """Whether each word of the hypotheses stands in its reference too, aligned as for the word error rate; bool [N]."""
    pairs = (pair for ref, hyp in zip(refs, hyps, strict=True) for pair in align(ref, hyp))
    return np.array([ref == hyp for ref, hyp in pairs if hyp is not None], bool)


def normalised_cross_entropy(confidence: np.ndarray, right: np.ndarray) -> float:
    """NIST's measure of confidences [N]: 1 if they are all 0 or 1 and true, 0 if they say no more than their mean does.

    (H - C) / H, where H is the entropy of ``right`` and C the cross entropy of it and ``confidence`` (Siu & Gish 1999).
    nan where all words are right, or none is.
    """
    share = right.mean() if len(right) else 0.0
    if share in (0.0, 1.0):
        return float("nan")
    inside = np.clip(confidence, EDGE, 1 - EDGE)
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    cross = -np.log(np.where(right, inside, 1 - inside)).mean()
    return float((entropy - cross) / entropy)
