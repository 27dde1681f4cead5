"""Online natural gradient for one factor: multiply rows by the inverse of a smoothed, low-rank Fisher matrix.

Povey, Zhang & Khudanpur 2014 (arXiv 1410.7455), with the equations and constants of Kaldi's
``nnet3/natural-gradient-online``; ``docs/ngsgd.md`` explains them.  The model of the uncentred covariance of
the rows is ``F = R^T diag(d) R + rho I`` with r orthonormal rows R [r, D]; kept are d, rho and
``W = diag(e)^(1/2) R`` with ``e_i = 1 / (beta / d_i + 1)``, for then ``X - (X W^T) W`` is
``beta X (F + alpha/D tr(F) I)^-1``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Variant = Literal["kaldi", "su2015"]

INITIAL_UPDATES = 10  # so many first minibatches all update the factor, whatever the period
FIRST_BATCH_UPDATES = 3  # passes over the first minibatch that take the place of an eigen-decomposition
MAX_ETA = 0.9  # one minibatch never outweighs the history by more
CONDITION = 1e6  # of the r x r eigenvalues, beyond which rounding may have cost orthogonality
TINY = 1e-300  # floor of eigenvalues when the floor itself underflows
UNIT = 1e-3  # R R^T may differ from the unit matrix by so much
MAX_CHOLESKY = 100.0  # entries of the inverse Cholesky factor beyond which it is not trusted


@dataclass(frozen=True)
class FactorOptions:
    """Options of one factor; the defaults are those of Kaldi's components."""

    rank: int = 40  # r; at most D - 1. 0 switches preconditioning off
    update_period: int = 4  # minibatches from one update of the factor to the next, after the first ten
    num_samples_history: float = 2000.0  # rows after which the past counts 1/e
    alpha: float = 4.0  # smoothing: alpha/D tr(F) is added to the diagonal
    epsilon: float = 1e-10  # absolute floor of rho and d
    delta: float = 5e-4  # floor relative to the largest eigenvalue
    variant: Variant = "kaldi"  # su2015: no cap of eta, d floored at epsilon only, eigen-decomposition to start


class OnlineNaturalGradient:
    """The factor of rows of ``dim`` values.  W is float32 on ``device``; d and all r x r matrices are float64."""

    def __init__(self, dim: int, options: FactorOptions | None = None, device: torch.device | str = "cpu"):
        self.dim, self.options = dim, options or FactorOptions()
        self.rank = max(0, min(self.options.rank, dim - 1))
        self.w = torch.zeros(self.rank, dim, device=device)
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next minibatch starts the factor anew."""
        self.d: np.ndarray = np.full(self.rank, self.options.epsilon)
        self.rho, self.calls, self.skipped = self.options.epsilon, 0, 0
        if self.rank:
            self.w.copy_(torch.from_numpy(self._sqrt_e()[:, None] * _comb(self.rank, self.dim)))

    def state(self) -> dict[str, Tensor]:
        """A copy of all that the future depends on; tensors whose shapes depend on the options alone."""
        numbers = torch.tensor([self.rho, self.calls, self.skipped], dtype=torch.float64)
        return {"w": self.w.clone(), "d": torch.from_numpy(self.d.copy()), "numbers": numbers}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue exactly from what ``state`` gave."""
        if state["w"].shape != self.w.shape:
            raise ValueError(f"factor of shape {tuple(state['w'].shape)} for {tuple(self.w.shape)}: ranks differ")
        self.w.copy_(state["w"])
        self.d = _numpy(state["d"]).copy()
        self.rho, self.calls, self.skipped = (kind(v) for kind, v in zip((float, int, int), state["numbers"].tolist()))

    def precondition(self, x: Tensor, unit: float = 1.0) -> tuple[Tensor, Tensor]:
        """Give Xhat [N, D] and gamma [] for float32 rows x [N, D]; ``gamma * Xhat`` has the norm of ``x``.

        ``x`` counts as ``unit * x`` in the statistics, so that the floors and the history mean the same whether
        rows are derivatives of a mean (``unit`` = N) or of a sum.  Updates the factor when that is due.
        """
        direction, gamma, _ = self.precondition_rows(x.clone(), unit)
        return direction, gamma

    @torch.no_grad()
    def precondition_rows(self, x: Tensor, unit: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        """Like ``precondition``, but overwrites ``x`` with Xhat; also gives the norm of each row of Xhat [N]."""
        if self.rank == 0:
            return x, torch.ones((), device=x.device), torch.linalg.vector_norm(x, dim=1)
        if self.calls == 0:
            self._start(x, unit)
        self.calls += 1
        due = self.calls <= INITIAL_UPDATES or self.calls % self.options.update_period == 0
        return self._step(x, unit, due)

    def _step(self, x: Tensor, unit: float, update: bool) -> tuple[Tensor, Tensor, Tensor]:
        w = self.w
        norm = _norm(x)
        h = w @ x.T  # H^T [r, N]: faster than H on CPUs
        j = h @ x if update else None
        x.addmm_(h.T, w, alpha=-1)  # h, j and this all use the old w
        rows = torch.linalg.vector_norm(x, dim=1)
        norm_hat = torch.linalg.vector_norm(rows)
        if j is not None:
            self._update(h, j, float(norm) ** 2 * unit**2, unit)
        return x, (norm / norm_hat).nan_to_num_(nan=1.0, posinf=1.0), rows  # 1 if nothing is left

    def _eta(self, n: int) -> float:
        eta = -math.expm1(-n / self.options.num_samples_history)
        return eta if self.options.variant == "su2015" else min(eta, MAX_ETA)

    def _sqrt_e(self) -> np.ndarray:
        alpha = self.options.alpha
        beta = self.rho * (1 + alpha) + alpha * float(self.d.sum()) / self.dim
        return np.sqrt(1 / (beta / self.d + 1))

    def _update(self, h: Tensor, j: Tensor, energy: float, unit: float) -> None:
        """One step of the power method on ``(1 - eta) F + eta/N X^T X``: new rho, d and W.

        ``h`` [r, N] = W X^T = H^T and ``j`` [r, D] = H^T X (overwritten) are in the caller's units, ``energy`` =
        tr(X X^T) in ours.
        """
        n, inv_sqrt_e = h.shape[1], 1 / self._sqrt_e()
        eta = self._eta(n)
        e = inv_sqrt_e * inv_sqrt_e[:, None]
        small_l, small_k = _numpy(h @ h.T) * (unit**2 * e), _numpy(j @ j.T) * (unit**4 * e)
        old = self.d + self.rho
        z = (eta / n) ** 2 * small_k + eta / n * (1 - eta) * small_l * (old + old[:, None])
        z.flat[:: self.rank + 1] += (1 - eta) ** 2 * old**2
        scale = max(1.0, float(z.trace()))
        if not (math.isfinite(scale) and math.isfinite(energy)):
            self.skipped += 1  # a diverged minibatch must not spoil the factor
            return
        values, vectors = torch.linalg.eigh(torch.from_numpy(z / scale))
        c, u = values.numpy()[::-1] * scale, vectors.numpy()[:, ::-1]
        floor = (self.rho * (1 - eta)) ** 2
        doubtful = c[0] > CONDITION * c[-1] or c[-1] < floor
        root = np.sqrt(np.maximum(c, max(floor, TINY)))
        total = eta / n * energy + (1 - eta) * (self.dim * self.rho + float(self.d.sum()))
        self._set_spectrum(root, total)
        sqrt_e = self._sqrt_e()
        a = (eta / n) * (sqrt_e / root)[:, None] * u.T * inv_sqrt_e
        b = j.mul_(unit**2).addcmul_(self.w, self._like_w((1 - eta) / (eta / n) * old)[:, None])
        torch.mm(self._like_w(a), b, out=self.w)
        if doubtful:
            self._orthogonalise(sqrt_e)

    def _like_w(self, value: np.ndarray) -> Tensor:
        return torch.from_numpy(value.astype(np.float32)).to(self.w.device)

    def _set_spectrum(self, eigenvalues: np.ndarray, trace: float) -> None:
        """Floored rho and d from the largest eigenvalues of the covariance and its trace."""
        o = self.options
        rho = (trace - float(eigenvalues.sum())) / (self.dim - self.rank)
        floor = max(o.epsilon, o.delta * float(eigenvalues.max()))
        self.rho = max(rho, floor)
        self.d = np.maximum(eigenvalues - rho, o.epsilon if o.variant == "su2015" else floor)

    def _orthogonalise(self, sqrt_e: np.ndarray) -> None:
        """Make the rows of ``E^(-1/2) W`` orthonormal again, if they are not."""
        o = _numpy(self.w @ self.w.T) / (sqrt_e * sqrt_e[:, None])
        unit = np.eye(self.rank)
        if np.abs(o - unit).max() <= UNIT:
            return
        c, info = torch.linalg.cholesky_ex(torch.from_numpy(o))
        fix = torch.linalg.solve_triangular(c, torch.from_numpy(unit), upper=False).numpy()
        if info == 0 and np.abs(fix).max() < MAX_CHOLESKY:
            self.w = self._like_w(sqrt_e[:, None] * fix / sqrt_e) @ self.w
        elif self.options.variant == "su2015":
            self.w = torch.zeros_like(self.w)
            self.w.diagonal().copy_(torch.from_numpy(sqrt_e))
        else:
            rows = _orthonormal_rows(self.w / self.w.abs().amax(1, keepdim=True))
            self.w = self._like_w(sqrt_e)[:, None] * rows

    def _start(self, x: Tensor, unit: float) -> None:
        self.reset()
        if self.options.variant == "su2015":
            self._start_from_eigenvectors(x, unit)
        else:
            for _ in range(FIRST_BATCH_UPDATES if len(x) > self.rank else 1):
                self._step(x.clone(), unit, update=True)

    def _start_from_eigenvectors(self, x: Tensor, unit: float) -> None:
        """R = the leading eigenvectors of X^T X / N, by way of the smaller Gram matrix."""
        n, r = len(x), self.rank
        wide = n < self.dim
        values, vectors = torch.linalg.eigh(x @ x.T if wide else x.T @ x)
        values, vectors = values.flip(0)[:r].clamp(min=0), vectors.flip(1)[:, :r]
        rows = vectors.T @ x if wide else vectors.T
        rows = rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp(min=1e-30)
        rows = torch.cat([rows, self._like_w(_comb(r, self.dim)[: r - len(rows)])])
        eigenvalues = np.zeros(r)
        eigenvalues[: len(values)] = _numpy(values) * (unit**2 / n)
        self._set_spectrum(eigenvalues, float(_norm(x)) ** 2 * unit**2 / n)
        self.w = self._like_w(self._sqrt_e())[:, None] * _orthonormal_rows(rows)


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(torch.linalg.vector_norm(x, dim=1))  # by rows: fast for padded rows too


def _numpy(x: Tensor) -> np.ndarray:
    return x.to("cpu", torch.float64).numpy()


def _comb(rank: int, dim: int) -> np.ndarray:
    """Orthonormal rows [rank, dim] without a zero row or column: row k has entries in columns k, k + rank, ..."""
    rows = np.zeros((rank, dim))
    for k in range(rank):
        rows[k, k::rank] = 1.0
        rows[k, k] = 1.1  # as in Kaldi
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _orthonormal_rows(rows: Tensor) -> Tensor:
    """Orthonormal rows that span (at least) what ``rows`` [r, D] do; works for dependent rows."""
    return torch.linalg.qr(rows.nan_to_num().T)[0].T.contiguous()
