"""Sentences that are drawn against the probabilities that the model gives them."""

import itertools
import math

import numpy as np
import pytest
from test_ngram import make_lines

from asr_parallel.lang.mix import set_backoffs
from asr_parallel.lang.ngram import Ngram, kneser_ney
from asr_parallel.lang.sampling import sample

COUNT = 20000


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_frequencies_are_probabilities(order, sparse):
    """All sentences of up to two words, each within five standard deviations."""
    model = kneser_ney(make_lines(0, 40, words="ABC"), order)
    if sparse and order > 1:  # only some n-grams are left, so that most words are drawn by back-off
        model = thinned(model)
    drawn = [tuple(line) for line in sample(model, COUNT, seed=1)]
    for length in range(3):
        for words in itertools.product("ABC", repeat=length):
            p = math.exp(model.score([words]).sum())
            assert abs(drawn.count(words) / COUNT - p) < 5 * math.sqrt(p * (1 - p) / COUNT) + 1e-9, words


def thinned(model):
    keep = [np.ones(len(model.grams[0]), bool), *(np.arange(len(g)) % 3 == 0 for g in model.grams[1:])]
    if model.order == 3:  # what a 3-gram begins with must stay
        keep[1][model.find(model.grams[2][keep[2], :-1])] = True
    parts = ([x[k].copy() for x, k in zip(column, keep)] for column in (model.grams, model.logp, model.backoff))
    small = Ngram(model.words, *parts)
    set_backoffs(small)
    return small


def test_same_seed_same_sentences():
    model = kneser_ney(make_lines(0, 40), 3)
    assert sample(model, 50, 3) == sample(model, 50, 3) != sample(model, 50, 4)


def test_a_history_after_which_all_words_stand_needs_no_back_off():
    """Its n-grams sum to a little less than one here: another draw could go on for ever."""
    model = kneser_ney([["A"], ["A", "A"], ["A", "A", "A"]] * 5, 2)
    for k in (0, 1):
        model.logp[k] = model.logp[k] - 1e-3
    assert len(sample(model, 2000)) == 2000
