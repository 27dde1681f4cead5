"""What the scripts that prepare a corpus share: freshness, the table of sets, errors as exit codes."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from asr_parallel.config import cuts_path
from asr_parallel.files import read_json
from asr_parallel.log import UserError, setup

NOT_DONE = "not done yet"
Table = dict[str, dict[str, float]]


class CorpusMissing(UserError):
    """The corpus can't be had here; the message has the ways out.  Exit code 3."""


def code_hash(files: Iterable[Path]) -> str:
    """A result depends on the code that made it, too."""
    return hashlib.sha256(b"".join(p.read_bytes() for p in sorted(files))).hexdigest()


def stale(out: Path, now: Mapping[str, Any]) -> list[str]:
    """Why the corpus in ``out`` has to be made (again) from what ``now`` says; empty if it is fresh."""
    try:
        report = read_json(out / "prepare.json")
        before, sets = report["made_from"], list(report["sets"])
    except (OSError, ValueError, KeyError):
        return [NOT_DONE]
    reasons = [
        f"{k} {before.get(k)} -> {v}" if k != "code" else "new code" for k, v in now.items() if before.get(k) != v
    ]
    return reasons + [f"missing {p}" for p in (cuts_path(out, name) for name in sets) if not p.is_file()]


def nothing_to_do(out: Path, reasons: list[str]) -> bool:
    """Say why one has to prepare, or that nothing has to be done; a plan is only said."""
    if os.environ.get("ASR_PARALLEL_PLAN"):
        print(f"  {'prepare':10s} {'run: ' + '; '.join(reasons[:3]) if reasons else 'fresh'}")
        return True
    text = "; ".join(reasons[:5]) if reasons else f"fresh, nothing to do ({out})"
    print(f"prepare: {text}", file=sys.stderr)
    return not reasons


def show(table: Table, dropped: Mapping[str, Mapping[str, int]]) -> None:
    """Print utterances, speakers, minutes and words of each set, and what was left out of it."""
    print(f"{'set':<12}{'utts':>7}{'speakers':>10}{'minutes':>9}{'words':>9}  dropped")
    for name, row in table.items():
        why = ", ".join(f"{n} {reason}" for reason, n in dropped.get(name, {}).items() if n)
        print(f"{name:<12}{row['utts']:>7}{row['speakers']:>10}{row['minutes']:>9.1f}{row['words']:>9}  {why}")


def exit_code(work: Callable[[], None]) -> int:
    """Do ``work``; errors that a user can mend become a message and an exit code."""
    setup()
    try:
        work()
    except UserError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 3 if isinstance(error, CorpusMissing) else 1
    except OSError as error:  # disk full, no right to write
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("prepare: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0
