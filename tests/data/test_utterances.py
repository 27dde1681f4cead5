"""Minibatches of whole utterances: every frame with its own utterance's labels, about as many in each, none torn."""

import numpy as np
import pytest
import torch
from test_frames import make_set

from asr_parallel.data.frames import splice
from asr_parallel.data.utterances import UtteranceSource

LENGTHS = {f"s-{i:02d}": int(n) for i, n in enumerate(np.random.default_rng(3).integers(3, 60, 40))}
TARGETS = {utt: np.arange(i % 4) + i for i, utt in enumerate(LENGTHS)}  # names its utterance
BATCH, CONTEXT = 100, 1


@pytest.fixture
def features(tmp_path):
    return make_set(tmp_path, LENGTHS)


@pytest.fixture
def source(features):
    return UtteranceSource(features, TARGETS, features.utts, CONTEXT, BATCH, seed=0)


def utterances_of(batch):
    """(frames, labels) of each utterance in a minibatch."""
    return list(zip(batch.x.split(batch.lengths.tolist()), batch.targets.split(batch.target_lengths.tolist())))


def names_of(features, batch):
    """The utterances of a minibatch, known by their frames, which are checked together with their labels."""
    found = []
    for x, labels in utterances_of(batch):
        utt = next(u for u in features.utts if len(features[u]) == len(x) and same(x, splice(features[u], CONTEXT)))
        assert labels.tolist() == TARGETS[utt].tolist()
        found.append(utt)
    return found


def same(x, y):
    return np.allclose(x.numpy(), y, atol=1e-5)


def test_an_epoch_has_every_utterance_but_what_is_left_over(features, source):
    batches = list(source.epoch(1))
    assert len(batches) == source.num_batches == sum(LENGTHS.values()) // BATCH
    seen = [utt for batch in batches for utt in names_of(features, batch)]
    assert len(set(seen)) == len(seen)
    left = sum(LENGTHS[utt] for utt in set(LENGTHS) - set(seen))
    assert left < 2 * BATCH
    for batch in batches:
        assert 0 < len(batch) < BATCH + max(LENGTHS.values())
        assert batch.y.tolist() == [i for i, n in enumerate(batch.lengths.tolist()) for _ in range(n)]


def test_other_epochs_draw_otherwise_and_the_same_epoch_the_same(features, source):
    first, again, second = ([names_of(features, batch) for batch in source.epoch(epoch)] for epoch in (1, 1, 2))
    assert first == again
    assert first != second
    assert {frozenset(names) for names in first} != {frozenset(names) for names in second}


def test_resumed_epochs_are_the_rest(source):
    whole, rest = list(source.epoch(3)), list(source.epoch(3, 4))
    assert len(rest) == len(whole) - 4
    assert all(torch.equal(a.x, b.x) and torch.equal(a.targets, b.targets) for a, b in zip(whole[4:], rest))
    ahead = list(source.epoch(3, 4, prefetch=2))
    assert all(torch.equal(a.x, b.x) for a, b in zip(rest, ahead))


def test_little_is_padded(source):
    """Utterances of about the same length are together, though no two epochs have the same ones."""
    padded = np.mean([len(b) / (len(b.lengths) * int(b.lengths.max())) for b in source.epoch(1)])
    assert padded > 0.8


def test_chunks_are_all_utterances_once(features, source):
    for size in (10, 150, 10**6):
        batches = list(source.chunks(size))
        seen = [utt for batch in batches for utt in names_of(features, batch)]
        assert sorted(seen) == sorted(LENGTHS)
    assert len(batches) == 1


def test_what_has_no_labels_is_left_out(features):
    some = dict(list(TARGETS.items())[::3])
    source = UtteranceSource(features, some, features.utts, CONTEXT, BATCH, seed=0)
    assert source.utts == list(some)
    assert source.num_frames == sum(LENGTHS[utt] for utt in some)
