"""Buffers: what a network carries beside its parameters, such as the running statistics of batch norm.

The rule for all strategies that exchange parameters or gradients: after each exchange floating-point buffers are
averaged over workers (those that the exchange has taken), as if they were parameters, and the consensus gets them;
integer buffers are counters, and each worker keeps its own.

Where workers train subnets, statistics of a subnet say nothing of the whole network: they are estimated for the
consensus at the end of each epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Strategy
from asr_parallel.parallel.wire import mean_of

AVERAGED = ("parameters", "gradients")  # strategies whose workers train one network
MINIBATCHES = 20  # of each worker, from which statistics are estimated


def buffers(module: nn.Module) -> dict[str, Tensor]:
    """The buffers of ``module`` by name: views of one dimension."""
    return {name: buffer.view(-1) for name, buffer in module.named_buffers()}


def stored(model: nn.Module, strategy: Strategy) -> dict[str, Tensor]:
    """The buffers that belong to the state of a worker that trains ``model``."""
    return buffers(strategy.consensus() if strategy.exchanges == "subnets" else model)


def share(model: nn.Module, strategy: Strategy, comm: Comm) -> None:
    """Average the running statistics of the workers' ``model``, and give them to the consensus."""
    if strategy.exchanges in AVERAGED and _average(model, comm, strategy.taken):
        give(model, strategy)


def _average(model: nn.Module, comm: Comm, taken: tuple[int, ...] | None = None) -> bool:
    """Average running statistics over the workers ``taken``, all by default; tell whether there are any."""
    running = [buffer for buffer in buffers(model).values() if buffer.is_floating_point()]
    if not running:
        return False
    mean = torch.cat(running)
    mean_of(comm, mean, taken)
    for buffer, piece in zip(running, mean.split([len(b) for b in running])):
        buffer.copy_(piece)
    return True


def give(model: nn.Module, strategy: Strategy) -> None:
    """Copy all buffers of ``model`` to the consensus, if that is another module."""
    consensus = strategy.consensus()
    if consensus is not model and strategy.exchanges in AVERAGED:
        own = buffers(model)
        for name, buffer in buffers(consensus).items():
            buffer.copy_(own[name])


@torch.no_grad()
def estimate(model: nn.Module, strategy: Strategy, comm: Comm, batches: Iterator[Any]) -> None:
    """Estimate running statistics of the consensus, if the worker's ``model`` is a part of it.

    They become the mean over the first minibatches of all workers' ``batches`` of what the whole network meets there,
    each layer normalised by the minibatch, as in training, but without dropout.
    """
    if strategy.exchanges != "subnets" or strategy.consensus() is model:
        return
    whole = strategy.consensus()
    norms = [module for module in whole.modules() if isinstance(module, nn.BatchNorm1d)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    whole.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.train()
        norm.momentum = None  # the plain mean
    for batch in itertools.islice(batches, MINIBATCHES):
        whole(batch.x)
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    whole.train()
    _average(whole, comm)
