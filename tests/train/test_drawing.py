"""Training with the options of ``FramesConfig``."""

import itertools
from dataclasses import replace

import pytest
import torch
from test_run import assert_same_model, stop_at

from asr_parallel.config import FramesConfig
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.simulated import simulate
from asr_parallel.train.corpus import open_corpus
from asr_parallel.train.run import run

FRAMES = FramesConfig("blocks", 200, freq_masks=1, freq_width=2, time_masks=1, time_width=1)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_epoch_goes_on_exactly(toy, prefetch):
    config = replace(toy(), frames=FRAMES, prefetch=prefetch)
    first, second = (open_corpus(config, SoloComm()).frames for _ in range(2))
    assert (first.prefetch, first.options) == (prefetch, FRAMES)
    whole = list(first.epoch(3))
    for a, b in zip(second.epoch(3, 11), whole[11:], strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
    assert any((b.x == 0).any() for b in whole)


def test_workers_draw_from_shards_of_their_own(toy):
    found = {}
    simulate(3, lambda comm: found.setdefault(comm.rank, open_corpus(toy(), comm)) is None)
    shards = [found[rank].frames.utts for rank in range(3)]
    assert sorted(itertools.chain(*shards)) == sorted(open_corpus(toy(), SoloComm()).frames.utts)
    for rank in range(3):
        assert found[rank].shards == [found[other].frames.num_frames for other in range(3)]


def test_a_training_that_is_stopped_inside_an_epoch_ends_with_the_same_bits(toy, monkeypatch):
    whole, cut = toy(frames=FRAMES), toy(frames=FRAMES)
    assert run(whole) == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 42)
        assert run(cut) == 143
    assert run(replace(cut, prefetch=2)) == 0  # prefetch may change: it does not change the result
    assert_same_model(whole, cut)
