"""Going on with other workers than before, at the very exchange (``--on_failure continue``).

Utterances are dealt anew to the workers that are there, and training goes on at the same share of the epoch, of which
it has as many minibatches as the new shards afford.  Who was there before keeps parameters and optimizer; if
an exchange has failed, it is made by those who are left.  Who is new takes over what rank 0 has, but for the
optimizer, which begins anew (where gradients are averaged, but for what that makes the same on all workers).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asr_parallel.log import logger
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.ledger import Ledger
from asr_parallel.parallel.membership import Plan, Progress
from asr_parallel.train import loop
from asr_parallel.train.assemble import changes
from asr_parallel.train.checkpoint import Position, State
from asr_parallel.train.record import Recorder
from asr_parallel.train.worker import Worker

LOG = logger(__name__)


@dataclass(frozen=True)
class Held:
    """What a worker has when a generation of workers has ended.  ``trained`` are the parameters it has come to."""

    progress: Progress
    state: State
    before: State | None
    trained: Tensor
    schedule: dict[str, float]
    ledger: Ledger
    size: dict[str, float]
    recorder: Recorder

    @classmethod
    def of(cls, worker: Worker, recorder: Recorder) -> Held:
        """Nothing here talks to the others, who may not be there."""
        clock = worker.clock
        return cls(
            Progress(clock.epoch, clock.minibatch, clock.minibatches),
            worker.snapshot(),
            worker.before,
            flatten(worker.model).clone(),
            worker.schedule.state(),
            worker.ledger,
            worker.size,
            recorder,
        )


def take_up(worker: Worker, held: Held | None, plan: Plan, seat: int) -> Position:
    """Let a ``worker`` that has just begun go on as one of ``plan``; give the position that all go on from."""
    done = min(plan.at.minibatch * worker.minibatches // plan.at.minibatches, worker.minibatches - 1)
    worker.clock = clock = Clock(plan.at.epoch, worker.minibatches, done, done * worker.batch)
    if held is not None and seat not in plan.fresh:
        _put_back(worker, held)
    alike = worker.strategy.regroup(clock)
    if worker.strategy.exchanges == "gradients":
        alike += worker.optimizer.shared().values()  # of the same gradients
    if plan.fresh:
        _hand_over(worker, seat in plan.fresh)
    for tensor in alike:
        worker.comm.broadcast(tensor)
    if plan.average and worker.strategy.exchanges != "gradients":
        worker.ledger.begin(max(0, worker.strategy.per_epoch(done, worker.batch) - 1))  # the failed one was counted
        loop.exchange(worker, clock)
    if held is not None and worker.comm.rank == 0:
        LOG.warning("going on in epoch %d: %s", clock.epoch, changes(held.size, worker.size))
    return Position(clock.epoch - 1, done)


def _put_back(worker: Worker, held: Held) -> None:
    if held.before is not None:
        worker.restore(held.before)
        worker.before = worker.snapshot()  # as a state of so many workers
    worker.restore(held.state)
    flatten(worker.model).copy_(held.trained)
    worker.schedule.restore(held.schedule)
    worker.ledger = held.ledger


def _hand_over(worker: Worker, fresh: bool) -> None:
    """Give what rank 0 has to those who are ``fresh``."""
    numbers = worker.schedule.state()
    schedule = torch.tensor([numbers[name] for name in sorted(numbers)], dtype=torch.float64)
    worker.comm.broadcast(schedule)
    state = worker.snapshot()
    before = _of_rank_0(worker, worker.before or state)
    state = _of_rank_0(worker, state)
    if fresh:
        worker.schedule.restore(dict(zip(sorted(numbers), schedule.tolist())))
        worker.before = worker.forgetful(before)
        worker.restore(worker.forgetful(state))
        worker.tally[:4] = 0  # of this epoch this worker has done nothing
        worker.exchanged.copy_(worker.tally)


def _of_rank_0(worker: Worker, state: State) -> State:
    state = {name: value.clone() for name, value in state.items()}
    for name in sorted(state):
        if state[name].numel():
            worker.comm.broadcast(state[name])
    return state
