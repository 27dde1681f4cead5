"""Two workers that average their models, beside two that never meet, and beside one.

    python benchmarks/workers.py [--minutes 15] [--rounds 2] [--every "10 minibatches"]

Runs the verb ``train`` on frames of noise, one thread a worker; frames a second are those of ``history.tsv``, time on
the wall.  The three take turns and the best round of each counts.  Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from figure import Figure, command_line
from frames import sparse_set

from asr_parallel.config import cuts_path

PDFS = 1200


def corpus(root: Path, minutes: float) -> None:
    """A set ``train`` and a set ``dev`` of silence, with labels at random."""
    rng = np.random.default_rng(0)
    (root / "ali").mkdir()
    for name, hours in (("train", minutes / 60), ("dev", 0.01)):
        _, labels = sparse_set(root, hours, name)
        labels.pdfs[:] = rng.integers(PDFS, size=len(labels.pdfs))
        labels.save(root / "ali" / f"ali_{name}.npz")
        cuts_path(root, name, "fbank").write_bytes(gzip.compress(b""))  # `train` asks for it, but reads the store alone
    np.savez(root / "ali" / "priors.npz", counts=np.ones(PDFS, np.int64))
    (root / "ali" / "hmm.json").write_text("{}")


def train(root: Path, name: str, workers: int, every: str) -> subprocess.Popen:
    """Begin a training of one epoch."""
    shutil.rmtree(root / name, ignore_errors=True)
    strategy = "model_average" if workers > 1 else "single"
    options = ["--data", root, "--ali", root / "ali", "--out", root / name, "--train", "train", "--dev", "dev",
               "--workers", workers, "--threads", 1, "--schedule.epochs", 1, "--strategy.name", strategy,
               "--strategy.every", every, "--optim.lr", 0.01]  # fmt: skip
    command = [sys.executable, "-m", "asr_parallel", "train", *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def speed(root: Path, *begun: tuple[str, subprocess.Popen]) -> float:
    """Frames a second of the trainings together, once they have ended."""
    total = 0.0
    for name, process in begun:
        if process.wait():
            raise SystemExit(f"training failed: see {root / name / 'log'}")
        with open(root / name / "history.tsv", newline="") as f:
            total += float(next(csv.DictReader(f, delimiter="\t"))["frames_per_s"])
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="of frames in an epoch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--every", default="10 minibatches")
    args = parser.parse_args()
    best = {"one": 0.0, "two_alone": 0.0, "two": 0.0}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        corpus(root, args.minutes)
        for _ in range(args.rounds):
            two = speed(root, ("two", train(root, "two", 2, args.every)))
            alone = [(name, train(root, name, 1, args.every)) for name in ("a", "b")]
            two_alone = speed(root, *alone)
            one = speed(root, ("one", train(root, "one", 1, args.every)))
            for name, value in (("one", one), ("two_alone", two_alone), ("two", two)):
                best[name] = max(best[name], value)
    for name, value in best.items():
        Figure(f"{name}_frames_per_s", value, "frames/s").show()
    Figure("two_workers_vs_two_alone", best["two"] / best["two_alone"], "ratio", ">= 0.97", command_line()).show()
    Figure("two_workers_vs_one", best["two"] / best["one"], "ratio", ">= 1.75", command_line()).show()


if __name__ == "__main__":
    main()
