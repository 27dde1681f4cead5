"""Cepstral mean and variance normalisation, per speaker, over the set's own frames."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.files import atomic
from asr_parallel.log import UserError

EVERYBODY = "*"  # the speaker of a normalisation that is the same for all
MIN_FRAMES = 300  # a speaker heard for less (3 s) borrows the rest from the whole set
MIN_STD = 0.01  # of the whole set's standard deviation


@dataclass(frozen=True)
class Cmvn:
    """``mean`` and ``std`` are float32 [S, D], in the order of ``speakers``; x becomes (x - mean) / std."""

    speakers: list[str]
    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def none(cls, dim: int) -> Cmvn:
        """Leaves frames [T, ``dim``] as they are, whoever speaks."""
        return cls([EVERYBODY], np.zeros((1, dim), np.float32), np.ones((1, dim), np.float32))

    def rows(self, speakers: Sequence[str]) -> np.ndarray | None:
        """Which row of ``mean`` and ``std`` each of ``speakers`` has, int32; None if one of them has none."""
        if self.speakers == [EVERYBODY]:
            return np.zeros(len(speakers), np.int32)
        number = {speaker: row for row, speaker in enumerate(self.speakers)}
        return None if set(speakers) - set(number) else np.array([number[s] for s in speakers], np.int32)

    def save(self, path: Path) -> None:
        """Write ``path`` (npz) atomically."""
        with atomic(path) as temporary:
            np.savez(temporary, speakers=np.array(self.speakers, dtype=np.str_), mean=self.mean, std=self.std)

    @classmethod
    def load(cls, path: Path) -> Cmvn:
        """Read what ``save`` wrote.  Raises ``UserError`` if the file is missing or damaged."""
        try:
            with np.load(path, allow_pickle=False) as npz:
                cmvn = cls([str(s) for s in npz["speakers"]], npz["mean"], npz["std"])
        except FileNotFoundError:
            raise UserError(f"no normalisation at {path}: run `features` first") from None
        except (KeyError, ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as e:
            raise UserError(f"{path} is damaged ({e}): run `features` with --force") from None
        if cmvn.mean.shape != cmvn.std.shape or len(cmvn.mean) != len(cmvn.speakers) or not (cmvn.std > 0).all():
            raise UserError(f"{path} contradicts itself: run `features` with --force")
        return cmvn


class CmvnStats:
    """Adds up frames, utterance by utterance, in double precision."""

    def __init__(self) -> None:
        self._speakers: dict[str, np.ndarray] = {}  # [2 * D + 1]: count, sum, sum of squares

    def add(self, speaker: str, frames: np.ndarray) -> None:
        """Add ``frames`` [T, D] of ``speaker``."""
        x = frames.astype(np.float64)
        stats = np.concatenate([[len(x)], x.sum(0), np.square(x).sum(0)])
        self._speakers[speaker] = self._speakers.get(speaker, 0.0) + stats

    def cmvn(self) -> Cmvn:
        """The normalisation of each speaker, speakers sorted by name.

        A speaker with fewer than ``MIN_FRAMES`` frames is topped up to that many with the set's average
        frame, since the mean of a second of speech says more of its words than of its speaker.
        """
        speakers = sorted(self._speakers)
        stats = np.stack([self._speakers[s] for s in speakers])
        total = stats.sum(0)
        missing = np.maximum(0.0, MIN_FRAMES - stats[:, :1])
        mean, std = _moments(stats + missing * total / total[0])
        floor = np.maximum(MIN_STD * _moments(total[None])[1], 1e-5)
        return Cmvn(speakers, mean.astype(np.float32), np.maximum(std, floor).astype(np.float32))


def _moments(stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation, each [S, D], of ``stats`` [S, 2 * D + 1]."""
    count, sums, squares = np.split(stats, [1, 1 + stats.shape[1] // 2], axis=1)
    mean = sums / count
    return mean, np.sqrt(np.maximum(squares / count - mean**2, 0.0))
