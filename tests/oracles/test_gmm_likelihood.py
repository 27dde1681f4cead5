"""Gaussian mixtures against torch.distributions, and one EM step against plain loops."""

import numpy as np
import pytest
import torch

from asr_parallel.align import em
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm


def a_gmm(rng: np.random.Generator, sizes: list[int], dim: int) -> DiagGmm:
    weights = np.concatenate([rng.dirichlet(np.full(n, 3.0)) for n in sizes])
    shape = (sum(sizes), dim)
    return DiagGmm(rng.normal(size=shape), rng.uniform(0.3, 2, shape), weights, np.repeat(np.arange(len(sizes)), sizes))


def sort(feats: np.ndarray, pdfs: np.ndarray, num_pdfs: int) -> em.SortedFrames:
    return em.SortedFrames.of(Corpus("x", [], [], np.zeros(1, np.int64), feats), pdfs, num_pdfs)


def mixtures(gmm: DiagGmm, feats: np.ndarray) -> np.ndarray:
    out = []
    for pdf in range(gmm.num_pdfs):
        mine = gmm.pdf == pdf
        normal = torch.distributions.Normal(
            torch.tensor(gmm.means[mine], dtype=torch.float64), torch.tensor(gmm.variances[mine].astype("d") ** 0.5)
        )
        mixture = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(torch.tensor(gmm.weights[mine], dtype=torch.float64)),
            torch.distributions.Independent(normal, 1),
        )
        out.append(mixture.log_prob(torch.tensor(feats, dtype=torch.float64)).numpy())
    return np.stack(out, axis=1)


@pytest.mark.parametrize("block", [1, 1 << 21])
@pytest.mark.parametrize("pdfs", [None, [0, 1, 2, 3], [2], [3, 1], [0, 2, 3]])
def test_log_likelihoods_are_those_of_torch(monkeypatch, block, pdfs):
    monkeypatch.setattr("asr_parallel.align.gmm.BLOCK", block)
    rng = np.random.default_rng(0)
    gmm = a_gmm(rng, [3, 1, 7, 2], 5)
    feats = (3 * rng.normal(size=(40, 5))).astype(np.float32)
    index = None if pdfs is None else np.array(pdfs)
    ours = gmm.log_likelihoods(feats, index)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(
        ours, mixtures(gmm, feats)[:, slice(None) if pdfs is None else pdfs], rtol=1e-5, atol=1e-4
    )


def test_far_frames_do_not_underflow():
    gmm = a_gmm(np.random.default_rng(1), [2, 2], 3)
    feats = np.full((2, 3), 60.0, np.float32)
    np.testing.assert_allclose(gmm.log_likelihoods(feats), mixtures(gmm, feats), rtol=1e-4)


def plain_em(gmm: DiagGmm, feats: np.ndarray, pdfs: np.ndarray, floor: float):
    """Statistics and new parameters of each Gaussian, one frame and one Gaussian at a time."""
    size, dim = gmm.means.shape
    count, first, second, total = np.zeros(size), np.zeros((size, dim)), np.zeros((size, dim)), 0.0
    for x, pdf in zip(feats.astype(np.float64), pdfs):
        mine = [g for g in range(size) if gmm.pdf[g] == pdf]
        density = []
        for g in mine:
            m, v = gmm.means[g].astype(np.float64), gmm.variances[g].astype(np.float64)
            density.append(gmm.weights[g] * np.prod(np.exp(-0.5 * (x - m) ** 2 / v) / np.sqrt(2 * np.pi * v)))
        total += np.log(sum(density))
        for g, p in zip(mine, density):
            count[g] += p / sum(density)
            first[g] += p / sum(density) * x
            second[g] += p / sum(density) * x * x
    mean = first / count[:, None]
    variance = np.maximum(second / count[:, None] - mean**2, floor)
    weight = np.array([count[g] / count[gmm.pdf == gmm.pdf[g]].sum() for g in range(size)])
    return count, total, mean, variance, weight


def test_em_step_is_that_of_plain_loops(monkeypatch):
    monkeypatch.setattr(em, "CHUNK", 64)  # several chunks a pdf
    rng = np.random.default_rng(2)
    gmm = a_gmm(rng, [2, 1, 3], 3)
    feats, pdfs = rng.normal(size=(600, 3)).astype(np.float32), rng.integers(0, 3, 600).astype(np.int32)
    stats = em.accumulate(gmm, sort(feats, pdfs, 3))
    new = em.update(gmm, stats, np.full(3, 0.7))
    count, total, mean, variance, weight = plain_em(gmm, feats, pdfs, 0.7)
    assert (count >= em.MIN_OCCUPANCY).all()  # or nothing would be compared
    assert (variance == 0.7).any()
    assert (variance > 0.7).any()
    np.testing.assert_allclose(stats.occupancy, count, rtol=1e-4)
    assert stats.log_likelihood == pytest.approx(total, rel=1e-6)
    np.testing.assert_allclose(new.means, mean, atol=1e-4)
    np.testing.assert_allclose(new.variances, variance, rtol=1e-3)
    np.testing.assert_allclose(new.weights, weight, rtol=1e-4)


def test_likelihood_never_falls_while_the_model_keeps_its_size():
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(2, 4, 3)) * 2
    pdfs = rng.integers(0, 2, 4000).astype(np.int32)
    feats = (centres[pdfs, rng.integers(0, 4, 4000)] + 0.7 * rng.normal(size=(4000, 3))).astype(np.float32)
    frames = sort(feats, pdfs, 2)
    floor = em.variance_floor(feats)
    gmm = em.single_gaussians(frames, floor)
    gmm = em.grow(gmm, np.diff(frames.offsets).astype(float), 8, rng)
    assert len(gmm) == 8
    values = []
    for _ in range(25):
        stats = em.accumulate(gmm, frames)
        values.append(stats.log_likelihood / stats.frames)
        gmm = em.update(gmm, stats, floor)
    assert (np.diff(values) > -1e-6).all()
    assert values[-1] - values[0] > 0.3
