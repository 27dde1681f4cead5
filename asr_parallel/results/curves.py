"""The curves of a training as points, for whoever draws them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from asr_parallel.parallel.account import Account
from asr_parallel.parallel.ledger import PROBED
from asr_parallel.results.record import Experiment


def undone(e: Experiment) -> list[bool]:
    """Of each epoch, whether it was rejected and taken back."""
    return [verdict.startswith("reject") for verdict in e.history.get("verdict", [])]


def epochs_within(e: Experiment) -> list[float]:
    """Epochs gone by at the end of each part that curve.tsv has a row of."""
    last = max(e.within("minibatch"), default=1.0)
    return [epoch - 1 + minibatch / last for epoch, minibatch in zip(e.within("epoch"), e.within("minibatch"))]


def middles(ends: Sequence[float]) -> list[float]:
    """The middle of each part: a figure of training is a mean over its part, while the network changed."""
    return [(a + b) / 2 for a, b in itertools.pairwise([0.0, *ends])]


def probed(account: Account) -> dict[str, np.ndarray]:
    """Of each exchange that was probed: ``epochs`` gone by, means over workers, ``best`` and ``worst``; else empty."""
    seen = np.isfinite(account.columns.get("loss_average", np.zeros(0)))
    if not seen.any():
        return {}
    _, first, group = np.unique(account.exchange_of[seen], return_index=True, return_inverse=True)
    rows = {name: account.columns[name][seen] for name in ("epoch", "minibatch", *PROBED)}
    epochs = (rows["epoch"] - 1 + rows["minibatch"] / account.columns["minibatch"].max())[first]
    best, worst = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.fmin.at(best, group, rows["loss_local"])  # a model that is not a number is neither
    np.fmax.at(worst, group, rows["loss_local"])
    means = {name: np.bincount(group, rows[name]) / np.bincount(group) for name in PROBED}
    return means | {"epochs": epochs, "best": best, "worst": worst}
