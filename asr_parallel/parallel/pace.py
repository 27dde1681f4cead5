"""When exchanges are due: at the same minibatch on every worker, even where the period is given in seconds.

Rank 0 times its minibatches; at each exchange it tells all after how many the next one comes.  What it has said is in
the state, so that a training that goes on makes that exchange where it would have been; how the machine's speed changes
later is another matter, and ``ledger.tsv`` has the minibatch of every exchange.
"""

from __future__ import annotations

import time

import torch

from asr_parallel.parallel.clock import Cadence, Clock
from asr_parallel.parallel.comm import Comm

TRIAL = 10  # minibatches of the first period in seconds, before anything is measured
PERIOD, SINCE, DONE, EPOCH = range(4)


class Pace:
    """``state`` is int64 [4]: minibatches of the period under way (if it is in seconds), the minibatch of this epoch at
    which it began, exchanges of this epoch so far, the epoch."""

    def __init__(self, cadence: Cadence):
        self.cadence = cadence
        self.state = torch.tensor([TRIAL, 0, 0, 1])
        self.forget()

    def forget(self) -> None:
        """Forget what was measured: something other than a minibatch follows."""
        self.latest, self.seconds, self.minibatches = 0.0, 0.0, 0

    def due(self, clock: Clock, hold: bool = False, now: bool = False) -> bool:
        """Whether an exchange, which must then follow, is due after the minibatch just counted.  Ask once after each.

        The end of an epoch apart, ``hold`` puts an exchange off, and ``now`` makes one.
        """
        time_now = time.perf_counter()
        if self.latest:
            self.seconds += time_now - self.latest
            self.minibatches += 1
        self.latest = time_now
        due = clock.last or (not hold and (now or self._due(clock, int(self.state[SINCE]))))
        if clock.last:
            self.state[1:] = torch.tensor([0, 0, clock.epoch + 1])
        elif due:
            self.state[1:] = torch.tensor([clock.minibatch, int(self.state[DONE]) + 1, clock.epoch])
        return due

    def move(self, clock: Clock) -> None:
        """Let the period under way begin at ``clock``, with as many exchanges of this epoch behind it as there were."""
        self.state[SINCE], self.state[EPOCH] = clock.minibatch, clock.epoch

    def _due(self, clock: Clock, since: int) -> bool:
        before = Clock(clock.epoch, clock.minibatches, clock.minibatch - 1, clock.frames - clock.latest)
        every = self.cadence.at(before)
        if every.unit == "seconds":
            return clock.last or clock.minibatch - since >= int(self.state[PERIOD])
        return every.due(clock)

    def exchanged(self, comm: Comm, last: bool) -> None:
        """An exchange is over, at the end of an epoch if ``last``: agree when the next one comes."""
        periods = [every for every in (self.cadence.first, self.cadence.then) if every and every.unit == "seconds"]
        if periods:
            if comm.rank == 0 and self.minibatches:
                self.state[PERIOD] = max(1, round(periods[-1].count * self.minibatches / self.seconds))
            period = self.state[PERIOD : PERIOD + 1].clone()
            comm.broadcast(period)
            self.state[PERIOD] = period[0]
        self.forget()
        if not last:
            self.latest = time.perf_counter()

    def per_epoch(self, minibatches: int, batch: int) -> int:
        """Exchanges in the first ``minibatches`` of the epoch under way; those to come as far as is known now."""
        since, done, epoch = self.state[1:].tolist()
        clock = Clock(epoch, minibatches, since, since * batch)
        while not clock.last:
            if self._due(clock.tick(batch), since):
                since, done = clock.minibatch, done + 1
        return done
