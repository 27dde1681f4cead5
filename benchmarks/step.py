"""A step of training with its data, beside the matrix products in it, and beside what others do.

    python benchmarks/step.py [--batch 256] [--rounds 8] [--only 512x4_1threads]

Networks 440-512x4-1000 and 440-2048x6-8806, on one thread and on two.  All are measured in turns, round by round, and
the best round of each counts: on a shared machine that is the one with the least harm done; on one thread it is
processor time.  ``step_vs_gemm`` is the time of the matrix products alone (forward, and both of the backward pass but
for the first layer's inputs) divided by the time of the whole step: gathering a minibatch from the store, forward,
backward, update, counting.  ``step_part_*`` say what else is in it.  Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from figure import Figure, command_line
from frames import CONTEXT, DIM, sparse_set
from torch import Tensor, nn

from asr_parallel.config import ModelConfig, OptimConfig
from asr_parallel.criterion import correct
from asr_parallel.data.frames import FrameSource
from asr_parallel.heap import keep_freed_memory
from asr_parallel.model import Dnn, make_model
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.train.loop import count

Step = Callable[[], object]


def gemms(model: Dnn, batch: int, dtype: torch.dtype) -> Step:
    """The matrix products of a step of ``model``, into memory that is there."""
    named = model.layers.named_parameters()
    weights = [p.detach().to(dtype) for name, p in named if name.endswith("weight")]
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
        count(tally, loss, correct(logits, batch.y), len(batch.y))

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


def parts(frames: FrameSource, model: Dnn) -> dict[str, Step]:
    """What else than matrix products is in a step, alone and so with warmer caches than there."""
    batch = next(frames.epoch(1))
    logits = model(batch.x).detach().requires_grad_()
    hidden = torch.randn(len(batch), model.config.width)
    batches = itertools.chain.from_iterable(frames.epoch(e) for e in itertools.count(1))
    tally, loss = torch.zeros(5, dtype=torch.float64), logits.detach().mean()

    def activations() -> None:
        for _ in range(model.config.layers):
            model.activation(hidden)
            model.activation(hidden)  # the derivative costs about the same

    return {
        "data": lambda: next(batches),
        "softmax": lambda: F.cross_entropy(logits, batch.y).backward(),
        "activations": activations,
        "count": lambda: count(tally, loss, correct(logits, batch.y), len(batch.y)),
    }


def best_times(steps: dict[str, Step], rounds: int, seconds: float) -> dict[str, float]:
    """Seconds of each step: the best of ``rounds`` rounds of about ``seconds``."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        for _ in range(3):
            step()
    for _ in range(rounds):
        for name, step in steps.items():
            begin, number = clock(), 0
            while clock() - begin < seconds:
                step()
                number += 1
            best[name] = min(best[name], (clock() - begin) / number)
    return best


@dataclass(frozen=True)
class Setting:
    """A network 440-``width`` x ``layers``-``pdfs`` on ``threads``; the first one gives the figures with targets."""

    layers: int
    width: int
    pdfs: int
    threads: int

    def __str__(self) -> str:
        return f"{self.width}x{self.layers}_{self.threads}threads"


SETTINGS = [Setting(4, 512, 1000, 1), Setting(4, 512, 1000, 2), Setting(6, 2048, 8806, 1), Setting(6, 2048, 8806, 2)]


RATIOS = [  # name, of which times, target
    ("step_vs_gemm_fp32", "gemm", "sgd", ">= 0.92"),
    ("step_vs_gemm_bf16", "gemm_bf16", "bf16", ">= 0.88"),
    ("bf16_vs_fp32", "sgd", "bf16", ">= 1.8" if has_bf16() else ""),
    ("ngsgd_vs_sgd", "ngsgd", "sgd", "<= 1.25"),
    ("ngsgd_period_8_vs_sgd", "ngsgd_8", "sgd", ""),
    ("dataloader_vs_ours", "loader", "part_data", ""),
    ("pytorch_kaldi_vs_ours", "chunks", "sgd", ""),
]


def measure(setting: Setting, frames: FrameSource, rounds: int, seconds: float) -> None:
    """Print the figures of ``setting``."""
    torch.set_num_threads(setting.threads)
    main = setting == SETTINGS[0]

    def model() -> Dnn:
        config = ModelConfig(setting.layers, setting.width, "relu", "glorot", CONTEXT)
        return make_model(config, DIM * (2 * CONTEXT + 1), setting.pdfs, 0)

    sgd, ng = OptimConfig("sgd", lr=0.01), OptimConfig("ngsgd", lr=0.01)
    steps: dict[str, Step] = {
        "gemm": gemms(model(), frames.batch, torch.float32),
        "sgd": ours(frames, model(), sgd),
        "ngsgd": ours(frames, model(), ng),
        "ngsgd_8": ours(frames, model(), OptimConfig("ngsgd", lr=0.01, update_period=8)),
    }
    if main or has_bf16():
        steps |= {
            "gemm_bf16": gemms(model(), frames.batch, torch.bfloat16),
            "bf16": ours(frames, model(), sgd, bf16=True),
        }
    if main:
        loader = from_loader(frames, frames.batch)
        steps |= {"part_" + name: step for name, step in parts(frames, model()).items()}
        steps |= {"loader": lambda: next(loader), "chunks": plain(model(), in_chunks(frames, frames.batch))}
    t = best_times(steps, rounds, seconds)
    end = "" if main else f"_{setting}"
    for name, took in t.items():
        Figure(f"step_{name}_ms{end}", 1000 * took, "ms").show()
    for name, above, below, target in RATIOS:
        if above in t and below in t:
            Figure(name + end, t[above] / t[below], "ratio", target, command_line()).show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a round of a step")
    parser.add_argument("--only", choices=[str(s) for s in SETTINGS], help="of the settings, this one")
    args = parser.parse_args()
    keep_freed_memory()  # as `train` does
    with tempfile.TemporaryDirectory() as directory:
        features, labels = sparse_set(Path(directory), 1.0, noise=True)
        frames = FrameSource(features, labels, features.utts, CONTEXT, args.batch, seed=0)
        for setting in SETTINGS:
            if args.only in (None, str(setting)):
                rounds = args.rounds if setting.width < 1000 else max(2, args.rounds // 3)
                measure(setting, frames, rounds, args.seconds)


if __name__ == "__main__":
    main()
