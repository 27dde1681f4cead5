"""Rotating averaging: an exchange takes the mean of one part of the parameters, the next one that of the next part.

With P parts, workers send 1/P of a model at a time, and after P exchanges each parameter has been averaged once:

    w_k[i] <- (1/K) sum_j w_j[i]     for i in part (t mod P) of exchange t.

The example of docs/strategies.md.
"""

import torch
from torch import Tensor, nn

from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Periodic

PARTS = 4


class RotatingAverage(Periodic):
    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.lr_scale = self.scale(comm.size, "workers")
        self.model, self.values = model, flatten(model)
        comm.broadcast(self.values)
        self.number = torch.zeros(1, dtype=torch.int64)  # of exchanges so far
        return model

    def share(self, comm: Comm) -> int:
        part = self.values if self.last else self.values.tensor_split(PARTS)[int(self.number) % PARTS]
        mean = part.clone()
        sent = comm.all_reduce_mean(mean)
        part.copy_(mean)  # only now: a failure before leaves the weights as they were
        self.number += 1
        return sent

    def consensus(self) -> nn.Module:
        return self.model  # the last exchange of an epoch is of all parts

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"own": self.values, "number": self.number}

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        self.values.copy_(state["own"])
        self.number.copy_(state["number"])
