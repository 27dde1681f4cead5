"""Model averaging (Su & Chen 2015): workers train alone, and every so often all take the mean of their parameters.

With K workers and a period of n minibatches, worker k does n steps of SGD on its own shard, then

    w_k <- (1/K) sum_j w_j .

For n = 1 and plain SGD this is gradient averaging: all start a step from the same w, so
(1/K) sum_j (w - lr g_j) = w - lr (1/K) sum_j g_j.  In an epoch each worker takes 1/K of the steps that one alone
would take; the rate is therefore multiplied by K.  With plain SGD and n > 1 it is local SGD; with
``every = "1 minibatch until 1 epoch, then 16 minibatches"`` post-local SGD (Lin et al., ICLR 2020).

With a ``topology`` other than ``all`` an exchange is a mean of two (``topology.py``), and the models of the workers
differ between the ends of epochs, where all take the mean of all; so they do where an exchange does not take all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr_parallel.config import StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.averaging import Averaging
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.topology import TOPOLOGIES


class ModelAverage(Averaging):
    def __init__(self, config: StrategyConfig):
        super().__init__(config)
        self.partners = TOPOLOGIES.get(config.topology)  # None: all with all
        self.round = torch.zeros(1, dtype=torch.int64)

    def check(self, workers: int) -> None:
        if self.partners is not None:
            self.partners(0, 0, workers)  # raises if it is not for so many
            for option, usual in (("wire", "fp32"), ("overlap", False)):
                if getattr(self.config, option) != usual:
                    raise UserError(f"--strategy.{option} is for --strategy.topology all: leave one of them out")

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.begin(model, comm)
        self.lr_scale = self.scale(comm.size, "workers")
        return model

    def target(self, mean: Tensor) -> Tensor:
        return mean

    def exchange_among(self, comm: Comm, taken: tuple[int, ...] | None) -> int:
        number = int(self.round)
        self.round += 1
        if self.partners is None or self.last or taken is not None or comm.size == 1:
            return super().exchange_among(comm, taken)
        received = comm.pass_on(self.values, *self.partners(number, comm.rank, comm.size))
        self.values.copy_(received.add_(self.values).div_(2))
        return received.nbytes

    def consensus(self) -> nn.Module:
        """Any worker's model: an epoch ends with the mean of all, so all are the same."""
        return self.model

    def state(self) -> dict[str, Tensor]:
        return super().state() | ({} if self.partners is None else {"own": self.values, "round": self.round})

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        if self.partners is not None:
            self.values.copy_(state["own"])
            self.round.copy_(state["round"])

    def regroup(self, clock: Clock) -> list[Tensor]:
        return [*super().regroup(clock), self.round]
