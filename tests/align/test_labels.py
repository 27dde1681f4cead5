import numpy as np
import pytest

from asr_parallel.align.labels import Labels
from asr_parallel.log import UserError


def three() -> dict[str, np.ndarray]:
    return {"b-1": np.array([3, 3, 0]), "a-1": np.array([], np.int64), "ü-2": np.array([2])}


def test_from_dict_and_back():
    labels = Labels.from_dict(three())
    assert labels.utts == ["b-1", "a-1", "ü-2"]
    assert labels.offsets.tolist() == [0, 3, 3, 4]
    assert labels.offsets.dtype == np.int64
    assert labels.pdfs.dtype == np.int32
    for utt, pdfs in three().items():
        assert labels[utt].tolist() == pdfs.tolist()
        assert utt in labels
    assert "c" not in labels
    assert len(labels) == 3
    assert labels.span("ü-2") == (3, 4)
    with pytest.raises(KeyError):
        labels["c"]


def test_save_and_load(tmp_path):
    path = tmp_path / "ali_train.npz"
    Labels.from_dict(three()).save(path)
    loaded = Labels.load(path)
    assert loaded.utts == list(three())
    assert {u: loaded[u].tolist() for u in loaded.utts} == {u: p.tolist() for u, p in three().items()}
    assert [p.name for p in tmp_path.iterdir()] == ["ali_train.npz"]


def test_empty(tmp_path):
    labels = Labels.from_dict({})
    labels.save(tmp_path / "x.npz")
    assert len(Labels.load(tmp_path / "x.npz")) == 0
    assert labels.counts(2).tolist() == [0, 0]


def test_counts():
    assert Labels.from_dict(three()).counts(5).tolist() == [1, 0, 1, 2, 0]
    with pytest.raises(UserError, match="b-1 has label 3, but the tree has 3 pdfs"):
        Labels.from_dict(three()).counts(3)


@pytest.mark.parametrize(
    ("utts", "offsets", "pdfs"),
    [
        (["a", "b"], [0, 1], [1]),
        (["a", "b"], [0, 2, 1], [1]),
        (["a", "b"], [0, 1, 3], [1, 1]),
        (["a", "a"], [0, 1, 2], [1, 1]),
        (["a"], [0, 1], [-1]),
    ],
)
def test_contradictions_are_refused(utts, offsets, pdfs):
    with pytest.raises(ValueError):
        Labels(utts, np.array(offsets), np.array(pdfs))


def test_bad_files(tmp_path):
    path = tmp_path / "ali.npz"
    with pytest.raises(UserError, match="run `align` first"):
        Labels.load(path)
    Labels.from_dict(three()).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged"):
        Labels.load(path)
    np.savez(path, utts=np.array(["a"]), offsets=np.array([0, 5]), pdfs=np.array([1]))
    with pytest.raises(UserError, match="damaged"):
        Labels.load(path)
    np.savez(path, utts=np.array(["a"]))
    with pytest.raises(UserError, match="offsets"):
        Labels.load(path)
    np.savez(path, utts=np.array(["a"], dtype=object), offsets=np.array([0, 1]), pdfs=np.array([1]))
    with pytest.raises(UserError, match="damaged"):  # a pickle inside is not read
        Labels.load(path)
