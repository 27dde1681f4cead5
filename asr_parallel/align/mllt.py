"""MLLT (semi-tied covariance): a rotation of frames in which diagonal covariances fit better (Gales 1999)."""

from __future__ import annotations

import numpy as np
import torch

from asr_parallel.align.em import CHUNK, SortedFrames, blocks
from asr_parallel.align.gmm import DiagGmm, expand
from asr_parallel.align.rows import RowStats, maximise
from asr_parallel.pool import parallel_map


def estimate(gmm: DiagGmm, frames: SortedFrames, jobs: int = 1) -> np.ndarray:
    """The matrix A [D, D] that frames and means are to be multiplied by.

    It maximises the likelihood of the frames, log |det A| included, at the posteriors and variances of ``gmm``.
    """
    return maximise(accumulate(gmm, frames, jobs), np.eye(gmm.dim))


def accumulate(gmm: DiagGmm, frames: SortedFrames, jobs: int = 1) -> RowStats:
    """G_i = sum over Gaussians m of S_m / variance_mi, where S_m is the scatter of m's frames around its mean."""

    def block(pdfs: range) -> np.ndarray:
        g = torch.zeros(gmm.dim, gmm.dim**2, dtype=torch.float64)
        for pdf in pdfs:
            _add_pdf(g, gmm, pdf, frames.of_pdf(pdf))
        return g.numpy()

    gmm.prepare()
    g = np.zeros((gmm.dim, gmm.dim**2))
    for part in parallel_map(block, blocks(frames), jobs):
        g += part
    return RowStats(float(len(frames)), np.zeros((gmm.dim, gmm.dim)), g.reshape(gmm.dim, gmm.dim, gmm.dim))


def _add_pdf(g: torch.Tensor, gmm: DiagGmm, pdf: int, feats: np.ndarray) -> None:
    """Add the frames of a pdf to ``g`` [D, D^2]."""
    mine = gmm.of_pdf(pdf)
    means, inverse = torch.from_numpy(gmm.means[mine]), 1 / torch.from_numpy(gmm.variances[mine]).double()
    for t in range(0, len(feats), CHUNK):
        x = feats[t : t + CHUNK]
        posteriors, _ = gmm.posteriors(pdf, expand(x))
        centred = torch.from_numpy(x) - means[:, None]  # [M, T, D]
        scatter = (posteriors[:, :, None] * centred).transpose(1, 2) @ centred
        g += inverse.T @ scatter.flatten(1).double()


def rotated(gmm: DiagGmm, a: np.ndarray) -> DiagGmm:
    """The mixtures with means multiplied by ``a`` [D, D]; variances are for the next EM step to find."""
    return DiagGmm(gmm.means @ a.T, gmm.variances, gmm.weights, gmm.pdf)
