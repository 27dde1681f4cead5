"""Run a function as several real workers: quick, because they are forked from a process that has torch already."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import TCPStore

from asr_parallel import log
from asr_parallel.parallel.place import Place

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch.distributed", "asr_parallel.train.run", "torch.utils.tensorboard"])


def together(function: Callable[..., Any], *arguments: Any, size: int = 2) -> list[Any]:
    """What ``function(place, *arguments)`` gave on each rank; of a ``UserError``, its text."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    results = CONTEXT.Queue()
    places = [Place(rank, size, rank, size, port=store.port, store_is_there=True) for rank in range(size)]
    children = [CONTEXT.Process(target=_child, args=(results, function, place, arguments)) for place in places]
    for child in children:
        child.start()
    found = dict(results.get(timeout=60) for _ in children)
    for child in children:
        child.join(20)
    return [found[rank] for rank in range(size)]


def _child(results: Any, function: Callable[..., Any], place: Place, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    try:
        value = function(place, *arguments)
    except log.UserError as error:
        value = f"UserError: {error}"
    except BaseException as error:
        value = error
        raise
    finally:
        results.put((place.rank, value.numpy() if isinstance(value, torch.Tensor) else value))
