"""A figure that a benchmark measures: one JSON line, which ``python -m benchmarks`` collects in ``bench.json``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """``target`` such as ``>= 0.92``, or empty for a figure that only explains others; ``holds`` follows from it."""

    name: str
    value: float
    unit: str = "ratio"
    target: str = ""
    command: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None without one."""
        if not self.target:
            return None
        relation, bound = self.target.split()[:2]
        return self.value >= float(bound) if relation == ">=" else self.value <= float(bound)

    def show(self) -> None:
        """Print it as a line."""
        print(json.dumps(asdict(self) | {"value": round(self.value, 4), "holds": self.holds}), flush=True)


def command_line() -> str:
    """The command that is running, for ``Figure.command``."""
    return " ".join(["python", "benchmarks/" + sys.argv[0].rpartition("/")[2], *sys.argv[1:]])
