"""Who takes part in a training that goes on when a worker is lost (``--on_failure continue``).

A *generation* is a number and the workers that are in it.  It ends when an operation fails on one of them, or when
a worker that was lost has been started again and asks to be let in.  Then a roll is called in the common store: each of
its workers says that it is there, and how far it has come; and once the others are there too, or have ended, or the
deadline is over, one of them writes down the next generation.  The store takes the first such entry and no other, so
all agree.  Who is not in it, like a process that was stopped for too long, finds that out when it comes, and ends.

Entries and messages of a generation are kept under its number, so what is left of an earlier one disturbs nobody.
A worker is known by its seat, the rank that it was started as; its rank is its place in the generation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch.distributed as dist

from asr_parallel.log import UserError

LOOK_S = 0.02  # between two looks into the store


@dataclass(frozen=True)
class Progress:
    """How far a worker has come: ``minibatch`` of the ``minibatches`` of an epoch; epoch 0 is before all training."""

    epoch: int = 0
    minibatch: int = 0
    minibatches: int = 1

    @property
    def far(self) -> tuple[int, float]:
        return self.epoch, self.minibatch / self.minibatches


@dataclass(frozen=True)
class Plan:
    """A generation.  ``seats`` are its workers in the order of their ranks: rank 0 has come farthest.

    ``fresh`` are those among them who take over all that rank 0 has.  ``average``: an exchange has failed, and is
    made anew.  ``lost`` and ``rejoined`` count workers since the start.  ``at`` is where rank 0 stands.
    """

    number: int
    seats: tuple[int, ...]
    fresh: tuple[int, ...] = ()
    average: bool = False
    lost: int = 0
    rejoined: int = 0
    at: Progress = Progress()

    @classmethod
    def parse(cls, text: bytes) -> Plan:
        values = json.loads(text)
        lists = {name: tuple(values[name]) for name in ("seats", "fresh")}
        return cls(**(values | lists | {"at": Progress(**values["at"])}))

    def next(self, here: dict[int, Progress], average: bool, asking: Sequence[int]) -> Plan:
        """The generation after this one, of those who are ``here`` and, unless an exchange failed, those ``asking``."""
        old = sorted(here, key=lambda seat: (-here[seat].far[0], -here[seat].far[1], seat))
        at, new = here[old[0]], () if average else tuple(asking)
        behind = tuple(seat for seat in old if here[seat].epoch < at.epoch)
        lost, rejoined = self.lost + len(self.seats) - len(old), self.rejoined + len(new)
        return Plan(self.number + 1, (*old, *new), (*behind, *new), average, lost, rejoined, at)


class Roll:
    """The entries about generations in the common ``store``, as the worker of a ``seat`` sees and makes them."""

    def __init__(self, store: dist.Store, seat: int, seats: int):
        self.store, self.seat, self.all = store, seat, range(seats)
        self.plan = Plan(0, tuple(self.all))

    def comes_late(self) -> bool:
        """Whether this seat had another worker before; to be asked once."""
        return self.store.add(f"came/{self.seat}", 1) > 1

    def open(self) -> None:
        """All have come to the first generation."""
        _write(self.store, self.plan)

    def ask(self) -> None:
        """Ask to be let in, and wait for it."""
        number = int(self.store.get("newest")) + 1
        self.store.set(f"asks/{self.seat}", "1")
        while True:
            while not self.store.check([f"plan/{number}"]):
                time.sleep(LOOK_S)
            self.plan = _read(self.store, number)
            if self.seat in self.plan.fresh:
                return
            number += 1

    def asking(self) -> list[int]:
        """Seats whose worker asks to be let in."""
        outside = [seat for seat in self.all if seat not in self.plan.seats]
        return [seat for seat in outside if self.store.check([f"asks/{seat}"])]

    def call(self, progress: Progress, average: bool, deadline: float) -> Plan:
        """Wait for those of the generation that has ended, until ``time.monotonic()`` is ``deadline``; give the next.

        Raises ``UserError`` if the others went on without this worker.
        """
        number = self.plan.number + 1
        self.store.set(f"here/{number}/{self.seat}", json.dumps([asdict(progress), average]))
        while not self.store.check([f"plan/{number}"]):
            here = [seat for seat in self.plan.seats if self.store.check([f"here/{number}/{seat}"])]
            ended = [seat for seat in self.plan.seats if seat not in here and self.store.check([f"ended/{seat}"])]
            if len(here) + len(ended) == len(self.plan.seats) or time.monotonic() > deadline:
                self._decide(number, here)
            else:
                time.sleep(LOOK_S)
        self.plan = _read(self.store, number)
        if self.seat not in self.plan.seats:
            raise UserError(f"rank {self.seat} came too late: the others have gone on without it (--timeout)")
        return self.plan

    def _decide(self, number: int, seats: list[int]) -> None:
        """Write down the next generation, unless another worker has done so."""
        said = {seat: json.loads(self.store.get(f"here/{number}/{seat}")) for seat in seats}
        here = {seat: Progress(**progress) for seat, (progress, _) in said.items()}
        plan = self.plan.next(here, any(average for _, average in said.values()), self.asking())
        if _write(self.store, plan):
            for seat in set(plan.fresh) - set(seats):
                self.store.delete_key(f"asks/{seat}")
                self.store.delete_key(f"ended/{seat}")


def _read(store: dist.Store, number: int) -> Plan:
    return Plan.parse(store.get(f"plan/{number}"))


def _write(store: dist.Store, plan: Plan) -> bool:
    """Whether ``plan`` is now the generation of its number."""
    text = json.dumps(asdict(plan))
    if store.compare_set(f"plan/{plan.number}", "", text) != text.encode():
        return False
    store.set("newest", str(plan.number))
    return True


def newest(store: dist.Store) -> Plan | None:
    """The generation under way, for the launcher; None before the first."""
    return _read(store, int(store.get("newest"))) if store.check(["newest"]) else None


def note_end(store: dist.Store, seat: int) -> None:
    """For the launcher: the process of ``seat`` has ended, so that nobody waits for it."""
    store.set(f"ended/{seat}", "1")
    store.delete_key(f"asks/{seat}")
