"""What an exchange of each strategy sends, and what its workers compute, as functions of the number K of workers.

Bytes are told in *vectors*: a length that is the same for every K, so that a ledger of K workers tells how long it is.
``docs/ledger.md`` derives the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from asr_parallel.config import ModelConfig, TrainConfig

Count = Callable[[int], float]  # of K >= 2


@dataclass(frozen=True)
class Traffic:
    """``sent``: vectors that the busiest worker sends.  ``carried``: those that pass the busiest line, one after the
    other.  ``messages``: how many wait for each other.  ``agreements``: all-reduces of a few numbers, the meeting among
    them.  ``compute``: seconds of a minibatch, where those of one worker alone are 1."""

    sent: Count
    carried: Count
    messages: Count
    agreements: int
    compute: Count = lambda k: 1.0


def everybody(k: int) -> float:
    """Of a ring all-reduce, or a reduce-scatter and all-gather (Patarasuk & Yuan 2009)."""
    return 2 * (k - 1) / k


def traffic_of(config: TrainConfig, workers: int, sent: float) -> Traffic:
    """``sent`` are the bytes that the busiest of ``workers`` sent at a usual exchange."""
    strategy = config.strategy
    if strategy.name == "ensemble":
        return Traffic(lambda k: 0.0, lambda k: 0.0, lambda k: 0.0, 1)
    if strategy.name == "ensemble_compression":
        return _compression(config)
    if strategy.name == "independent_subnets":
        return _subnets(config, workers, sent)
    if strategy.topology != "all":  # a mean of two; the means of all that end epochs are few
        return Traffic(lambda k: 1.0, lambda k: 1.0, lambda k: 1.0, 2)
    ring = strategy.wire == "fp32"
    return Traffic(everybody, everybody, (lambda k: 2 * (k - 1)) if ring else (lambda k: 2), 2)


def _compression(config: TrainConfig) -> Traffic:
    """All get the models of all.  A pseudo label of a frame takes K passes forward, each a third of training on it."""
    strategy = config.strategy
    period = int(strategy.every.split()[0]) if strategy.every.split()[-1].startswith("minibatch") else 0
    first = min(1.0, strategy.pseudo_minibatches / period) if strategy.pseudo_minibatches and period else 1.0
    passes = strategy.pseudo_fraction * first / 3 if strategy.pseudo_weight else 0.0
    one_by_one = strategy.ensemble_by == "ring"
    return Traffic(
        sent=lambda k: k - 1,
        carried=lambda k: k - 1,
        messages=lambda k: k - 1 if one_by_one else 1,
        agreements=1,
        compute=lambda k: 1 + passes * k,
    )


def _subnets(config: TrainConfig, workers: int, sent: float) -> Traffic:
    """A subnet has of the network's parameters those between hidden layers / K^2, and the others / K (``docs/ist.md``).

    It goes to the servers and comes from them, each in its turn; rank 0, if it is the only one, sends K - 1.
    """
    central = config.strategy.servers == "central"
    times: Count = (lambda k: k - 1) if central else everybody
    inner = _between_hidden(config.model)
    outer = max(0.0, (sent / 4 / times(workers) - inner / workers**2) * workers)

    def subnet(k: int) -> float:
        """Its share of the network, which is the vector."""
        return (outer / k + inner / k**2) / (outer + inner)

    return Traffic(
        sent=lambda k: times(k) * subnet(k),
        carried=lambda k: (2 if central else 1) * times(k) * subnet(k),
        messages=lambda k: 2,
        agreements=1,
        compute=subnet,
    )


def _between_hidden(model: ModelConfig) -> float:
    """Weights between hidden layers."""
    group = model.pnorm_group if model.activation == "pnorm" else 1
    return (model.layers - 1) * model.width**2 * group
