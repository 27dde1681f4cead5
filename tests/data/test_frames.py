import itertools
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr_parallel.align.labels import Labels
from asr_parallel.config import FramesConfig
from asr_parallel.data import mapped
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import FeatureSet, Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import HEADER_BYTES, FrameFile, header
from asr_parallel.data.frames import FrameSource, splice
from asr_parallel.data.permutation import Permutation
from asr_parallel.log import UserError

LENGTHS = {"a-1": 30, "b-1": 1, "a-2": 4, "c-1": 200, "b-2": 57}
DIM = 3


def make_set(directory: Path, lengths: dict[str, int] = LENGTHS, dtype: str = "<f4") -> FeatureSet:
    rng = np.random.default_rng(0)
    with FrameFile(store_path(directory, "x", "fbank"), dtype) as file:
        for n in lengths.values():
            file.append(rng.standard_normal((n, DIM)).astype(np.float32))
    speakers = [u.split("-")[0] for u in lengths]
    names = sorted(set(speakers))
    mean, std = rng.standard_normal((len(names), DIM)), rng.uniform(0.5, 2, (len(names), DIM))
    Cmvn(names, mean.astype(np.float32), std.astype(np.float32)).save(cmvn_path(directory, "x", "fbank"))
    offsets = np.concatenate([[0], np.cumsum(list(lengths.values()))])
    index = Index(list(lengths), speakers, list(lengths), offsets, np.ones(len(lengths)), "")
    index.save(index_path(directory, "x", "fbank"))
    return FeatureSet.open(directory, "x", "fbank")


def numbered(lengths: dict[str, int]) -> Labels:
    """Labels that are all different, so that a label names its frame; not in the order of the store."""
    start = dict(zip(lengths, itertools.accumulate(lengths.values(), initial=0)))
    return Labels.from_dict({u: np.arange(start[u], start[u] + lengths[u]) for u in reversed(lengths)})


def expected(features: FeatureSet, utts: list[str], context: int) -> np.ndarray:
    """What x should be for each label of ``numbered``, by another route."""
    x = {u: splice(features[u], context) for u in utts}
    return np.concatenate([x[u] for u in features.utts if u in x])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 10, 97, 100, 1000, 4097])
def test_permutation_is_one(size):
    for seed, epoch in ((0, 0), (0, 1), (7, 3)):
        assert sorted(Permutation(size, seed, epoch)(np.arange(size))) == list(range(size))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3000), st.integers(0, 2**32), st.integers(0, 1000))
def test_permutation_is_one_for_any_size(size, seed, epoch):
    assert len(np.unique(Permutation(size, seed, epoch)(np.arange(size)))) == size


def test_permutation_of_a_huge_corpus():
    size = 108_000_000
    items = Permutation(size, 1, 2)(np.arange(50_000_000, 50_200_000))
    assert len(np.unique(items)) == len(items)
    assert items.min() >= 0
    assert items.max() < size
    # positions next to each other are spread evenly: chi-square of 1000 bins, 99.99 % point 1176
    counts = np.bincount(items * 1000 // size, minlength=1000)
    assert ((counts - 200) ** 2 / 200).sum() < 1176
    # and neighbours, and one position in two epochs, have nothing to do with each other
    other = Permutation(size, 1, 3)(np.arange(50_000_000, 50_200_000))
    for a, b in ((items[1:], items[:-1]), (items, other)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.01


def test_small_permutations_are_all_reached():
    seen = {tuple(Permutation(3, 0, epoch)(np.arange(3))) for epoch in range(100)}
    assert len(seen) == 6


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
@pytest.mark.parametrize("context", [0, 2, 5])
def test_epoch_is_a_shuffle_of_spliced_normalised_frames(tmp_path, context, dtype):
    features = make_set(tmp_path, dtype=dtype)
    source = FrameSource(features, numbered(LENGTHS), list(LENGTHS), context, batch=10, seed=1)
    assert (source.num_frames, source.num_batches, source.dim) == (292, 29, DIM * (2 * context + 1))
    batches = list(source.epoch(0))
    assert len(batches) == 29
    assert all(b.x.shape == (10, source.dim) and len(b) == 10 for b in batches)
    x, y = torch.cat([b.x for b in batches]), torch.cat([b.y for b in batches])
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64
    assert len(y.unique()) == 290  # two frames did not fill a batch
    np.testing.assert_allclose(x, expected(features, features.utts, context)[y], rtol=1e-5, atol=1e-6)


def test_order_depends_on_seed_and_epoch_alone(tmp_path):
    features, labels = make_set(tmp_path), numbered(LENGTHS)

    def order(seed: int, epoch: int, **options: int) -> list[int]:
        source = FrameSource(features, labels, list(LENGTHS), 1, 10, seed)
        return [int(y) for b in source.epoch(epoch, **options) for y in b.y]

    first = order(0, 0)
    assert order(0, 0) == first
    assert order(0, 0, prefetch=2) == first
    assert order(0, 0, start_batch=7) == first[70:]
    assert order(0, 0, start_batch=29) == []
    assert len({tuple(first), tuple(order(0, 1)), tuple(order(1, 0)), tuple(sorted(first))}) == 4


def test_batches_are_not_overwritten(tmp_path):
    source = FrameSource(make_set(tmp_path), numbered(LENGTHS), list(LENGTHS), 1, 10, 0)
    for prefetch in (0, 3):
        iterator = source.epoch(0, prefetch=prefetch)
        first = next(iterator)
        copy = first.x.clone()
        list(iterator)
        assert torch.equal(first.x, copy)


def test_chunks_are_all_frames_in_order(tmp_path):
    features = make_set(tmp_path)
    utts = ["c-1", "a-1", "b-1"]
    source = FrameSource(features, numbered(LENGTHS), utts, 2, 10, 0)
    for prefetch in (0, 2):
        chunks = list(source.chunks(64, prefetch))
        assert [len(c) for c in chunks] == [64, 64, 64, 39]
        labels = numbered(LENGTHS)
        y = torch.cat([c.y for c in chunks])
        assert y.tolist() == [int(p) for u in utts for p in labels[u]]
        x = np.concatenate([splice(features[u], 2) for u in utts])
        np.testing.assert_allclose(torch.cat([c.x for c in chunks]), x, rtol=1e-5, atol=1e-6)


def test_a_shard_holds_its_utterances_only(tmp_path):
    features = make_set(tmp_path)
    source = FrameSource(features, numbered(LENGTHS), ["a-2", "c-1"], 1, 4, 0)
    y = torch.cat([b.y for b in source.epoch(3)])
    assert set(y.tolist()) == set(range(31, 235))


def test_labels_a_little_off_are_cut(tmp_path):
    features = make_set(tmp_path)
    labels = numbered({**LENGTHS, "c-1": 198, "b-2": 59})
    source = FrameSource(features, labels, list(LENGTHS), 1, 10, 0)
    assert source.num_cut == 2
    assert source.bad == {}
    assert source.num_frames == sum(LENGTHS.values()) - 2
    y = torch.cat([c.y for c in source.chunks()])
    assert y.tolist() == [int(p) for u in LENGTHS for p in labels[u][: features.num_frames(u)]]
    # the context of the last labelled frame is real frames, not repetitions of it
    last = source.gather(np.array([30 + 1 + 4 + 197]))
    np.testing.assert_allclose(last.x[0], splice(features["c-1"], 1)[197], rtol=1e-5, atol=1e-6)


def test_what_does_not_match_is_listed(tmp_path, caplog):
    features = make_set(tmp_path)
    pdfs = {u: np.zeros(n, np.int32) for u, n in LENGTHS.items() if u != "a-1"}
    labels = Labels.from_dict({**pdfs, "b-2": np.zeros(54, np.int32), "d-1": np.zeros(9, np.int32)})
    source = FrameSource(features, labels, [*LENGTHS, "d-1"], 1, 10, 0, max_bad=0.5)
    assert source.bad == {"a-1": "no labels", "b-2": "57 frames but 54 labels", "d-1": "no features"}
    assert source.utts == ["b-1", "a-2", "c-1"]
    with pytest.raises(UserError, match=r"3 of 6 .*a-1: no labels.*`align`"):
        FrameSource(features, labels, [*LENGTHS, "d-1"], 1, 10, 0)


def test_another_frame_shift_is_recognised(tmp_path):
    features = make_set(tmp_path)
    labels = Labels.from_dict({u: np.zeros((n + 1) // 2, np.int32) for u, n in LENGTHS.items()})
    with pytest.raises(UserError, match="2 x as long as labels: the frame shifts differ"):
        FrameSource(features, labels, list(LENGTHS), 1, 10, 0)
    # 10 ms against 12.5 ms, either way, and labels of one frame in three; more than a rounding off, all the same
    for ratio, said in ((0.8, "1.25 x"), (1.25, "0.8 x"), (1 / 3, "3 x")):
        labels = Labels.from_dict({u: np.zeros(max(1, round(n * ratio)), np.int32) for u, n in LENGTHS.items()})
        with pytest.raises(UserError, match=f"Features are {said} as long as labels: the frame shifts differ"):
            FrameSource(features, labels, list(LENGTHS), 1, 10, 0)
    lengths = {"a-1": 17, "b-1": 9, "a-2": 60, "c-1": 90, "b-2": 20}
    with pytest.raises(UserError) as error:  # lengths without a ratio have other reasons
        FrameSource(
            features, Labels.from_dict({u: np.zeros(n, np.int32) for u, n in lengths.items()}), LENGTHS, 1, 1, 0
        )
    assert "frame shifts" not in str(error.value)
    with pytest.raises(UserError, match="no utterances"):
        FrameSource(features, labels, [], 1, 10, 0)


def test_an_error_in_the_thread_is_raised(tmp_path, monkeypatch):
    source = FrameSource(make_set(tmp_path), numbered(LENGTHS), list(LENGTHS), 1, 10, 0)
    gather = source.gather

    def broken(index, cache):
        if broken.calls == 3:
            raise OSError("disk gone")
        broken.calls += 1
        return gather(index)

    broken.calls = 0
    monkeypatch.setattr(source, "gather", broken)
    got = []
    with pytest.raises(OSError, match="disk gone"):
        got.extend(source.epoch(0, prefetch=1))
    got = list(itertools.islice(source.epoch(0), 0))  # a source is usable after an error
    assert got == []


def test_the_thread_ends_when_nobody_listens(tmp_path):
    source = FrameSource(make_set(tmp_path), numbered(LENGTHS), list(LENGTHS), 1, 10, 0)
    iterator = source.epoch(0, prefetch=1)
    next(iterator)
    assert any(t.name == "frames" for t in threading.enumerate())
    iterator.close()
    deadline = time.monotonic() + 5
    while any(t.name == "frames" for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's /proc/self/smaps")
def test_pages_of_a_big_store_are_let_go(tmp_path, monkeypatch):
    utts, dim, length = [f"a-{i}" for i in range(800)], 40, 500
    offsets = np.arange(len(utts) + 1) * length
    store = store_path(tmp_path, "x", "fbank")
    store.parent.mkdir()
    with open(store, "wb") as f:
        f.write(header(np.dtype("<f4"), dim, len(utts) * length))
        f.truncate(HEADER_BYTES + len(utts) * length * dim * 4)
    ones = np.ones((1, dim), np.float32)
    Cmvn(["a"], ones, ones).save(cmvn_path(tmp_path, "x", "fbank"))
    Index(utts, ["a"] * len(utts), utts, offsets, np.ones(len(utts)), "").save(index_path(tmp_path, "x", "fbank"))
    labels = Labels(utts, offsets, np.zeros(len(utts) * length, np.int32))

    def mapped_after(batches: int, options: FramesConfig | None = None) -> int:
        source = FrameSource(FeatureSet.open(tmp_path, "x", "fbank"), labels, utts, 5, 1024, 0, options=options)
        for batch in itertools.islice(source.epoch(0), batches):
            assert (batch.x == -1).all()
        return resident(store)

    every = mapped.RELEASE_FRAMES // 1024
    kept = mapped_after(2 * every)
    monkeypatch.setattr(mapped, "RELEASE_BYTES", 1 << 20)
    assert mapped_after(2 * every) < kept / 10
    assert mapped_after(2 * every, FramesConfig("blocks", 30_000)) < kept / 10
    assert kept > 10_000


def resident(path: Path) -> int:
    """Kilobytes of the maps of ``path`` that are in memory."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            ours = line.endswith(str(path))
        elif ours and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total
