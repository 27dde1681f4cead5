"""The next minibatches are made while the step runs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def made_ahead(make: Callable[[int], T], numbers: Sequence[int], ahead: int) -> Iterator[T]:
    """``make(i)`` for each of ``numbers``; a thread makes up to ``ahead`` of them in advance, unless that is 0.

    An error in the thread is raised here; the thread ends when this iterator is closed.
    """
    if ahead <= 0:
        yield from map(make, numbers)
        return
    ready: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(ahead)
    closed = threading.Event()

    def put(item: tuple[T] | BaseException | None) -> bool:
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for i in numbers:
                if not put((make(i),)):
                    return
            put(None)
        except BaseException as e:
            put(e)

    threading.Thread(target=work, name="frames", daemon=True).start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        closed.set()
