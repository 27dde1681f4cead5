"""What exchanges have cost: one row an exchange and worker, in ``ledger.tsv``."""

from __future__ import annotations

import time

import torch

from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Report

COLUMNS = ("epoch", "exchange", "rank", "bytes", "wait_s", "send_s", "compute_s")


class Ledger:
    """Rows of one worker.  ``compute_s`` is the time since the exchange before (or ``begin``) that was neither
    waiting nor sending, so that the three add up to the time of training."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []
        self.exchange = 0
        self.latest = time.perf_counter()

    def begin(self, exchange: int = 0) -> None:
        """An epoch begins, or goes on after its ``exchange``-th exchange."""
        self.exchange = exchange
        self.latest = time.perf_counter()

    def add(self, clock: Clock, report: Report) -> None:
        """Note an exchange that has just ended."""
        now = time.perf_counter()
        self.exchange += 1
        compute = now - self.latest - report.wait_s - report.send_s
        self.rows.append((clock.epoch, self.exchange, report.bytes, report.wait_s, report.send_s, compute))
        self.latest = now

    def collect(self, comm: Comm) -> list[list[str]]:
        """Take the rows of all workers since the last call, as text in the order of ``COLUMNS``; rank 0 has them."""
        mine = torch.tensor(self.rows, dtype=torch.float64).reshape(-1, 6)
        self.rows = []
        table = [
            [f"{e:.0f}", f"{x:.0f}", str(rank), f"{b:.0f}", f"{wait:.6f}", f"{send:.6f}", f"{compute:.6f}"]
            for rank, part in enumerate(comm.gather(mine))
            for e, x, b, wait, send, compute in part.tolist()
        ]
        return sorted(table, key=lambda row: (int(row[0]), int(row[1]), int(row[2])))
