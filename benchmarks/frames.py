"""What minibatches cost beside the training step they feed, and what a store of 300 hours takes in memory.

    python benchmarks/frames.py [--hours 300] [--seconds 5]

The store is a sparse file in a temporary directory: it has the size of the corpus, but takes no space on disk.
One thread.  Processor time is measured, not time on the wall, so that a busy machine does less harm.
Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from figure import Figure, command_line
from torch import nn

from asr_parallel.align.labels import Labels
from asr_parallel.config import FramesConfig
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import FeatureSet, Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import HEADER_BYTES, header
from asr_parallel.data.frames import FrameSource
from asr_parallel.free_memory import peak_memory

DIM, CONTEXT, BATCH, PDFS, UTT_FRAMES = 40, 5, 1024, 1000, 600


def sparse_set(directory: Path, hours: float, name: str = "big", noise: bool = False) -> tuple[FeatureSet, Labels]:
    """A set of ``hours`` whose frames are a hole in a file, all zeros; or ``noise``, with labels that are noise too."""
    utts = [f"s{i % 500:03d}-{i:07d}" for i in range(max(1, int(hours * 360_000) // UTT_FRAMES))]
    speakers = [u[:4] for u in utts]
    offsets = np.arange(len(utts) + 1, dtype=np.int64) * UTT_FRAMES
    (directory / name).mkdir()
    rng = np.random.default_rng(0)
    with open(store_path(directory, name, "fbank"), "wb") as f:
        f.write(header(np.dtype("<f4"), DIM, int(offsets[-1])))
        if noise:
            f.seek(HEADER_BYTES)
            f.write(rng.standard_normal((int(offsets[-1]), DIM), np.float32).tobytes())
        f.truncate(HEADER_BYTES + int(offsets[-1]) * DIM * 4)
    names = sorted(set(speakers))
    ones = np.ones((len(names), DIM), np.float32)
    Cmvn(names, ones, ones).save(cmvn_path(directory, name, "fbank"))
    durations = np.full(len(utts), UTT_FRAMES / 100)
    Index(utts, speakers, [""] * len(utts), offsets, durations, "").save(index_path(directory, name, "fbank"))
    pdfs = rng.integers(PDFS, size=int(offsets[-1]), dtype=np.int32) if noise else np.zeros(int(offsets[-1]), np.int32)
    labels = Labels(utts, offsets, pdfs)
    return FeatureSet.open(directory, name, "fbank"), labels


def milliseconds(function: Callable[[], object], seconds: float) -> float:
    """Processor time of one call, the best of 5 rounds of together ``seconds``."""
    function()
    best, rounds = float("inf"), 5
    for _ in range(rounds):
        start, calls = time.thread_time(), 0
        while time.thread_time() - start < seconds / rounds:
            function()
            calls += 1
        best = min(best, (time.thread_time() - start) / calls)
    return 1000 * best


def training_step() -> Callable[[], None]:
    """A step of plain SGD of a 440-512x4-1000 network on one batch."""
    sizes = [DIM * (2 * CONTEXT + 1), 512, 512, 512, 512]
    hidden = [m for i, o in itertools.pairwise(sizes) for m in (nn.Linear(i, o), nn.Sigmoid())]
    model = nn.Sequential(*hidden, nn.Linear(512, PDFS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(BATCH, sizes[0]), torch.randint(PDFS, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def data_cost(directory: Path, hours: float, seconds: float) -> float:
    """Milliseconds of a batch from a sparse store of ``hours``, frames drawn from all of it."""
    directory.mkdir()
    features, labels = sparse_set(directory, hours)
    source = FrameSource(features, labels, features.utts, CONTEXT, BATCH, seed=0)
    batches = itertools.chain.from_iterable(source.epoch(e) for e in itertools.count())
    return milliseconds(partial(next, batches), seconds)


def block_cost(directory: Path, hours: float, batches: int = 1000) -> float:
    """Milliseconds of a batch with ``shuffle blocks``: over several blocks, since a batch in each pays for all."""
    directory.mkdir()
    features, labels = sparse_set(directory, hours)
    source = FrameSource(features, labels, features.utts, CONTEXT, BATCH, 0, options=FramesConfig("blocks"))
    iterator, start = source.epoch(0), time.thread_time()
    count = sum(1 for _ in itertools.islice(iterator, batches))
    return 1000 * (time.thread_time() - start) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    args = parser.parse_args()
    torch.set_num_threads(1)

    step, costs = milliseconds(training_step(), args.seconds), []
    Figure("step_440_512x4_1000", step, "ms").show()
    with tempfile.TemporaryDirectory() as directory:
        for hours in dict.fromkeys((1.0, 10.0, 100.0, args.hours)):
            costs.append(data_cost(Path(directory) / f"{hours:g}", hours, args.seconds))
            Figure(f"data_share_of_step_{hours:g}h", costs[-1] / step).show()
            Figure(f"rss_after_{hours:g}h_gb", peak_memory() / 2**30, "GiB").show()
        Figure(f"rss_{args.hours:g}h_gb", peak_memory() / 2**30, "GiB", "<= 1.5", command_line()).show()
        speed = (step + costs[0]) / (step + costs[-1])
        Figure(f"speed_{args.hours:g}h_vs_1h", speed, "ratio", "", command_line()).show()
        Figure(f"full_{args.hours:g}h_frames_per_s", 1000 * BATCH / costs[-1], "frames/s").show()
        blocks = block_cost(Path(directory) / "blocks", args.hours)
        Figure(f"blocks_{args.hours:g}h_frames_per_s", 1000 * BATCH / blocks, "frames/s").show()
        Figure(f"rss_blocks_{args.hours:g}h_gb", peak_memory() / 2**30, "GiB", "<= 1.5", command_line()).show()


if __name__ == "__main__":
    main()
