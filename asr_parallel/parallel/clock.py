"""Where training stands, and when the next exchange is due."""

from __future__ import annotations

import re
from dataclasses import dataclass

from asr_parallel.log import UserError


@dataclass
class Clock:
    """Counts what one worker has done in an epoch: ``minibatch`` of ``minibatches``, and ``frames``."""

    epoch: int
    minibatches: int
    minibatch: int = 0
    frames: int = 0
    latest: int = 0  # frames of the latest minibatch

    def tick(self, frames: int) -> Clock:
        """Count a minibatch of ``frames`` frames."""
        self.minibatch += 1
        self.frames += frames
        self.latest = frames
        return self

    def passes(self, parts: int) -> bool:
        """Whether the latest minibatch was the last in one of ``parts`` equal parts of the epoch."""
        return self.minibatch * parts // self.minibatches > (self.minibatch - 1) * parts // self.minibatches

    @property
    def last(self) -> bool:
        """Whether the epoch is over."""
        return self.minibatch >= self.minibatches


@dataclass(frozen=True)
class Every:
    """``10 minibatches`` or ``10240 frames`` of one worker, or ``5 s``."""

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str, option: str = "--strategy.every", timed: bool = False) -> Every:
        """Raises ``UserError`` that names ``option``.  Only if ``timed`` may the unit be seconds."""
        unit = r"minibatch(?:es)?|frames?" + (r"|s|seconds?" if timed else "")
        match = re.fullmatch(rf"\s*([\d_,]+)\s*({unit})\s*", text)
        count = int(re.sub(r"[_,]", "", match[1]) or 0) if match else 0
        if match is None or count < 1:
            seconds = ', "N s"' if timed else ""
            raise UserError(f'{option} {text!r}: give "N minibatches"{seconds} or "N frames", N >= 1')
        return cls(count, {"f": "frames", "m": "minibatches", "s": "seconds"}[match[2][0]])

    def due(self, clock: Clock) -> bool:
        """Whether the count was reached by the latest minibatch, or the epoch is over.  Not for seconds.

        Counts start anew with every epoch, so that each ends with an exchange.
        """
        if self.unit == "minibatches":
            return clock.last or clock.minibatch % self.count == 0
        return clock.last or clock.frames // self.count != (clock.frames - clock.latest) // self.count

    def begun(self, minibatch: int, batch: int) -> int:
        """Of an epoch with minibatches of ``batch`` frames: how many lie before the period of number ``minibatch``.

        Of periods in seconds nothing is known in advance: all do.
        """
        if self.unit == "seconds":
            return minibatch
        size = self.size(batch)
        return -(-(minibatch * size // self.count * self.count) // size)

    def size(self, batch: int) -> int:
        """What a minibatch of ``batch`` frames counts."""
        return batch if self.unit == "frames" else 1

    def per_epoch(self, minibatches: int, batch: int) -> int:
        """Exchanges in an epoch of ``minibatches`` minibatches of ``batch`` frames."""
        clock = Clock(0, minibatches)
        return sum(self.due(clock.tick(batch)) for _ in range(minibatches))


@dataclass(frozen=True)
class Span:
    """The beginning of a training: ``2 epochs``, or ``500 minibatches`` or ``100_000 frames`` of the first epoch."""

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str, option: str) -> Span:
        if match := re.fullmatch(r"\s*(\d+)\s*epochs?\s*", text):
            return cls(int(match[1]), "epochs")
        every = Every.parse(text, option)
        return cls(every.count, every.unit)

    def holds(self, clock: Clock) -> bool:
        """Whether the coming minibatch lies in it."""
        if self.unit == "epochs":
            return clock.epoch <= self.count
        return clock.epoch == 1 and (clock.frames if self.unit == "frames" else clock.minibatch) < self.count

    def end(self, clock: Clock, batch: int) -> int:
        """Number of minibatches of ``batch`` frames that it takes of the epoch of ``clock``, once it is over."""
        if self.unit == "epochs" or clock.epoch > 1:
            return 0
        return -(-self.count // (batch if self.unit == "frames" else 1))


@dataclass(frozen=True)
class Cadence:
    """A period, or two: ``1 minibatch until 1 epoch, then 16 minibatches`` (post-local SGD, Lin et al., ICLR 2020)."""

    first: Every
    span: Span | None = None
    then: Every | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--strategy.every") -> Cadence:
        match = re.fullmatch(r"(.+?)\s+until\s+(.+?),\s*then\s+(.+)", text)
        if match is None:
            return cls(Every.parse(text, option, timed=True))
        first, then = (Every.parse(match[i], option, timed=True) for i in (1, 3))
        return cls(first, Span.parse(match[2], option), then)

    def at(self, clock: Clock) -> Every:
        """The period that the coming minibatch lies in."""
        return self.first if self.span is None or self.then is None or self.span.holds(clock) else self.then

    def begun(self, clock: Clock, batch: int) -> int:
        """Minibatches of this epoch, of ``batch`` frames, before the period that the coming one lies in."""
        every = self.at(clock)
        first = self.span.end(clock, batch) if self.span is not None and every is self.then else 0
        return max(every.begun(clock.minibatch, batch), first)
