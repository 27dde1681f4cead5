"""What the ledger of a training sums up to: where the time of its workers has gone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from asr_parallel.log import UserError

COUNTS = ("epoch", "exchange", "rank", "minibatch", "bytes")
TIMES = ("compute_s", "wait_s", "send_s", "probe_s")
OPTIONAL = ("probe_s", "left_out")  # ledgers of old have not got them: zeros


@dataclass(frozen=True)
class Share:
    """What one rank has spent: seconds, and bytes sent; ``left_out`` counts exchanges that did not take its model."""

    rank: int
    exchanges: int
    compute_s: float
    wait_s: float
    send_s: float
    probe_s: float
    bytes: int
    left_out: int

    @property
    def total_s(self) -> float:
        return self.compute_s + self.wait_s + self.send_s + self.probe_s


@dataclass(frozen=True)
class Account:
    """``columns`` of a ledger by name, float64 [rows], in the order of (epoch, exchange, rank).

    Of the time of all workers, ``wall`` x ``workers``, the share ``efficiency`` was computing.  At a meeting the last
    to come waits for messages alone: so long a wait of everybody is ``communication``, as sending is; what others wait
    beyond that is the ``stragglers``'.
    """

    columns: dict[str, np.ndarray]
    path: Path = Path("ledger.tsv")

    @classmethod
    def read(cls, path: Path) -> Account:
        """Raises ``UserError`` that names the line if the file is damaged."""
        try:
            head, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: {error}; a training writes it at its first checkpoint") from None
        names = head.split("\t")
        if missing := [name for name in (*COUNTS, *TIMES, "left_out") if name not in (*names, *OPTIONAL)]:
            raise UserError(f"{path}:1: no column {missing[0]}: this is no ledger of a training; train again")
        rows = [_numbers(f"{path}:{number}", line, len(names)) for number, line in enumerate(lines, start=2)]
        table = np.array(rows, np.float64).reshape(-1, len(names))
        nothing = {name: np.zeros(len(table)) for name in OPTIONAL}
        return cls(nothing | {name: table[:, i] for i, name in enumerate(names)}, path)

    def __len__(self) -> int:
        return len(self.columns["rank"])

    @cached_property
    def ranks(self) -> list[Share]:
        found = []
        for rank in np.unique(self.columns["rank"]):
            own = self.columns["rank"] == rank
            seconds = [float(self.columns[name][own].sum()) for name in TIMES]
            counts = [int(self.columns[name][own].sum()) for name in ("bytes", "left_out")]
            compute, wait, send, probe = seconds
            found.append(Share(int(rank), int(own.sum()), compute, wait, send, probe, *counts))
        return found

    @cached_property
    def exchange_of(self) -> np.ndarray:
        """Of each row the number of its exchange, counted from 0 through all epochs; int64 [rows]."""
        keys = np.stack([self.columns["epoch"], self.columns["exchange"]], 1)
        return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)

    @property
    def exchanges(self) -> int:
        return int(self.exchange_of.max()) + 1 if len(self) else 0

    @property
    def workers(self) -> float:
        """On average: a training may go on with others."""
        return len(self) / self.exchanges

    @property
    def workers_at_last(self) -> int:
        return int((self.exchange_of == self.exchanges - 1).sum())

    @property
    def wall(self) -> float:
        """Seconds of the slowest worker."""
        return max(share.total_s for share in self.ranks)

    @property
    def speed_up(self) -> float:
        """Against one worker that computes as fast as these, and never exchanges."""
        return float(self.columns["compute_s"].sum()) / self.wall

    @property
    def efficiency(self) -> float:
        return self.speed_up / self.workers

    @property
    def communication(self) -> float:
        return float(self.columns["send_s"].sum() + self._met().sum()) / (self.workers * self.wall)

    @property
    def stragglers(self) -> float:
        return float(self.columns["wait_s"].sum() - self._met().sum()) / (self.workers * self.wall)

    @property
    def probing(self) -> float:
        return float(self.columns["probe_s"].sum()) / (self.workers * self.wall)

    def _met(self) -> np.ndarray:
        """Of each row, the wait of the last worker to come to its exchange."""
        least = np.full(self.exchanges, np.inf)
        np.minimum.at(least, self.exchange_of, self.columns["wait_s"])
        return least[self.exchange_of]

    def regular(self) -> dict[str, np.ndarray]:
        """The columns [T, K] of exchanges of all K workers that there were in the end, with ``minibatches`` since the
        exchange before.  The first of an epoch, in which threads and memory warm up, is left out if it has others."""
        present = np.bincount(self.exchange_of)
        size = self.workers_at_last
        rows = np.flatnonzero(present[self.exchange_of] == size).reshape(-1, size)
        found = {name: column[rows] for name, column in self.columns.items()}
        ends = found["minibatch"]
        first = np.diff(found["epoch"][:, 0], prepend=0) != 0
        since = np.diff(ends, axis=0, prepend=0)
        found["minibatches"] = np.where(first[:, None], ends, since).clip(1)
        kept = ~first if not first.all() else first
        return {name: column[kept] for name, column in found.items()}


def _numbers(where: str, line: str, count: int) -> list[float]:
    try:
        found = [float(text) for text in line.split("\t")]
    except ValueError as error:
        raise UserError(f"{where}: {error}: the file is damaged; train again") from None
    if len(found) != count:
        raise UserError(f"{where}: {len(found)} fields, where the header has {count}: the file is damaged; train again")
    return found
