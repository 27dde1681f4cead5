"""Blockwise model-update filtering (BMUF; Chen & Huo, ICASSP 2016): model averaging with momentum of its own.

The workers begin a block of n minibatches from a common start W_s, and take the mean W' of what they come to.  Where
model averaging goes to W', BMUF takes G = W' - W_s for the gradient of a step with momentum eta and rate zeta:

    D(t) = eta D(t-1) + zeta G(t)          W(t) = W(t-1) + D(t)

``classical`` begins the next block from W(t), ``nesterov`` from W(t) + eta D(t), where momentum will carry it.  W is
what is validated and kept.  With eta = 1 - 1/K and zeta = 1 an update of one block is spread over K blocks, as if the
workers had taken turns; the rate then is left as for one worker.  eta = 0, zeta = 1 is model averaging.  DiLoCo
(Douillard et al. 2023) is ``nesterov`` with eta 0.9, zeta 0.7 over blocks of about 500 minibatches of AdamW.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.averaging import Averaging
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm


class BlockMomentum(Averaging):
    def check(self, workers: int) -> None:
        eta, zeta = self.config.block_momentum, self.config.block_lr
        if eta is not None and not 0 <= eta < 1:
            raise UserError(f"--strategy.block_momentum {eta:g}: give a number from 0 up to, but not, 1")
        if zeta <= 0:
            raise UserError(f"--strategy.block_lr {zeta:g}: give a number above 0 (1 is usual)")

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        eta = self.config.block_momentum
        self.eta = 1 - 1 / comm.size if eta is None else eta
        self.lr_scale = self.scale(comm.size, "none" if self.eta else "workers")
        self.begin(model, comm)
        self.kept = copy.deepcopy(model)
        self.whole = flatten(self.kept)  # W
        self.begun = self.values.clone()  # W_s
        self.delta = torch.zeros_like(self.values)
        return model

    def target(self, mean: Tensor) -> Tensor:
        if self.eta == 0 and self.config.block_lr == 1:  # W + (W' - W), but to the bit
            self.whole.copy_(mean)
        else:
            self.delta.mul_(self.eta).add_(mean - self.begun, alpha=self.config.block_lr)
            self.whole.add_(self.delta)
        self.begun.copy_(self.whole)
        if self.config.block_nesterov:
            self.begun.add_(self.delta, alpha=self.eta)
        return self.begun

    def consensus(self) -> nn.Module:
        return self.kept

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"begun": self.begun, "delta": self.delta}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.begun.copy_(state["begun"])
        self.delta.copy_(state["delta"])
        self.values.copy_(self.begun)
        super().restore(state)  # overlapped, a worker has gone on from there

    def regroup(self, clock: Clock) -> list[Tensor]:
        return [*super().regroup(clock), self.whole, self.begun, self.delta]
