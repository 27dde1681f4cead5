"""How likely pronunciations are, and silence between words (Chen, Xu, Povey and Khudanpur, Interspeech 2015).

A word w with pronunciation p costs ``-log P(p | w)``.  Silence follows it with probability ``P(s | w.p)``, or does not.
If silence came before it, its probability is multiplied by F(s | w.p), else by F(n | w.p): some words begin a
phrase.  ``align`` learns all of it and leaves it as a table; ``EVEN`` is what a lexicon says that knows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from asr_parallel.files import write_text
from asr_parallel.lang.lexicon import BOS, EOS, Pron, read_text_lines
from asr_parallel.log import UserError

OTHER = "<other>"  # stands in the table for all words that are not there


class Costs(NamedTuple):
    """Of a word and of what follows it, in nats."""

    after_silence: float  # the word, if silence is before it
    after_word: float  # the word, if another word is before it, or nothing
    silence: float  # that silence follows
    no_silence: float  # that none does


@dataclass(frozen=True)
class EntryProbs:
    """Of a word with one of its pronunciations.  ``pron`` is P(p | w), relative to the likeliest if that has 1."""

    pron: float = 1.0
    silence_after: float = 0.5  # P(s | w.p)
    after_silence: float = 1.0  # F(s | w.p)
    after_word: float = 1.0  # F(n | w.p)
    count: int = 0  # how often it was said where this was learnt

    @cached_property
    def costs(self) -> Costs:
        word, silence = -math.log(self.pron), self.silence_after
        factors = math.log(self.after_silence), math.log(self.after_word)
        return Costs(word - factors[0], word - factors[1], -math.log(silence), -math.log(1 - silence))


COLUMNS = ("word", "pron", *(f.name for f in fields(EntryProbs)))


@dataclass(frozen=True)
class LexiconProbs:
    """``entries[word, pron]``; BOS, EOS and OTHER have the pronunciation ().

    Of BOS only ``silence_after`` means something, of EOS only ``after_silence`` and ``after_word``.
    """

    entries: Mapping[tuple[str, Pron], EntryProbs]

    def of(self, word: str, pron: Pron = ()) -> EntryProbs:
        """Probabilities of an entry, or those of all that were never seen."""
        return self.entries.get((word, pron)) or self.entries.get((OTHER, ()), EntryProbs())

    def write(self, path: Path) -> None:
        """Write a table: its columns stand in its first line, tabs between them."""
        lines = ["\t".join(COLUMNS)]
        for (word, pron), entry in self.entries.items():
            values = [f"{getattr(entry, name):.6g}" for name in COLUMNS[2:]]
            lines.append("\t".join([word, " ".join(pron), *values]))
        write_text(path, "\n".join(lines) + "\n")

    @classmethod
    def read(cls, path: Path) -> LexiconProbs:
        """Read what ``write`` wrote, perhaps edited.  UserError names file and line of what is wrong."""
        lines = read_text_lines(path)
        if lines[0] != "\t".join(COLUMNS):
            raise UserError(f"{path}:1: want the columns {' '.join(COLUMNS)}, tabs between them")
        entries = {}
        for number, line in enumerate(lines[1:], 2):
            cells = line.split("\t")
            try:
                key, entry = _entry(cells)
            except ValueError as error:
                raise UserError(f"{path}:{number}: {line!a}: {error}; mend the line or run `align` again") from None
            if key in entries:
                raise UserError(f"{path}:{number}: {line!a} is there twice; remove one")
            entries[key] = entry
        if lacks := [word for word in (BOS, EOS, OTHER) if (word, ()) not in entries]:
            raise UserError(f"{path}: no line for {' '.join(lacks)}; run `align` again")
        return cls(entries)


def _entry(cells: list[str]) -> tuple[tuple[str, Pron], EntryProbs]:
    """A line of the table; ValueError if it is no such."""
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} fields, want {len(COLUMNS)}")
    word, pron, *numbers, count = cells
    p, silence_after, after_silence, after_word = map(float, numbers)
    entry = EntryProbs(p, silence_after, after_silence, after_word, int(count))
    if not 0 < entry.pron <= 1 or not 0 < entry.silence_after < 1:
        raise ValueError("a probability is not between 0 and 1")
    if not (0 < entry.after_silence < math.inf and 0 < entry.after_word < math.inf):
        raise ValueError("a factor is not above 0")
    return (word, tuple(pron.split())), entry


EVEN = LexiconProbs({})
