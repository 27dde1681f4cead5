"""The same function on many items, one process a core, in order."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from asr_parallel.log import Progress

A = TypeVar("A")
B = TypeVar("B")

_function: Callable | None = None
_parent = 0  # the process that forked the workers


def end_with_parent() -> None:
    """Let Linux end this process when its parent dies, even by kill -9, so that no orphans go on working."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
    if os.getppid() != _parent:  # it died before the call
        os._exit(1)


def _start(function: Callable) -> None:
    """Runs in each new worker: one thread a process, and the function that was there before the fork."""
    global _function
    _function = function
    end_with_parent()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)


def _call(item: Any) -> Any:
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
        global _parent
        _parent = os.getpid()
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(min(jobs, len(items)), context, _start, (function,)) as pool:
            for result in pool.map(_call, items, chunksize=chunk):
                yield result
                if bar:
                    bar.add()
    if bar:
        bar.close()
