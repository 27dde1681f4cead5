"""Files that appear whole or not at all, and what is in them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside ``path``; rename it to ``path`` if the block succeeds.

    The temporary name keeps the suffixes of ``path``, so that writers which look at them (``.gz``,
    ``.npz``) do the right thing.  It is removed if the block fails.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp{os.getpid()}-{path.name}")
    try:
        yield temporary
        with open(temporary, "rb") as f:
            os.fsync(f.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8 to ``path``, atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON to ``path``, atomically."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def files_under(source: Path, suffixes: Collection[str] = ("",)) -> list[Path]:
    """``source`` itself, or all files under it, whose names end so, in order of their names; hidden ones apart."""
    if source.is_file():
        return [source] if source.name.casefold().endswith(tuple(suffixes)) else []
    found, seen = list[Path](), set[str]()
    for folder, inner, names in os.walk(source, followlinks=True):
        real = os.path.realpath(folder)
        inner[:] = [] if real in seen else [name for name in inner if not name.startswith(".")]  # links may go round
        if real not in seen:
            hits = (n for n in names if n.casefold().endswith(tuple(suffixes)) and not n.startswith("."))
            found += [Path(folder, name) for name in hits]
        seen.add(real)
    return sorted(found)
