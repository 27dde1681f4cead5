"""Pages from templates.  Whatever an experiment holds is text on them and never markup: the templates escape it."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from asr_parallel.results.table import NONE, machine_words
from asr_parallel.score.report import operation


def render(template: str, **values: Any) -> str:
    """The page that a template makes of ``values``."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    loader = PackageLoader("asr_parallel.results.report")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"rate": rate, "thousands": thousands, "option": option}
    made.globals |= {"zip": zip, "operation": operation, "machine": machine_words}
    return made


def rate(value: float | None, digits: int = 1) -> str:
    """A figure with so many digits; a dash for what is not defined."""
    return NONE if value is None else f"{value:.{digits}f}"


def thousands(value: int) -> str:
    return f"{value:,}"


def option(value: Any) -> str:
    """The value of an option as one gives it on the command line."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
