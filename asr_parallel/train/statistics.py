"""Buffers: what a network carries beside its parameters, such as the running statistics of batch norm.

The rule for all strategies that exchange parameters or gradients: after each exchange floating-point buffers are
averaged over workers, as if they were parameters, and the consensus gets them; integer buffers are counters, and
each worker keeps its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Strategy

AVERAGED = ("parameters", "gradients")  # strategies whose workers train one network


def buffers(module: nn.Module) -> dict[str, Tensor]:
    """The buffers of ``module`` by name: views of one dimension."""
    return {name: buffer.view(-1) for name, buffer in module.named_buffers()}


def share(model: nn.Module, strategy: Strategy, comm: Comm) -> None:
    """Average the running statistics of the workers' ``model``, and give them to the consensus."""
    running = [buffer for buffer in buffers(model).values() if buffer.is_floating_point()]
    if not running or strategy.exchanges not in AVERAGED:
        return
    mean = torch.cat(running)
    comm.all_reduce_mean(mean)
    for buffer, piece in zip(running, mean.split([len(b) for b in running])):
        buffer.copy_(piece)
    give(model, strategy)


def give(model: nn.Module, strategy: Strategy) -> None:
    """Copy all buffers of ``model`` to the consensus, if that is another module."""
    consensus = strategy.consensus()
    if consensus is not model and strategy.exchanges in AVERAGED:
        own = buffers(model)
        for name, buffer in buffers(consensus).items():
            buffer.copy_(own[name])
