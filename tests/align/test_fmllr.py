"""fMLLR by closed forms, and by the likelihood that it raises."""

from dataclasses import replace

import numpy as np
import pytest

from asr_parallel.align import fmllr
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.fmllr import SpeakerTransforms
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.rows import objective
from asr_parallel.log import UserError

DIM, PDFS = 4, 12
SPEAKERS = ["anna", "bert", "cleo"]


def a_model(mixtures: int, seed: int = 0) -> DiagGmm:
    rng = np.random.default_rng(seed)
    size = PDFS * mixtures
    return DiagGmm(
        3 * rng.normal(size=(size, DIM)),
        rng.uniform(0.3, 2, (size, DIM)),
        np.full(size, 1 / mixtures),
        np.repeat(np.arange(PDFS), mixtures),
    )


def drawn(gmm: DiagGmm, frames: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Frames of the model [N, DIM], and their pdfs."""
    which = rng.integers(0, len(gmm), frames)
    return gmm.means[which] + np.sqrt(gmm.variances[which]) * rng.normal(size=(frames, DIM)), gmm.pdf[which]


def distortions(seed: int = 3) -> np.ndarray:
    """What each speaker does to frames: [A b], [S, DIM, DIM + 1]."""
    rng = np.random.default_rng(seed)
    near_one = np.eye(DIM, DIM + 1) + 0.3 * rng.normal(size=(len(SPEAKERS), DIM, DIM + 1))
    near_one[:, :, -1] *= 5
    return near_one


def spoken(gmm: DiagGmm, frames: int = 3000, seed: int = 1) -> tuple[Corpus, np.ndarray]:
    """Utterances of all speakers in turn, 100 frames each, distorted; and the pdfs."""
    rng = np.random.default_rng(seed)
    utts = len(SPEAKERS) * frames // 100
    speakers = [SPEAKERS[i % len(SPEAKERS)] for i in range(utts)]
    clean, pdfs = drawn(gmm, 100 * utts, rng)
    w = np.repeat(distortions()[[SPEAKERS.index(s) for s in speakers]], 100, axis=0)
    feats = np.einsum("tij,tj->ti", w[:, :, :-1], clean) + w[:, :, -1]
    offsets = np.arange(utts + 1) * 100
    words: list[list[str]] = [[] for _ in range(utts)]
    names = [f"{s}-{i}" for i, s in enumerate(speakers)]
    return Corpus("x", names, words, offsets, feats.astype(np.float32), speakers=speakers), pdfs


def total_log_likelihood(gmm: DiagGmm, corpus: Corpus, pdfs: np.ndarray) -> float:
    """Of all frames as they are, under their pdfs, by the definition."""
    total = 0.0
    for pdf in range(PDFS):
        x = corpus.feats[pdfs == pdf].astype(np.float64)[:, None]
        m, v, w = (a[gmm.of_pdf(pdf)].astype(np.float64) for a in (gmm.means, gmm.variances, gmm.weights))
        densities = w * np.exp(-0.5 * ((x - m) ** 2 / v + np.log(2 * np.pi * v)).sum(2))
        total += np.log(densities.sum(1)).sum()
    return total


def test_known_distortion_is_undone():
    """With as many frames as it takes, the transform is the inverse of what was done to the speaker's frames."""
    gmm = a_model(1)
    corpus, pdfs = spoken(gmm, frames=60_000)
    found = fmllr.estimate(gmm, corpus, pdfs, rounds=3)
    assert found.speakers == SPEAKERS
    for w, done in zip(found.matrices, distortions()):
        both = w[:, :-1] @ np.column_stack([done[:, :-1], done[:, -1]])
        both[:, -1] += w[:, -1]
        np.testing.assert_allclose(both, np.eye(DIM, DIM + 1), atol=0.05)


def test_one_gaussian_in_one_dimension():
    """The frames of one Gaussian, moved and scaled, get its mean and variance exactly."""
    gmm = DiagGmm([[2.0]], [[0.25]], [1.0], [0])
    feats = np.random.default_rng(0).normal(10, 4, size=(1000, 1)).astype(np.float32)
    corpus = Corpus("x", ["a"], [[]], np.array([0, 1000]), feats, speakers=["anna"])
    w = fmllr.estimate(gmm, corpus, np.zeros(1000, np.int32)).matrices[0, 0]
    scale = 0.5 / feats.std(dtype=np.float64)
    np.testing.assert_allclose(w, [scale, 2 - scale * feats.mean(dtype=np.float64)], rtol=1e-5)


def test_statistics_are_their_formula():
    gmm, rng = a_model(2), np.random.default_rng(4)
    feats, pdfs = drawn(gmm, 300, rng)
    feats, w = feats.astype(np.float32), np.eye(DIM, DIM + 1) + 0.1 * rng.normal(size=(DIM, DIM + 1))
    stats = fmllr.accumulate(gmm, feats, pdfs, w)
    k, g = np.zeros_like(stats.k), np.zeros_like(stats.g)
    for x, pdf in zip(feats.astype(np.float64), pdfs):
        m, v, c = (a[gmm.of_pdf(int(pdf))].astype(np.float64) for a in (gmm.means, gmm.variances, gmm.weights))
        one = np.append(x, 1)
        density = c * np.exp(-0.5 * ((w @ one - m) ** 2 / v).sum(1)) / np.sqrt(v.prod(1))
        for gamma, mean, variance in zip(density / density.sum(), m, v):
            k += gamma * np.outer(mean / variance, one)
            g += gamma * np.outer(one, one) / variance[:, None, None]
    assert stats.beta == 300
    np.testing.assert_allclose(stats.k, k, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(stats.g, g, rtol=1e-4, atol=1e-2)


def test_auxiliary_function_and_likelihood_never_fall():
    """The likelihood counts log |det A| of each speaker, without which it would be highest for A = 0."""
    gmm = a_model(3)
    corpus, pdfs = spoken(gmm)
    found = SpeakerTransforms.identity(corpus)
    values = [total_log_likelihood(gmm, corpus, pdfs) / len(pdfs)]
    for _ in range(6):
        before = found
        found = fmllr.estimate(gmm, corpus, pdfs, start=before)
        for i, name in enumerate(SPEAKERS):
            mine = np.repeat(np.array(corpus.speakers) == name, 100)
            stats = fmllr.accumulate(gmm, corpus.feats[mine], pdfs[mine], before.matrices[i])
            assert objective(stats, found.matrices[i]) >= objective(stats, before.matrices[i]) - 1e-2
        adapted = found(corpus)
        values.append(total_log_likelihood(gmm, adapted, pdfs) / len(pdfs) + adapted.log_det)
    assert np.diff(values).min() > -1e-5
    assert values[-1] > values[0] + 1


def test_log_determinant_is_that_of_each_frame():
    corpus, _ = spoken(a_model(1))
    dets = np.linalg.slogdet(distortions()[:, :, :-1])[1]
    adapted = SpeakerTransforms(SPEAKERS, distortions())(replace(corpus, log_det=1.0))
    assert adapted.log_det == pytest.approx(1 + dets.mean(), rel=1e-5)
    for row in (0, 1, 5):
        w = distortions()[row % 3]
        np.testing.assert_allclose(
            adapted.of_utt(row), corpus.of_utt(row) @ w[:, :-1].T + w[:, -1], rtol=1e-4, atol=1e-4
        )


def test_order_of_speakers_changes_nothing():
    gmm = a_model(2)
    corpus, pdfs = spoken(gmm)
    expected = fmllr.estimate(gmm, corpus, pdfs)
    order = np.random.default_rng(0).permutation(len(corpus))
    other = {"anna": "zoe", "bert": "bert", "cleo": "adam"}
    shuffled = Corpus(
        "y",
        [corpus.utts[i] for i in order],
        [[] for _ in order],
        corpus.offsets,
        np.concatenate([corpus.of_utt(i) for i in order]),
        speakers=[other[corpus.speakers[i]] for i in order],
    )
    found = fmllr.estimate(gmm, shuffled, np.concatenate([pdfs[100 * i : 100 * i + 100] for i in order]), jobs=2)
    assert found.speakers == ["adam", "bert", "zoe"]
    np.testing.assert_allclose(found.matrices, expected.matrices[[2, 1, 0]], rtol=1e-4, atol=1e-4)


def test_result_does_not_depend_on_jobs():
    gmm = a_model(2)
    corpus, pdfs = spoken(gmm)
    one, three = (fmllr.estimate(gmm, corpus, pdfs, jobs=j) for j in (1, 3))
    np.testing.assert_array_equal(one.matrices, three.matrices)


def test_speakers_with_little_speech_are_left_alone():
    gmm = a_model(1)
    corpus, pdfs = spoken(gmm)
    pdfs = pdfs.copy()
    mine = np.flatnonzero(np.repeat(np.array(corpus.speakers) == "bert", 100))
    pdfs[mine[499:]] = -1
    found = fmllr.estimate(gmm, corpus, pdfs, min_frames=500)
    np.testing.assert_array_equal(found.matrices[1], np.eye(DIM, DIM + 1))
    assert np.abs(found.matrices[[0, 2]] - np.eye(DIM, DIM + 1)).max(axis=(1, 2)).min() > 0.1
    fewer = fmllr.estimate(gmm, corpus, pdfs, min_frames=499)
    assert np.abs(fewer.matrices[1] - np.eye(DIM, DIM + 1)).max() > 0.1


def test_of_long_speakers_some_frames_are_enough(monkeypatch):
    gmm = a_model(1)
    corpus, pdfs = spoken(gmm, frames=40_000)
    expected = fmllr.estimate(gmm, corpus, pdfs).matrices
    seen = []
    monkeypatch.setattr(fmllr, "MAX_FRAMES", 15_000)
    accumulate = fmllr.accumulate
    monkeypatch.setattr(fmllr, "accumulate", lambda g, x, *rest: seen.append(len(x)) or accumulate(g, x, *rest))
    for some, all_frames in zip(fmllr.estimate(gmm, corpus, pdfs).matrices, expected):
        assert np.linalg.norm(some - all_frames) < 0.03 * np.linalg.norm(all_frames)
    assert seen == [13_334] * 3  # every third


def test_round_trip_and_unknown_speakers(tmp_path):
    path = tmp_path / "fmllr.npz"
    with pytest.raises(UserError, match="run `align` or `adapt` first"):
        SpeakerTransforms.load(path)
    SpeakerTransforms(SPEAKERS, distortions().astype(np.float32)).save(path)
    again = SpeakerTransforms.load(path)
    np.testing.assert_array_equal(again.matrices, distortions().astype(np.float32))
    corpus, _ = spoken(a_model(1))
    with pytest.raises(UserError, match="speaker dora has no fMLLR"):
        again(replace(corpus, speakers=["dora", *corpus.speakers[1:]]))
    np.savez(path, speakers=np.array(["anna"]), matrices=np.zeros((2, 4, 5)))
    with pytest.raises(UserError, match="damaged"):
        SpeakerTransforms.load(path)
