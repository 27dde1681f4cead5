"""The training loop.  It knows no strategy, optimizer or schedule by name."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from asr_parallel.log import Progress, UserError
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Changed, Stopped
from asr_parallel.parallel.ledger import Probed
from asr_parallel.parallel.wire import mean_of
from asr_parallel.schedule.schedule import Verdict
from asr_parallel.train import statistics
from asr_parallel.train.checkpoint import Position
from asr_parallel.train.validate import DevScores, validate
from asr_parallel.train.worker import Worker

PARTS = 20  # of an epoch, for the curve


class Keeper(Protocol):
    """Writes down what happens (``record.Recorder``).  All are called on every worker."""

    def part(self, worker: Worker, clock: Clock, lr: float) -> None: ...

    def probe(self, worker: Worker, clock: Clock, probed: Probed) -> None: ...

    def epoch(
        self, worker: Worker, epoch: int, lr_last: float, tally: Tensor, dev: DevScores, verdict: Verdict
    ) -> None: ...

    def save(self, worker: Worker, at: Position, before: dict[str, Tensor] | None = None) -> None: ...


def train(worker: Worker, keeper: Keeper, at: Position) -> None:
    """Train from position ``at`` on.

    Raises ``Stopped`` after a request to stop, ``UserError`` when training diverges, ``Changed`` where the workers are
    to change: then ``worker.clock`` tells how far training has come.
    """
    if at == Position():
        worker.schedule.begin(validate(worker).all)
        keeper.save(worker, at)
    show = _progress(worker, at)
    for epoch in worker.schedule.epochs(at.epochs):
        worker.clock = clock = Clock(epoch, worker.minibatches, at.minibatch, at.minibatch * worker.batch)
        if not clock.minibatch:
            worker.tally.zero_()
            worker.exchanged.zero_()
            worker.before = worker.snapshot()
            worker.tally[4] = worker.schedule.rate(clock)
            worker.optimizer.new_epoch()
        lr = run_epoch(worker, clock, keeper, show)
        if not clock.last:
            keeper.save(worker, Position(epoch - 1, clock.minibatch), worker.before)
            raise Stopped
        statistics.estimate(worker.model, worker.strategy, worker.comm, map(worker.place, worker.frames.epoch(epoch)))
        dev, tally = validate(worker), worker.comm.sum(worker.tally.cpu())
        verdict = worker.schedule.judge(epoch, dev.all)
        if not verdict.accept:
            worker.go_back()
        keeper.epoch(worker, epoch, lr, tally, dev, verdict)
        at, worker.clock = Position(epoch), Clock(epoch + 1, worker.minibatches)
        keeper.save(worker, at)
        if worker.comm.stopping:
            raise Stopped
        if worker.comm.changing:
            raise Changed


def run_epoch(worker: Worker, clock: Clock, keeper: Keeper, show: Callable[[Clock], None]) -> float:
    """Train from ``clock`` to the end of the epoch, or to where all workers agree to stop; give the last rate."""
    strategy, comm = worker.strategy, worker.comm
    begin, lr, saved = time.perf_counter(), 0.0, clock.minibatch
    worker.ledger.begin(strategy.per_epoch(clock.minibatch, worker.batch))
    batches = worker.frames.epoch(clock.epoch, clock.minibatch)
    for batch in itertools.islice(batches, clock.minibatches - clock.minibatch):
        worker.prepare(clock)
        lr = worker.schedule.rate(clock)
        if not strategy.idle(clock, comm):
            step(worker, batch, lr)
        agreed = strategy.due(clock.tick(worker.batch))  # what all workers count alike
        if agreed and (probed := exchange(worker, clock)):
            keeper.probe(worker, clock, probed)
        show(clock)
        if clock.passes(PARTS) or comm.stopping:  # the last minibatch ends a part
            worker.tally[3] += time.perf_counter() - begin
            begin = time.perf_counter()
            keeper.part(worker, clock, lr)
        if comm.stopping:
            break
        if clock.minibatch - saved >= worker.save_every and (agreed or comm.size == 1) and not clock.last:
            saved = clock.minibatch
            keeper.save(worker, Position(clock.epoch - 1, saved), worker.before)
        if agreed and comm.changing and not clock.last:
            raise Changed
    if not torch.isfinite(worker.tally[0]):
        diverged(worker, clock)
    return lr


def step(worker: Worker, batch: Any, lr: float) -> None:
    """Train on a minibatch."""
    worker.place(batch)
    logits = worker.logits(worker.model, batch.x)
    loss = worker.strategy.loss(logits, batch)
    worker.optimizer.step(loss, lr=lr * worker.strategy.lr_scale)
    count(worker.tally, loss, worker.strategy.criterion.right(logits, batch), len(batch.y))


def exchange(worker: Worker, clock: Clock) -> Probed | None:
    """Exchange with the others; give what was probed before, if that was due."""
    probe, number = worker.probe, worker.ledger.exchange + 1
    probed = probe.look(worker) if probe and probe.due(number, clock) else None
    report = worker.strategy.exchange(worker.comm)
    worker.ledger.add(clock, report, probed)
    if report.left_out:
        begin_anew(worker)
    settle(worker)
    statistics.share(worker.model, worker.strategy, worker.comm)
    worker.exchanged.copy_(worker.tally)
    return probed


def begin_anew(worker: Worker) -> None:
    """What this worker has done since the latest exchange does not count, and its optimizer forgets all, but for what
    is the same on all workers because their gradients are."""
    worker.tally[:3] = worker.exchanged[:3]
    alike = worker.optimizer.shared() if worker.strategy.exchanges == "gradients" else {}
    kept = {name: value.clone() for name, value in alike.items()}
    worker.optimizer.begin_anew()
    for name, value in kept.items():
        alike[name].copy_(value)


@torch.no_grad()
def count(tally: Tensor, loss: Tensor, right: Tensor, frames: int) -> None:
    """Add a minibatch to the sums of loss, right frames and frames."""
    tally[0] += loss.detach().double() * frames
    tally[1] += right
    tally[2] += frames


def settle(worker: Worker) -> None:
    """Do to the optimizer's state what the strategy says happens to it at an exchange."""
    if worker.strategy.optimizer_state == "reset" and worker.strategy.exchanges == "subnets":
        worker.optimizer.begin_anew()  # all of it was about other weights
    elif worker.strategy.optimizer_state == "reset":
        for value in worker.optimizer.shared().values():
            value.zero_()
    elif worker.strategy.optimizer_state == "average":
        for value in worker.optimizer.shared().values():
            mean_of(worker.comm, value, worker.strategy.taken)


def diverged(worker: Worker, clock: Clock) -> None:
    raise UserError(
        f"rank {worker.comm.rank}: the loss is no longer a number in epoch {clock.epoch}, minibatch "
        f"{clock.minibatch}: give a lower --optim.lr (each worker's rate is {worker.strategy.lr_scale:g} x that)"
    )


def _progress(worker: Worker, at: Position) -> Callable[[Clock], None]:
    """A function that shows how far all workers together are; it also notices divergence early."""
    epochs = worker.schedule.config.epochs
    frames = worker.batch * worker.comm.size
    bar = Progress("train", (epochs - at.epochs) * worker.minibatches * frames, "frames")
    first = worker.comm.rank == 0
    noticed_here = worker.comm.size == 1 or worker.strategy.exchanges != "parameters"  # else at the next exchange

    def show(clock: Clock) -> None:
        if first:
            bar.add(frames, f"epoch {clock.epoch}/{epochs}")
        if noticed_here and clock.minibatch % 100 == 0 and not torch.isfinite(worker.tally[0]):
            diverged(worker, clock)

    return show
