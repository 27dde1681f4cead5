"""How good a model is on the dev sets.  Workers share the work; all get the same figures."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from asr_parallel.ensemble import OutputMean
from asr_parallel.log import UserError
from asr_parallel.parallel.ensemble import EnsembleTraining, check_bound
from asr_parallel.schedule.schedule import Scores
from asr_parallel.train.worker import Worker

BLOCK = 8  # dev batches of a worker whose outputs are kept while the models of an ensemble are visited


@dataclass(frozen=True)
class DevScores:
    """Scores of the consensus: on all dev sets together, and on each by its name; and of the models of an ensemble on
    all together, by rank (empty if the consensus is one model)."""

    all: Scores
    sets: dict[str, Scores]
    local: list[Scores]


def validate(worker: Worker) -> DevScores:
    """How good the strategy's consensus is.

    Worker k of K takes minibatches k, k + K, ...; sums are added up over workers, and rank 0's are used by
    all, so that a schedule cannot decide differently from rank to rank.
    """
    comm, strategy = worker.comm, worker.strategy
    if isinstance(strategy, EnsembleTraining) and comm.size > 1:
        sums = ensemble_sums(worker, strategy)
    else:
        sums = single_sums(worker, strategy.consensus())
    sums = comm.sum(sums)
    comm.broadcast(sums)
    empty = [dev.name for row, dev in zip(sums[0], worker.dev) if row[2] == 0]
    if empty:
        raise UserError(f"dev set {empty[0]} has no frame with a label: give other --dev sets")
    together, *local = [scores(each) for each in sums.sum(1)]
    if local:
        check_bound(together.loss, sum(score.loss for score in local) / len(local))
    return DevScores(together, {dev.name: scores(row) for row, dev in zip(sums[0], worker.dev)}, local)


@torch.no_grad()
def single_sums(worker: Worker, model: nn.Module) -> Tensor:
    """Loss, right frames and frames [1, sets, 3] of this worker's share of the dev sets."""
    sums = torch.zeros(1, len(worker.dev), 3, dtype=torch.float64)
    with evaluation(model):
        for row, blocks in zip(sums[0], shares(worker)):
            for batch in itertools.chain.from_iterable(blocks):
                row += worker.strategy.criterion.figures(worker.logits(model, batch.x), batch)
    return sums


@torch.no_grad()
def ensemble_sums(worker: Worker, strategy: EnsembleTraining) -> Tensor:
    """The same [1 + K, sets, 3], of the ensemble and of each of its models.

    The models are visited once a block, whose outputs are kept meanwhile.
    """
    sums = torch.zeros(1 + worker.comm.size, len(worker.dev), 3, dtype=torch.float64)
    for i, blocks in enumerate(shares(worker)):
        for block in blocks:
            means = [OutputMean(strategy.config.ensemble_mean) for _ in block]
            for rank, model in strategy.visits():
                for mean, batch in zip(means, block):
                    logits = worker.logits(model, batch.x)
                    mean.add(logits)
                    sums[1 + rank, i] += strategy.criterion.figures(logits, batch)
            for mean, batch in zip(means, block):
                sums[0, i] += strategy.criterion.figures(mean.log_posteriors(), batch)
    return sums


def shares(worker: Worker) -> Iterator[Iterator[list[Any]]]:
    """For each dev set its blocks, as many on every worker; of each this worker's share, up to ``BLOCK`` batches."""
    rank, size = worker.comm.rank, worker.comm.size

    def blocks(batches: Iterator[Any]) -> Iterator[list[Any]]:
        for first in batches:
            block = itertools.chain([first], itertools.islice(batches, size * BLOCK - 1))
            yield [worker.place(batch) for i, batch in enumerate(block) if i % size == rank]

    return (blocks(iter(dev.batches)) for dev in worker.dev)


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
