"""Which worker trains on which utterances, and how often the workers meet."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from asr_parallel.log import UserError


def make_shards(num_frames: Mapping[str, int] | Sequence[tuple[str, int]], workers: int) -> list[list[str]]:
    """Deal utterances to ``workers``: longest first, each to the worker with the fewest frames so far.

    This is `distribute_scp.pl --mode frame` of Su & Chen's recipe; ties go to the lowest rank, and
    utterances of equal length are taken in the order of their names, so that the order of the input does
    not matter.  Workers' totals differ by at most the longest utterance.  Raises ``UserError`` if
    a worker would get nothing.
    """
    items = list(num_frames.items()) if isinstance(num_frames, Mapping) else list(num_frames)
    if workers < 1 or len(items) < workers:
        raise UserError(f"{len(items)} utterances cannot be dealt to {workers} workers: use fewer workers")
    shards: list[list[str]] = [[] for _ in range(workers)]
    heap = [(0, rank) for rank in range(workers)]
    for utt, frames in sorted(items, key=lambda item: (-item[1], item[0])):
        total, rank = heap[0]
        shards[rank].append(utt)
        heapq.heapreplace(heap, (total + frames, rank))
    return shards


def exchanges_per_epoch(shard_frames: Sequence[int], batch: int, every_minibatches: int) -> int:
    """Exchanges that every worker takes part in in an epoch: what the smallest shard affords.

    ``shard_frames`` are frames of each worker.  Surplus minibatches of larger shards are left out, so that
    nobody waits for an exchange that will not come.  Raises ``UserError`` if the smallest shard does not last to the
    first one.
    """
    exchanges = min(shard_frames) // batch // every_minibatches
    if exchanges < 1:
        rank = min(range(len(shard_frames)), key=lambda r: shard_frames[r])
        raise UserError(
            f"rank {rank} has {shard_frames[rank]} frames, too few for {every_minibatches} minibatches of {batch} "
            "between exchanges: use fewer workers, a smaller batch or more frequent exchanges"
        )
    return exchanges
