"""When exchanges are due: two periods after each other, and periods in seconds."""

import pytest
import torch
from forked import together

from asr_parallel.config import ScheduleConfig
from asr_parallel.log import UserError
from asr_parallel.parallel import pace as pace_module
from asr_parallel.parallel.clock import Cadence, Clock
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.pace import Pace
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.torch_comm import TorchComm
from asr_parallel.schedule.schedule import make_schedule

POST_LOCAL = "1 minibatch until 1 epoch, then 4 minibatches"


def due_at(pace, epoch, minibatches, batch=8, begin=0):
    clock = Clock(epoch, minibatches, begin, begin * batch)
    return [clock.minibatch for _ in range(minibatches - begin) if pace.due(clock.tick(batch))]


@pytest.mark.parametrize(
    ("text", "epochs"),
    [("4 minibatches", [[4, 8, 10], [4, 8, 10]]),
     (POST_LOCAL, [list(range(1, 11)), [4, 8, 10]]),
     ("2 minibatches until 5 minibatches, then 4 minibatches", [[2, 4, 8, 10], [4, 8, 10]]),
     ("8 frames until 24 frames, then 40 frames", [[1, 2, 3, 5, 10], [5, 10]])],
)  # fmt: skip
def test_two_periods_and_a_resume_between_them(text, epochs):
    whole = Pace(Cadence.parse(text))
    for epoch, expected in enumerate(epochs, 1):
        assert whole.per_epoch(10, 8) == len(expected)
        found = due_at(whole, epoch, 10)
        assert found == expected
        cut, again = Pace(Cadence.parse(text)), Pace(Cadence.parse(text))
        cut.state[3] = epoch
        at = expected[1]
        clock = Clock(epoch, 10)
        assert [clock.minibatch for _ in range(at) if cut.due(clock.tick(8))] == expected[:2]
        again.state.copy_(cut.state)
        assert again.per_epoch(at, 8) == 2
        assert again.per_epoch(10, 8) == len(expected)
        assert due_at(again, epoch, 10, begin=at) == expected[2:]


def test_the_exponential_rate_falls_with_the_periods():
    config = ScheduleConfig("exponential", epochs=2, final_ratio=0.1)
    schedule = make_schedule(config, 1.0, "2 minibatches until 5 minibatches, then 4 minibatches", 8)
    begun = [0, 0, 2, 2, 4, 5, 5, 5, 8, 8]
    rates = [schedule.rate(Clock(1, 10, m, 8 * m)) for m in range(10)]
    assert rates == pytest.approx([0.1 ** (b / 20) for b in begun])
    assert schedule.rate(Clock(2, 10, 5, 40)) == pytest.approx(0.1 ** (14 / 20))
    in_seconds = make_schedule(config, 1.0, "5 s", 8)
    assert in_seconds.rate(Clock(1, 10, 7, 56)) == pytest.approx(0.1 ** (7 / 20))


class Watch:
    """A clock on the wall that tells each rank its own time."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def run(comm, watch, seconds, epoch=1, minibatches=100, pace=None):
    """Minibatches at which exchanges are due for a worker whose minibatches take ``seconds(minibatch)``."""
    pace, clock, found = pace or Pace(Cadence.parse("5 s")), Clock(epoch, minibatches), []
    for _ in range(minibatches):
        watch.now += seconds(clock.minibatch)
        if pace.due(clock.tick(8)):
            found.append(clock.minibatch)
            watch.now += 7.0  # the exchange itself does not count
            pace.exchanged(comm, clock.last)
    return found


def test_seconds_are_those_of_rank_0_and_all_follow(monkeypatch):
    watch = Watch()
    monkeypatch.setattr(pace_module, "time", watch)
    slow = {}

    def work(comm):
        slow[comm.rank] = run(comm, watch, lambda m: 0.25 if comm.rank == 0 else 0.0)
        return 0

    simulate(2, work)
    assert slow[0] == slow[1] == [10, 30, 50, 70, 90, 100]
    slows_down = run(SoloComm(), watch, lambda m: 0.25 if m < 30 else 1.0)
    assert slows_down == [10, 30, 50, *range(55, 101, 5)]  # 20 a period until it has met the slower ones


def test_a_period_in_seconds_goes_on_where_it_was(monkeypatch):
    watch = Watch()
    monkeypatch.setattr(pace_module, "time", watch)
    one, other, clock = Pace(Cadence.parse("5 s")), Pace(Cadence.parse("5 s")), Clock(1, 100)
    for _ in range(10):
        watch.now += 0.2
        if one.due(clock.tick(8)):
            one.exchanged(SoloComm(), clock.last)
    other.state.copy_(one.state)
    assert one.state.tolist() == [25, 10, 1, 1]
    assert other.per_epoch(10, 8) == 1
    for pace in (one, other):
        after, clock = [], Clock(1, 100, 10, 80)
        for _ in range(30):
            if pace.due(clock.tick(8)):
                after.append(clock.minibatch)
        assert after[0] == 35


def timed(place):
    comm = TorchComm(place, "gloo", 20.0)
    pace, clock, found = Pace(Cadence.parse("1 s")), Clock(1, 40), []
    for _ in range(40):
        torch.randn(200 * (1 + 50 * comm.rank), 50).sum()
        if pace.due(clock.tick(8)):
            found.append(clock.minibatch)
            pace.exchanged(comm, clock.last)
    comm.close()
    return found


def test_real_workers_agree_on_seconds():
    one, other = together(timed)
    assert one == other
    assert one[0] == 10
    assert one[-1] == 40


@pytest.mark.parametrize(
    "text", ["0 s", "5 s until 3 s, then 4 s", "1 minibatch until 1 epoch", "1 until 2 epochs, then 3 frames"]
)
def test_what_is_no_cadence_is_refused(text):
    with pytest.raises(UserError, match=r"--strategy.every.*give"):
        Cadence.parse(text)
