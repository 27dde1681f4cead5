"""How good a model is on the dev sets.  Workers share the work; all get the same figures."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr_parallel.log import UserError
from asr_parallel.schedule.schedule import Scores
from asr_parallel.train.worker import Worker


@torch.no_grad()
def validate(worker: Worker) -> dict[str, Scores]:
    """Scores of the strategy's consensus: of each dev set by its name, and of all together under ``""``.

    Worker k of K takes minibatches k, k + K, ...; sums are added up over workers, and rank 0's are used by
    all, so that a schedule cannot decide differently from rank to rank.
    """
    model, comm = worker.strategy.consensus(), worker.comm
    sums = torch.zeros(len(worker.dev), 3, dtype=torch.float64)
    with evaluation(model):
        for row, dev in zip(sums, worker.dev):
            for i, batch in enumerate(dev.batches):
                if i % comm.size == comm.rank:
                    y = batch.y.to(worker.device)
                    logits = worker.logits(model, batch.x.to(worker.device))
                    row += torch.tensor([F.cross_entropy(logits, y, reduction="sum"), correct(logits, y), len(y)])
    sums = comm.sum(sums)
    comm.broadcast(sums)
    empty = [dev.name for row, dev in zip(sums, worker.dev) if row[2] == 0]
    if empty:
        raise UserError(f"dev set {empty[0]} has no frame with a label: give other --dev sets")
    each = {dev.name: scores(row) for row, dev in zip(sums, worker.dev)}
    return each | {"": scores(sums.sum(0))}


@contextlib.contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """``model`` in evaluation mode (running statistics, no dropout), then in the mode that it was in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def scores(sums: Tensor) -> Scores:
    """From sums of loss, right frames and frames."""
    loss, right, frames = sums[:3].tolist()
    return Scores(loss / frames, right / frames)


def correct(logits: Tensor, y: Tensor) -> Tensor:
    """Number of rows of ``logits`` whose largest value is at ``y``."""
    return (logits.gather(1, y[:, None])[:, 0] >= logits.amax(1)).sum()
