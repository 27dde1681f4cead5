"""Which hidden units are whose, and which weights go with them: pure functions of (round, seed, widths, workers).

Two things are dealt.  *Shards* say which units of a hidden layer a server keeps, for good.  A *hand* says which units a
worker trains in a round.  A weight belongs to a server by its first axis that runs over hidden units (the upper units
of a matrix between hidden layers), and to a worker's subnet if the units of all of its axes are in the worker's hand.
Input and output units are everybody's (IST; Yuan et al., PVLDB 15(8), 2022).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asr_parallel.config import ModelConfig

Shard = tuple[int, int]  # the units from the one number up to, but not, the other, of each hidden layer
Hand = list[Tensor]  # of each hidden layer the numbers of some of its units, int64, rising


@dataclass(frozen=True)
class Axis:
    """An axis of a parameter that runs over the units of a hidden layer, ``group`` values each."""

    layer: int
    group: int = 1


Axes = tuple[Axis | None, ...]  # of a parameter; None runs over inputs or outputs of the network
Place = tuple[Tensor, tuple[Tensor, ...]]  # values of a tensor, by one index an axis


def central(width: int, servers: int) -> list[Shard]:
    """Rank 0 keeps all units."""
    return [(0, width)] + [(width, width)] * (servers - 1)


def partitioned(width: int, servers: int) -> list[Shard]:
    """Each rank keeps a block of units, of lengths as even as can be."""
    bounds = [width * rank // servers for rank in range(servers + 1)]
    return list(itertools.pairwise(bounds))


def width_of(width: int, rank: int, workers: int) -> int:
    """Units of each hidden layer that ``rank`` trains: the first ``width mod workers`` ranks have one more."""
    return width // workers + (rank < width % workers)


def deal(shards: list[Shard], layers: int, workers: int, seed: int, number: int) -> list[Hand]:
    """The hands of all workers in round ``number``: disjoint, and together all units.

    The units of each shard are shuffled, and all are dealt one by one in turn, like cards.  So every worker has as many
    of each shard as every other, up to one, and the numbers of ``width_of`` altogether.
    """
    hands: list[Hand] = [[] for _ in range(workers)]
    for layer in range(layers):
        random = np.random.default_rng((seed, number, layer))
        order = np.concatenate([random.permutation(np.arange(*shard)) for shard in shards])
        for rank, hand in enumerate(hands):
            hand.append(torch.from_numpy(np.sort(order[rank::workers])))
    return hands


def axes_of(name: str, config: ModelConfig) -> Axes:
    """The axes of the parameter ``name`` of a ``Dnn``, such as ``layers.0.weight`` [width, inputs]."""
    kind, number, what = name.split(".")
    layer, group = int(number), config.pnorm_group if config.activation == "pnorm" else 1
    out = Axis(layer, group) if layer < config.layers else None
    if kind == "layers" and what == "weight":
        return out, Axis(layer - 1) if layer else None
    return (out,)


def owner(axes: Axes) -> int | None:
    """The axis by which a parameter belongs to servers; None if it has no hidden units, so that all have it."""
    return next((a for a, axis in enumerate(axes) if axis), None)


def section(tensor: Tensor, axes: Axes, shard: Shard) -> Tensor:
    """What a server of ``shard`` keeps of a parameter: a view."""
    a = owner(axes)
    axis = axes[a] if a is not None else None
    if a is None or axis is None:
        raise ValueError("a parameter without hidden units is in no shard")
    return tensor.narrow(a, shard[0] * axis.group, (shard[1] - shard[0]) * axis.group)


def at_server(kept: Tensor, axes: Axes, hand: Hand, shard: Shard) -> Place:
    """Where, in what the server of ``shard`` keeps of a parameter, the worker's part of it is."""
    mine = [units[_within(units, shard)] - shard[0] for units in hand]
    return kept, _mesh(kept.shape, axes, mine, hand)


def at_worker(narrow: Tensor, axes: Axes, hand: Hand, shard: Shard) -> Place:
    """Where, in the parameter of the worker's subnet, the same part is, in the same order."""
    mine = [_within(units, shard).nonzero().view(-1) for units in hand]
    return narrow, _mesh(narrow.shape, axes, mine, [torch.arange(len(units)) for units in hand])


def _within(units: Tensor, shard: Shard) -> Tensor:
    return (units >= shard[0]) & (units < shard[1])


def _mesh(shape: torch.Size, axes: Axes, owned: Hand, others: Hand) -> tuple[Tensor, ...]:
    """An index an axis: the units ``owned`` along the owner's axis, ``others`` along other hidden ones, else all."""
    indices = []
    for a, axis in enumerate(axes):
        index = torch.arange(shape[a])
        if axis:
            units = (owned if a == owner(axes) else others)[axis.layer]
            index = (units[:, None] * axis.group + torch.arange(axis.group)).view(-1)
        indices.append(index.view([-1 if a == b else 1 for b in range(len(axes))]))
    return tuple(indices)


def size(places: list[Place]) -> int:
    """How many values are at ``places``."""
    return sum(torch.broadcast_shapes(*(i.shape for i in index)).numel() for _, index in places)


def read(places: list[Place]) -> Tensor:
    """The values at ``places``, one after the other, as a vector."""
    return torch.cat([tensor[index].view(-1) for tensor, index in places])


def write(places: list[Place], values: Tensor) -> None:
    """Put a vector that is like what ``read`` gives to ``places``."""
    for (tensor, index), piece in zip(places, values.split([size([place]) for place in places])):
        tensor[index] = piece.view(torch.broadcast_shapes(*(i.shape for i in index)))
