import numpy as np
import pytest

from asr_parallel.align.space import Space, spliced
from asr_parallel.data.transforms import deltas, splice
from asr_parallel.log import UserError

RNG = np.random.default_rng(0)
FEATS = RNG.normal(size=(9, 2)).astype(np.float32)


def test_without_a_matrix_frames_have_deltas():
    np.testing.assert_array_equal(Space()(FEATS), deltas(FEATS))
    assert (Space().static_dim(39), Space().static_dim(40)) == (13, 0)


def test_spliced_frames_are_multiplied():
    matrix = RNG.normal(size=(3, 10)).astype(np.float32)
    space = Space(2, matrix)
    padded = np.concatenate([FEATS[:1]] * 2 + [FEATS] + [FEATS[-1:]] * 2)
    expected = [matrix @ padded[t : t + 5].ravel() for t in range(9)]
    np.testing.assert_allclose(space(FEATS), expected, rtol=1e-5, atol=1e-6)
    assert (space.static_dim(3), space.static_dim(4)) == (2, 0)
    a = RNG.normal(size=(3, 3))
    np.testing.assert_allclose(space.then(a)(FEATS), np.array(expected) @ a.T, rtol=1e-4, atol=1e-5)
    assert space.then(a).then(a).log_det == pytest.approx(2 * np.log(abs(np.linalg.det(a))))
    np.testing.assert_array_equal(spliced(2, 2)(FEATS), splice(FEATS, 2))
    with pytest.raises(ValueError, match="matrix"):
        Space().then(a)


def test_round_trip(tmp_path):
    path = tmp_path / "space.npz"
    assert Space.load(path).matrix is None
    space = Space(1, RNG.normal(size=(4, 6)).astype(np.float32), 0.5)
    space.save(path)
    again = Space.load(path)
    assert (again.context, again.log_det) == (1, 0.5)
    np.testing.assert_array_equal(again.matrix, space.matrix)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match="damaged"):
        Space.load(path)
    np.savez(path, context=2, matrix=np.zeros((4, 6)), log_det=0.0)
    with pytest.raises(UserError, match=r"matrix \(4, 6\) does not fit 2 frames"):
        Space.load(path)
    Space().save(path)
    assert not path.exists()
