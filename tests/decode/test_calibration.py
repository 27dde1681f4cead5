"""Confidences against a general optimiser, words whose chances are known, and formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from asr_parallel.decode.calibration import Curve, fit, normalised_cross_entropy, right_words


def words(seed, offset=-0.4, slope=0.5, size=400):
    """Probabilities, and words that are right as often as a curve of them says."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 0.7, size).clip(0.001, 0.999)
    odds = offset + slope * np.log(p / (1 - p))
    return p, rng.random(size) < 1 / (1 + np.exp(-odds))


@pytest.mark.parametrize("seed", range(5))
def test_curve_is_the_likeliest(seed):
    """Platt's aims are a word more of each kind, whose shares add up to one."""
    p, right = words(seed)
    x, good, bad = np.log(p / (1 - p)), right.sum(), (~right).sum()
    aim = np.where(right, (good + 1) / (good + 2), 1 / (bad + 2))

    def cost(line):
        sure = 1 / (1 + np.exp(-line[0] - line[1] * x))
        return -(aim * np.log(sure) + (1 - aim) * np.log(1 - sure)).sum()

    found = fit(p, right)
    assert (found.offset, found.slope) == pytest.approx(minimize(cost, [0.0, 1.0]).x, abs=1e-3)


def test_curve_of_which_words_were_drawn_is_found():
    found = fit(*words(0, size=100_000))
    assert (found.offset, found.slope) == pytest.approx((-0.4, 0.5), abs=0.03)
    assert fit(*words(1, 0.0, 1.0, size=100_000))(np.array([0.2, 0.5, 0.9])) == pytest.approx([0.2, 0.5, 0.9], abs=0.01)


def test_curve_helps_on_other_words():
    curve = fit(*words(2))
    p, right = words(3, size=5000)
    before, after = (normalised_cross_entropy(c, right) for c in (p, curve(p)))
    assert before < 0 < after
    assert np.all(np.diff(curve(np.sort(p))) >= 0)


@pytest.mark.parametrize("right", [True, False])
def test_words_of_one_kind_say_nothing(right):
    assert fit(np.array([0.3, 0.9]), np.array([right, right])) == Curve()
    assert fit(np.zeros(0), np.zeros(0, bool)) == Curve()
    assert math.isnan(normalised_cross_entropy(np.array([0.3, 0.9]), np.array([right, right])))
    assert Curve()(np.array([0.0, 0.25, 1.0])) == pytest.approx([1e-4, 0.25, 1 - 1e-4])


def test_few_words_do_not_make_it_sure():
    """A wrong word and then a right one can be told apart by any line, however steep."""
    sure = fit(np.array([0.4, 0.6]), np.array([False, True]))(np.array([0.4, 0.6]))
    assert sure == pytest.approx([1 / 3, 2 / 3], abs=1e-3)


def test_normalised_cross_entropy_by_hand():
    right = np.array([True, True, True, False])
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    cross = -(math.log(0.9) + math.log(0.8) + math.log(0.7) + math.log(1 - 0.6)) / 4
    found = normalised_cross_entropy(np.array([0.9, 0.8, 0.7, 0.6]), right)
    assert found == pytest.approx((entropy - cross) / entropy)
    assert normalised_cross_entropy(np.full(4, 0.75), right) == pytest.approx(0.0)
    assert normalised_cross_entropy(right.astype(float), right) == pytest.approx(1.0, abs=1e-3)


def test_right_words_are_those_of_the_alignment():
    refs, hyps = [["A", "B", "C"], [], ["A"], ["A", "B"]], [["A", "X", "C", "D"], ["A"], [], ["B"]]
    assert right_words(refs, hyps).tolist() == [True, False, True, False, False, True]
    assert right_words([], []).dtype == bool
