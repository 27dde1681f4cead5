"""What is done of a long run, so that the same command goes on where the last one was stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asr_parallel import log, stages
from asr_parallel.config import VerbConfig
from asr_parallel.files import read_json, write_json
from asr_parallel.log import UserError

LOG = log.logger(__name__)
Figures = dict[str, Any]


class Phases:
    """Runs phases in order, and remembers in ``path`` which are done and their figures.

    The file is only believed if options and inputs are what they were.  ``finish`` removes it: a run that
    ended well begins anew when it is asked for again (``stages.py`` knows whether that is needed).
    """

    def __init__(self, config: VerbConfig, path: Path):
        missing = [str(p) for p in config.inputs() if not p.exists()]
        if missing:
            raise UserError(f"{', '.join(missing)}: not there; run the stages before this one")
        self.path = path
        self.key = {
            "options": stages.options(config),
            "inputs": {str(p): stages.fingerprint(p) for p in config.inputs()},
        }
        self.done: dict[str, Figures] = {}
        try:
            found = read_json(path)
            if found["key"] == self.key:
                self.done = found["phases"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            pass

    def run(self, name: str, leaves: list[Path], work: Callable[[], Figures]) -> None:
        """Do ``work``, which leaves the files ``leaves``, unless it is done; once one is not, later ones are not."""
        if name in self.done and all(p.exists() for p in leaves):
            LOG.info(f"{name}: done before")
            return
        names = list(self.done)
        for later in names[names.index(name) :] if name in self.done else []:
            del self.done[later]
        start = time.monotonic()
        figures = work()
        figures["seconds"] = round(time.monotonic() - start, 1)
        LOG.info(f"{name}: {log.duration(figures['seconds'])}")
        self.done[name] = figures
        write_json(self.path, {"key": self.key, "phases": self.done})

    def finish(self, result: Path) -> None:
        """Write the figures of all phases to ``result``."""
        write_json(result, self.done)
        self.path.unlink(missing_ok=True)
