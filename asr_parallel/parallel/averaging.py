"""What strategies that take the mean of their workers' parameters share: the exchange itself, at once or overlapped.

At once, all wait for the mean, and a worker goes on from ``target(mean)``.  With ``overlap`` (delayed averaging), the
mean of exchange t, begun with w_t, travels while the next minibatches train, and is merged at exchange t + 1:

    w <- w + (target(mean_t) - w_t) ,

so a worker keeps what it has learnt meanwhile; then the next exchange begins.  The end of an epoch waits, and so does
an exchange that does not take all workers.  With fewer bytes on the wire (``wire.py``) workers exchange the difference
to what all went on from last, ``base``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import Comm, Lost
from asr_parallel.parallel.strategy import Periodic


class Averaging(Periodic):
    def begin(self, model: nn.Module, comm: Comm) -> None:
        """Give all workers the model of rank 0."""
        self.model, self.values = model, flatten(model)
        comm.broadcast(self.values)
        self.wire.start(self.values, comm)
        self.mean = self.values.clone()
        self.base = None if self.wire.plain else self.values.clone()
        self.departed = self.values.clone() if self.config.overlap and comm.size > 1 else None
        self.under_way: Callable[[], int] | None = None

    @abstractmethod
    def target(self, mean: Tensor) -> Tensor:
        """Told the mean of all workers: where they go on from."""

    def share(self, comm: Comm) -> int:
        sent = self._arrive()
        return sent + self.exchange_among(comm, self.choose(comm, self.values))

    def exchange_among(self, comm: Comm, taken: tuple[int, ...] | None) -> int:
        """Begin an exchange of all workers, or carry out one that takes some of them; give the bytes sent so far."""
        if self.departed is not None and taken is None and not self.last:
            departed = self.departed.copy_(self.values)
            self.under_way = comm.in_background(lambda line: self._average(line, departed, None))
            return 0
        sent = self._average(comm, self.values, taken)
        self.values.copy_(self._reach())
        return sent

    def _average(self, comm: Comm, values: Tensor, taken: tuple[int, ...] | None) -> int:
        """Let ``mean`` be the mean of all workers' ``values``; give the bytes sent."""
        if self.base is None:
            self.mean.copy_(values)
            return self.wire.mean(comm, self.mean, taken)
        torch.sub(values, self.base, out=self.mean)
        sent = self.wire.mean(comm, self.mean, taken)
        self.mean.add_(self.base)
        return sent

    def _arrive(self) -> int:
        """Merge what is under way; give the bytes it has sent."""
        if self.under_way is None or self.departed is None:
            return 0
        sent, self.under_way = self.under_way(), None
        self.values.add_(self._reach() - self.departed)
        return sent

    def _reach(self) -> Tensor:
        target = self.target(self.mean)
        if self.base is not None:
            self.base.copy_(target)
        return target

    def state(self) -> dict[str, Tensor]:
        """What is under way is waited for, and kept beside the worker's own parameters."""
        state = super().state()
        if self.base is not None:
            state["base"] = self.base
        if self.departed is not None:
            sent = torch.tensor([self._wait()])
            state |= {"own": self.values, "mean": self.mean, "departed": self.departed, "under_way": sent}
        return state

    def _wait(self) -> int:
        """Bytes that what is under way has sent; -1 if there is nothing, or if it has failed."""
        try:
            return -1 if self.under_way is None else self.under_way()
        except Lost:  # the next operation fails too
            self.under_way = None
            return -1

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        if self.base is not None:
            self.base.copy_(state.get("base", self.values))  # one worker alone has kept none
        if self.departed is not None and "own" in state:
            self.values.copy_(state["own"])
            self.mean.copy_(state["mean"])
            self.departed.copy_(state["departed"])
            sent = int(state["under_way"])
            self.under_way = None if sent < 0 else lambda: sent

    def regroup(self, clock: Clock) -> list[Tensor]:
        """What was under way may have reached some workers alone, and is given up."""
        self.under_way = None
        return super().regroup(clock) + ([] if self.base is None else [self.base])
