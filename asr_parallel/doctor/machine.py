"""Cores, memory, disks, permissions and tools of this machine."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile

from asr_parallel.config import cores
from asr_parallel.doctor.check import Check, Status
from asr_parallel.free_memory import available_memory

GB = 1e9


def check_cores() -> Check:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    seen = f"{cores()} usable of {os.cpu_count()}" + (f", OMP_NUM_THREADS={threads}" if threads else "")
    if threads.isdigit() and int(threads) > cores():
        return Check("cores", "warn", seen, "more threads than cores slow everything down: unset OMP_NUM_THREADS")
    return Check("cores", "ok", seen)


def check_memory() -> Check:
    """Free memory of the machine, or of the control group where that is less."""
    free = available_memory()
    if math.isinf(free):
        return Check("memory", "warn", "cannot tell how much is free", "see that 4 GB are free")
    return _enough("memory", free, 4 * GB, 1 * GB, "close other programs or use fewer --jobs and workers")


def check_disk() -> Check:
    return _enough(
        "disk", shutil.disk_usage(".").free, 5 * GB, 1 * GB, "make room, or work in a folder on a larger disk"
    )


def check_shared_memory() -> Check:
    if not os.path.isdir("/dev/shm"):
        return Check("/dev/shm", "warn", "not there", "mount a tmpfs there (docker: --shm-size=1g)")
    return _enough(
        "/dev/shm", shutil.disk_usage("/dev/shm").free, 0.25 * GB, 0, "docker: --shm-size=1g, or remount it larger"
    )


def check_write() -> Check:
    """The folder we are in, and the one for temporary files."""
    for folder in (".", tempfile.gettempdir()):
        try:
            with tempfile.TemporaryFile(dir=folder) as f:
                f.write(b"x")
        except OSError as e:
            return Check("writing", "fail", f"{folder}: {e.strerror}", "work in a folder of yours, or set TMPDIR")
    return Check("writing", "ok", "this folder and the temporary one")


def check_locale() -> Check:
    """Texts are UTF-8; a C locale breaks printing them and file names with accents."""
    encodings = {sys.getfilesystemencoding().lower(), (sys.stdout.encoding or "utf-8").lower()}
    if encodings <= {"utf-8", "utf8"}:
        return Check("locale", "ok", "UTF-8")
    return Check("locale", "warn", ", ".join(sorted(encodings)), "export LC_ALL=C.UTF-8 (or PYTHONUTF8=1)")


def check_demo_tools() -> Check:
    """The corpus of the default recipe is a Debian package, which apt-get fetches and dpkg-deb unpacks."""
    missing = [tool for tool in ("apt-get", "dpkg-deb") if not shutil.which(tool)]
    if not missing:
        return Check("demo corpus", "ok", "apt-get and dpkg-deb found")
    mend = (
        "run the demo on Debian or Ubuntu, or fetch the package flight-of-the-amazon-queen elsewhere "
        "and say where it is: make demo SOURCE=FILE"
    )
    return Check("demo corpus", "warn", f"{' and '.join(missing)} not found", mend)


def _enough(name: str, free: float, wanted: float, needed: float, mend: str) -> Check:
    status: Status = "ok" if free >= wanted else "warn" if free >= needed else "fail"
    return Check(name, status, f"{free / GB:.1f} GB free", "" if status == "ok" else mend)
