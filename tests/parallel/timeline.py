"""Workers that compute and exchange on a network, event by event: what ``parallel/cost.py`` has in closed form.

Each worker has a line out and a line in.  A message holds both from when they are free and what it tells is known, for
its bytes over ``bandwidth``; it is there ``latency`` later.
"""

from collections.abc import Iterator

Message = tuple[int, int, float]  # from, to, bytes


def deliver(ready: list[float], rounds: Iterator[list[Message]], bandwidth: float, latency: float) -> list[float]:
    """When each worker has got the last message, if it was ``ready`` for the first one then."""
    for messages in rounds:
        out, into, there = list(ready), [0.0] * len(ready), list(ready)
        for source, to, size in messages:
            begin = max(out[source], into[to])
            out[source] = into[to] = begin + size / bandwidth
            there[to] = max(there[to], out[source] + latency)
        ready = there
    return ready


def ring(size: int, total: float) -> Iterator[list[Message]]:
    """All-reduce: pieces go once round to be summed, and once more to be known."""
    for _ in range(2 * (size - 1)):
        yield [(rank, (rank + 1) % size, total / size) for rank in range(size)]


def swap(size: int, part: float) -> Iterator[list[Message]]:
    """All send a part to each of the others, each beginning with the next rank."""
    yield [(rank, (rank + hop) % size, part) for hop in range(1, size) for rank in range(size)]


def one_by_one(size: int, part: float) -> Iterator[list[Message]]:
    """The same, but each waits for a part before it asks for another."""
    for hop in range(1, size):
        yield [(rank, (rank + hop) % size, part) for rank in range(size)]


def to_first(size: int, part: float) -> Iterator[list[Message]]:
    yield [(rank, 0, part) for rank in range(1, size)]


def from_first(size: int, part: float) -> Iterator[list[Message]]:
    yield [(0, rank, part) for rank in range(1, size)]
