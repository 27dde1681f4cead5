"""Start K workers on this machine, show what rank 0 says, end all when one fails (or go on: ``restart.py``)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from asr_parallel.log import UserError
from asr_parallel.parallel.place import Place

STOPPED = 143  # exit code of a worker that was asked to stop and has saved its work (128 + SIGTERM)
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)  # the last is what batch systems send before time is over
GRACE = 10.0  # seconds that the others have to end after one has failed


def launch(command: list[str], workers: int, threads: int, log_dir: Path, restarts: int | None = None) -> int:
    """Run ``command`` as ``workers`` processes; give 0, or ``STOPPED`` if they were asked to stop.

    Rank N writes to ``log_dir/rank_N.log``; what rank 0 writes is shown too.  ``STOPS`` are passed on.
    Raises ``UserError`` that names the first rank that failed and shows its last lines.  With ``restarts`` it does so
    only when nobody is left; a worker that fails is started again, at most so often.
    """
    from torch.distributed import PrefixStore, TCPStore

    from asr_parallel.parallel.restart import Crew

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # the system picks a free port
    log_dir.mkdir(parents=True, exist_ok=True)
    logs = [log_dir / f"rank_{r}.log" for r in range(workers)]
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(_signals())
        children: list[subprocess.Popen] = []
        stack.callback(_end, children)
        streams = [stack.enter_context(open(log, "wb")) for log in logs]
        place = Place(0, workers, 0, workers, port=store.port, store_is_there=True)

        def start(rank: int) -> subprocess.Popen:
            there = replace(place, rank=rank, local_rank=rank)
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=streams[rank],
                stderr=subprocess.STDOUT,
                env=os.environ | there.environment() | _limits(threads),
                start_new_session=True,  # Ctrl-C reaches us alone; we pass it on once
            )

        children += [start(rank) for rank in range(workers)]
        if restarts is None:
            return _watch(children, logs, stop)
        return Crew(children, start, logs, PrefixStore(place.seen_by_workers.run, store), restarts).watch(stop)


def _limits(threads: int) -> dict[str, str]:
    """Threads of the numeric libraries."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}


def _watch(children: list[subprocess.Popen], logs: list[Path], stop: threading.Event) -> int:
    passed_on = False
    with open(logs[0], "rb") as shown:
        while True:
            codes = [child.poll() for child in children]
            sys.stderr.write(shown.read().decode("utf-8", "replace"))
            sys.stderr.flush()
            bad = [r for r, code in enumerate(codes) if code not in (None, 0, STOPPED)]
            if bad and not passed_on:
                time.sleep(1.0)  # the one whose end made the others fail may be a little slower to end
                fail(children, logs)
            if all(code is not None for code in codes):
                return STOPPED if passed_on or STOPPED in codes else 0
            if stop.is_set() and not passed_on:
                passed_on = True
                for child in children:
                    child.terminate()
            time.sleep(0.1)


def fail(children: list[subprocess.Popen], logs: list[Path]) -> None:
    """Raise for those that have failed: of several, the one that does not merely miss another comes first."""
    codes = [child.poll() for child in children]
    bad = [rank for rank, code in enumerate(codes) if code not in (None, 0, STOPPED)]
    texts = {rank: logs[rank].read_text(encoding="utf-8", errors="replace").splitlines()[-20:] for rank in bad}
    first = min(bad, key=lambda rank: any("did not come" in line or "has ended" in line for line in texts[rank]))
    shown = "\n".join(f"  rank {first} | {line}" for line in texts[first])
    frozen = [f"rank {rank} is stopped by a signal (SIGSTOP)" for rank, child in enumerate(children) if _frozen(child)]
    what = "; ".join([*frozen, f"rank {first} of {len(logs)} {how(codes[first] or 0)}"])
    raise UserError(f"{what}; all workers are ended. Last lines of {logs[first]}:\n{shown}")


def how(code: int) -> str:
    """How a process ended."""
    if code == -signal.SIGKILL:
        return "was ended by SIGKILL (by hand, or by the kernel for want of memory, which `dmesg` tells)"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _frozen(child: subprocess.Popen) -> bool:
    """Whether a process that still exists is stopped (Linux)."""
    try:
        text = Path(f"/proc/{child.pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "T"


def _end(children: list[subprocess.Popen]) -> None:
    """End every child that still runs: first politely."""
    for child in children:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + GRACE
    for child in children:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that is set by a signal to stop; a second one acts as if nobody had caught it."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in STOPS}

    def note(number: int, frame: object) -> None:
        asked.set()
        signal.signal(number, signal.default_int_handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
