"""An exchange that runs in a thread while its worker trains on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from asr_parallel.parallel.comm import Comm


def in_thread(work: Callable[[Comm], int], comm: Comm) -> Callable[[], int]:
    """Begin ``work`` in a thread, on GPUs in a stream that first waits for what the caller has asked for so far."""
    ends: list[Any] = []
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    stream = torch.cuda.Stream() if on_gpu else None
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream())

    def run() -> None:
        try:
            with torch.no_grad(), torch.cuda.stream(stream):
                ends.append(work(comm))
            if stream is not None:
                stream.synchronize()
        except BaseException as error:  # is raised again where the result is waited for
            ends[:] = [error]

    thread = threading.Thread(target=run, name=f"exchange of rank {comm.rank}", daemon=True)
    thread.start()

    def result() -> int:
        thread.join()
        if isinstance(ends[0], BaseException):
            raise ends[0]
        return ends[0]

    return result
