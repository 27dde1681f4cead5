"""The row updates of MLLT and fMLLR against a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from asr_parallel.align.rows import RowStats, maximise, objective


def some_stats(rng: np.random.Generator, dim: int, width: int, k: bool) -> RowStats:
    factors = rng.normal(size=(dim, width, 3 * width))
    return RowStats(50.0, (30 * rng.normal(size=(dim, width))) * k, factors @ factors.transpose(0, 2, 1))


def test_objective_is_its_formula():
    rng = np.random.default_rng(0)
    stats, w = some_stats(rng, 2, 3, True), rng.normal(size=(2, 3))
    det = w[0, 0] * w[1, 1] - w[0, 1] * w[1, 0]
    rows = sum(w[i] @ stats.k[i] - 0.5 * w[i] @ stats.g[i] @ w[i] for i in range(2))
    assert objective(stats, w) == pytest.approx(50 * np.log(abs(det)) + rows)


@pytest.mark.parametrize("offset", [False, True])
def test_objective_never_falls(offset):
    rng = np.random.default_rng(1)
    stats, w = some_stats(rng, 5, 5 + offset, offset), np.eye(5, 5 + offset)
    values = [objective(stats, w)]
    for _ in range(15):
        w = maximise(stats, w, sweeps=1)
        values.append(objective(stats, w))
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize("offset", [False, True])
def test_maximum_is_that_of_a_general_optimiser(offset):
    rng = np.random.default_rng(2)
    shape = (3, 3 + offset)
    stats = some_stats(rng, *shape, offset)
    ours = maximise(stats, np.eye(*shape), sweeps=200)
    found = minimize(lambda w: -objective(stats, w.reshape(shape)), np.eye(*shape).ravel(), method="BFGS", tol=1e-10)
    assert objective(stats, ours) == pytest.approx(-found.fun, rel=1e-6)
    np.testing.assert_allclose(ours, found.x.reshape(shape), rtol=2e-3, atol=1e-4)


def test_sums_add_up():
    rng = np.random.default_rng(3)
    a, b, w = some_stats(rng, 3, 4, True), some_stats(rng, 3, 4, True), rng.normal(size=(3, 4))
    assert objective(a + b, w) == pytest.approx(objective(a, w) + objective(b, w))
