"""Model averaging (Su & Chen 2015): workers train alone, and every so often all take the mean of their parameters.

With K workers and a period of n minibatches, worker k does n steps of SGD on its own shard, then

    w_k <- (1/K) sum_j w_j .

For n = 1 and plain SGD this is gradient averaging: all start a step from the same w, so
(1/K) sum_j (w - lr g_j) = w - lr (1/K) sum_j g_j.  In an epoch each worker takes 1/K of the steps that one alone
would take; the rate is therefore multiplied by K.
"""

from __future__ import annotations

import time

import torch
from torch import nn

from asr_parallel.config import StrategyConfig
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock, Every
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Report, Strategy


class ModelAverage(Strategy):
    exchanges = "parameters"

    def __init__(self, config: StrategyConfig):
        super().__init__(config)
        self.every = Every.parse(config.every)
        self.optimizer_state = config.optimizer_state

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.model = model
        self.values = flatten(model)
        self.mean = torch.empty_like(self.values)
        self.lr_scale = self.scale(comm.size, "workers")
        comm.broadcast(self.values)
        return model

    def due(self, clock: Clock) -> bool:
        return self.every.due(clock)

    def per_epoch(self, minibatches: int, batch: int) -> int:
        return self.every.per_epoch(minibatches, batch)

    def exchange(self, comm: Comm) -> Report:
        begin = time.perf_counter()
        comm.meet()
        together = time.perf_counter()
        self.mean.copy_(self.values)
        sent = comm.all_reduce_mean(self.mean)
        self.values.copy_(self.mean)
        return Report(sent, together - begin, time.perf_counter() - together)

    def consensus(self) -> nn.Module:
        """Any worker's model: an epoch ends with an exchange, so all are the same."""
        return self.model
