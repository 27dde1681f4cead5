"""The line between a worker and the others: ``10Gbit`` or ``1.25GB`` a second each way, ``50us`` from end to end."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from asr_parallel.log import UserError

NUMBER = r"\s*(\d+\.?\d*|\.\d+)\s*"
BANDWIDTH = re.compile(NUMBER + r"([kKmMgGtT]?)((?i:bit)|B)(?:/s)?\s*")  # what is a small b would be anybody's guess
LATENCY = re.compile(NUMBER + r"(ns|us|µs|ms|s)\s*")
POWER = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Link:
    """``bandwidth`` in bytes a second, ``latency`` in seconds of a small message; by default neither costs time."""

    bandwidth: float = math.inf
    latency: float = 0.0

    def seconds(self, sent: float, messages: float) -> float:
        """Time of ``sent`` bytes in so many messages, one after the other (Hockney 1994: alpha + beta n)."""
        return messages * self.latency + sent / self.bandwidth


def bandwidth(text: str, option: str = "--bandwidth") -> float:
    """Bytes a second.  Raises ``UserError`` that names ``option``."""
    match = BANDWIDTH.fullmatch(text)
    found = float(match[1]) * POWER[match[2].lower()] / (1 if match[3] == "B" else 8) if match else 0.0
    if not found:
        raise UserError(f"{option} {text!r}: give bits or bytes a second, such as 10Gbit, 100Mbit or 1.25GB")
    return found


def latency(text: str, option: str = "--latency") -> float:
    """Seconds.  Raises ``UserError`` that names ``option``."""
    match = LATENCY.fullmatch(text)
    if match is None:
        raise UserError(f"{option} {text!r}: give a time, such as 50us or 0.2ms")
    return float(match[1]) * SECONDS[match[2]]
