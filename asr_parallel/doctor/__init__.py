"""Verb ``doctor``: what is broken in this installation or on this machine, and how to mend it."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from asr_parallel.config import DoctorConfig, cores
from asr_parallel.doctor import machine, software
from asr_parallel.doctor.check import Check

CHECKS: tuple[Callable[[], Check], ...] = (
    software.check_python,
    software.check_packages,
    software.check_torch,
    software.check_torchaudio,
    software.check_lhotse,
    software.check_fst,
    software.check_audio,
    software.check_two_processes,
    software.check_mpi,
    software.check_interfaces,
    machine.check_cores,
    machine.check_memory,
    machine.check_disk,
    machine.check_shared_memory,
    machine.check_write,
    machine.check_locale,
    machine.check_demo_tools,
)


def run(config: DoctorConfig) -> int:
    """Print all checks; 1 if one failed, else 0."""
    checks = examine()
    if config.json:
        print(json.dumps([asdict(c) for c in checks], indent=1))
    else:
        print(table(checks))
    return int(any(c.status == "fail" for c in checks))


def examine() -> list[Check]:
    """All checks, in a fixed order; slow ones side by side."""
    with ThreadPoolExecutor(max_workers=cores()) as pool:
        return list(pool.map(survive, CHECKS))


def survive(check: Callable[[], Check]) -> Check:
    """What ``check`` says, or a failure in its name if it breaks down itself."""
    try:
        return check()
    except Exception as e:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return Check(name, "fail", f"the check broke down: {type(e).__name__}: {e}", "please report this")


def table(checks: list[Check]) -> str:
    """Plain text: one line a check, the remedy below it, a sum at the end."""
    wide = max(len(c.name) for c in checks)
    lines = []
    for c in checks:
        lines.append(f"{c.status:4s}  {c.name:{wide}s}  {c.seen}")
        if c.mend and c.status != "ok":
            lines.append(f"      {'':{wide}s}  -> {c.mend}")
    count = {s: sum(c.status == s for c in checks) for s in ("ok", "warn", "fail")}
    lines.append(f"{count['ok']} ok, {count['warn']} warnings, {count['fail']} failures")
    return "\n".join(lines)
