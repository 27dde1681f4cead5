"""One check, and the way to look at things that may crash or hang: in a process of their own, with a time limit."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]
SECONDS = 120  # a cold disk may need a minute to load torch


@dataclass(frozen=True)
class Check:
    """What was looked at, how it stands, what was seen, and how to mend it ("" if there is nothing to mend)."""

    name: str
    status: Status
    seen: str
    mend: str = ""


def probe(code: str, seconds: float = SECONDS) -> tuple[bool, str]:
    """Run Python ``code`` in a process of its own: (True, its output) or (False, its last words)."""
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace")
    except subprocess.TimeoutExpired:
        return False, f"no answer within {seconds:.0f} s"
    if done.returncode < 0:
        return False, f"killed by signal {-done.returncode}"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else ""


def probed(name: str, code: str, mend: str) -> Check:
    """Check that ``code`` runs; it prints what was seen."""
    ok, text = probe(code)
    return Check(name, "ok" if ok else "fail", text or f"exit without a word from: {code[:60]}", "" if ok else mend)
