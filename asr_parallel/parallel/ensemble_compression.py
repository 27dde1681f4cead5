"""Ensemble-compression (EC-DNN; Sun et al., ECML-PKDD 2017): the models of an ensemble learn from its outputs.

As in ``ensemble.py`` each worker trains a model of its own.  At an exchange the ensemble of all is formed; in the first
p minibatches after it each worker trains on its own frames with the labels and with pseudo labels q, the ensemble's
outputs for them:

    CE(y, g(w_k; x)) + lambda CE(q, g(w_k; x)) .

So each model compresses the ensemble into its own size while it goes on; the models stay different.  q is made lazily,
for just those frames that the p minibatches draw: with ``gather`` from the K models at the exchange, minibatch after
minibatch; with ``ring`` for all p minibatches at once, one model after the other, and q of these is kept.
The paper's lambda, p and kind of labels could not be found; the defaults are of our ablation (``docs/ensembles.md``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr_parallel.ensemble import OutputMean
from asr_parallel.log import UserError, logger
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.ensemble import EnsembleTraining, check_bound
from asr_parallel.parallel.strategy import Report

LOG = logger(__name__)


class EnsembleCompression(EnsembleTraining):
    def check(self, workers: int) -> None:
        super().check(workers)
        c = self.config
        for name in ("pseudo_weight", "pseudo_decay", "pseudo_minibatches"):
            if getattr(c, name) < 0:
                raise UserError(f"--strategy.{name} {getattr(c, name):g}: give 0 or more")
        if not 0 < c.pseudo_fraction <= 1:
            raise UserError(f"--strategy.pseudo_fraction {c.pseudo_fraction:g}: give a share above 0 and up to 1")
        if c.ensemble_by == "ring" and c.pseudo_minibatches < 1:
            raise UserError(
                "--strategy.ensemble_by ring makes the pseudo labels of p minibatches at once: say how many "
                "(--strategy.pseudo_minibatches), or give --strategy.ensemble_by gather"
            )

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.rounds = torch.zeros(1, dtype=torch.int64)  # exchanges so far
        self.done = 0  # minibatches since the latest one
        self.made: list[Tensor] = []  # ring: log-posteriors of the ensemble for the minibatches to come
        self.sent, self.send_s = 0, 0.0  # of the ring, since the latest exchange
        return super().start(model, comm)

    def loss(self, logits: Tensor, batch: Any) -> Tensor:
        truth = super().loss(logits, batch)
        self.done += 1
        weight, p = self.weight(), self.config.pseudo_minibatches
        if not weight or (p and self.done > p):
            return truth
        q = self._pseudo(batch)
        target = q.argmax(1) if self.config.pseudo_labels == "hard" else q.exp()
        return truth + weight * F.cross_entropy(logits[: len(q)], target, reduction="sum") / len(batch.y)

    def weight(self) -> float:
        """Lambda since the latest exchange; 0 where there is no ensemble."""
        rounds = int(self.rounds)
        return (
            self.config.pseudo_weight * self.config.pseudo_decay ** (rounds - 1) if rounds and not self.alone else 0.0
        )

    @torch.no_grad()
    def _pseudo(self, batch: Any) -> Tensor:
        """Log-posteriors of the ensemble for the frames of a minibatch that are relabelled: the first ones, which are
        as random as all."""
        if self.config.ensemble_by == "gather":
            return self._labels([batch], self.visits())[0]
        if self.done == 1:
            batches = list(self.view.coming(self.config.pseudo_minibatches))
            self.made = self._labels(batches, self._timed(self.visits()))[::-1]
        return self.made.pop()

    def _labels(self, batches: list[Any], visits: Iterator[tuple[int, nn.Module]]) -> list[Tensor]:
        """Log-posteriors [n, num_pdfs] of the ensemble for each minibatch."""
        sizes = [math.ceil(self.config.pseudo_fraction * len(batch.y)) for batch in batches]
        means = [OutputMean(self.config.ensemble_mean) for _ in batches]
        first, alone = slice(sizes[0]), []
        for _, model in visits:
            for n, mean, batch in zip(sizes, means, batches):
                logits = self.view.logits(model, batch.x[:n])
                mean.add(logits)
                if self.done == 1 and mean is means[0]:
                    alone.append(F.cross_entropy(logits, batch.y[:n]))
        made = [mean.log_posteriors() for mean in means]
        if alone:
            ensemble, members = float(F.nll_loss(made[0], batches[0].y[first])), float(torch.stack(alone).mean())
            LOG.debug("ensemble %d: cross-entropy %.4f, of its models %.4f", int(self.rounds), ensemble, members)
            check_bound(ensemble, members)
        return made

    def _timed(self, visits: Iterator[tuple[int, nn.Module]]) -> Iterator[tuple[int, nn.Module]]:
        """``visits``, whose cost is noted for the ledger."""
        self.sent += self.visit_bytes
        while True:
            begin = time.perf_counter()
            found = next(visits, None)
            self.send_s += time.perf_counter() - begin
            if found is None:
                return
            yield found

    def exchange(self, comm: Comm) -> Report:
        """Form an ensemble.  What a ring has cost since the exchange before is reported with this one."""
        cost = super().exchange(comm)
        report = replace(cost, bytes=cost.bytes + self.sent, send_s=cost.send_s + self.send_s)
        self.sent, self.send_s = 0, 0.0
        return report

    def share(self, comm: Comm) -> int:
        super().share(comm)
        self.rounds += 1
        self.done, self.made = 0, []
        return self.gather() if self.config.ensemble_by == "gather" and not self.alone else 0

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "rounds": self.rounds}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Checkpoints are written just after an exchange, so pseudo labels are made again from the same models."""
        super().restore(state)
        self.rounds.copy_(state["rounds"])
        self.done, self.made = 0, []

    def regroup(self, clock: Clock) -> list[Tensor]:
        return [*super().regroup(clock), self.rounds]
