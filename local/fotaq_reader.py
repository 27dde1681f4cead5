"""Reads the talkie edition of Flight of the Amazon Queen: every spoken line with its clip and character.

``queen.1c`` is one file: a table of entries, then their contents, all big-endian.  The spoken lines stand
in its dialogues (``.DOG``), cut-scenes (``.CUT``) and the text table (``QUEEN2.JAS``); the sound of
a line is the MP3 stream ``CLIP.SB``.  Nothing in the file is trusted: whatever points outside is
a ``UserError`` that names the entry.
"""

from __future__ import annotations

import itertools
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asr_parallel.log import UserError

MEMORY_BANK = 20  # bytes of AMOS memory bank header before the contents of .DOG, .CUT and QUEEN.JAS

# Dialogues name no person; the file's base name without digits does.  Where the cut-scenes have another
# name for the same voice, this is it; the rest are capitalised (NAOMI2.DOG: Naomi).
PERSON = {
    "AND": "Anderson",
    "BOB": "Trader Bob",
    "CHEF": "chef",
    "DEATH": "ferryman",
    "JIM": "Jimmy",
    "LOU": "Mary-Lou",
    "PRIN": "Princess Azura",
    "SEC": "secretary",
    "TALLPYG": "tall pygmy",
    "WEDGE": "Wedgewood",
    "WITCH": "witch doctor",
    "ZOMBIE": "zombie woman",
}

# Names of objects whose voice is known by another name.
ALIAS = {"azura obj": "Princess Azura", "Joe King": "JOE"}

# Clips of descriptions are numbered from here.  JOE0001x to JOE0040x are his stock answers ("I can't move it"),
# whose text no list ties to a number: they are not in the corpus.
FIRST_DESCRIPTION = 41


@dataclass(frozen=True)
class Line:
    """One spoken line: name of its clip, who speaks, and the text as it stands in the game."""

    clip: str
    character: str
    text: str


class Cursor:
    """Reads numbers and strings from an entry and refuses to leave it."""

    def __init__(self, entry: str, data: bytes, at: int = 0):
        self.entry, self.data, self.at = entry, data, at

    def bytes(self, size: int) -> bytes:
        if not 0 <= self.at <= len(self.data) - size:
            raise UserError(
                f"{self.entry}: {size} bytes wanted at {self.at}, but it has {len(self.data)}: the file is damaged "
                "or cut; get the package again"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def skip(self, size: int) -> None:
        self.bytes(size)

    def u8(self) -> int:
        return self.bytes(1)[0]

    def u16(self) -> int:
        return struct.unpack(">H", self.bytes(2))[0]

    def u32(self) -> int:
        return struct.unpack(">I", self.bytes(4))[0]

    def i16(self) -> int:
        return struct.unpack(">h", self.bytes(2))[0]

    def i16s(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}h", self.bytes(2 * count))

    def string(self, align: int) -> str:
        """A pascal string, after which, unless it is empty, the position is a multiple of ``align``."""
        if text := self.bytes(self.u8()).decode("latin-1"):
            self.at += -self.at % align
        return text


class Package:
    """``queen.1c``, memory-mapped.  ``package["X.SB"]`` gives the bytes of an entry."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            with open(self.path, "rb") as f:
                self.data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read ({error})") from error
        self.entries = self._table()

    def _table(self) -> dict[str, tuple[int, int]]:
        """Offset and size of each entry."""
        head = Cursor(f"{self.path} (head)", self.data[: 1 << 21])
        if len(head.data) < 4 or head.bytes(4) != b"QTBL":
            raise UserError(f"{self.path}: does not begin with QTBL: this is not a queen.1c")
        version = head.bytes(6)
        head.skip(2)
        if head.u8() != 1:
            raise UserError(f"{self.path}: version {version!r} is not the MP3 talkie edition; use Debian's package")
        entries = {}
        for _ in range(head.u16()):
            name = head.bytes(12).split(b"\0")[0].decode("latin-1").upper()
            head.skip(1)  # bundle
            offset, size = head.u32(), head.u32()
            if offset + size > len(self.data):
                raise UserError(
                    f"{self.path}: entry {name} ends at byte {offset + size}, but the file has {len(self.data)}: "
                    "it is cut; get the package again"
                )
            entries[name] = (offset, size)
        return entries

    def __contains__(self, entry: str) -> bool:
        return entry in self.entries

    def __getitem__(self, entry: str) -> bytes:
        if entry not in self.entries:
            raise UserError(f"{self.path}: has no entry {entry}; use the talkie edition in Debian's package")
        offset, size = self.entries[entry]
        return self.data[offset : offset + size]

    def cursor(self, entry: str, at: int = 0) -> Cursor:
        return Cursor(f"{self.path}: entry {entry}", self[entry], at)


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each part of a line that is a clip of its own.

    A command (``*`` and two characters; ``*XY`` has eleven more) ends a piece.  Empty pieces count, but
    have no clip.
    """
    number, at = 1, 0
    while at <= len(text):
        end = text.find("*", at)
        end = len(text) if end < 0 else end
        if piece := text[at:end].strip():
            yield number, " ".join(piece.split())
        number += 1
        at = end + (14 if text[end : end + 3] == "*XY" else 3)


def _lines(prefix: str, character: str, text: str) -> Iterator[Line]:
    for number, piece in pieces(text):
        yield Line(f"{prefix}{number:X}".replace(" ", "0").upper(), character, piece)


def dialogue(package: Package, entry: str) -> Iterator[Line]:
    """Lines of a dialogue: JOE's choices and the answers of the other person."""
    base = entry.split(".")[0].rstrip("0123456789")
    person = PERSON.get(base, base.capitalize())
    head = package.cursor(entry, MEMORY_BANK)
    levels, _, talk_key, joe_count, person_count = head.i16s(5)
    head.skip(12)
    person1, _, person2 = head.u16(), head.u16(), head.u16()

    sides = (("J", "JOE", 32 + abs(levels) * 96, joe_count), ("P", person, person1, person_count))
    for side, character, start, count in sides:
        records = package.cursor(entry, MEMORY_BANK + start)
        for i in range(count):
            records.skip(2)
            number = f"{records.i16() & 0xFFFF:4X}"
            if side == "J" and i == 0:
                number = "SSSS"
            yield from _lines(f"{talk_key:2d}{number}{side}", character, records.string(4))
    goodbye = package.cursor(entry, MEMORY_BANK + person2)
    yield from _lines(f"{talk_key:2d}XXXXP", person, goodbye.string(2))
    yield from _lines(f"{talk_key:2d}XXXXJ", "JOE", goodbye.string(2))


@dataclass(frozen=True)
class Table:
    """The game's text table: descriptions, and name and kind of each object."""

    descriptions: list[str]
    names: list[str]  # of object 0 (no object), 1, ...
    persons: list[bool]

    @classmethod
    def read(cls, package: Package) -> Table:
        texts = [t.strip() for t in package["QUEEN2.JAS"].decode("latin-1").split("\n")]
        head = package.cursor("QUEEN.JAS", MEMORY_BANK)
        _rooms, names, objects, descriptions = head.u16(), head.u16(), head.u16(), head.u16()
        if descriptions + names > len(texts):
            raise UserError(f"{package.path}: entry QUEEN2.JAS: has only {len(texts)} lines; get the package again")
        object_names, persons = [""], [False]
        for i in range(1, objects + 1):
            name, *_, image = head.i16s(8)
            if abs(name) > names:
                raise UserError(f"{head.entry}: object {i} has name {name} of {names}; get the package again")
            object_names.append(texts[descriptions + abs(name) - 1] if name else "")
            persons.append(image in (-3, -4))
        return cls(texts[:descriptions], object_names, persons)

    def lines(self) -> Iterator[Line]:
        """JOE describes what he looks at."""
        for i, text in enumerate(self.descriptions, start=FIRST_DESCRIPTION):
            yield from _lines(f"JOE{i:04d}", "JOE", text)


def cutscene(package: Package, entry: str, table: Table) -> Iterator[Line]:
    """Lines of a cut-scene, each said by one of its table."""
    base = entry.split(".")[0]
    head = package.cursor(entry, MEMORY_BANK)
    head.skip(2)
    count = abs(head.i16())
    head.skip(4)
    texts = package.cursor(entry, MEMORY_BANK + head.u16())
    head.skip(2)
    texts.string(2)  # on entry; never spoken
    for i in range(1, count + 1):
        number = _skip_object(head, table)
        yield from _lines(f"{base:_<5}{i:02d}", _speaker(head, number, base, table), texts.string(2))


def _skip_object(head: Cursor, table: Table) -> int:
    """Step over an object of a cut-scene and its animation; return its number."""
    number, _, _, _, animation, execute, *_, start, _, _, _, _ = head.i16s(17)
    head.i16s(max(head.i16(), 0))
    person = number in (0, -1) or (0 < number < len(table.persons) and table.persons[number])
    if (animation or not person) and execute and start <= 0:
        while head.i16() != -2:
            head.skip(18)
    return number


def _speaker(head: Cursor, number: int, base: str, table: Table) -> str:
    if number in (0, -1):
        return "JOE"
    if number < 0:
        return f"narr:{base}"
    if number >= len(table.names):
        raise UserError(f"{head.entry}: object {number} speaks, but there are {len(table.names) - 1}")
    return ALIAS.get(table.names[number], table.names[number])


def lines(package: Package) -> list[Line]:
    """Every line that has both a clip and a text, by clip name.

    Where two lines claim one clip (twelve dialogues reuse a number), the first in the file is the right one.
    """
    table = Table.read(package)
    found: dict[str, Line] = {}
    sources: list[Iterator[Line]] = [table.lines()]
    sources += [dialogue(package, e) for e in package.entries if e.endswith(".DOG")]
    sources += [cutscene(package, e, table) for e in package.entries if e.endswith(".CUT")]
    for line in itertools.chain.from_iterable(sources):
        if f"{line.clip}.SB" in package:
            found.setdefault(line.clip, line)
    return [found[clip] for clip in sorted(found)]
