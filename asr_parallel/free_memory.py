"""How much memory may still be taken, and how much this process has had."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def available_memory() -> float:
    """Bytes that are free on the machine, or in the control group or under ``ulimit -v`` where that is less.

    Infinite where nothing is known.
    """
    found = re.search(r"MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"))
    free = float(found[1]) * 1024 if found else float("inf")
    limit, used = (_read(f"/sys/fs/cgroup/memory.{n}").strip() for n in ("max", "current"))
    if limit.isdigit() and used.isdigit():
        cache = re.search(r"inactive_file (\d+)", _read("/sys/fs/cgroup/memory.stat"))  # given back when it is needed
        free = min(free, float(limit) - float(used) + (float(cache[1]) if cache else 0.0))
    most, taken = resource.getrlimit(resource.RLIMIT_AS)[0], _read("/proc/self/statm").split()
    if most != resource.RLIM_INFINITY and taken:
        free = min(free, most - float(taken[0]) * resource.getpagesize())
    return free


def peak_memory() -> float:
    """Most bytes that this process has had in memory at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
