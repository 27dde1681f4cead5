"""Kaldi's text files: an id and what belongs to it on each line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from asr_parallel.files import write_text
from asr_parallel.log import UserError


def read_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """(``FILE:LINE``, id, the rest without blanks around it) of each line.

    Raises ``UserError`` naming the line if it is empty, does not begin with an id, or is not UTF-8.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    for number, raw in enumerate(lines[:-1] if lines[-1] == b"" else lines, 1):
        where = f"{path}:{number}"
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{where}: not UTF-8 at byte {error.start}: convert the file") from None
        if not line or line[0].isspace() or line[0] == "\ufeff":
            raise UserError(f"{where}: {line!a} does not begin with an id: remove the line, blank or mark")
        key, _, rest = line.replace("\t", " ", 1).partition(" ")
        yield where, key.rstrip("\r"), rest.strip(" \t\r")


def read_table(path: Path) -> dict[str, tuple[str, str]]:
    """What belongs to each id, as (``FILE:LINE``, rest of the line).  Raises ``UserError`` if an id is there twice."""
    table: dict[str, tuple[str, str]] = {}
    for where, key, rest in read_rows(path):
        if key in table:
            raise UserError(f"{where}: {key} stands in line {table[key][0].rpartition(':')[2]} too: remove one")
        table[key] = where, rest
    return table


def write_table(path: Path, table: Mapping[str, str]) -> None:
    """Write a line for each id, in the order of their bytes, as ``LC_ALL=C sort`` has them."""
    keys = sorted(table, key=lambda key: key.encode())
    write_text(path, "".join(f"{key} {table[key]}".rstrip() + "\n" for key in keys))
