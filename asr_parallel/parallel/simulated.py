"""K workers in one process, one computing at a time: for studies of many workers on a small machine, and for debugging.

Each worker is a thread that runs the same code as a process would.  It has the turn from one meeting of all to the
next, in the order of ranks, so a run is deterministic.  Sums are taken in the order of ranks; with two workers that is
to the bit what gloo gives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch import Tensor

from asr_parallel.log import UserError
from asr_parallel.parallel.comm import Comm


class Left(UserError):
    """Another worker has failed."""


class Table:
    """Where simulated workers meet."""

    def __init__(self, size: int):
        self.size = size
        self.changed = threading.Condition()
        self.turn, self.round = 0, 0
        self.given: list[Any] = [None] * size
        self.found: list[Any] = []
        self.failed: int | None = None  # the first rank that did

    def wait_turn(self, rank: int, number: int) -> None:
        """Wait until ``number`` meetings are over and it is the turn of ``rank``; ``changed`` must be held."""
        self.changed.wait_for(lambda: self.failed is not None or (self.round >= number and self.turn == rank))
        if self.failed is not None:
            raise Left(f"rank {rank}: rank {self.failed} has ended")

    def meet(self, rank: int, value: Any) -> list[Any]:
        """Give ``value``, let the others go on, and get what all have given once it is this rank's turn again."""
        with self.changed:
            number = self.round + 1
            self.given[rank] = value
            if rank == self.size - 1:
                self.found, self.given, self.round = self.given, [None] * self.size, number
            self.turn = (rank + 1) % self.size
            self.changed.notify_all()
            self.wait_turn(rank, number)
            return self.found

    def leave(self, rank: int, failed: bool) -> None:
        """Let the next go on: this rank has ended."""
        with self.changed:
            if failed and self.failed is None:
                self.failed = rank
            self.turn = (rank + 1) % self.size
            self.changed.notify_all()


class SimulatedComm(Comm):
    """Worker ``rank`` of those that meet at ``table``."""

    def __init__(self, table: Table, rank: int):
        super().__init__()
        self.table, self.rank, self.size = table, rank, table.size

    def meet(self) -> None:
        self.stopping = any(self.table.meet(self.rank, self.asked_to_stop))

    def _sum(self, values: Tensor) -> Tensor:
        first, *others = self.table.meet(self.rank, values.clone())
        total = first.clone()
        for other in others:
            total += other
        return total

    def all_reduce_mean(self, flat: Tensor) -> int:
        flat.copy_(self._sum(flat).div_(self.size))
        return 2 * flat.nbytes * (self.size - 1) // self.size  # of a ring

    def swap(self, parts: list[Tensor], sizes: list[int]) -> list[Tensor]:
        given = self.table.meet(self.rank, [part.clone() for part in parts])
        return [theirs[self.rank].clone() for theirs in given]

    def sum(self, values: Tensor) -> Tensor:
        return self._sum(values)

    def broadcast(self, tensor: Tensor) -> None:
        tensor.copy_(self.table.meet(self.rank, tensor.clone())[0])

    def gather(self, tensor: Tensor) -> list[Tensor]:
        parts = self.table.meet(self.rank, tensor.detach().cpu().clone())
        return [part.clone() for part in parts] if self.rank == 0 else []


def simulate(size: int, work: Callable[[SimulatedComm], int]) -> int:
    """Do ``work`` as ``size`` workers; give the largest exit code, or raise what the first to fail has raised.

    Rank 0 is the calling thread, so that signals reach it.
    """
    table = Table(size)
    ends: dict[int, Any] = {}

    def one(rank: int) -> None:
        failed = True
        try:
            with table.changed:
                table.wait_turn(rank, 0)
            ends[rank] = work(SimulatedComm(table, rank))
            failed = False
        except BaseException as error:  # is raised again below, in the calling thread
            ends[rank] = error
        finally:
            table.leave(rank, failed)

    threads = [threading.Thread(target=one, args=(rank,), name=f"rank {rank}") for rank in range(1, size)]
    for thread in threads:
        thread.start()
    one(0)
    for thread in threads:
        thread.join()
    if table.failed is not None:
        raise ends[table.failed]
    return max(ends.values())
