"""Where an experiment comes from: the runs that its logs tell of, and the options that its verbs were given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asr_parallel import stages
from asr_parallel.cli import VERBS
from asr_parallel.results.record import load
from asr_parallel.train.settings import flat

BEGUN = re.compile(r"# (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (.*)")
BUILT = re.compile(r"# (python .*)")
PLACE = re.compile(r"# commit (\S+), host (.*), (\d+) cores")
ENDED = re.compile(r"# code (\d+), ([\d:]+)")


@dataclass
class Run:
    """A call of a verb as ``cli.stage_log`` wrote it down; ``code`` is empty if it was killed, or is still running."""

    verb: str
    began: str
    command: str
    versions: str = ""
    commit: str = ""
    host: str = ""
    cores: str = ""
    code: str = ""
    took: str = ""


@dataclass(frozen=True)
class Options:
    """All options of a verb, flat, and of those that are not the default what the default is."""

    verb: str
    values: dict[str, Any]
    usual: dict[str, Any]


def runs(path: Path) -> list[Run]:
    """All that the logs know, in the order of time; of a GMM with what made it."""
    logs = sorted((path / "log").glob("*.log")) + [log for log in [path.parent / "log" / "align.log"] if made(path)]
    found = [run for log in logs if log.exists() for run in _runs(log)]
    return sorted(found, key=lambda run: run.began)


def made(path: Path) -> bool:
    """Whether it is a GMM, which verb `align` has made together with others."""
    return (path / "gmm.npz").exists()


def _runs(log: Path) -> Iterator[Run]:
    run = None
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if begun := BEGUN.fullmatch(line):
            if run:
                yield run
            run = Run(log.stem, *begun.groups())
        elif run and (built := BUILT.fullmatch(line)):
            run.versions = built[1]
        elif run and (place := PLACE.fullmatch(line)):
            run.commit, run.host, run.cores = place.groups()
        elif run and (ended := ENDED.fullmatch(line)):
            run.code, run.took = ended.groups()
    if run:
        yield run


def options(path: Path) -> list[Options]:
    """Of each verb that left something in ``path``, as its configuration or the stamps have them."""
    found = []
    if config := load(path / "config.json"):
        found.append(_options("train", flat(config)))
    stamps = sorted((path / ".stamps").glob("*.json"))
    stamps += sorted((path.parent / ".stamps").glob("align-*.json")) if made(path) else []
    for stamp in stamps:
        verb = stamp.stem.rpartition("-")[0]
        if verb != "train":
            found.append(_options(verb, load(stamp).get("options", {})))
    return found


def _options(verb: str, values: dict[str, Any]) -> Options:
    usual = stages.options(VERBS[verb][0]()) if verb in VERBS else {}
    return Options(verb, values, {name: usual[name] for name, v in values.items() if usual.get(name, v) != v})
