"""A configuration as a file and as a command line."""

from __future__ import annotations

import dataclasses
import shlex
import typing
from pathlib import Path
from typing import Any

from asr_parallel.config import TrainConfig, VerbConfig
from asr_parallel.files import read_json

SCRIPT = """#!/usr/bin/env bash
# Goes on with this training where it stopped; with --force it begins anew.
cd {folder} || exit 1
exec asr-parallel train {arguments} "$@"
"""


def script(config: TrainConfig) -> str:
    """Text of ``run.sh``: the command that gives this training, in the folder where it was given."""
    return SCRIPT.format(folder=shlex.quote(str(Path.cwd())), arguments=shlex.join(arguments(config)))


def arguments(config: TrainConfig) -> list[str]:
    """The command-line arguments that differ from the defaults, as ``asr-parallel train`` reads them."""
    defaults, result = flat(plain(TrainConfig())), []
    for name, value in flat(plain(config)).items():
        head, _, last = name.rpartition(".")
        if value == defaults[name] or name == "force":
            continue
        if isinstance(value, bool):
            result.append(f"--{head + '.' if head else ''}{'' if value else 'no_'}{last}")
        else:
            result += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return result


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"model": {"layers": 4}}`` as ``{"model.layers": 4}``."""
    result: dict[str, Any] = {}
    for name, value in table.items():
        result |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return result


def plain(config: VerbConfig) -> dict[str, Any]:
    """``config`` as values that JSON knows."""
    return {k: str(v) if isinstance(v, Path) else v for k, v in dataclasses.asdict(config).items()}


def load_config(path: Path, verb: type[VerbConfig] = TrainConfig) -> Any:
    """What ``plain`` gave of a configuration of ``verb``, read from JSON."""

    def build(kind: Any, value: Any) -> Any:
        if dataclasses.is_dataclass(kind):
            types = typing.get_type_hints(kind)
            return kind(**{name: build(types[name], v) for name, v in value.items()})  # type: ignore[operator]
        return Path(value) if kind is Path else value

    return build(verb, read_json(path))
