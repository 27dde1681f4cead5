"""The launcher's part of going on without a worker that is lost: it tells the others, and starts it again."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from asr_parallel.log import logger
from asr_parallel.parallel.launch import STOPPED, fail, how
from asr_parallel.parallel.membership import Plan, newest, note_end

LOG = logger(__name__)
PAUSE_S = 5.0  # before a worker is started again
LOOK_S = 0.1


class Crew:
    """The processes of all seats, which ``start`` makes anew; ``store`` is the one in which workers agree."""

    def __init__(
        self,
        children: list[subprocess.Popen],
        start: Callable[[int], subprocess.Popen],
        logs: list[Path],
        store: dist.Store,
        restarts: int,
    ):
        self.children, self.start, self.logs, self.store = children, start, logs, store
        seats = range(len(children))
        self.members = set(seats)  # whose process is in a generation, as far as is known
        self.restarts = dict.fromkeys(seats, restarts)  # that are left
        self.due: dict[int, float] = {}  # those that have ended, and when they are started again
        self.born: dict[int, int] = {}  # those started again, and the generation that there was
        self.shown, self.at = 0, 0  # the rank whose log is shown, and how much of it was

    def watch(self, stop: threading.Event) -> int:
        """Wait for the end; give 0, or ``STOPPED``.  Raises ``UserError`` if no worker is left to go on."""
        passed_on = False
        while True:
            plan = newest(self.store)
            self._show(plan)
            codes = [self._look(seat, plan) for seat in range(len(self.children))]
            whole = any(code in (0, STOPPED) for code in codes)
            if not any(codes[seat] is None for seat in self.members) or (plan is None and self.due and not whole):
                if not whole:
                    time.sleep(1.0)  # as in `launch`
                    fail(self.children, self.logs)
                return STOPPED if passed_on or STOPPED in codes else 0
            if stop.is_set() and not passed_on:
                passed_on = True
                for child in self.children:
                    child.terminate()
            if plan and not whole and not passed_on:
                self._start_again(plan)
            time.sleep(LOOK_S)

    def _look(self, seat: int, plan: Plan | None) -> int | None:
        """The code with which the process of ``seat`` has ended, if it has."""
        code = self.children[seat].poll()
        if code is not None:
            if seat not in self.due:
                self._ended(seat, code)
        elif plan and seat in self.members and seat not in plan.seats:
            LOG.warning("rank %d did not come, and is ended: the others have gone on without it", seat)
            self.members.remove(seat)
            self.children[seat].kill()
        elif plan and seat in plan.seats and plan.number > self.born.get(seat, -1):
            self.members.add(seat)
        return code

    def _ended(self, seat: int, code: int) -> None:
        self.due[seat] = math.inf
        if code in (0, STOPPED):
            return
        self.members.discard(seat)
        note_end(self.store, seat)
        if self.restarts[seat]:
            self.due[seat] = time.monotonic() + PAUSE_S
        then = f"it is started again in {PAUSE_S:g} s" if self.restarts[seat] else "no --restarts are left for it"
        LOG.warning("rank %d %s; %s", seat, how(code), then)

    def _start_again(self, plan: Plan) -> None:
        now = time.monotonic()
        for seat in [seat for seat, when in self.due.items() if when <= now]:
            del self.due[seat]
            self.restarts[seat] -= 1
            self.born[seat] = plan.number
            self.children[seat] = self.start(seat)

    def _show(self, plan: Plan | None) -> None:
        """Show what rank 0 has said since the last look; of a new one, all."""
        rank = plan.seats[0] if plan else 0
        if rank != self.shown:
            self.shown, self.at = rank, 0
        with open(self.logs[rank], "rb") as log:
            log.seek(self.at)
            text = log.read()
        self.at += len(text)
        sys.stderr.write(text.decode("utf-8", "replace"))
        sys.stderr.flush()
