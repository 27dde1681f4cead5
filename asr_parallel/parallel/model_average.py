"""Model averaging (Su & Chen 2015): workers train alone, and every so often all take the mean of their parameters.

With K workers and a period of n minibatches, worker k does n steps of SGD on its own shard, then

    w_k <- (1/K) sum_j w_j .

For n = 1 and plain SGD this is gradient averaging: all start a step from the same w, so
(1/K) sum_j (w - lr g_j) = w - lr (1/K) sum_j g_j.  In an epoch each worker takes 1/K of the steps that one alone
would take; the rate is therefore multiplied by K.

With a ``topology`` other than ``all`` an exchange is a mean of two (``topology.py``), and the models of the workers
differ between the ends of epochs, where all take the mean of all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr_parallel.config import StrategyConfig
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Periodic
from asr_parallel.parallel.topology import TOPOLOGIES


class ModelAverage(Periodic):
    def __init__(self, config: StrategyConfig):
        super().__init__(config)
        self.partners = TOPOLOGIES.get(config.topology)  # None: all with all
        self.round = torch.zeros(1, dtype=torch.int64)
        self.last = False  # whether the exchange that is due ends an epoch

    def check(self, workers: int) -> None:
        if self.partners is not None:
            self.partners(0, 0, workers)  # raises if it is not for so many

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.model = model
        self.values = flatten(model)
        self.mean = torch.empty_like(self.values)
        self.lr_scale = self.scale(comm.size, "workers")
        comm.broadcast(self.values)
        return model

    def due(self, clock: Clock) -> bool:
        self.last = clock.last
        return super().due(clock)

    def share(self, comm: Comm) -> int:
        self.mean.copy_(self.values)
        if self.partners is None or self.last or comm.size == 1:
            sent = comm.all_reduce_mean(self.mean)
        else:
            received = comm.pass_on(self.values, *self.partners(int(self.round), comm.rank, comm.size))
            self.mean.add_(received).div_(2)
            sent = received.nbytes
        self.values.copy_(self.mean)
        self.round += 1
        return sent

    def consensus(self) -> nn.Module:
        """Any worker's model: an epoch ends with the mean of all, so all are the same."""
        return self.model

    def state(self) -> dict[str, Tensor]:
        return {} if self.partners is None else {"own": self.values, "round": self.round}

    def restore(self, state: dict[str, Tensor]) -> None:
        if self.partners is not None:
            self.values.copy_(state["own"])
            self.round.copy_(state["round"])
