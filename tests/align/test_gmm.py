import numpy as np
import pytest

from asr_parallel.align import em
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.log import UserError


def a_gmm() -> DiagGmm:
    rng = np.random.default_rng(0)
    return DiagGmm(rng.normal(size=(4, 3)), rng.uniform(1, 2, (4, 3)), [0.5, 0.5, 1, 1], [0, 0, 1, 2])


def sort(feats: np.ndarray, pdfs: np.ndarray, num_pdfs: int) -> em.SortedFrames:
    return em.SortedFrames.of(Corpus("x", [], [], np.zeros(1, np.int64), feats), pdfs, num_pdfs)


def test_round_trip(tmp_path):
    gmm = a_gmm()
    gmm.save(tmp_path / "gmm.npz")
    again = DiagGmm.load(tmp_path / "gmm.npz")
    for name in ("means", "variances", "weights", "pdf"):
        np.testing.assert_array_equal(getattr(again, name), getattr(gmm, name))
    assert (len(again), again.num_pdfs, again.dim) == (4, 3, 3)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "gmm.npz"
    with pytest.raises(UserError, match="run `align` first"):
        DiagGmm.load(path)
    a_gmm().save(path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(UserError, match="damaged"):
        DiagGmm.load(path)
    np.savez(path, means=np.zeros((2, 3)), variances=np.ones((2, 3)), weights=np.ones(2))
    with pytest.raises(UserError, match="damaged"):
        DiagGmm.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pdf": [0, 0, 2, 3]}, "order"),
        ({"pdf": [1, 1, 2, 3]}, "order"),
        ({"pdf": [0, 1, 0, 2]}, "order"),
        ({"weights": [1, 1, 1]}, "order"),
        ({"weights": [0, 1, 1, 1]}, "positive"),
        ({"variances": np.zeros((4, 3))}, "positive"),
        ({"means": np.full((4, 3), np.nan)}, "finite"),
        ({"means": np.zeros((4, 2))}, "means"),
    ],
)
def test_contradictions_are_refused(change, message):
    gmm = a_gmm()
    arrays = {n: getattr(gmm, n) for n in ("means", "variances", "weights", "pdf")}
    with pytest.raises(ValueError, match=message):
        DiagGmm(**(arrays | change))


def test_wrong_dimension_is_refused():
    with pytest.raises(ValueError, match="3 dimensions"):
        a_gmm().log_likelihoods(np.zeros((5, 2), np.float32))


def test_no_frames():
    assert a_gmm().log_likelihoods(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_sorted_frames():
    feats = np.arange(12, dtype=np.float32).reshape(6, 2)
    frames = sort(feats, np.array([2, -1, 0, 2, -1, 0], np.int32), 4)
    assert frames.offsets.tolist() == [0, 2, 2, 4, 4]
    np.testing.assert_array_equal(frames.feats, feats[[2, 5, 0, 3]])
    np.testing.assert_array_equal(frames.of_pdf(2), feats[[0, 3]])
    assert len(frames.of_pdf(1)) == 0


def test_statistics_do_not_depend_on_jobs():
    rng = np.random.default_rng(1)
    feats, pdfs = rng.normal(size=(5000, 3)).astype(np.float32), rng.integers(0, 3, 5000).astype(np.int32)
    frames = sort(feats, pdfs, 3)
    one, three = em.accumulate(a_gmm(), frames, jobs=1), em.accumulate(a_gmm(), frames, jobs=3)
    np.testing.assert_array_equal(one.moments, three.moments)
    np.testing.assert_array_equal(one.occupancy, three.occupancy)
    assert one.log_likelihood == three.log_likelihood


def test_poor_gaussians_are_dropped_but_every_pdf_keeps_one():
    gmm = a_gmm()
    stats = em.Stats(np.array([100.0, 2.0, 1.0, 0.0]), np.ones((4, 6)) * 200, 0.0, 103)
    new = em.update(gmm, stats, np.full(3, 0.01))
    assert new.pdf.tolist() == [0, 1, 2]
    assert new.weights.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(new.means[1:], gmm.means[2:])  # too few frames: as before
    np.testing.assert_allclose(new.means[0], 2.0)


def test_pdf_without_frames_gets_the_overall_gaussian():
    feats = np.random.default_rng(2).normal(size=(100, 2)).astype(np.float32)
    frames = sort(feats, np.repeat([0, 2], 50).astype(np.int32), 3)
    gmm = em.single_gaussians(frames, np.full(2, 1e-3))
    np.testing.assert_allclose(gmm.means, [feats[:50].mean(0), feats.mean(0), feats[50:].mean(0)], atol=1e-6)
    np.testing.assert_allclose(gmm.variances[1], feats.var(0), rtol=1e-5)


def test_growth_goes_by_occupancy():
    gmm = a_gmm()
    occupancy = np.array([16000.0, 1000.0, 30.0])
    new = em.grow(gmm, occupancy, 20, np.random.default_rng(0))
    sizes = np.bincount(new.pdf)
    assert len(new) == 20
    assert sizes[2] == 1  # 30 frames do not feed two Gaussians
    assert sizes[0] / sizes[1] == pytest.approx(2.0, abs=0.3)  # (16000 / 1000) ** 0.25
    np.testing.assert_allclose(np.bincount(new.pdf, new.weights), 1, rtol=1e-5)
    same = em.grow(gmm, occupancy, 20, np.random.default_rng(0))
    np.testing.assert_array_equal(new.means, same.means)


def test_growth_ends_where_frames_end():
    assert len(em.grow(a_gmm(), np.array([100.0, 50.0, 10.0]), 1000, np.random.default_rng(0))) == 5 + 2 + 1
