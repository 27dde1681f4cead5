"""Tables: CSV or TSV files whose first line names their columns; Common Voice's are such files, too."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from asr_parallel.files import files_under
from asr_parallel.log import UserError
from asr_parallel.prepare.item import TO_THE_END, AudioFinder, Fault, Item, folders, set_of, utt_of
from asr_parallel.score.lines import numbered

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
COLUMNS = {  # ours: what others call it
    "path": ("path", "file", "file_name", "filename", "audio", "audio_path", "audio_file", "audio_filepath", "wav"),
    "text": ("text", "sentence", "transcript", "transcription", "words"),
    "speaker": ("speaker", "speaker_id", "spk", "spk_id", "client_id"),
    "utt": ("utt", "utt_id", "utterance", "id", "uttid"),
    "start": ("start", "begin", "start_time", "offset"),
    "end": ("end", "stop", "end_time"),
    "duration": ("duration",),
    "channel": ("channel",),
    "set": ("set", "split", "subset"),
}
CHANNELS = {"a": 0, "left": 0, "b": 1, "right": 1}
COMMON_VOICE = ("train.tsv", "dev.tsv", "test.tsv")

Row = dict[str, str]


def claims_table(source: Path) -> bool:
    """Whether there are tables with a column for audio and one for text."""
    return any(_columns(path) for path in files_under(source, SUFFIXES))


def claims_common_voice(source: Path) -> bool:
    return any(_common_voice(home) for home in _releases(source))


def read_table(source: Path) -> Iterator[Item | Fault]:
    """All tables of a folder, or one; other CSV files, without audio and text, are left alone."""
    for path in files_under(source, SUFFIXES):
        if _columns(path) or path == source:
            yield from rows(path, source, set_of(*folders(path, source), path.name))


def read_common_voice(source: Path) -> Iterator[Item | Fault]:
    """``train.tsv``, ``dev.tsv``, ``test.tsv`` of a Common Voice release in one language, or else ``validated.tsv``."""
    homes = _releases(source)
    if len(homes) > 1:
        names = ", ".join(sorted(str(home) for home in homes))
        raise UserError(f"--from {source} has several languages: give the folder of one of them ({names})")
    for home in homes:
        for path in _common_voice(home):
            yield from rows(path, home, set_of(path.name), home / "clips")


def _releases(source: Path) -> list[Path]:
    """Folders with ``clips/``: of a language, or those below it as its archive has them (``cv-corpus-.../en``)."""
    levels = ("clips", "*/clips", "*/*/clips")
    found = ([path.parent for path in source.glob(level) if path.is_dir()] for level in levels)
    return next(filter(None, found), [])


def _common_voice(source: Path) -> list[Path]:
    split = [path for name in COMMON_VOICE if (path := source / name).is_file()]
    return split or [path for path in [source / "validated.tsv"] if path.is_file()]


def rows(path: Path, source: Path, of_set: str, *bases: Path) -> Iterator[Item | Fault]:
    """The utterances of a table; audio is looked for under ``bases``, beside the table and in ``source``."""
    find = AudioFinder(source, *bases, path.parent, source if source.is_dir() else source.parent)
    home = bases[0] if bases else source
    for where, row in _rows(path):
        yield row if isinstance(row, Fault) else _item(row, where, home, of_set, find)


def _item(row: Row, where: str, home: Path, of_set: str, find: Callable[[str], Path]) -> Item | Fault:
    name = row.get("path", "").strip()
    if not name:
        return Fault(row.get("utt", ""), where, "no audio", "the column of paths is empty")
    audio = find(name)
    try:
        start, end = _times(row)
        channel = _channel(row.get("channel", ""))
    except ValueError as error:
        return Fault(row.get("utt") or name, where, "not a row", str(error))
    return Item(
        utt=row.get("utt") or utt_of(audio, home, start, end),
        audio=audio,
        text=row.get("text", ""),
        where=where,
        speaker=row.get("speaker", ""),
        start=start,
        end=end,
        channel=channel,
        set=set_of(row.get("set", "")) or of_set,
    )


def _times(row: Row) -> tuple[float, float]:
    """Start and end in seconds.  A duration counts only beside a start: alone it tells how long the file is."""
    start, end, length = (row.get(name, "").strip().replace(",", ".") for name in ("start", "end", "duration"))
    begin = float(start or 0)
    if end:
        return begin, float(end)
    return begin, begin + float(length) if start and length else TO_THE_END


def _channel(name: str) -> int | None:
    name = name.strip().casefold()
    if not name:
        return None
    if name in CHANNELS or name.isdecimal():
        return CHANNELS[name] if name in CHANNELS else int(name)
    raise ValueError(f"channel '{name}' is neither a number from 0 nor A or B")


def _columns(path: Path) -> list[str] | None:
    """Our names of the columns of a table, "" for those that mean nothing here; None if audio or text is missing."""
    try:
        _, first = next(iter(numbered(path)), ("", ""))
    except UserError:
        return None
    names = [name.strip().casefold().replace(" ", "_") for name in next(csv.reader([first], **_dialect(first)), [])]
    known = {theirs: ours for ours, all_names in COLUMNS.items() for theirs in all_names}
    columns = [known.get(name, "") for name in names]
    return columns if {"path", "text"} <= set(columns) else None


def _parsed(lines: Iterator[str], first: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, **_dialect(first))
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield [f"({error})"]


def _dialect(first: str) -> dict:
    """Tabs do not go with quotes: Common Voice's sentences have single ones."""
    if "\t" in first:
        return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    return {"delimiter": max(",;|", key=first.count), "quoting": csv.QUOTE_MINIMAL}


def _rows(path: Path) -> Iterator[tuple[str, Row | Fault]]:
    """``FILE:LINE`` (its last) and fields of each row; of two columns with one meaning the first that is filled."""
    lines, where = numbered(path), ""
    columns = _columns(path)
    _, first = next(lines, ("", ""))
    if not columns:
        wanted = ", ".join(COLUMNS)
        raise UserError(f"{path}:1: a table begins with names of columns, path and text among them (all: {wanted})")

    def rest() -> Iterator[str]:
        nonlocal where
        for where, line in lines:  # noqa: B007
            yield line

    for fields in _parsed(rest(), first):
        if len(fields) != len(columns):
            detail = f"{len(fields)} fields, its header has {len(columns)}"
            yield where, Fault(fields[0] if fields else "", where, "not a row", detail)
            continue
        row: Row = {}
        for column, value in zip(columns, fields):
            row[column] = row.get(column) or value
        yield where, row
