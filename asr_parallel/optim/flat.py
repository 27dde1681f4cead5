"""All parameters of a network in one piece of memory.

An update, an exchange, a snapshot is then one operation on one vector, whatever the network is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Flat:
    """``values`` and ``grads`` [number of parameters], in the order of ``module.parameters()``.

    The module's parameters are views into ``values``; its gradients are copied into ``grads`` at each step.
    """

    values: Tensor
    grads: Tensor


def flatten(module: nn.Module) -> Tensor:
    """Move the parameters of ``module`` into one vector, in the order of ``module.parameters()``; give the vector.

    A module that is flat already is left as it is, so every part that needs the vector may call this.
    Move the module to its device before.  Raises ``ValueError`` on mixed types or devices.
    """
    parameters = list(module.parameters())
    kinds = {(p.dtype, p.device) for p in parameters}
    if len(kinds) != 1:
        raise ValueError(f"parameters must share one type and device, found {sorted(map(str, kinds))}")
    total = sum(p.numel() for p in parameters)
    if not _in_one_piece(parameters):
        _move(parameters, total)
    return parameters[0].data.as_strided((total,), (1,), 0)


def _move(parameters: list[nn.Parameter], total: int) -> None:
    values = torch.empty(total, dtype=parameters[0].dtype, device=parameters[0].device)
    begin = 0
    for p in parameters:
        end = begin + p.numel()
        values[begin:end] = p.data.reshape(-1)
        p.data = values[begin:end].view(p.shape)
        begin = end


def _in_one_piece(parameters: list[nn.Parameter]) -> bool:
    """Whether each parameter begins where the one before ends, in one storage and from its start."""
    position = 0
    for p in parameters:
        if not p.is_contiguous() or p.storage_offset() != position:
            return False
        if p.untyped_storage().data_ptr() != parameters[0].untyped_storage().data_ptr():
            return False
        position += p.numel()
    return True
