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
    """``10 minibatches`` or ``10240 frames`` of one worker."""

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str, option: str = "--strategy.every") -> Every:
        match = re.fullmatch(r"\s*([\d_,]+)\s*(minibatch(?:es)?|frames?)\s*", text)
        count = int(re.sub(r"[_,]", "", match[1]) or 0) if match else 0
        if match is None or count < 1:
            raise UserError(f'{option} {text!r}: give "N minibatches" or "N frames", N >= 1')
        return cls(count, "frames" if match[2].startswith("frame") else "minibatches")

    def due(self, clock: Clock) -> bool:
        """Whether the count was reached by the latest minibatch, or the epoch is over.

        Counts start anew with every epoch, so that each ends with an exchange.
        """
        if self.unit == "minibatches":
            return clock.last or clock.minibatch % self.count == 0
        return clock.last or clock.frames // self.count != (clock.frames - clock.latest) // self.count

    def begun(self, minibatch: int, batch: int) -> int:
        """Of an epoch with minibatches of ``batch`` frames: how many lie before the period of number ``minibatch``."""
        size = self.size(batch)
        return -(-(minibatch * size // self.count * self.count) // size)

    def size(self, batch: int) -> int:
        """What a minibatch of ``batch`` frames counts."""
        return batch if self.unit == "frames" else 1

    def per_epoch(self, minibatches: int, batch: int) -> int:
        """Exchanges in an epoch of ``minibatches`` minibatches of ``batch`` frames."""
        clock = Clock(0, minibatches)
        return sum(self.due(clock.tick(batch)) for _ in range(minibatches))
