"""How fast features are made: both kinds, from audio files to finished stores, beside Lhotse's and torchaudio's own.

    python benchmarks/features.py [--minutes 30] [--jobs 0]

Audio is synthetic: 16-bit FLAC files of 1 to 9 seconds at 8 kHz in a temporary directory.  ``x real time a core``
is seconds of audio by seconds of processor time, workers included, so that a busy machine does less harm.
Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import lhotse
import numpy as np
import soundfile
import torch
import torchaudio
from figure import Figure, command_line

from asr_parallel.config import FeaturesConfig, cores
from asr_parallel.data.features import run
from asr_parallel.data.frontend import Frontend, read_audio

RATE = 8000


def corpus(root: Path, minutes: float) -> list[lhotse.MonoCut]:
    """A set ``train`` of noise that rises and falls, in FLAC files."""
    (root / "train").mkdir(parents=True)
    rng = np.random.default_rng(0)
    cuts: list[lhotse.MonoCut] = []
    while sum(cut.duration for cut in cuts) < 60 * minutes:
        utt, samples = f"s{len(cuts) % 20}-{len(cuts):05d}", int(rng.integers(1 * RATE, 9 * RATE))
        level = 0.05 * (1.1 + np.sin(np.arange(samples) / RATE * 5))
        path = root / f"{utt}.flac"
        soundfile.write(path, level * rng.standard_normal(samples), RATE, "PCM_16")
        recording = lhotse.Recording(utt, [lhotse.AudioSource("file", [0], str(path))], RATE, samples, samples / RATE)
        supervision = lhotse.SupervisionSegment(utt, utt, 0.0, samples / RATE, text="A", speaker=utt.split("-")[0])
        cuts.append(lhotse.MonoCut(utt, 0.0, samples / RATE, 0, [supervision], recording=recording))
    lhotse.CutSet.from_cuts(cuts).to_file(root / "train" / "cuts.jsonl.gz")
    return cuts


def processor_seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Processor time, of children too, and time on the wall of one call."""
    before, start = os.times(), time.monotonic()
    function()
    return sum(os.times()[:4]) - sum(before[:4]), time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="of audio")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 means one a core")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DeprecationWarning)

    def show(name: str, value: float, unit: str = "x real time a core") -> None:
        Figure(name, value, unit, ">= 1500" if name == "features_xrt" else "", command_line()).show()

    with tempfile.TemporaryDirectory() as directory:
        cuts = corpus(Path(directory), args.minutes)
        seconds = sum(cut.duration for cut in cuts)
        waves: list[np.ndarray] = []
        show("features_read_audio", seconds / processor_seconds(lambda: waves.extend(map(read_audio, cuts)))[0])
        frontend = Frontend(RATE)
        show("features_frontend", seconds / processor_seconds(lambda: [frontend(w) for w in waves])[0])
        fbank = lhotse.Fbank(lhotse.FbankConfig(sampling_rate=RATE, num_filters=40, high_freq=0.0))
        mfcc = lhotse.Mfcc(lhotse.MfccConfig(sampling_rate=RATE, high_freq=0.0))
        peer = processor_seconds(lambda: [(fbank.extract(w, RATE), mfcc.extract(w, RATE)) for w in waves])[0]
        show("features_frontend_lhotse", seconds / peer)
        kaldi, options = torchaudio.compliance.kaldi, {"sample_frequency": float(RATE), "snip_edges": False}
        tensors = [torch.from_numpy(w)[None] for w in waves]
        peer = processor_seconds(
            lambda: [(kaldi.fbank(w, num_mel_bins=40, **options), kaldi.mfcc(w, **options)) for w in tensors]
        )[0]
        show("features_frontend_torchaudio", seconds / peer)
        jobs = args.jobs or cores()
        used, wall = processor_seconds(lambda: run(FeaturesConfig(data=Path(directory), jobs=jobs)))
        show("features_xrt", seconds / used)
        show(f"features_wall_{jobs}_jobs", seconds / wall, "x real time")


if __name__ == "__main__":
    main()
