"""Elastic averaging (EASGD; Zhang, Choromanska & LeCun, NIPS 2015), synchronous.

Workers keep models of their own.  At an exchange each is drawn to a common centre, and the centre to all of them:

    a_k = alpha (w_k - c) ,        w_k <- w_k - a_k ,        c <- c + sum_k a_k .

The centre is validated and kept, and a worker that is left
out (``choice.py``) goes on from it.  ``alpha`` is 0.9 / K by default, the paper's beta / K.  The centre is the same on
every worker, made of the same sum.
"""

from __future__ import annotations

import copy

from torch import Tensor, nn

from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Periodic

BETA = 0.9


class ElasticAverage(Periodic):
    def check(self, workers: int) -> None:
        alpha = self.config.elasticity
        if alpha is not None and not 0 < alpha * workers <= 1:
            raise UserError(f"--strategy.elasticity {alpha:g}: give a number above 0 and up to 1 / K = {1 / workers:g}")

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.alone = comm.size == 1  # then there is nothing to be drawn to
        self.alpha = BETA / comm.size if self.config.elasticity is None else self.config.elasticity
        self.lr_scale = self.scale(comm.size, "none")
        self.model, self.values = model, flatten(model)
        comm.broadcast(self.values)
        self.middle = copy.deepcopy(model)
        self.centre = flatten(self.middle)
        self.wire.start(self.values, comm)
        return model

    def share(self, comm: Comm) -> int:
        pull = self.values - self.centre
        mean = pull.clone()
        taken = self.choose(comm, self.values)
        sent = self.wire.mean(comm, mean, taken)
        if not self.alone:
            self.centre.add_(mean, alpha=self.alpha * (comm.size if taken is None else len(taken)))
            if taken is None or comm.rank in taken:
                self.values.sub_(pull, alpha=self.alpha)
            else:
                self.values.copy_(self.centre)
        return sent

    def consensus(self) -> nn.Module:
        return self.model if self.alone else self.middle

    def state(self) -> dict[str, Tensor]:
        return super().state() | ({} if self.alone else {"own": self.values})

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        if not self.alone:
            self.values.copy_(state.get("own", self.centre))  # one worker alone has kept none

    def regroup(self, clock: Clock) -> list[Tensor]:
        return [*super().regroup(clock), self.centre]
