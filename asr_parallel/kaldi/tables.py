"""Kaldi's tables: archives (``ark``, also gzipped), and scripts (``scp``) that point into them.

Neither kaldi-io nor kaldiio is used, for the reasons in ``docs/kaldi.md``.  A script may have commands, such as
``copy-feats ... |``: they are run only where that is allowed.
"""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from asr_parallel.files import atomic
from asr_parallel.kaldi.lines import read_table, write_table
from asr_parallel.kaldi.values import Reader
from asr_parallel.log import UserError

Take = Callable[[Reader], np.ndarray]  # such as Reader.matrix
ENTRY = re.compile(r"(?P<path>.+?)(:(?P<offset>\d+))?(?P<range>\[[\d:,\s]*\])?")
DAMAGE = (ValueError, OSError, EOFError, zlib.error)


class BadEntry(UserError):
    """One value of a table that cannot be had; others may be."""


def open_input(path: Path) -> BinaryIO:
    """Open a file, gzipped or not, whatever its name.  Raises ``UserError`` if it cannot be read."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    if file.peek(2)[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    return file


def run_command(command: str, where: str) -> bytes:
    """What a shell ``command`` (without its ``|``) prints.  Raises ``UserError`` with its own words if it fails."""
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:] or "it printed nothing"
        raise UserError(f"{where}: command `{command}` ended with code {done.returncode}: {said}")
    return done.stdout


def read_archive(path: Path, take: Take) -> Iterator[tuple[str, np.ndarray]]:
    """Ids and values of an archive, in order.  Raises ``UserError`` naming the last good id if it is damaged."""
    last = ""
    with open_input(path) as file:
        reader = Reader(file)
        try:
            while key := _key(reader):
                value = _value(reader, take)
                last = key
                yield key, value
        except DAMAGE as error:
            raise UserError(f"{path} is damaged after {last or 'its beginning'}: {error}: copy it again") from None


def _key(reader: Reader) -> str:
    """The next id; nothing at the end of the archive."""
    reader.skip_blanks()
    key = bytearray()
    while byte := reader.next_byte():
        reader.take(1)
        if byte == b" ":
            break
        key += byte
    if key and byte != b" ":
        raise ValueError(f"no blank after the id {bytes(key)[:40]!r}")
    return key.decode("utf-8")


def _value(reader: Reader, take: Take) -> np.ndarray:
    reader.header()
    return take(reader)


class Script:
    """A ``scp``: where each value stands.  Relative paths are looked for under ``root``, where Kaldi ran, first."""

    def __init__(self, path: Path, take: Take, root: Path = Path("."), allow_commands: bool = False):
        self.table = read_table(path)
        self.take, self.root, self.allow_commands = take, root, allow_commands
        self._open: tuple[Path, BinaryIO] | None = None  # the archive read last: entries mostly follow each other

    def __getitem__(self, key: str) -> np.ndarray:
        """The value of ``key``.  Raises ``BadEntry``, naming the line, and ``UserError`` for a command."""
        where, entry = self.table[key]
        if entry.endswith("|"):
            if not self.allow_commands:
                raise UserError(f"{where}: `{entry}` is a command: give --allow_commands if all of them may be run")
            data = io.BufferedReader(io.BytesIO(run_command(entry[:-1], where)))
            return self._read(where, cast(BinaryIO, data), "")
        found = ENTRY.fullmatch(entry)
        if not found:
            raise BadEntry(f"{where}: `{entry}` is no file, nor `FILE:OFFSET`, nor either with `[FIRST:LAST]`")
        file = self._file(found["path"], where)
        try:
            file.seek(int(found["offset"] or 0))
        except DAMAGE as error:
            raise BadEntry(f"{where}: {error}") from None
        return self._read(where, file, found["range"] or "")

    def _file(self, path: str, where: str) -> BinaryIO:
        place = located(path, self.root)
        if not self._open or self._open[0] != place:
            self.close()
            try:
                self._open = place, open_input(place)
            except UserError as error:
                raise BadEntry(f"{where}: {error}") from None
        return self._open[1]

    def _read(self, where: str, file: BinaryIO, range_: str) -> np.ndarray:
        try:
            value = _value(Reader(file), self.take)
            return value[slices(range_, value.shape)] if range_ else value
        except DAMAGE as error:
            raise BadEntry(f"{where}: {error}") from None

    def close(self) -> None:
        if self._open:
            self._open[1].close()
        self._open = None


def located(path: str | Path, root: Path) -> Path:
    """A path of a script: absolute, or relative to ``root``, or else to here."""
    return root / path if (root / path).exists() else Path(path)


def slices(range_: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Kaldi's ``[FIRST:LAST]`` or ``[FIRST:LAST,FIRST:LAST]`` of rows and columns, the last included; empty means all.

    Raises ``ValueError`` if they lie outside of ``shape``.
    """
    found = []
    for part, size in zip(range_.strip("[]").split(","), shape, strict=False):
        first, _, last = part.strip().partition(":")
        begin, end = (int(first), int(last) + 1) if first or last else (0, size)
        if not 0 <= begin < end <= size:
            raise ValueError(f"range {range_} of what has {' x '.join(map(str, shape))} values")
        found.append(slice(begin, end))
    return tuple(found)


class ArchiveWriter:
    """Writes ``PATH.ark`` and ``PATH.scp``, which appear when the ``with`` block succeeds."""

    def __init__(self, path: Path, write: Callable[[BinaryIO, np.ndarray], None]):
        self.ark, self.scp = Path(f"{path}.ark").absolute(), Path(f"{path}.scp")
        self._write = write
        self.entries: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> ArchiveWriter:
        self._file = self._stack.enter_context(open(self._stack.enter_context(atomic(self.ark)), "wb"))
        return self

    def add(self, key: str, value: np.ndarray) -> None:
        self._file.write(key.encode() + b" ")
        self.entries[key] = f"{self.ark}:{self._file.tell()}"
        self._write(self._file, value)

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        if error[0] is None:
            write_table(self.scp, self.entries)
