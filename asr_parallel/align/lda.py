"""Linear discriminant analysis: the directions of spliced frames in which tied states differ most."""

from __future__ import annotations

import numpy as np

from asr_parallel.align.em import SortedFrames
from asr_parallel.log import UserError

CHUNK = 1 << 15  # frames in one matrix product


def lda(frames: SortedFrames, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The best ``dim`` directions [dim, E] of frames [N, E] whose classes are their pdfs, and eigenvalues [E].

    A direction v maximises (v B v') / (v W v'), between-class over within-class variance; its eigenvalue is that
    ratio.  Rows are scaled so that all frames together have variance 1 in each dimension, and are uncorrelated both
    within classes and on the whole.  Raises ``UserError`` if the frames do not fill their space.
    """
    within, between = scatter(frames)
    if dim > len(within):
        raise UserError(f"LDA to {dim} dimensions, but spliced frames have {len(within)}: give a lower dim")
    try:
        whiten = np.linalg.inv(np.linalg.cholesky(within))
    except np.linalg.LinAlgError:
        raise UserError(
            "LDA: spliced frames are linearly dependent; there are too few, or features are constant"
        ) from None
    values, vectors = np.linalg.eigh(whiten @ between @ whiten.T)
    values, vectors = values[::-1], vectors[:, ::-1]
    directions = vectors[:, :dim].T @ whiten  # within-class variance 1, hence variance 1 + eigenvalue on the whole
    return directions / np.sqrt(1 + values[:dim, None]), values


def scatter(frames: SortedFrames) -> tuple[np.ndarray, np.ndarray]:
    """Within-class and between-class covariances, float64 [E, E]; they sum to that of all frames."""
    size, width = len(frames), frames.feats.shape[1]
    second, sums = np.zeros((width, width)), np.zeros((frames.num_pdfs, width))
    for t in range(0, size, CHUNK):
        x = frames.feats[t : t + CHUNK].astype(np.float64)
        second += x.T @ x
    for pdf in range(frames.num_pdfs):
        sums[pdf] = frames.of_pdf(pdf).sum(0, dtype=np.float64)
    counts = np.diff(frames.offsets).astype(np.float64)
    mean = sums.sum(0) / max(1, size)
    means = sums / np.maximum(1.0, counts)[:, None] - mean
    between = (means * counts[:, None]).T @ means / max(1, size)
    return second / max(1, size) - np.outer(mean, mean) - between, between
