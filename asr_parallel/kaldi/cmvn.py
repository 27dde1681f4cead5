"""Kaldi's CMVN statistics, one matrix a speaker or one for all, as our normalisation, and back.

A matrix is [2, D + 1]: sums and, last, the number of frames; sums of squares (``transform/cmvn.h``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr_parallel.data.cmvn import EVERYBODY, Cmvn
from asr_parallel.kaldi.nnet1 import Transform
from asr_parallel.kaldi.tables import DAMAGE, Script, open_input
from asr_parallel.kaldi.values import Reader
from asr_parallel.log import UserError

FLOOR = 1e-20  # of a variance, as in Kaldi's apply-cmvn


def speaker_cmvn(script: Script, speakers: Sequence[str], means: bool, variances: bool) -> Cmvn:
    """What ``apply-cmvn --norm-means --norm-vars`` does with the statistics of ``speakers``."""
    rows = []
    for speaker in sorted(set(speakers)):
        if speaker not in script.table:
            raise UserError(f"cmvn.scp has no statistics of speaker {speaker}: give --cmvn own, or make them")
        rows.append(_moments(script[speaker], script.table[speaker][0], means, variances))
    return _cmvn(sorted(set(speakers)), rows)


def global_cmvn(path: Path, means: bool, variances: bool) -> Cmvn:
    """The same for everybody, from a file of one matrix."""
    with open_input(path) as file:
        try:
            reader = Reader(file)
            reader.header()
            stats = reader.matrix()
        except DAMAGE as error:
            raise UserError(f"{path} is no matrix of CMVN statistics: {error}") from None
    return _cmvn([EVERYBODY], [_moments(stats, str(path), means, variances)])


def _moments(stats: np.ndarray, where: str, means: bool, variances: bool) -> tuple[np.ndarray, np.ndarray]:
    stats = stats.astype(np.float64)
    if stats.ndim != 2 or len(stats) != 2 or stats.shape[1] < 2 or not stats[0, -1] > 0:
        raise UserError(f"{where}: CMVN statistics are two rows, sums with a count of frames and sums of squares")
    count = stats[0, -1]
    mean = stats[0, :-1] / count
    variance = np.maximum(stats[1, :-1] / count - mean**2, FLOOR)
    return (mean if means else np.zeros_like(mean)), (np.sqrt(variance) if variances else np.ones_like(mean))


def _cmvn(speakers: list[str], rows: list[tuple[np.ndarray, np.ndarray]]) -> Cmvn:
    mean, std = (np.stack(column).astype(np.float32) for column in zip(*rows))
    return Cmvn(speakers, mean, std)


def options(path: Path) -> tuple[bool, bool]:
    """Whether a file ``cmvn_opts`` has means and variances normalised; Kaldi's defaults are yes and no."""
    words = path.read_text(encoding="utf-8").split() if path.exists() else []
    given = dict(word.lstrip("-").partition("=")[::2] for word in words)
    unknown = sorted(set(given) - {"norm-means", "norm-vars"})
    if unknown:
        raise UserError(f"{path}: option --{unknown[0]} is not known here: give --cmvn own")
    return given.get("norm-means", "true") == "true", given.get("norm-vars", "false") == "true"


def transformed(cmvn: Cmvn, transform: Transform) -> Cmvn:
    """The normalisation followed by ``transform``: ((x - m) / s + shift) scale = (x - (m - s shift)) / (s / scale)."""
    if len(transform.shift) != cmvn.mean.shape[1]:
        raise UserError(f"the transform takes {len(transform.shift)} values, features have {cmvn.mean.shape[1]}")
    mean, std = cmvn.mean - cmvn.std * transform.shift, cmvn.std / transform.scale
    return Cmvn(cmvn.speakers, mean.astype(np.float32), std.astype(np.float32))


def statistics(mean: np.ndarray, std: np.ndarray, frames: int) -> np.ndarray:
    """Statistics float64 [2, D + 1] from which ``apply-cmvn --norm-vars=true`` gives ``mean`` and ``std`` [D]."""
    mean, std = mean.astype(np.float64), std.astype(np.float64)
    return frames * np.stack([np.append(mean, 1.0), np.append(std**2 + mean**2, 0.0)])
