import pytest

from asr_parallel.log import UserError
from asr_parallel.parallel.clock import Clock, Every


def due_at(text, minibatches, batch):
    clock, every = Clock(1, minibatches), Every.parse(text)
    return [clock.minibatch for _ in range(minibatches) if every.due(clock.tick(batch))]


def test_every_so_many_minibatches_and_at_the_end_of_the_epoch():
    assert due_at("10 minibatches", 34, 7) == [10, 20, 30, 34]
    assert due_at("10 minibatches", 30, 7) == [10, 20, 30]
    assert due_at("1 minibatch", 3, 7) == [1, 2, 3]
    assert due_at("100 minibatches", 3, 7) == [3]


def test_every_so_many_frames():
    assert due_at("10240 frames", 25, 1024) == [10, 20, 25]
    assert due_at("10_000 frames", 25, 1024) == [10, 20, 25]  # passed within the 10th minibatch, the 20th
    assert due_at("3 frames", 4, 2) == [2, 3, 4]


@pytest.mark.parametrize("text", ["10 minibatches", "700 frames", "3 frames", "1 minibatch", "99 minibatches"])
def test_a_period_begins_after_the_latest_exchange(text):
    due = [0, *due_at(text, 34, 64)]
    assert [Every.parse(text).begun(m, 64) for m in range(34)] == [max(d for d in due if d <= m) for m in range(34)]


@pytest.mark.parametrize("text", ["10 minibatches", "700 frames", "1 minibatch"])
def test_per_epoch_counts_them(text):
    assert Every.parse(text).per_epoch(34, 64) == len(due_at(text, 34, 64))


@pytest.mark.parametrize("text", ["", "0 minibatches", "ten minibatches", "10", "-1 frames", "5 s", ", frames"])
def test_what_is_no_period_is_refused(text):
    with pytest.raises(UserError, match=r"N minibatches"):
        Every.parse(text)
