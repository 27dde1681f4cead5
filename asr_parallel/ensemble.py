"""Several networks as one: the mean of their outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MeanOf = Literal["posteriors", "logits"]


class OutputMean:
    """The mean of what several networks give for the same frames, taken up one network at a time.

    Of ``posteriors``: (1/K) sum_k softmax(z_k), as in EC-DNN.  Of ``logits``: softmax((1/K) sum_k z_k), the normalised
    geometric mean of the posteriors.  Either way its cross-entropy is at most the mean of the networks' own (Jensen:
    the loss is convex in what is averaged).
    """

    def __init__(self, mean: MeanOf):
        self.mean, self.count = mean, 0
        self.total: Tensor | None = None

    def add(self, logits: Tensor) -> None:
        """Take up the logits [N, num_pdfs] of the next network."""
        term = F.log_softmax(logits, 1) if self.mean == "posteriors" else logits
        self.count += 1
        if self.total is None:
            self.total = term
        elif self.mean == "posteriors":
            self.total = torch.logaddexp(self.total, term)  # in logarithms nothing underflows
        else:
            self.total = self.total + term

    def log_posteriors(self) -> Tensor:
        """Natural log-posteriors [N, num_pdfs] of the networks together."""
        assert self.total is not None
        if self.mean == "posteriors":
            return self.total - math.log(self.count)
        return F.log_softmax(self.total / self.count, 1)


class Ensemble(nn.Module):
    """Networks of one shape as one; ``forward`` maps x [N, input_dim] to log-posteriors [N, num_pdfs]."""

    def __init__(self, members: Sequence[nn.Module], mean: MeanOf):
        super().__init__()
        self.members, self.mean = nn.ModuleList(members), mean

    def forward(self, x: Tensor) -> Tensor:
        result = OutputMean(self.mean)
        for member in self.members:
            result.add(member(x).float())
        return result.log_posteriors()

    @property
    def input_dim(self) -> int:
        return cast(Any, self.members[0]).input_dim

    @property
    def num_pdfs(self) -> int:
        return cast(Any, self.members[0]).num_pdfs
