"""MLLT by closed forms, and by the likelihood that it raises."""

import numpy as np
import pytest

from asr_parallel.align import em, mllt
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.rows import objective

PDFS = 6


def sort(feats: np.ndarray, pdfs: np.ndarray) -> em.SortedFrames:
    return em.SortedFrames.of(Corpus("x", [], [], np.zeros(1, np.int64), feats), pdfs, int(pdfs.max()) + 1)


def correlated(dim: int, frames: int = 3000) -> em.SortedFrames:
    """Frames of several pdfs, each of two Gaussians, that share the axes of their covariances."""
    rng = np.random.default_rng(1)
    pdfs = rng.integers(0, PDFS, frames).astype(np.int32)
    mix = rng.normal(size=(dim, dim))
    spread = rng.uniform(0.3, 2, size=(PDFS, dim))
    centres = 4 * rng.normal(size=(PDFS, 2, dim))
    which = rng.integers(0, 2, frames)
    feats = (centres[pdfs, which] + spread[pdfs] * rng.normal(size=(frames, dim))) @ mix.T
    return sort(feats.astype(np.float32), pdfs)


def trained(frames: em.SortedFrames, steps: int = 6) -> DiagGmm:
    floor = em.variance_floor(frames.feats)
    gmm = em.single_gaussians(frames, floor)
    gmm = em.grow(gmm, np.diff(frames.offsets).astype(float), 2 * frames.num_pdfs, np.random.default_rng(0))
    for _ in range(steps):
        gmm = em.update(gmm, em.accumulate(gmm, frames), floor)
    return gmm


def moved(frames: em.SortedFrames, a: np.ndarray) -> em.SortedFrames:
    return em.SortedFrames((frames.feats @ a.T).astype(np.float32), frames.offsets)


def test_one_gaussian_in_two_dimensions():
    """Of one Gaussian with variances v, A is such that A S A' has them: any such A has the greatest likelihood."""
    rng = np.random.default_rng(0)
    feats = (rng.normal(size=(5000, 2)) @ np.array([[2.0, 1.2], [0.0, 0.5]])).astype(np.float32)
    frames = sort(feats, np.zeros(5000, np.int32))
    gmm = em.single_gaussians(frames, np.full(2, 1e-4))
    a = mllt.estimate(gmm, frames)
    covariance = np.cov(feats.astype(np.float64).T, bias=True)
    np.testing.assert_allclose(a @ covariance @ a.T, np.diag(gmm.variances[0]), atol=2e-4 * covariance.max())
    # the log-likelihood with log |det A| is that of a Gaussian with a full covariance
    rotated = em.accumulate(mllt.rotated(gmm, a), moved(frames, a)).log_likelihood / 5000 + np.log(
        abs(np.linalg.det(a))
    )
    full = -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + 2)
    assert rotated == pytest.approx(full, abs=1e-4)


def test_statistics_are_scatters_over_variances():
    frames = correlated(3)
    gmm = trained(frames)
    stats = mllt.accumulate(gmm, frames)
    expected = np.zeros((3, 3, 3))
    for pdf in range(PDFS):
        for x in frames.of_pdf(pdf).astype(np.float64):
            mine = gmm.of_pdf(pdf)
            m, v, w = (a[mine].astype(np.float64) for a in (gmm.means, gmm.variances, gmm.weights))
            density = w * np.exp(-0.5 * ((x - m) ** 2 / v).sum(1)) / np.sqrt(v.prod(1))
            for g, mean, variance in zip(density / density.sum(), m, v):
                expected += g * np.outer(x - mean, x - mean) / variance[:, None, None]
    np.testing.assert_allclose(stats.g, expected, rtol=1e-3, atol=0.5)
    assert (stats.beta, np.abs(stats.k).max()) == (3000, 0)


def test_likelihood_rises_with_the_log_determinant_counted():
    """EM with rotations now and then ends above EM without, and no step lowers the likelihood."""
    frames = correlated(4)
    gmm, log_det, floor = trained(frames), 0.0, np.full(4, 1e-5)
    before = em.accumulate(gmm, frames).log_likelihood / len(frames)
    values = [before]
    for _ in range(8):
        stats = mllt.accumulate(gmm, frames)
        a = mllt.estimate(gmm, frames)
        assert objective(stats, a) >= objective(stats, np.eye(4))
        gmm, frames = mllt.rotated(gmm, a), moved(frames, a)
        log_det += np.log(abs(np.linalg.det(a)))
        values.append(em.accumulate(gmm, frames).log_likelihood / len(frames) + log_det)
        gmm = em.update(gmm, em.accumulate(gmm, frames), floor)
        values.append(em.accumulate(gmm, frames).log_likelihood / len(frames) + log_det)
    assert np.diff(values).min() > -1e-4
    assert values[-1] > before + 0.5


def test_result_does_not_depend_on_jobs():
    frames = correlated(3)
    gmm = trained(frames)
    np.testing.assert_array_equal(mllt.estimate(gmm, frames, jobs=1), mllt.estimate(gmm, frames, jobs=3))
