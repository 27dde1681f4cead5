"""SpecAugment (Park et al. 2019) for spliced frames: bands of filters and runs of frames are hidden.

There is no time warping, and each spliced frame has masks of its own, as minibatches hold frames, not utterances.
"""

from __future__ import annotations

import numpy as np

from asr_parallel.config import FramesConfig
from asr_parallel.data.permutation import mix
from asr_parallel.log import UserError


class SpecAugment:
    """Masks for frames of ``window`` spliced frames of ``dim`` filters each.

    A mask over filters hides f of them, f uniform in 0..``freq_width``, anywhere, in all frames of the window; one over
    time hides t frames of the window, t uniform in 0..``time_width``, with all their filters.  What is hidden
    becomes 0, the mean of normalised features.  Raises ``UserError`` if a mask may be larger than what it is laid on.
    """

    def __init__(self, config: FramesConfig, dim: int, window: int, kind: str, seed: int):
        self.config, self.dim, self.window, self.seed = config, dim, window, seed
        for name, number, width, size in (
            ("freq", config.freq_masks, config.freq_width, dim),
            ("time", config.time_masks, config.time_width, window),
        ):
            if number < 0 or (number and not 1 <= width <= size):
                raise UserError(
                    f"--frames.{name}_masks {number} of width {width} on {size}: give 0 or more masks "
                    f"and a --frames.{name}_width of 1 to {size}"
                )
        if config.freq_masks and kind != "fbank":
            raise UserError(f"--frames.freq_masks hides bands of filters, {kind} has none: use --features fbank")

    def __call__(self, x: np.ndarray, index: np.ndarray, epoch: int) -> None:
        """Hide parts of ``x`` float32 [B, window * dim] in place; seed, epoch and ``index`` int64 [B] decide which."""
        config, frames = self.config, x.reshape(len(x), self.window, self.dim)
        if not config.freq_masks + config.time_masks:
            return
        keys = np.random.SeedSequence([self.seed, epoch, 0, 1]).generate_state(
            2 * (config.freq_masks + config.time_masks), np.uint64
        )
        draws = [mix(mix(index.astype(np.uint64) + key)) for key in keys]
        pairs = list(zip(draws[::2], draws[1::2]))
        for width, begin in pairs[: config.freq_masks]:
            frames *= _kept(width, begin, config.freq_width, self.dim)[:, None, :]
        for width, begin in pairs[config.freq_masks :]:
            frames *= _kept(width, begin, config.time_width, self.window)[:, :, None]


def _kept(width: np.ndarray, begin: np.ndarray, widest: int, size: int) -> np.ndarray:
    """0 where a mask lies and 1 elsewhere, float32 [B, size]; from two uniform random numbers each, uint64 [B]."""
    span = (width % np.uint64(widest + 1)).astype(np.int64)[:, None]
    low = (begin.astype(np.int64)[:, None]) % (size - span + 1)
    at = np.arange(size)
    return ((at < low) | (at >= low + span)).astype(np.float32)
