"""A step of training with its data, beside the matrix products in it, and beside what others do.

    python benchmarks/step.py [--batch 256] [--width 512] [--layers 4] [--pdfs 1200] [--rounds 8]

One thread.  All are measured in turns, round by round, and the best round of each counts: on a shared machine that
is the one with the least harm done.  ``step_vs_gemm`` is the time of the matrix products alone (forward, and both of
the backward pass but for the first layer's inputs) divided by the time of the whole step: gathering a minibatch from
the store, forward, backward, update, counting.  Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from figure import Figure, command_line
from frames import CONTEXT, DIM, sparse_set
from torch import Tensor, nn

from asr_parallel.config import ModelConfig, OptimConfig
from asr_parallel.data.frames import FrameSource
from asr_parallel.model import Dnn, make_model
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.train.loop import count

Step = Callable[[], None]


def gemms(model: Dnn, batch: int, dtype: torch.dtype) -> Step:
    """The matrix products of a step of ``model``, into memory that is there."""
    weights = [layer.weight.detach().to(dtype) for layer in model.layers]
    sizes = [weights[0].shape[1], *(w.shape[0] for w in weights)]
    xs = [torch.randn(batch, n).to(dtype) for n in sizes]
    grads = [torch.empty_like(w) for w in weights]

    def step() -> None:
        for x, w, y in zip(xs, weights, xs[1:]):
            torch.mm(x, w.T, out=y)
        for i in reversed(range(len(weights))):
            torch.mm(xs[i + 1].T, xs[i], out=grads[i])
            if i:
                torch.mm(xs[i + 1], weights[i], out=xs[i])

    return step


def ours(frames: FrameSource, model: Dnn, optim: OptimConfig, bf16: bool = False) -> Step:
    """What ``train.loop`` does for a minibatch."""
    optimizer = make_optimizer(optim, model)
    batches = itertools.chain.from_iterable(frames.epoch(e) for e in itertools.count(1))
    tally = torch.zeros(5, dtype=torch.float64)

    def step() -> None:
        batch = next(batches)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(batch.x).float()
        loss = F.cross_entropy(logits, batch.y)
        optimizer.step(loss, lr=0.01)
        count(tally, loss, logits, batch.y)

    return step


def plain(model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]]) -> Step:
    """The loop that most people write: ``torch.optim.SGD`` on what ``batches`` gives."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        x, y = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def in_chunks(frames: FrameSource, batch: int, size: int = 100_000) -> Iterator[tuple[Tensor, Tensor]]:
    """As pytorch-kaldi feeds its networks: a chunk is spliced, normalised and shuffled in memory, then cut up."""
    rng = np.random.default_rng(0)
    while True:
        for chunk in frames.chunks(size):
            order = rng.permutation(len(chunk))
            x, y = chunk.x.numpy()[order], chunk.y.numpy()[order]
            for begin in range(0, len(y) - batch + 1, batch):
                yield torch.from_numpy(x[begin : begin + batch]), torch.from_numpy(y[begin : begin + batch])


class Spliced(torch.utils.data.Dataset):
    """Frames one by one, as a map-style data set gives them."""

    def __init__(self, frames: FrameSource):
        self.frames = frames

    def __len__(self) -> int:
        return self.frames.num_frames

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        batch = self.frames.gather(np.array([index]))
        return batch.x[0], batch.y[0]


def from_loader(frames: FrameSource, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from torch.utils.data.DataLoader(Spliced(frames), batch, shuffle=True, drop_last=True)


def has_bf16() -> bool:
    """Whether the processor multiplies bfloat16 by itself; others are slow at it, and there is no target for them."""
    return "bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")


def best_times(steps: dict[str, Step], rounds: int, seconds: float = 0.5) -> dict[str, float]:
    """Processor seconds of each step: the best of ``rounds`` rounds of about ``seconds``."""
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        for _ in range(3):
            step()
    for _ in range(rounds):
        for name, step in steps.items():
            begin, number = time.thread_time(), 0
            while time.thread_time() - begin < seconds:
                step()
                number += 1
            best[name] = min(best[name], (time.thread_time() - begin) / number)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("batch", 256), ("width", 512), ("layers", 4), ("pdfs", 1200), ("rounds", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        features, labels = sparse_set(Path(directory), 1.0)
        frames = FrameSource(features, labels, features.utts, CONTEXT, args.batch, seed=0)

        def model() -> Dnn:
            config = ModelConfig(args.layers, args.width, "relu", "glorot", CONTEXT)
            return make_model(config, DIM * (2 * CONTEXT + 1), args.pdfs, 0)

        sgd, ng = OptimConfig("sgd", lr=0.01), OptimConfig("ngsgd", lr=0.01)
        batches, loader = (
            itertools.chain.from_iterable(frames.epoch(e) for e in itertools.count()),
            from_loader(frames, args.batch),
        )
        t = best_times(
            {
                "gemm": gemms(model(), args.batch, torch.float32),
                "gemm_bf16": gemms(model(), args.batch, torch.bfloat16),
                "sgd": ours(frames, model(), sgd),
                "ngsgd": ours(frames, model(), ng),
                "ngsgd_8": ours(frames, model(), OptimConfig("ngsgd", lr=0.01, update_period=8)),
                "bf16": ours(frames, model(), sgd, bf16=True),
                "data": lambda: next(batches) and None,
                "loader": lambda: next(loader) and None,
                "chunks": plain(model(), in_chunks(frames, args.batch)),
            },
            args.rounds,
        )
    for name, seconds in t.items():
        Figure(f"step_{name}_ms", 1000 * seconds, "ms").show()
    for name, value, target in (
        ("step_vs_gemm_fp32", t["gemm"] / t["sgd"], ">= 0.92"),
        ("step_vs_gemm_bf16", t["gemm_bf16"] / t["bf16"], ">= 0.88"),
        ("bf16_vs_fp32", t["sgd"] / t["bf16"], ">= 1.8" if has_bf16() else ""),
        ("ngsgd_vs_sgd", t["ngsgd"] / t["sgd"], "<= 1.25"),
        ("ngsgd_period_8_vs_sgd", t["ngsgd_8"] / t["sgd"], ""),
        ("dataloader_vs_ours", t["loader"] / t["data"], ""),
        ("pytorch_kaldi_vs_ours", t["chunks"] / t["sgd"], ""),
    ):
        Figure(name, value, "ratio", target, command_line()).show()


if __name__ == "__main__":
    main()
