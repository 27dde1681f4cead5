"""The two-level shuffle: utterances, then frames inside blocks of utterances."""

import itertools

import numpy as np
import pytest
import torch
from test_frames import LENGTHS, make_set, numbered

from asr_parallel.config import FramesConfig
from asr_parallel.data.block_cache import BlockCache
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.frames import FrameSource
from asr_parallel.data.order import BlockOrder
from asr_parallel.log import UserError

MANY = {f"{'abc'[i % 3]}-{i}": 1 + (7 * i) % 23 for i in range(60)}


def source_of(features: FeatureSet, cache: int, batch: int = 10, seed: int = 0, **more) -> FrameSource:
    labels = numbered(dict(zip(features.utts, np.diff(features.offsets).tolist())))
    options = FramesConfig("blocks", cache) if cache else FramesConfig()
    return FrameSource(features, labels, features.utts, 2, batch, seed, options=options, **more)


@pytest.mark.parametrize("cache", [1, 5, 40, 100, 10_000])
@pytest.mark.parametrize("lengths", [LENGTHS, MANY])
def test_order_by_brute_force(lengths, cache):
    start = np.concatenate([[0], np.cumsum(list(lengths.values()))])
    order, total = BlockOrder(start, cache, 3, 4), int(start[-1])
    owner = np.repeat(np.arange(len(lengths)), list(lengths.values()))
    parts = list(order.parts(0, total))
    assert sorted(np.concatenate([index for _, index in parts]).tolist()) == list(range(total))
    assert [block for block, _ in parts] == list(range(len(parts)))
    held = [order.utts(block) for block, _ in parts]
    assert sorted(np.concatenate(held).tolist()) == list(range(len(lengths)))
    for (_, index), utts in zip(parts, held):
        assert set(owner[index]) == set(utts)  # a block has the frames of whole utterances
        assert len(index) <= cache or len(utts) == 1
    for a, b in itertools.pairwise(parts):  # blocks are as large as they can be
        after = int(np.diff(start)[order.utts(b[0])[0]])
        assert len(a[1]) + after > cache
    # any cut of the positions gives the same
    every = [i for begin in range(0, total, 7) for _, p in order.parts(begin, min(begin + 7, total)) for i in p]
    assert every == np.concatenate([index for _, index in parts]).tolist()


def test_frames_are_shuffled_inside_blocks_and_utterances_between_them():
    start = np.arange(0, 401 * 50, 50)
    order = BlockOrder(start, 5000, 0, 0)
    parts = list(order.parts(0, int(start[-1])))
    assert [len(index) for _, index in parts] == [5000] * 4
    drawn = set()
    for block, index in parts:
        assert len(np.unique(index // 50)) == 100
        utts = np.array([np.flatnonzero(order.utts(block) == i)[0] for i in index // 50])
        assert abs(np.corrcoef(utts, np.arange(5000))[0, 1]) < 0.05
        drawn.add(tuple(utts * 50 + index % 50))
    assert len(drawn) == 4  # blocks of the same size have other orders
    assert abs(np.corrcoef(np.concatenate([order.utts(b) for b in range(4)]), np.arange(400))[0, 1]) < 0.2
    other = BlockOrder(start, 5000, 0, 1)
    assert set(order.utts(0)) != set(other.utts(0))


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
@pytest.mark.parametrize("cache", [1, 64, 150, 10_000])
def test_blocks_give_the_frames_that_full_gives(tmp_path, cache, dtype):
    features = make_set(tmp_path, MANY, dtype)
    blocks, full = source_of(features, cache), source_of(features, 0)
    assert blocks.num_batches == full.num_batches
    got = [list(s.epoch(2)) for s in (blocks, full)]
    assert [len(b) for b in got[0]] == [len(b) for b in got[1]] == [10] * full.num_batches
    y = torch.cat([b.y for b in got[0]])
    assert len(y.unique()) == len(y) == full.num_batches * 10
    everything = torch.cat([c.x for c in full.chunks()])
    assert torch.equal(torch.cat([b.x for b in got[0]]), everything[y])  # to the bit


def test_blocks_can_begin_anywhere(tmp_path):
    source = source_of(make_set(tmp_path, MANY), 64, seed=5)
    whole = list(source.epoch(1))
    for first in (1, 3, 20, len(whole) - 1, len(whole)):
        for prefetch in (0, 2):
            rest = list(source.epoch(1, first, prefetch))
            assert len(rest) == len(whole) - first
            for a, b in zip(rest, whole[first:]):
                assert torch.equal(a.x, b.x)
                assert torch.equal(a.y, b.y)
    orders = {tuple(torch.cat([b.y for b in source.epoch(e)]).tolist()) for e in (1, 1, 2, 3)}
    assert len(orders) == 3


def test_what_lies_before_is_not_read(tmp_path, monkeypatch):
    source, read = source_of(make_set(tmp_path, MANY), 64), []
    hold = BlockCache.hold
    monkeypatch.setattr(BlockCache, "hold", lambda self, block, *rest: (read.append(block), hold(self, block, *rest)))
    list(source.epoch(0))
    assert read == list(range(len(read)))  # each block once, in order
    blocks = len(read)
    read.clear()
    list(source.epoch(0, start_batch=source.num_batches - 2))
    assert len(read) <= 2
    assert read[-1] == blocks - 1


def test_cut_labels_keep_their_context(tmp_path):
    features = make_set(tmp_path)
    labels = numbered({**LENGTHS, "c-1": 198, "b-2": 59})
    sources = [
        FrameSource(features, labels, list(LENGTHS), 2, 5, 0, options=o) for o in (None, FramesConfig("blocks", 70))
    ]
    x = {int(y): row for b in sources[0].epoch(0) for row, y in zip(b.x, b.y)}
    same = [(row, x[int(y)]) for b in sources[1].epoch(0) for row, y in zip(b.x, b.y) if int(y) in x]
    assert len(same) > 280
    assert all(torch.equal(a, b) for a, b in same)


def test_a_block_needs_frames(tmp_path):
    features = make_set(tmp_path)
    with pytest.raises(UserError, match=r"cache_frames 0.*250000"):
        FrameSource(features, numbered(LENGTHS), list(LENGTHS), 1, 10, 0, options=FramesConfig("blocks", 0))
