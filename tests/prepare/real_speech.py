"""Utterances of real speech, to write corpora of every form from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

RATE = 16000


@dataclass(frozen=True)
class Said:
    """An utterance: id, speaker, words, samples int16 [N] at 16 kHz."""

    utt: str
    speaker: str
    text: str
    samples: np.ndarray

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


def write(path: Path, samples: np.ndarray, rate: int = RATE, **options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".sph":
        options = {"format": "NIST", "subtype": "PCM_16"}
    soundfile.write(path, samples, rate, **options)
    return path
