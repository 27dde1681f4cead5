"""Context of frames: splicing and Kaldi's deltas."""

from __future__ import annotations

import numpy as np


def splice(feats: np.ndarray, context: int) -> np.ndarray:
    """Join each frame of ``feats`` [T, D] with ``context`` frames on either side: [T, D * (2 * context + 1)].

    The first and last frame are repeated beyond the edges, as Kaldi's splice-feats does.
    """
    padded = np.pad(feats, ((context, context), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * context + 1, axis=0)  # [T, D, 2c + 1]
    return windows.transpose(0, 2, 1).reshape(len(feats), -1)


def deltas(feats: np.ndarray, order: int = 2, window: int = 2) -> np.ndarray:
    """Append deltas up to ``order``: [T, D] becomes [T, D * (order + 1)], like Kaldi's add-deltas.

    The filter of order i is that of order i - 1 convolved with n / sum(n^2), n in -window..window, and is
    applied to the static features, whose edge frames are repeated.  (Deltas of deltas, as torchaudio and
    HTK compute them, differ in the outer frames of an utterance.)
    """
    ramp = np.arange(-window, window + 1) / (2.0 * np.square(np.arange(window + 1)).sum())
    parts, kernel = [feats], np.ones(1)
    for i in range(1, order + 1):
        kernel = np.convolve(kernel, ramp)
        padded = np.pad(feats, ((i * window, i * window), (0, 0)), mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(kernel), axis=0)  # [T, D, 2 * i * window + 1]
        parts.append(windows @ kernel.astype(feats.dtype))
    return np.concatenate(parts, axis=1)
