"""A random order of N items that is computed, not stored.

A worker that trains on 300 hours sees 108 million frames an epoch.  Their order as an array would take most
of a gigabyte and seconds to draw, and starting in the middle would need all of it.  A Feistel network over
numbers in mixed radix (Black & Rogaway 2002, "Ciphers with arbitrary finite domains", method 3) gives item
i of the order in a few operations.
"""

from __future__ import annotations

import math

import numpy as np

ROUNDS = 6  # an even number, so that the two halves end where they began


class Permutation:
    """Maps positions 0..size-1 one to one to 0..size-1, in an order that ``seed``, ``epoch`` and ``part`` decide."""

    def __init__(self, size: int, seed: int, epoch: int, part: int = 0):
        self.size = size
        self._left = max(1, math.isqrt(max(0, size - 1)) + 1)  # left * right is the smallest rectangle >= size
        self._right = max(1, -(-size // self._left))
        self._keys = np.random.SeedSequence([seed, epoch, part]).generate_state(ROUNDS, np.uint64)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Items at ``positions`` (int64 [B], each below ``size``): int64 [B]."""
        items = self._once(positions.astype(np.uint64))
        outside = np.flatnonzero(items >= self.size)
        while len(outside):  # walk the cycle until it is back in range: ends, since it began in range
            items[outside] = self._once(items[outside])
            outside = outside[items[outside] >= self.size]
        return items.astype(np.int64)

    def _once(self, items: np.ndarray) -> np.ndarray:
        """The permutation of 0..left*right-1, uint64 [B] to uint64 [B]."""
        moduli = (np.uint64(self._left), np.uint64(self._right))
        moving, other = np.divmod(items, moduli[1])
        for i, key in enumerate(self._keys):
            moving, other = other, (moving + mix(other + key)) % moduli[i % 2]
        return moving * moduli[1] + other


def mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014): every bit in changes half the bits out."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))) >> np.uint64(1)  # room for an addition
