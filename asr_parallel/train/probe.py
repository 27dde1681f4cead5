"""Whether averaging helps, seen at each exchange on a fixed batch of dev frames, before anything is exchanged.

By convexity the ensemble of the workers' outputs is never worse than the workers' mean loss; that the average of
their parameters is not is what model averaging hopes for, and what this shows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from asr_parallel.config import StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.ledger import Probed
from asr_parallel.train.validate import evaluation
from asr_parallel.train.worker import DevSet, Worker


@dataclass(frozen=True)
class Probe:
    """``x`` float32 [N, dim], ``y`` int64 [N]; looked at before every ``every``-th exchange of an epoch."""

    x: Tensor
    y: Tensor
    every: int = 1

    @classmethod
    def of(cls, dev: Sequence[DevSet], config: StrategyConfig, device: torch.device) -> Probe | None:
        """The first ``config.probe`` frames of the dev sets, the same number of each; None for 0."""
        frames = config.probe
        if frames <= 0:
            return None
        parts = [_first(part, -(-frames // len(dev))) for part in dev]
        x, y = (torch.cat(column)[:frames].to(device) for column in zip(*parts))
        return cls(x, y, config.probe_every)

    def due(self, exchange: int, clock: Clock) -> bool:
        """Whether the ``exchange``-th of this epoch is looked at; the last one always is."""
        return clock.last or exchange % self.every == 0

    def look(self, worker: Worker) -> Probed:
        """Wait for all, and look.  All workers call it; what it sends is not in the ledger's bytes."""
        begin = time.perf_counter()
        worker.comm.meet()
        met = time.perf_counter()
        own = self._look(worker)
        curves = _curves(worker.comm, *own)
        return Probed(own, curves, met - begin, time.perf_counter() - met)

    @torch.no_grad()
    def _look(self, worker: Worker) -> tuple[float, ...]:
        """Mean loss of this worker's model, of the average of all parameters, of the ensemble of all outputs; and
        ||w_k - mean|| / ||mean||."""
        model, comm = worker.model, worker.comm
        values = flatten(model)
        own, mean = values.clone(), values.clone()
        comm.all_reduce_mean(mean)
        with evaluation(model):
            logits = worker.logits(model, self.x)
            posteriors = logits.softmax(1).view(-1)
            comm.all_reduce_mean(posteriors)
            try:
                values.copy_(mean)
                average = F.cross_entropy(worker.logits(model, self.x), self.y)
            finally:
                values.copy_(own)
        ensemble = F.nll_loss(posteriors.view_as(logits).log(), self.y)
        spread = (own - mean).norm() / mean.norm()
        return tuple(v.item() for v in (F.cross_entropy(logits, self.y), average, ensemble, spread))


def _curves(comm: Comm, local: float, average: float, ensemble: float, spread: float) -> dict[str, float]:
    """What all have seen: the mean, best and worst of the workers' models; the mean of their spreads."""
    every = torch.zeros(comm.size, 2, dtype=torch.float64)
    every[comm.rank] = torch.tensor([local, spread])
    losses, spreads = comm.sum(every).unbind(1)
    sound = losses[losses.isfinite()].tolist() or [math.nan]
    found = {"local_mean": float(losses.mean()), "local_best": min(sound), "local_worst": max(sound)}
    return found | {"average": average, "ensemble": ensemble, "spread": float(spreads.mean())}


def _first(dev: DevSet, frames: int) -> tuple[Tensor, Tensor]:
    """The first frames of a set, at most ``frames``."""
    batches: list[Any] = []
    for batch in dev.batches:
        batches.append(batch)
        if sum(len(b.y) for b in batches) >= frames:
            break
    if not batches:
        raise UserError(f"--strategy.probe: dev set {dev.name} has no frame: give other --dev sets")
    return torch.cat([b.x for b in batches])[:frames], torch.cat([b.y for b in batches])[:frames]
