"""Gaussian mixtures with diagonal covariance, one mixture for each pdf."""

from __future__ import annotations

import zipfile
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from asr_parallel.files import atomic
from asr_parallel.log import UserError

BLOCK = 1 << 19  # Gaussians x frames scored at once


class DiagGmm:
    """The mixtures of all pdfs in flat arrays, in the order of the pdfs.

    ``means``, ``variances`` float32 [G, D]; ``weights`` float32 [G], which sum to 1 over each pdf; ``pdf`` int32
    [G], rising from 0 without a gap.  Immutable: training makes new ones.  Raises ``ValueError`` for arrays
    that contradict each other.
    """

    def __init__(self, means: np.ndarray, variances: np.ndarray, weights: np.ndarray, pdf: np.ndarray):
        self.means, self.variances = np.asarray(means, np.float32), np.asarray(variances, np.float32)
        self.weights, self.pdf = np.asarray(weights, np.float32), np.asarray(pdf, np.int32)
        size = len(self.pdf)
        if self.means.shape != self.variances.shape or self.means.ndim != 2 or len(self.means) != size:
            raise ValueError(f"means {self.means.shape}, variances {self.variances.shape}, {size} Gaussians")
        if (
            size == 0
            or self.weights.shape != (size,)
            or self.pdf[0] != 0
            or not np.isin(np.diff(self.pdf), (0, 1)).all()
        ):
            raise ValueError("the Gaussians are not in the order of the pdfs 0, 1, 2, ...")
        if not ((self.variances > 0).all() and (self.weights > 0).all() and np.isfinite(self.means).all()):
            raise ValueError("a variance or weight is not positive, or a mean is not finite")
        self.offsets = np.searchsorted(self.pdf, np.arange(self.num_pdfs + 1)).astype(np.int64)

    @property
    def num_pdfs(self) -> int:
        return int(self.pdf[-1]) + 1

    @property
    def dim(self) -> int:
        return self.means.shape[1]

    def __len__(self) -> int:
        """Number of Gaussians."""
        return len(self.pdf)

    @cached_property
    def linear(self) -> tuple[torch.Tensor, torch.Tensor]:
        """``A`` [G, 2 D] and ``b`` [G, 1] with log(weight N(x)) = A [x, x^2] + b."""
        variances, means = self.variances.astype(np.float64), self.means.astype(np.float64)
        a = np.concatenate([means / variances, -0.5 / variances], axis=1)
        b = np.log(self.weights.astype(np.float64)) - 0.5 * (
            self.dim * np.log(2 * np.pi) + np.log(variances).sum(1) + (means**2 / variances).sum(1)
        )
        return torch.from_numpy(a.astype(np.float32)), torch.from_numpy(b.astype(np.float32))[:, None]

    def prepare(self) -> None:
        """Compute ``linear``, before processes fork that all need it."""
        _ = self.linear

    def of_pdf(self, pdf: int) -> slice:
        """Where the Gaussians of ``pdf`` are."""
        return slice(int(self.offsets[pdf]), int(self.offsets[pdf + 1]))

    def posteriors(self, pdf: int, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Which of the M Gaussians of ``pdf`` a frame is of: float32 [M, T], and the log-likelihoods [T].

        ``frames`` [T, 2 D] are as ``expand`` gives them.
        """
        a, b = (x[self.of_pdf(pdf)] for x in self.linear)
        scores = torch.addmm(b, a, frames.T)
        total = torch.logsumexp(scores, 0)
        return scores.sub_(total).exp_(), total

    def log_likelihoods(self, feats: np.ndarray, pdfs: np.ndarray | None = None) -> np.ndarray:
        """Log-likelihoods of ``feats`` [T, D] under ``pdfs`` [P] (all if None): float32 [T, P].

        One matrix product for all Gaussians, then a sum in the log domain over those of each pdf.
        Raises ``ValueError`` if the dimensions differ.
        """
        if feats.ndim != 2 or feats.shape[1] != self.dim:
            raise ValueError(f"features {feats.shape}, but the Gaussians have {self.dim} dimensions")
        a, b, layers, order = self._all if pdfs is None else self._layered(np.asarray(pdfs))
        out = np.empty((len(feats), len(order)), np.float32)
        step = max(16, BLOCK // len(a))
        for t in range(0, len(feats), step):
            scores = torch.addmm(b, a, expand(feats[t : t + step]).T).numpy()
            out[t : t + step, order] = log_sum(scores, layers).T
        return out

    @cached_property
    def _all(self) -> tuple[torch.Tensor, torch.Tensor, list[int], np.ndarray]:
        return self._layered(np.arange(self.num_pdfs))

    def _layered(self, pdfs: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, list[int], np.ndarray]:
        """``linear`` with the first Gaussian of each pdf first, then the second of those that have two, and so on.

        The pdfs come in ``order``, largest first, so that layer j is of the first ``layers[j]`` of them: what is
        done over the Gaussians of a pdf becomes a few operations on whole layers.
        """
        sizes = np.diff(self.offsets)[pdfs]
        order = np.argsort(-sizes, kind="stable")
        layers = np.searchsorted(-sizes[order], -np.arange(sizes.max()))
        first = self.offsets[pdfs[order]]
        rows = torch.from_numpy(np.concatenate([first[:n] + j for j, n in enumerate(layers)]))
        a, b = self.linear
        return a[rows], b[rows], layers.tolist(), order

    def save(self, path: Path) -> None:
        """Write ``gmm.npz`` atomically."""
        with atomic(path) as temporary:
            np.savez(temporary, means=self.means, variances=self.variances, weights=self.weights, pdf=self.pdf)

    @classmethod
    def load(cls, path: Path) -> DiagGmm:
        """Read what ``save`` wrote.  Raises ``UserError`` if the file is missing, damaged or contradicts itself."""
        try:
            with np.load(path, allow_pickle=False) as npz:
                return cls(npz["means"], npz["variances"], npz["weights"], npz["pdf"])
        except FileNotFoundError:
            raise UserError(f"no GMM at {path}: run `align` first") from None
        except (ValueError, KeyError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as e:
            raise UserError(f"{path} is damaged ({e}): run `align` again") from None


def expand(feats: np.ndarray) -> torch.Tensor:
    """``[x, x^2]`` of each frame: float32 [T, 2 D]."""
    return torch.from_numpy(np.concatenate([feats, np.square(feats)], axis=1, dtype=np.float32))


def log_sum(scores: np.ndarray, layers: list[int]) -> np.ndarray:
    """log sum exp over layers: ``scores`` [sum(layers), T] -> [layers[0], T].  Overwrites ``scores``.

    Layer j is ``layers[j]`` rows, and belongs to the first ``layers[j]`` rows of the result.
    """
    parts = np.split(scores, np.cumsum(layers)[:-1])
    highest = parts[0].copy()
    for part in parts[1:]:
        np.maximum(highest[: len(part)], part, out=highest[: len(part)])
    for part in parts:
        part -= highest[: len(part)]
    np.exp(scores, out=scores)
    total = parts[0]
    for part in parts[1:]:
        total[: len(part)] += part
    return np.log(total, out=total) + highest
