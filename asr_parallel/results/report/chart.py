"""Line charts, as places on a canvas that a template draws in the colours of the page: light, dark or printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from matplotlib.ticker import MaxNLocator

Point = tuple[float, float]
WIDTH, HEIGHT = 360, 230  # of the canvas; a narrow page shows it at about this size
LEFT, RIGHT, TOP, BOTTOM = 50, 350, 10, 190  # of the plot on it
MOST = 250  # points of a line; more of them could not be told apart


@dataclass(frozen=True)
class Line:
    """Points in the order of x.  ``dots`` have marks beside the line, ``marks`` are hollow and have no line."""

    label: str
    points: Sequence[Point]
    style: Literal["line", "dots", "dotted", "marks"] = "line"


@dataclass(frozen=True)
class Band:
    """What lies between a low and a high line."""

    label: str
    low: Sequence[Point]
    high: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """Round ``ticks`` whose ends are those of the axis, which goes from ``begin`` to ``end`` on the canvas."""

    ticks: Sequence[float]
    begin: int
    end: int

    @classmethod
    def over(cls, values: Sequence[float], begin: int, end: int) -> Axis:
        low, high = min(values, default=0.0), max(values, default=1.0)
        if low == high:
            low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
        ticks = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return cls([float(tick) for tick in ticks], begin, end)

    def place(self, value: float) -> float:
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return round(self.begin + share * (self.end - self.begin), 1)

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Where each tick is, and what it says."""
        return [(self.place(tick), f"{tick:g}") for tick in self.ticks]


@dataclass(frozen=True)
class Chart:
    """Points that are not numbers are left out; x begins at 0 unless ``near``."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    band: Band | None = None
    near: bool = False
    viewbox: ClassVar[str] = f"0 0 {WIDTH} {HEIGHT}"

    @cached_property
    def shown(self) -> list[Line]:
        """The lines that have points, no more of them than can be seen."""
        thin = [Line(line.label, _thinned(line.points), line.style) for line in self.lines]
        return [line for line in thin if line.points]

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        edges = [*self.band.low, *self.band.high] if self.band else []
        every = [*edges, *(point for line in self.shown for point in line.points)]
        finite = [(x, y) for x, y in every if math.isfinite(y)]
        xs = [x for x, _ in finite] + ([] if self.near else [0.0])
        return Axis.over(xs, LEFT, RIGHT), Axis.over([y for _, y in finite], BOTTOM, TOP)

    def places(self, points: Sequence[Point]) -> list[Point]:
        across, up = self.axes
        return [(across.place(x), up.place(y)) for x, y in points]

    def path(self, points: Sequence[Point]) -> str:
        """The ``d`` of an SVG path through ``points``."""
        return "M" + " ".join(f"{x:g},{y:g}" for x, y in self.places(points))

    def area(self, band: Band) -> str:
        low, high = _thinned(band.low), _thinned(band.high)
        return self.path([*low, *reversed(high)]) + "Z" if low else ""

    @property
    def words(self) -> str:
        """For those who do not see it: where each line begins and ends, and its least and greatest value."""
        parts = []
        for line in self.shown:
            values = [y for _, y in line.points]
            least, most = f"least {min(values):.4g}", f"greatest {max(values):.4g}"
            parts.append(f"{line.label}: from {values[0]:.4g} to {values[-1]:.4g}, {least}, {most}")
        return f"{self.title}, {self.y} over {self.x}. " + "; ".join(parts)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Every n-th of the points that are numbers, and the last."""
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    step = -(-len(finite) // MOST) or 1
    kept = finite[::step]
    return kept if not finite or kept[-1] == finite[-1] else [*kept, finite[-1]]
