"""LDA against scikit-learn, and by its definition."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from asr_parallel.align.corpus import Corpus
from asr_parallel.align.em import SortedFrames
from asr_parallel.align.lda import lda, scatter
from asr_parallel.log import UserError

CLASSES, WIDTH = 7, 6


def classes(frames: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Correlated frames [N, WIDTH] around the centres of classes of different sizes."""
    rng = np.random.default_rng(5)
    pdfs = rng.choice(CLASSES, size=frames, p=np.arange(1, CLASSES + 1) / 28).astype(np.int32)
    centres, mix = rng.normal(size=(CLASSES, WIDTH)), rng.normal(size=(WIDTH, WIDTH))
    feats = centres[pdfs] * np.array([3, 2, 1, 0.5, 0.2, 0.1]) + rng.normal(size=(frames, WIDTH)) @ mix
    return (feats + 10).astype(np.float32), pdfs


def sort(feats: np.ndarray, pdfs: np.ndarray) -> SortedFrames:
    return SortedFrames.of(Corpus("x", [], [], np.zeros(1, np.int64), feats), pdfs, CLASSES)


def test_directions_and_eigenvalues_are_those_of_scikit_learn():
    feats, pdfs = classes()
    ours, eigenvalues = lda(sort(feats, pdfs), 4)
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(feats.astype(np.float64), pdfs)
    ratio = eigenvalues / eigenvalues.sum()
    np.testing.assert_allclose(
        ratio[: len(theirs.explained_variance_ratio_)], theirs.explained_variance_ratio_, atol=1e-6
    )
    for row, column in zip(ours, theirs.scalings_.T[:4]):
        cosine = row @ column / np.linalg.norm(row) / np.linalg.norm(column)
        assert abs(cosine) == pytest.approx(1, abs=1e-5)


def test_eigenvalues_are_ratios_of_variances():
    feats, pdfs = classes()
    directions, eigenvalues = lda(sort(feats, pdfs), 3)
    projected = feats.astype(np.float64) @ directions.T
    means = np.stack([projected[pdfs == c].mean(0) for c in range(CLASSES)])[pdfs]
    np.testing.assert_allclose(means.var(0) / (projected - means).var(0), eigenvalues[:3], rtol=1e-4)
    np.testing.assert_allclose(np.cov(projected.T, bias=True), np.eye(3), atol=1e-4)


def test_unlabelled_frames_have_no_say():
    feats, pdfs = classes()
    kept = feats.copy(), pdfs.copy()
    pdfs[::5], feats[::5] = -1, 1e3
    directions, _ = lda(sort(feats, pdfs), 2)
    expected, _ = lda(sort(kept[0][pdfs >= 0], kept[1][pdfs >= 0]), 2)
    np.testing.assert_allclose(np.abs(directions), np.abs(expected), rtol=1e-6)


def test_covariances_sum_to_that_of_all_frames():
    feats, pdfs = classes()
    within, between = scatter(sort(feats, pdfs))
    np.testing.assert_allclose(within + between, np.cov(feats.astype(np.float64).T, bias=True), rtol=1e-6)


def test_frames_that_do_not_fill_their_space_are_refused():
    feats, pdfs = classes()
    feats[:, 3] = 0
    with pytest.raises(UserError, match="linearly dependent"):
        lda(sort(feats, pdfs), 2)
    with pytest.raises(UserError, match="7 dimensions, but spliced frames have 6"):
        lda(sort(feats, pdfs), 7)
