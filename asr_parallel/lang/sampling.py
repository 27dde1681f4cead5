"""Sentences drawn from a language model, of which a model of other units can be trained.

A model of words cannot be turned into one of pieces of words, but its sentences can (Deoras et al. 2011 put a long-span
model into an n-gram in this way).
"""

from __future__ import annotations

import numpy as np

from asr_parallel.lang.lexicon import BOS, EOS
from asr_parallel.lang.ngram import Ngram

LONGEST = 60  # words of a sentence; what is longer is cut


def sample(model: Ngram, count: int, seed: int = 0) -> list[list[str]]:
    """``count`` sentences, each with the probability that ``model`` gives it."""
    draw, eos = _Draw(model, np.random.default_rng(seed)), model.words.index(EOS)
    width = model.order - 1
    text = np.full((count, width + LONGEST), -1, np.int64)
    if width:
        text[:, width - 1] = model.words.index(BOS)
    alive = np.arange(count)
    for at in range(width, width + LONGEST):
        text[alive, at] = draw(text[alive, at - width : at])
        alive = alive[text[alive, at] != eos]
    return [[model.words[w] for w in row[(row >= 0) & (row != eos)].tolist()] for row in text[:, width:]]


class _Draw:
    """Draws words after histories: an n-gram that is there with its probability, else by back-off."""

    def __init__(self, model: Ngram, random: np.random.Generator):
        self.model, self.random = model, random
        self.sums = [np.concatenate([[0.0], np.cumsum(np.exp(logp))]) for logp in model.logp]
        self.first = []  # by order: the first n-gram of each history, and the number of n-grams
        for k in range(1, model.order):
            history = model.find(model.grams[k][:, :-1])
            self.first.append(np.searchsorted(history, np.arange(len(model.grams[k - 1]) + 1)))

    def __call__(self, history: np.ndarray) -> np.ndarray:
        """A word after each row of ``history`` int64 [N, n] (-1: nothing), int64 [N]."""
        size, order = history.shape
        sums, grams = self.sums[order], self.model.grams[order]
        if order == 0:
            return grams[_pick(sums, self.random.random(size) * sums[-1]), 0].astype(np.int64)
        row = self.model.find(history)
        begin, end = (np.where(row >= 0, self.first[order - 1][row + i], 0) for i in (0, 1))
        whole = np.where(end - begin < len(self.model.words) - 1, 1.0, sums[end] - sums[begin])  # of all words but <s>
        at = sums[begin] + self.random.random(size) * whole
        there = at < sums[end]
        words = np.full(size, -1, np.int64)
        words[there] = grams[_pick(sums, at[there]), -1]
        todo = np.flatnonzero(~there)
        while len(todo):  # the shorter history may give only words that have no n-gram after the longer one
            words[todo] = self(history[todo, 1:])
            seen = self.model.find(np.column_stack([history[todo], words[todo]])) >= 0
            todo = todo[seen]
        return words


def _pick(sums: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.minimum(np.searchsorted(sums, at, side="right") - 1, len(sums) - 2)
