"""Two workers that average their models, beside two that never meet, and beside one.

    python benchmarks/workers.py [--minutes 15] [--rounds 2] [--every "10 minibatches"]

Runs the verb ``train`` on frames of noise, one thread a worker; frames a second are those of ``history.tsv``, time on
the wall.  The three take turns and the best round of each counts.

``projected_efficiency_K`` is for K workers like this machine's cores, each with 10 Gbit/s and 50 us to the others, that
average 440-2048x6-8806 every 10 minibatches: what the verb ``project`` makes of the ledger of two real workers here
(``docs/ledger.md``).  Prints one JSON line a figure.
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
from asr_parallel.parallel.account import Account
from asr_parallel.parallel.cost import Costs
from asr_parallel.parallel.link import Link
from asr_parallel.train.settings import load_config

PDFS = 1200
BIG = ["--model.layers", "6", "--model.width", "2048"]  # with 8806 pdfs the network of Su & Chen 2015
BIG_PDFS = 8806
LINK = Link(10e9 / 8, 50e-6)


def corpus(root: Path, minutes: float, pdfs: int = PDFS) -> None:
    """A set ``train`` and a set ``dev`` of silence, with labels at random."""
    rng = np.random.default_rng(0)
    (root / "ali").mkdir()
    for name, hours in (("train", minutes / 60), ("dev", 0.01)):
        _, labels = sparse_set(root, hours, name)
        labels.pdfs[:] = rng.integers(pdfs, size=len(labels.pdfs))
        labels.save(root / "ali" / f"ali_{name}.npz")
        cuts_path(root, name, "fbank").write_bytes(gzip.compress(b""))  # `train` asks for it, but reads the store alone
    np.savez(root / "ali" / "priors.npz", counts=np.ones(pdfs, np.int64))
    (root / "ali" / "hmm.json").write_text("{}")


def options(root: Path, name: str, strategy: str, every: str, more: list[str]) -> list[str]:
    """Those of the verb ``train`` for one epoch; what is left of an earlier one of this ``name`` is removed."""
    shutil.rmtree(root / name, ignore_errors=True)
    found = ["--data", root, "--ali", root / "ali", "--out", root / name, "--train", "train", "--dev", "dev",
             "--threads", 1, "--schedule.epochs", 1, "--strategy.name", strategy, "--strategy.every", every,
             "--optim.lr", 0.01, *more]  # fmt: skip
    return list(map(str, found))


def train(root: Path, name: str, workers: int, every: str, more: list[str]) -> subprocess.Popen:
    """Begin a training."""
    strategy = "model_average" if workers > 1 else "single"
    command = [sys.executable, "-m", "asr_parallel", "train", "--workers", str(workers)]
    command += options(root, name, strategy, every, more)
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


def compare(root: Path, rounds: int, every: str) -> None:
    """Two, two alone, and one."""
    best = {"one": 0.0, "two_alone": 0.0, "two": 0.0}
    for _ in range(rounds):
        two = speed(root, ("two", train(root, "two", 2, every, [])))
        alone = [(name, train(root, name, 1, every, [])) for name in ("a", "b")]
        two_alone = speed(root, *alone)
        one = speed(root, ("one", train(root, "one", 1, every, [])))
        for name, value in (("one", one), ("two_alone", two_alone), ("two", two)):
            best[name] = max(best[name], value)
    for name, value in best.items():
        Figure(f"{name}_frames_per_s", value, "frames/s").show()
    Figure("two_workers_vs_two_alone", best["two"] / best["two_alone"], "ratio", ">= 0.97", command_line()).show()
    Figure("two_workers_vs_one", best["two"] / best["one"], "ratio", ">= 1.75", command_line()).show()


def costs(root: Path, name: str) -> Costs:
    """What the ledger of the training ``name`` says."""
    return Costs.of(load_config(root / name / "config.json"), Account.read(root / name / "ledger.tsv"))


def project(root: Path) -> None:
    """The efficiency of many workers, from the ledger of two."""
    speed(root, ("big", train(root, "big", 2, "10 minibatches", [*BIG, "--optim.name", "sgd"])))
    found = costs(root, "big")
    here = found.predict(2, Link())
    for what, value in (("compute_s", float(found.draws.mean())), ("wait_s", here.stragglers * here.period_s),
                        ("agree_s", found.agree_s), ("send_s", found.send_s)):  # fmt: skip
        Figure(f"exchange_{what}", value, "s").show()
    for workers in (16, 32):
        efficiency = found.predict(workers, LINK).efficiency
        Figure(f"projected_efficiency_{workers}", efficiency, "ratio", ">= 0.90", command_line()).show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="of frames in an epoch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--every", default="10 minibatches")
    parser.add_argument("--no-projection", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        corpus(Path(directory), args.minutes)
        compare(Path(directory), args.rounds, args.every)
    if not args.no_projection:
        with tempfile.TemporaryDirectory() as directory:
            corpus(Path(directory), 4.3, BIG_PDFS)  # 50 minibatches for each
            project(Path(directory))


if __name__ == "__main__":
    main()
