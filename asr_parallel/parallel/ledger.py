"""What exchanges have cost: one row an exchange and worker, in ``ledger.tsv``."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch

from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Report

PROBED = ("loss_local", "loss_average", "loss_ensemble", "spread")
COLUMNS = ("epoch", "exchange", "rank", "minibatch", "bytes", "wait_s", "send_s", "compute_s", "left_out", *PROBED)


class Ledger:
    """Rows of one worker.  ``minibatch`` is the one after which the exchange was; ``left_out`` is 1 where a worker's
    parameters were not taken because it had diverged or lagged; the last four are what ``train.probe`` saw, if asked.

    ``compute_s`` is the time since the exchange before (or ``begin``) that was neither waiting nor sending, so that the
    three add up to the time of training.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []
        self.exchange = 0
        self.latest = time.perf_counter()

    def begin(self, exchange: int = 0) -> None:
        """An epoch begins, or goes on after its ``exchange``-th exchange."""
        self.exchange = exchange
        self.latest = time.perf_counter()

    def add(self, clock: Clock, report: Report, probed: Sequence[float] = ()) -> None:
        """Note an exchange that has just ended, and what was ``probed`` before it."""
        now = time.perf_counter()
        self.exchange += 1
        compute = now - self.latest - report.wait_s - report.send_s
        times = (report.wait_s, report.send_s, compute)
        seen = tuple(probed) or (math.nan,) * len(PROBED)
        self.rows.append((clock.epoch, self.exchange, clock.minibatch, report.bytes, *times, report.left_out, *seen))
        self.latest = now

    def collect(self, comm: Comm) -> list[list[str]]:
        """Take the rows of all workers since the last call, as text in the order of ``COLUMNS``; rank 0 has them."""
        mine = torch.tensor(self.rows, dtype=torch.float64).reshape(-1, len(COLUMNS) - 1)
        self.rows = []
        table = [_row(rank, row) for rank, part in enumerate(comm.gather(mine)) for row in part.tolist()]
        return sorted(table, key=lambda row: (int(row[0]), int(row[1]), int(row[2])))


def _row(rank: int, values: list[float]) -> list[str]:
    epoch, exchange, minibatch, sent, *times = values[:7]
    probed = [f"{value:.6f}" for value in values[8:]]  # nan where nothing was probed
    counts = [f"{epoch:.0f}", f"{exchange:.0f}", str(rank), f"{minibatch:.0f}", f"{sent:.0f}"]
    return [*counts, *(f"{value:.6f}" for value in times), f"{values[7]:.0f}", *probed]
