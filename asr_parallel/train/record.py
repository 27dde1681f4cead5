"""What a training leaves behind: history, ledger, curves, checkpoints, summary.  Rank 0 writes, all are called."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asr_parallel import log
from asr_parallel.files import write_text
from asr_parallel.parallel import ledger
from asr_parallel.parallel.account import Account
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.ledger import Probed
from asr_parallel.schedule.schedule import Scores, Verdict
from asr_parallel.train import checkpoint
from asr_parallel.train.checkpoint import Checkpoint, Position, State
from asr_parallel.train.validate import DevScores, scores
from asr_parallel.train.worker import Worker

LOG = log.logger(__name__)
LOCAL = ["local_loss_mean", "local_acc_mean", "local_loss_best", "local_acc_best", "local_best"]  # columns


class Table:
    """A file of tab-separated rows under a header, rewritten as a whole."""

    def __init__(self, path: Path, columns: list[str]):
        self.path, self.columns = path, columns
        self.rows: list[list[str]] = []

    def load(self, keep: Callable[[dict[str, str]], bool]) -> None:
        """Take the rows of the file that ``keep`` is true for; none if it is missing or has other columns."""
        if not self.path.exists():
            return
        header, *lines = self.path.read_text(encoding="utf-8").splitlines() or [""]
        if header.split("\t") == self.columns:
            rows = [line.split("\t") for line in lines]
            self.rows = [row for row in rows if len(row) == len(self.columns) and keep(dict(zip(self.columns, row)))]

    def add(self, rows: list[list[str]]) -> None:
        self.rows += rows
        write_text(self.path, "".join("\t".join(row) + "\n" for row in [self.columns, *self.rows]))

    def column(self, name: str) -> list[float]:
        i = self.columns.index(name)
        return [float(row[i]) for row in self.rows]


class Recorder:
    """The ``Keeper`` of the loop.

    In the history ``lr`` and ``lr_last`` are the schedule's rates of an epoch's first and last minibatch, and
    ``seconds`` those of training, without validation.  ``ensemble`` tells that the dev scores are those of an ensemble;
    the history then has its models' too: the mean, and the one with the lowest loss, of rank ``local_best``.
    """

    def __init__(self, out: Path, rank: int, dev: list[str], identity: dict[str, Any], ensemble: bool = False):
        self.out, self.rank, self.dev, self.identity = out, rank, dev, identity
        each = [f"{what}_{name}" for what in ("dev_loss", "dev_acc") for name in dev]
        head = ["epoch", "lr", "lr_last", "frames", "train_loss", "train_acc", "dev_loss", "dev_acc"]
        each += LOCAL if ensemble else []
        self.history = Table(out / "history.tsv", [*head, *each, "seconds", "frames_per_s", "verdict"])
        self.ledger = Table(out / "ledger.tsv", list(ledger.COLUMNS))
        self.course = Table(out / "curve.tsv", ["epoch", "minibatch", "frames", "seconds", "lr", "loss", "acc"])
        self.noted = torch.zeros(5, dtype=torch.float64)  # the worker's tally at the last row of the curve
        self.begun = 0  # minibatches that were done when this process began
        self.curves: Any = None

    @property
    def checkpoints(self) -> Path:
        return self.out / "checkpoint"

    def resume(self, worker: Worker, at: Position) -> None:
        """Keep of the tables what was written before ``at``, where ``worker`` stands."""
        if self.rank != 0:
            return
        self.noted = worker.tally.cpu().clone()
        self.begun = at.epochs * worker.minibatches + at.minibatch
        exchanges = worker.strategy.per_epoch(at.minibatch, worker.batch)
        self.history.load(lambda row: int(row["epoch"]) <= at.epochs)
        self.ledger.load(lambda row: (int(row["epoch"]), int(row["exchange"])) <= (at.epochs + 1, exchanges))
        self.course.load(lambda row: (int(row["epoch"]), int(row["minibatch"])) <= (at.epochs + 1, at.minibatch))
        for table in (self.history, self.ledger, self.course):
            table.add([])

    def take_over(self, worker: Worker) -> None:
        """Other workers are there now; rank 0 goes on with the files, where another worker has left them."""
        if self.rank != 0 and worker.comm.rank == 0:
            for table in (self.history, self.ledger, self.course):
                table.load(lambda row: True)
        self.rank = worker.comm.rank
        self.noted = worker.tally.cpu().clone()
        self.begun = (worker.clock.epoch - 1) * worker.minibatches + worker.clock.minibatch

    def part(self, worker: Worker, clock: Clock, lr: float) -> None:
        """Part of an epoch is over: add rank 0's training loss since the last row to ``curve.tsv``.

        ``frames`` are those of all workers in this epoch so far, ``seconds`` its time so far.
        """
        if self.rank != 0:
            return
        now = worker.tally.cpu().clone()
        if now[2] <= self.noted[2]:  # a new epoch
            self.noted.zero_()
        if now[2] == self.noted[2]:  # rank 0 was left out of the first exchange
            return
        train = scores(now - self.noted)
        self.noted = now
        frames, seconds = clock.frames * worker.comm.size, float(now[3])
        row = [str(clock.epoch), str(clock.minibatch), str(frames), f"{seconds:.2f}", f"{lr:.6g}"]
        self.course.add([[*row, f"{train.loss:.5f}", f"{train.accuracy:.5f}"]])
        curves = {"minibatch/loss": train.loss, "minibatch/acc": train.accuracy, "minibatch/lr": lr}
        self._curve(_done(clock), curves)

    def probe(self, worker: Worker, clock: Clock, probed: Probed) -> None:
        """An exchange is over: add what was seen before it to the curves."""
        if self.rank == 0:
            self._curve(_done(clock), {f"probe/{name}": value for name, value in probed.curves.items()})

    def epoch(
        self, worker: Worker, epoch: int, lr_last: float, tally: Tensor, dev: DevScores, verdict: Verdict
    ) -> None:
        """An epoch is over: add to the history, the curves and the log.  ``tally`` is the sum over all workers."""
        if self.rank != 0:
            return
        train, frames, seconds, lr = scores(tally), float(tally[2]), float(worker.tally[3]), float(worker.tally[4])
        values = {"lr": f"{lr:.6g}", "lr_last": f"{lr_last:.6g}"}
        values |= {"frames": f"{frames:.0f}", "seconds": f"{seconds:.2f}"}
        values |= {"frames_per_s": f"{frames / seconds:.0f}", "verdict": str(verdict)}
        for name, score in {"train": train, "dev": dev.all}.items():
            values |= {f"{name}_loss": f"{score.loss:.5f}", f"{name}_acc": f"{score.accuracy:.5f}"}
        for name in self.dev:
            score = dev.sets[name]
            values |= {f"dev_loss_{name}": f"{score.loss:.5f}", f"dev_acc_{name}": f"{score.accuracy:.5f}"}
        if LOCAL[0] in self.history.columns:
            values |= local_values(dev.local or [dev.all])  # one model alone is left of an ensemble
        self.history.add([[(values | {"epoch": str(epoch)})[name] for name in self.history.columns]])
        self._curve(epoch * worker.minibatches, {n: float(v) for n, v in values.items() if n != "verdict"})
        last = worker.schedule.config.epochs
        LOG.info(
            "epoch %d/%d: lr %.4g to %.4g, train loss %.4f (%.2f %% right), dev loss %.4f (%.2f %%), %s, %.0f "
            "frames/s: %s",
            *(epoch, last, lr, lr_last, train.loss, 100 * train.accuracy, dev.all.loss, 100 * dev.all.accuracy),
            *(log.duration(seconds), frames / seconds, verdict),
        )

    def save(self, worker: Worker, at: Position, before: State | None = None) -> None:
        """Write a checkpoint; ``before`` is this worker's state at the beginning of the epoch under way."""
        states = checkpoint.gather_states(worker.comm, worker.snapshot())
        begun = checkpoint.gather_states(worker.comm, before)
        rows = worker.ledger.collect(worker.comm)
        if self.rank != 0:
            return
        self.ledger.add(rows)
        if worker.probe is not None and not at.minibatch:
            from asr_parallel.results import plots  # takes a second to load

            plots.probes(Account.read(self.ledger.path), self.out / "probe.png")
        schedule = worker.schedule.state()
        checkpoint.save(self.checkpoints, Checkpoint(at, states, begun, schedule, self.identity, worker.size))

    def _curve(self, minibatch: int, values: dict[str, float]) -> None:
        """Add to TensorBoard's curves in ``tb/``; ``minibatch`` counts from the first epoch on."""
        if self.curves is None:
            from torch.utils.tensorboard import SummaryWriter

            _wait_for_a_later_name(self.out / "tb")
            self.curves = SummaryWriter(str(self.out / "tb"), purge_step=self.begun + 1)
        for name, value in values.items():
            self.curves.add_scalar(name, value, minibatch)
        self.curves.flush()

    def summary(self) -> dict[str, Any]:
        """What the history says of the training as a whole; of the model kept: loss and accuracy on the dev sets."""
        rows = [dict(zip(self.history.columns, row)) for row in self.history.rows]
        seconds, frames = (sum(float(row[name]) for row in rows) for name in ("seconds", "frames"))
        kept = [row for row in rows if row["verdict"].startswith("accept")][-1:]
        best = min(rows, key=lambda row: float(row["dev_loss"]), default=None)
        waits, sends = (sum(self.ledger.column(name)) for name in ("wait_s", "send_s"))
        result: dict[str, Any] = {
            "epochs": len(rows),
            "train_seconds": round(seconds, 2),
            "trained_frames": int(frames),
        }
        result |= {"frames_per_s": round(frames / seconds) if seconds else 0}
        result |= {"exchange_wait_s": round(waits, 3), "exchange_send_s": round(sends, 3)}
        result |= {f"exchange_{name}": int(sum(self.ledger.column(name))) for name in ("bytes", "left_out")}
        for row in kept:
            result |= {name: float(row[name]) for name in row if name.startswith(("train_", "dev_", "local_"))}
        if best:
            result |= {"best_epoch": int(best["epoch"]), "best_dev_loss": float(best["dev_loss"])}
            result |= {"best_dev_acc": max(float(row["dev_acc"]) for row in rows)}
        return result


def _wait_for_a_later_name(directory: Path) -> None:
    """Wait for a second in which no file of events in ``directory`` was begun.

    TensorBoard reads them in the order of their names, which begin with that second: of two from one second the later
    could come first, and its points would be taken for those that the earlier one has replaced.
    """
    begun = [int(path.name.split(".")[3]) for path in directory.glob("events.out.tfevents.*")]
    time.sleep(min(max(0.0, max(begun, default=0) + 1 - time.time()), 2.0))


def _done(clock: Clock) -> int:
    """Minibatches since the first epoch began."""
    return (clock.epoch - 1) * clock.minibatches + clock.minibatch


def local_values(local: list[Scores]) -> dict[str, str]:
    """The ``LOCAL`` columns of the models of an ensemble."""
    best = min(range(len(local)), key=lambda rank: local[rank].loss)
    means = [sum(figures) / len(local) for figures in ([s.loss for s in local], [s.accuracy for s in local])]
    figures = [*means, local[best].loss, local[best].accuracy]
    return dict(zip(LOCAL, [*(f"{value:.5f}" for value in figures), str(best)], strict=True))
