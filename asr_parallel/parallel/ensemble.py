"""Ensembles (the E-DNN of Sun et al., ECML-PKDD 2017): workers train alone, and their outputs are averaged.

Each worker trains a model of its own on its own shard, from a common start.  What is validated, kept and decoded is the
ensemble, whose output is the mean of the K models'.  Unlike the mean of parameters it cannot be worse than the models
are on average:

    CE((1/K) sum_k g(w_k; x), y) <= (1/K) sum_k CE(g(w_k; x), y) .

Whoever needs the outputs of all models asks for ``visits``.  With ``gather`` a worker then holds all K of them; with
``ring`` it sends its own to rank + 1, rank + 2, ... and holds one guest at a time, so that memory stays at two models.
Models change between exchanges, so visits are for the time just after one; ``gather`` keeps what it had then.
Statistics of batch norm belong to each model: they travel with it as they were at the exchange, and are not averaged.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from asr_parallel.config import StrategyConfig
from asr_parallel.ensemble import Ensemble
from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Periodic


class View(Protocol):
    """What a strategy for ensembles sees of the loop (``train.worker.Worker``)."""

    def logits(self, model: nn.Module, x: Tensor) -> Tensor:
        """Scores of ``model``, float32 [N, num_pdfs]."""

    def coming(self, count: int) -> Iterator[Any]:
        """This minibatch and those that follow it in this epoch, ``count`` in all, on the device."""


class EnsembleTraining(Periodic):
    """Exchanges are meetings only, where all agree to stop; the models travel when the ensemble is validated."""

    exchanges = "outputs"
    view: View  # set by whoever puts the worker together

    def __init__(self, config: StrategyConfig):
        super().__init__(config)
        self.gathered: list[tuple[Tensor, Tensor]] = []  # parameters and statistics of each rank, if they are here

    def check(self, workers: int) -> None:
        if self.config.optimizer_state != "keep":
            raise UserError(
                f"--strategy.optimizer_state {self.config.optimizer_state}: the models of {self.config.name} stay "
                "different, and each keeps its momentum; leave it out"
            )

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.comm, self.model, self.values = comm, model, flatten(model)
        self.alone = comm.size == 1  # then the ensemble is the model
        self.lr_scale = self.scale(comm.size, "none")
        comm.broadcast(self.values)
        self.statistics = _statistics(model)  # of batch norm, at the latest exchange; each model keeps its own
        self.guest = copy.deepcopy(model).eval()
        lend(self.guest, self.values, self.statistics)
        return model

    def share(self, comm: Comm) -> int:
        self.gathered, self.statistics = [], _statistics(self.model)
        return 0

    def visits(self) -> Iterator[tuple[int, nn.Module]]:
        """Rank and model of each worker in turn, in evaluation mode.  All workers must ask for it at the same time."""
        return self._ring() if self.config.ensemble_by == "ring" else self._all()

    def _all(self) -> Iterator[tuple[int, nn.Module]]:
        if not self.gathered:
            self.gather()
        for rank, (values, statistics) in enumerate(self.gathered):
            lend(self.guest, values, statistics)
            yield rank, self.guest
        lend(self.guest, self.values, self.statistics)

    def _ring(self) -> Iterator[tuple[int, nn.Module]]:
        """The own model first, then those of rank - 1, rank - 2, ...: sums are in another order on each worker."""
        rank, size = self.comm.rank, self.comm.size
        for hop in range(size):
            lend(self.guest, self.values, self.statistics)  # lets go of the guest before
            if hop:
                to, source = (rank + hop) % size, (rank - hop) % size
                parts = [self.comm.pass_on(part, to, source) for part in self._parts()]
                lend(self.guest, *_pair(parts))
                del parts
            yield (rank - hop) % size, self.guest
        lend(self.guest, self.values, self.statistics)

    def gather(self) -> int:
        """Get the models of all workers; give the bytes sent."""
        columns = [self.comm.all_gather(part) for part in self._parts()]
        self.gathered = [_pair(row) for row in zip(*columns)]
        return self.visit_bytes

    def _parts(self) -> list[Tensor]:
        """What travels of this worker's model: parameters, and the statistics of batch norm if there are any."""
        return [self.values, self.statistics] if len(self.statistics) else [self.values]

    @property
    def visit_bytes(self) -> int:
        """What a worker sends so that all are visited by all: its own model to each of the others."""
        return (self.comm.size - 1) * sum(part.nbytes for part in self._parts())

    def consensus(self) -> nn.Module:
        """The ensemble, in main memory, at rank 0; elsewhere an ensemble of this worker's model alone."""
        if self.alone:
            return self.model
        columns = [self.comm.gather(part) for part in self._parts()]
        if self.comm.rank:
            return Ensemble([self.model], self.config.ensemble_mean)
        members = []
        for row in zip(*columns):
            members.append(copy.deepcopy(self.guest).cpu())
            lend(members[-1], *_pair(row))
        return Ensemble(members, self.config.ensemble_mean)

    def state(self) -> dict[str, Tensor]:
        return super().state() | ({} if self.alone else {"own": self.values, "statistics": self.statistics})

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        if not self.alone:
            self.values.copy_(state.get("own", self.values))  # one worker alone has kept none
            statistics = state.get("statistics", _statistics(self.model))
            self.statistics = statistics.to(self.values.device, copy=True)
        self.gathered = []


def check_bound(ensemble: float, members: float) -> None:
    """Raise ``ArithmeticError`` if the cross-entropy of an ensemble is above the mean of its members'."""
    if ensemble > members + 1e-4 * (1 + abs(members)):
        raise ArithmeticError(f"cross-entropy {ensemble:g} of an ensemble is above its models' mean, {members:g}")


def lend(module: nn.Module, values: Tensor, statistics: Tensor) -> None:
    """Let the parameters of ``module`` be views of ``values``; copy ``statistics`` into its buffers."""
    begin = 0
    for p in module.parameters():
        p.data = values[begin : begin + p.numel()].view(p.shape)
        begin += p.numel()
    buffers = [b for b in module.buffers() if b.is_floating_point()]
    if buffers:
        for buffer, piece in zip(buffers, statistics.split([b.numel() for b in buffers])):
            buffer.copy_(piece.view(buffer.shape))


def _pair(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Parameters and statistics of a model that has travelled."""
    return parts[0], parts[1] if len(parts) > 1 else parts[0][:0]


def _statistics(module: nn.Module) -> Tensor:
    """A copy of the floating-point buffers of ``module`` as one vector."""
    buffers = [b.reshape(-1) for b in module.buffers() if b.is_floating_point()]
    return torch.cat(buffers) if buffers else next(module.parameters()).new_empty(0)
