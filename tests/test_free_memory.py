"""Free memory from the files that Linux keeps, and from the limits on a process."""

from __future__ import annotations

import resource

import pytest

from asr_parallel import free_memory

GIB = 2**30


@pytest.fixture
def files(monkeypatch):
    """A machine with 16 GiB free, of which a control group may have 4, and no other limit."""
    found = {
        "/proc/meminfo": f"MemTotal: 1 kB\nMemAvailable:   {16 * GIB // 1024} kB\n",
        "/sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
        "/sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
    }
    monkeypatch.setattr(free_memory, "_read", lambda path: found.get(path, ""))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return found


def test_least_of_machine_and_control_group(files):
    assert free_memory.available_memory() == GIB
    files["/sys/fs/cgroup/memory.stat"] = f"active_file 7\ninactive_file {2 * GIB}\n"
    assert free_memory.available_memory() == 3 * GIB  # what files take is given back
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert free_memory.available_memory() == 16 * GIB
    del files["/proc/meminfo"]
    assert free_memory.available_memory() == float("inf")


def test_limit_of_the_process(files, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (GIB, GIB) if which == resource.RLIMIT_AS else (1, 1))
    files["/proc/self/statm"] = f"{GIB // 4 // resource.getpagesize()} 7 7"
    assert free_memory.available_memory() == GIB * 3 / 4


def test_this_machine():
    assert free_memory.available_memory() > 2**20
    assert 2**20 < free_memory.peak_memory() < 2**40
