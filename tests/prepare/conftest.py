"""Speech for corpora of every form: utterances of LibriSpeech, cut to two seconds, or noise where it is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from real_speech import RATE, Said

EXCERPT = Path(__file__).parents[3] / "shared/data/librispeech_excerpt/LibriSpeech/test-other"


def real() -> Iterator[tuple[str, str, np.ndarray]]:
    for chapter in sorted(EXCERPT.rglob("*.trans.txt"))[:3]:
        for line in chapter.read_text().splitlines()[:4]:
            utt, _, text = line.partition(" ")
            samples, rate = soundfile.read(chapter.parent / f"{utt}.flac", dtype="int16")
            assert rate == RATE
            yield utt, text, samples[5000:]


def made_up() -> Iterator[tuple[str, str, np.ndarray]]:
    rng = np.random.default_rng(0)
    for i in range(12):
        noise = np.convolve(rng.standard_normal(40000), np.hanning(16), "same")
        yield f"{1000 + i // 4}-7-{i:04}", f"SENTENCE {'ABCDEFGHIJKL'[i]} OF NOISE", (2000 * noise).astype(np.int16)


@pytest.fixture(scope="session")
def speech() -> list[Said]:
    """Twelve utterances, four of each of three speakers, 1.5 to 2 s long, no two alike in length."""
    told = enumerate(real() if EXCERPT.is_dir() else made_up())
    return [Said(utt, utt.partition("-")[0], text, samples[: 24000 + 431 * i]) for i, (utt, text, samples) in told]
