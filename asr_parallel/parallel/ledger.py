"""What exchanges have cost: one row an exchange and worker, in ``ledger.tsv``."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Report

PROBED = ("loss_local", "loss_average", "loss_ensemble", "spread")
TIMES = ("wait_s", "send_s", "compute_s", "probe_s")
COLUMNS = ("epoch", "exchange", "rank", "minibatch", "bytes", *TIMES, "left_out", *PROBED)


@dataclass(frozen=True)
class Probed:
    """What ``train.probe`` has seen before an exchange: of this worker ``own``, in the order of ``PROBED``; of all
    ``curves``, by name.  First it waited for the others, ``wait_s`` seconds, then it took ``probe_s``."""

    own: tuple[float, ...]
    curves: dict[str, float]
    wait_s: float
    probe_s: float


NOTHING = Probed((math.nan,) * len(PROBED), {}, 0.0, 0.0)


class Ledger:
    """Rows of one worker.  ``minibatch`` is the one after which the exchange was; ``left_out`` is 1 where a worker's
    parameters were not taken because it had diverged or lagged; the last four are what ``train.probe`` saw, if asked.

    ``compute_s`` is the time since the exchange before (or ``begin``) that was neither waiting nor sending nor probing,
    so that the four add up to the time of training.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []
        self.exchange = 0
        self.latest = time.perf_counter()

    def begin(self, exchange: int = 0) -> None:
        """An epoch begins, or goes on after its ``exchange``-th exchange."""
        self.exchange = exchange
        self.latest = time.perf_counter()

    def add(self, clock: Clock, report: Report, probed: Probed | None = None) -> None:
        """Note an exchange that has just ended, and what was ``probed`` before it."""
        now, probed = time.perf_counter(), probed or NOTHING
        self.exchange += 1
        wait = report.wait_s + probed.wait_s
        compute = now - self.latest - wait - report.send_s - probed.probe_s
        times = (wait, report.send_s, compute, probed.probe_s)
        counts = (clock.epoch, self.exchange, clock.minibatch, report.bytes)
        self.rows.append((*counts, *times, report.left_out, *probed.own))
        self.latest = now

    def collect(self, comm: Comm) -> list[list[str]]:
        """Take the rows of all workers since the last call, as text in the order of ``COLUMNS``; rank 0 has them."""
        mine = torch.tensor(self.rows, dtype=torch.float64).reshape(-1, len(COLUMNS) - 1)
        parts = comm.gather(mine)
        self.rows = []
        table = [_row(seat, row) for seat, part in zip(comm.seats, parts) for row in part.tolist()]
        return sorted(table, key=lambda row: (int(row[0]), int(row[1]), int(row[2])))


def _row(rank: int, values: list[float]) -> list[str]:
    epoch, exchange, minibatch, sent, *times = values[:8]
    left_out, *probed = values[8:]  # nan where nothing was probed
    counts = [f"{epoch:.0f}", f"{exchange:.0f}", str(rank), f"{minibatch:.0f}", f"{sent:.0f}"]
    return [*counts, *(f"{value:.6f}" for value in times), f"{left_out:.0f}", *(f"{value:.6f}" for value in probed)]
