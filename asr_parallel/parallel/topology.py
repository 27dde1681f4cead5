"""Who exchanges with whom in a round: pure functions of (round, rank, number of workers).

Where all workers take the mean of all, a round costs each 2 (K - 1) / K vectors and waits for the slowest of K.  Here a
worker sends its vector to one other, receives one, and takes the mean of two: one vector a round, and what one
worker has learnt travels over several.  Every round is a permutation with weights 1/2, so the mean over workers stays.

- ``ring``: to the next rank, always.
- ``hopping_ring``: to the rank h further on, h = 1, 2, ..., K - 1 by turns.
- ``butterfly``: with rank XOR 2^(round mod log2 K), so that log2 K rounds are the exact mean.  K is a power of two.

(The reductions in the code of Su & Chen 2015, of which the paper keeps the mean of all.)
"""

from __future__ import annotations

from collections.abc import Callable

from asr_parallel.log import UserError

Partners = tuple[int, int]  # the rank to send to, the rank to receive from


def ring(number: int, rank: int, size: int) -> Partners:
    return (rank + 1) % size, (rank - 1) % size


def hopping_ring(number: int, rank: int, size: int) -> Partners:
    hop = number % (size - 1) + 1 if size > 1 else 0
    return (rank + hop) % size, (rank - hop) % size


def butterfly(number: int, rank: int, size: int) -> Partners:
    if size & (size - 1):
        raise UserError(f"--strategy.topology butterfly is for 2, 4, 8, ... workers, not {size}: give hopping_ring")
    bits = size.bit_length() - 1
    other = rank ^ (1 << number % bits) if bits else rank
    return other, other


TOPOLOGIES: dict[str, Callable[[int, int, int], Partners]] = {
    "ring": ring,
    "hopping_ring": hopping_ring,
    "butterfly": butterfly,
}
