"""How workers agree on who is left, in a store of this process."""

import math
import threading
import time

import pytest
from torch.distributed import HashStore

from asr_parallel.log import UserError
from asr_parallel.parallel.membership import Plan, Progress, Roll, newest, note_end


def test_the_next_generation_begins_with_who_has_come_farthest():
    here = {0: Progress(2, 10, 40), 2: Progress(2, 20, 40), 3: Progress(1, 39, 40), 4: Progress(2, 20, 40)}
    plan = Plan(3, (0, 1, 2, 3, 4), lost=1, rejoined=1).next(here, True, [5])
    assert plan == Plan(4, (2, 4, 0, 3), (3,), True, lost=2, rejoined=1, at=Progress(2, 20, 40))  # 5 waits
    plan = plan.next({seat: Progress(3, 0, 50) for seat in (2, 4, 0, 3)}, False, [1, 5])
    assert plan == Plan(5, (0, 2, 3, 4, 1, 5), (1, 5), False, lost=2, rejoined=3, at=Progress(3, 0, 50))


def test_all_agree_on_the_next_generation_and_who_comes_too_late_is_told():
    store, plans = HashStore(), {}
    rolls = [Roll(store, seat, 4) for seat in range(4)]
    for roll in rolls:
        roll.open()
    note_end(store, 3)

    def call(seat, deadline):
        plans[seat] = rolls[seat].call(Progress(1, seat, 9), True, time.monotonic() + deadline)

    threads = [threading.Thread(target=call, args=(seat, 0.5)) for seat in (0, 1)]  # 2 may still come, but does not
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert plans[0] == plans[1] == newest(store)
    assert plans[0].seats == (1, 0)
    with pytest.raises(UserError, match="rank 2 came too late: the others have gone on without it"):
        rolls[2].call(Progress(1, 2, 9), True, time.monotonic() + 20)
    assert newest(store).seats == (1, 0)


def test_who_is_told_to_have_ended_is_not_waited_for():
    store = HashStore()
    rolls = [Roll(store, seat, 2) for seat in range(2)]
    rolls[0].open()
    note_end(store, 1)
    plans = []
    waits = threading.Thread(target=lambda: plans.append(rolls[0].call(Progress(1), True, math.inf)), daemon=True)
    waits.start()
    waits.join(20)
    assert [plan.seats for plan in plans] == [(0,)]


def test_the_first_who_decides_has_decided():
    store = HashStore()
    rolls = [Roll(store, seat, 2) for seat in range(2)]
    rolls[0].open()
    alone = rolls[0].call(Progress(1), True, 0.0)  # the deadline is over
    store.set("here/1/1", store.get("here/1/0"))
    rolls[1]._decide(1, [0, 1])  # by one who sees more
    assert newest(store) == alone == Plan(1, (0,), average=True, lost=1, at=Progress(1))


def test_who_asks_is_let_in_once():
    store = HashStore()
    rolls = [Roll(store, seat, 2) for seat in range(2)]
    assert [roll.comes_late() for roll in rolls] == [False, False]
    rolls[0].open()
    note_end(store, 1)
    rolls[0].call(Progress(1), True, time.monotonic() + 60)
    again = Roll(store, 1, 2)
    assert again.comes_late()
    asks = threading.Thread(target=again.ask)
    asks.start()
    while not rolls[0].asking():
        time.sleep(0.01)
    plan = rolls[0].call(Progress(1, 5, 9), False, time.monotonic() + 60)
    asks.join(20)
    assert again.plan == plan == Plan(2, (0, 1), (1,), False, 1, 1, Progress(1, 5, 9))
    assert rolls[0].asking() == []
    assert not store.check(["ended/1"])  # it is waited for again
    note_end(store, 1)  # it is lost again, and nobody waits for it although it was let in before
    assert rolls[0].call(Progress(1, 6, 9), True, time.monotonic() + 60).seats == (0,)
