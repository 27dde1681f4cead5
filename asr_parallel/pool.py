"""The same function on many items, one process a core, in order."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from asr_parallel.log import Progress

A = TypeVar("A")
B = TypeVar("B")

_function: Callable | None = None


def _start(function: Callable) -> None:
    """Runs in each new worker: one thread a process, and the function that was there before the fork."""
    global _function
    _function = function
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)


def _call(item):  # type: ignore[no-untyped-def]
    assert _function is not None
    return _function(item)


def parallel_map(
    function: Callable[[A], B], items: Sequence[A], jobs: int, what: str = "", unit: str = "utt", chunk: int = 1
) -> Iterator[B]:
    """Yield ``function(item)`` for each of ``items``, in order, computed by ``jobs`` forked processes.

    Workers are forked, so ``function`` may be a closure over big read-only objects (a graph, a memory
    map) that are then shared and never pickled; only items and results travel.  With one job everything
    runs in this process.  ``what`` names the work for the progress line (none when empty).
    """
    bar = Progress(what, len(items), unit) if what else None
    if jobs <= 1 or len(items) <= 1:
        for item in items:
            yield function(item)
            if bar:
                bar.add()
    else:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(min(jobs, len(items)), context, _start, (function,)) as pool:
            for result in pool.map(_call, items, chunksize=chunk):
                yield result
                if bar:
                    bar.add()
    if bar:
        bar.close()
