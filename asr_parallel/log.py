"""What the user sees: lines with a time, progress with rate and time left, errors without traceback."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

T = TypeVar("T")


class UserError(Exception):
    """Something the user can mend.  The message names the file, line, utterance or rank, and the way out.

    ``cli.py`` prints it without a traceback and exits with 1.
    """


def logger(name: str) -> logging.Logger:
    """Logger of a module; ``setup`` decides where its lines go."""
    return logging.getLogger(name)


def setup(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Send log lines, each with the time of day, to ``stream`` (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    root = logging.getLogger("asr_parallel")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


def duration(seconds: float) -> str:
    """``3:05`` or ``1:02:03``."""
    minutes, s = divmod(int(seconds + 0.5), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}" if hours else f"{m}:{s:02d}"


class Progress:
    """Counts work done and shows rate and time left.

    On a terminal one line is redrawn; elsewhere a line is printed at most every ``period`` seconds, so
    that logs stay short.  ``unit_scale`` divides counts for display (e.g. seconds of audio to hours).
    """

    def __init__(self, what: str, total: float, unit: str = "", period: float = 10.0, stream: TextIO | None = None):
        self.what, self.total, self.unit = what, total, unit
        self.stream = stream or sys.stderr
        self.tty = bool(getattr(self.stream, "isatty", lambda: False)())
        self.period = 0.2 if self.tty else period
        self.done = 0.0
        self.start = self.last = time.monotonic()
        self.drawn = False

    def add(self, amount: float = 1.0, note: str = "") -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.last >= self.period and self.done < self.total:
            self.last = now
            self._show(now, note)

    def _show(self, now: float, note: str = "", end: bool = False) -> None:
        spent = now - self.start
        rate = self.done / max(spent, 1e-9)
        left = duration((self.total - self.done) / rate) if rate > 0 else "?"
        share = 100 * self.done / self.total if self.total else 100.0
        times = f"{duration(spent)}" if end else f"{duration(spent)} spent, {left} left"
        done = f"{self.done:,.0f}/{self.total:,.0f} {self.unit}"
        text = f"{self.what}: {share:3.0f} % ({done}) {rate:,.0f}/s, {times} {note}"
        head, tail = ("\r\x1b[K", "") if self.tty else (time.strftime("%H:%M:%S "), "\n")
        print(head + text.rstrip(), end=tail, file=self.stream, flush=True)
        self.drawn = True

    def close(self, note: str = "") -> None:
        """Show the last state, if any line was shown before."""
        if self.drawn:
            self._show(time.monotonic(), note, end=True)
            if self.tty:
                print(file=self.stream, flush=True)


def progress(items: Iterable[T], what: str, total: float, unit: str = "") -> Iterator[T]:
    """Yield ``items`` while showing how far it is."""
    bar = Progress(what, total, unit)
    for item in items:
        yield item
        bar.add()
    bar.close()
