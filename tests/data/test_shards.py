import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr_parallel.data.shards import exchanges_per_epoch, make_shards
from asr_parallel.log import UserError

LENGTHS = st.lists(st.integers(1, 3000), min_size=8, max_size=60)
WORKERS = st.integers(1, 8)


def named(lengths: list[int]) -> dict[str, int]:
    return {f"u{i:03d}": n for i, n in enumerate(lengths)}


@settings(deadline=None)
@given(LENGTHS, WORKERS)
def test_partition_and_balance(lengths, workers):
    frames = named(lengths)
    shards = make_shards(frames, workers)
    assert len(shards) == workers
    assert sorted(u for shard in shards for u in shard) == sorted(frames)
    totals = [sum(frames[u] for u in shard) for shard in shards]
    assert max(totals) - min(totals) <= max(lengths)


@settings(deadline=None)
@given(LENGTHS, WORKERS, st.randoms())
def test_order_of_input_does_not_matter(lengths, workers, random):
    frames = list(named(lengths).items())
    shuffled = frames.copy()
    random.shuffle(shuffled)
    assert make_shards(shuffled, workers) == make_shards(dict(frames), workers)


@settings(deadline=None)
@given(LENGTHS, WORKERS)
def test_as_one_would_deal_by_hand(lengths, workers):
    frames = named(lengths)
    shards: list[list[str]] = [[] for _ in range(workers)]
    for utt in sorted(frames, key=lambda u: (-frames[u], u)):
        min(shards, key=lambda s: sum(frames[u] for u in s)).append(utt)  # the first of equals
    assert make_shards(frames, workers) == shards


def test_small_case():
    frames = {"a": 5, "b": 4, "c": 3, "d": 3, "e": 1}
    assert make_shards(frames, 2) == [["a", "d"], ["b", "c", "e"]]


def test_too_few_utterances():
    with pytest.raises(UserError, match="2 utterances cannot be dealt to 3 workers"):
        make_shards({"a": 1, "b": 2}, 3)


def test_exchanges():
    assert exchanges_per_epoch([1024 * 25 + 1000, 1024 * 31], 1024, 10) == 2
    assert exchanges_per_epoch([100], 10, 1) == 10
    with pytest.raises(UserError, match="rank 1 has 99 frames"):
        exchanges_per_epoch([200, 99], 10, 10)
