"""Kinds of features: what makes them, and what their values depend on."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from asr_parallel.data import frontend, image

Extractor = Callable[[np.ndarray], dict[str, np.ndarray]]  # samples to features [T, D] by kind


def options(kind: str, num_mel: int, num_ceps: int) -> list[object]:
    """All that decides the values of features of ``kind``."""
    if kind == "image":
        return [kind, *image.OPTIONS]
    return [kind, num_ceps if kind == "mfcc" else num_mel, *frontend.OPTIONS]


def extractor(kinds: Collection[str], sampling_rate: int, num_mel: int, num_ceps: int) -> Extractor:
    """A function that gives the features of samples by kind; those of ``kinds`` are among them."""
    makers: list[Extractor] = []
    if "image" in kinds:
        makers.append(image.WordImage(sampling_rate))
    if set(kinds) - {"image"}:
        makers.append(frontend.Frontend(sampling_rate, num_mel, num_ceps))
    return lambda samples: {kind: feats for make in makers for kind, feats in make(samples).items()}
