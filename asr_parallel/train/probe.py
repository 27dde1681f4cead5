"""Whether averaging helps, seen at each exchange on a fixed batch of dev frames, before anything is exchanged.

By convexity the ensemble of the workers' outputs is never worse than the workers' mean loss; that the average of
their parameters is not is what model averaging hopes for, and what this shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.train.validate import evaluation
from asr_parallel.train.worker import DevSet, Worker


@dataclass(frozen=True)
class Probe:
    """``x`` float32 [N, dim], ``y`` int64 [N]."""

    x: Tensor
    y: Tensor

    @classmethod
    def of(cls, dev: Sequence[DevSet], frames: int, device: torch.device) -> Probe | None:
        """The first ``frames`` frames of the dev sets, the same number of each; None for 0."""
        if frames <= 0:
            return None
        parts = [_first(part, -(-frames // len(dev))) for part in dev]
        x, y = (torch.cat(column)[:frames].to(device) for column in zip(*parts))
        return cls(x, y)

    @torch.no_grad()
    def look(self, worker: Worker) -> tuple[float, ...]:
        """Mean loss of this worker's model, of the average of all parameters, of the ensemble of all outputs; and
        ||w_k - mean|| / ||mean||.  All workers call it; what it sends is not in the ledger's bytes."""
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
