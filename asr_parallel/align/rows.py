"""Linear transforms of frames that diagonal Gaussians ask for, found row by row (Gales 1998 and 1999).

Both MLLT and fMLLR maximise, for a transform W = [A b] whose rows are w_i,

    Q(W) = beta log |det A| + sum_i (w_i k_i - w_i G_i w_i' / 2)

where beta is a number of frames and k_i, G_i are sums over frames that each dimension has of its own.  MLLT has no
offset b, and k = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SWEEPS = 20  # over all rows; each is an exact maximum given the other rows
RIDGE = 1e-8  # of the mean diagonal of G_i, added to it: a direction without variance must not stop the work


@dataclass(frozen=True)
class RowStats:
    """``beta``; ``k`` [D, E]; ``g`` [D, E, E] symmetric, float64; E is D, or D + 1 if there is an offset."""

    beta: float
    k: np.ndarray
    g: np.ndarray

    def __add__(self, other: RowStats) -> RowStats:
        return RowStats(self.beta + other.beta, self.k + other.k, self.g + other.g)


def objective(stats: RowStats, w: np.ndarray) -> float:
    """Q(W) of ``w`` [D, E], in nats: the log-likelihood of the frames but for what does not depend on ``w``."""
    log_det = np.linalg.slogdet(w[:, : len(w)])[1]
    return float(stats.beta * log_det + (w * stats.k).sum() - 0.5 * np.einsum("ie,ief,if->", w, stats.g, w))


def maximise(stats: RowStats, start: np.ndarray, sweeps: int = SWEEPS) -> np.ndarray:
    """The transform [D, E] to which ``sweeps`` lead from ``start``; ``objective`` never falls on the way.

    Given the other rows, |det A| is proportional to |w_i p'|, where p is row i of the inverse transpose of A (and 0 for
    the offset).  The best row is w_i = (alpha p + k_i) G_i^-1, where alpha solves
    alpha^2 p G_i^-1 p' + alpha p G_i^-1 k_i' = beta (Gales 1998, equations 23 to 28).
    """
    w = start.astype(np.float64)
    dim, width = w.shape
    mean_diagonal = np.einsum("iee->i", stats.g) / width
    inverse = np.linalg.inv(stats.g + RIDGE * mean_diagonal[:, None, None] * np.eye(width))
    p = np.zeros(width)
    for _ in range(sweeps):
        for i in range(dim):
            p[:dim] = np.linalg.inv(w[:, :dim])[:, i]
            along, across = inverse[i] @ p, inverse[i] @ stats.k[i]
            w[i] = _step(stats.beta, p @ along, p @ across) * along + across
    return w


def _step(beta: float, a: float, b: float) -> float:
    """The alpha that maximises beta log |alpha a + b| - alpha^2 a / 2: one of two roots."""
    root = np.sqrt(b * b + 4 * a * beta)
    roots = np.array([-b + root, -b - root]) / (2 * a)
    return float(roots[np.argmax(beta * np.log(np.abs(roots * a + b)) - 0.5 * a * roots**2)])
