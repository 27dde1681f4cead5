"""What an experiment has not got."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Lack:
    """One sentence of a page, and the ``command`` that would make what is lacking; empty if there is none."""

    what: str
    command: str = ""


def command(verb: str, *words: object) -> str:
    """A call of ``asr-parallel`` as one types it."""
    return shlex.join(["asr-parallel", verb, *map(str, words)])
