"""Making one back-off model of two: vocabulary, interpolation weight, union, pruning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from asr_parallel.lang.lexicon import BOS, EOS
from asr_parallel.lang.ngram import Ngram, pack

TINY = 1e-9  # probability mass that counts as none


def sorted_ngram(words: list[str], levels: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Ngram:
    """A model of unsorted (n-grams, log-probabilities, log back-off weights), one an order."""
    rows = [np.argsort(pack(grams, len(words)), kind="stable") for grams, _, _ in levels]
    return Ngram(
        words,
        [grams[r].astype(np.int32) for r, (grams, _, _) in zip(rows, levels)],
        [logp[r].astype(np.float64) for r, (_, logp, _) in zip(rows, levels)],
        [backoff[r].astype(np.float64) for r, (_, _, backoff) in zip(rows, levels)],
    )


def restrict(model: Ngram, words: list[str], names: Mapping[str, str], order: int) -> Ngram:
    """The model with the vocabulary ``words`` (in that order); ``names`` gives old word: new word.

    N-grams with other words, or longer than ``order``, are dropped; then all is made to sum to one again.
    """
    number = {word: i for i, word in enumerate(words)}
    new = np.array([number.get(names.get(word, word), -1) for word in model.words])
    levels = []
    for grams, logp, backoff in list(zip(model.grams, model.logp, model.backoff))[:order]:
        renamed = new[grams]
        keep = (renamed >= 0).all(axis=1)
        levels.append((renamed[keep], logp[keep], backoff[keep]))
    small = sorted_ngram(words, levels)
    p = np.where(small.grams[0][:, 0] == number[BOS], 0.0, np.exp(small.logp[0]))
    with np.errstate(divide="ignore"):
        small.logp[0] = np.log(p / p.sum())
    set_backoffs(small)
    return small


def set_backoffs(model: Ngram) -> None:
    """Set all back-off weights such that the probabilities after each history sum to one.

    A history after which every word has an n-gram needs no back-off; there the n-grams are scaled.
    """
    for k in range(1, model.order):
        left, left_below = _masses(model, k)
        closed = left_below <= TINY
        weight = np.maximum(left, TINY) / np.maximum(left_below, TINY)
        model.backoff[k - 1] = np.where(closed, 0.0, np.log(weight))
        scale = np.where(closed & (left < 1), np.log1p(-np.minimum(left, 1 - TINY)), 0.0)
        model.logp[k] = model.logp[k] - scale[model.find(model.grams[k][:, :-1])]
    model.backoff[-1] = np.zeros(len(model.grams[-1]))


def _masses(model: Ngram, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For each history of k words: the probability of the words that have no n-gram after it, given the
    history, and the same given the history without its first word."""
    grams = model.grams[k]
    history, size = model.find(grams[:, :-1]), len(model.grams[k - 1])
    if (history < 0).any():
        raise ValueError("an n-gram has a history that is not in the model")
    above = np.bincount(history, np.exp(model.logp[k]), size)
    below = np.bincount(history, np.exp(model.log_prob(grams[:, 1:])), size)
    return 1.0 - above, 1.0 - below


def best_weight(p: np.ndarray, q: np.ndarray, iterations: int = 100) -> float:
    """Weight w in [0, 1] that maximises the product of w * p + (1 - w) * q over words, by EM."""
    weight = 0.5
    for _ in range(iterations):
        share = weight * p / np.maximum(weight * p + (1 - weight) * q, 1e-300)
        weight = float(share.mean())
    return weight


def interpolate(a: Ngram, b: Ngram, weight: float) -> Ngram:
    """The union of the n-grams of two models of one vocabulary, with the mixed probabilities.

    The static mixture of SRILM's ``ngram -mix-lm``: exact for the n-grams that one of the two holds.
    """
    if a.words != b.words:
        raise ValueError("the models have other vocabularies; use restrict first")
    levels = []
    for k in range(max(a.order, b.order)):
        grams = [model.grams[k] for model in (a, b) if k < model.order]
        _, first = np.unique(np.concatenate([pack(g, len(a.words)) for g in grams]), return_index=True)
        union = np.concatenate(grams)[first]
        p = weight * np.exp(a.log_prob(union)) + (1 - weight) * np.exp(b.log_prob(union))
        with np.errstate(divide="ignore"):
            levels.append((union, np.log(p), np.zeros(len(union))))
    mixed = sorted_ngram(a.words, levels)
    set_backoffs(mixed)
    return mixed


def prune(model: Ngram, threshold: float) -> Ngram:
    """Drop the n-grams without which the perplexity rises by less than ``threshold``, relatively.

    Stolcke (1998) as in SRILM: from the highest order down, each n-gram judged alone; one that is the
    history of another stays.  A threshold of 0 or less drops nothing.
    """
    if threshold <= 0:
        return model
    levels = list(zip(model.grams, model.logp, model.backoff))
    for k in range(model.order - 1, 0, -1):
        model = sorted_ngram(model.words, levels)
        set_backoffs(model)
        keep = _perplexity_rise(model, k) >= threshold
        if k + 1 < model.order:
            keep[model.find(model.grams[k + 1][:, :-1])] = True
        levels = list(zip(model.grams, model.logp, model.backoff))
        levels[k] = (model.grams[k][keep], model.logp[k][keep], model.backoff[k][keep])
    model = sorted_ngram(model.words, levels)
    set_backoffs(model)
    return model


def _perplexity_rise(model: Ngram, k: int) -> np.ndarray:
    """Relative rise of the perplexity if one n-gram of order k + 1 goes (Stolcke 1998, equation 7)."""
    grams, logp = model.grams[k], model.logp[k]
    history = model.find(grams[:, :-1])
    left, left_below = (mass[history] for mass in _masses(model, k))
    below = model.log_prob(grams[:, 1:])
    old = model.backoff[k - 1][history]
    new = np.log(np.maximum(left, 0) + np.exp(logp)) - np.log(np.maximum(left_below, 0) + np.exp(below))
    change = np.exp(logp) * (below + new - logp) + np.maximum(left, 0) * (new - old)
    return np.expm1(-np.exp(_log_joint(model, grams[:, :-1])) * change)


def _log_joint(model: Ngram, grams: np.ndarray) -> np.ndarray:
    """Log-probability of a word sequence; a leading ``<s>`` is as likely as ``</s>``."""
    bos, eos = model.words.index(BOS), model.words.index(EOS)
    first = np.where(grams[:, :1] == bos, eos, grams[:, :1])
    total = model.log_prob(first)
    for n in range(2, grams.shape[1] + 1):
        total = total + model.log_prob(grams[:, :n])
    return total
