"""ARPA files of others: read with every check that saves a broken graph, errors with file and line."""

from __future__ import annotations

import gzip
import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from asr_parallel.lang.lexicon import BOS, EOS, EPS
from asr_parallel.lang.mix import sorted_ngram
from asr_parallel.lang.ngram import LOG10, Ngram, pack
from asr_parallel.log import UserError

END = "\\end\\"


@dataclass
class _Section:
    """N-grams of one order as they stand in the file; ``backoffs`` are nan where that column is missing."""

    order: int
    grams: array = field(default_factory=lambda: array("i"))
    logps: array = field(default_factory=lambda: array("d"))
    backoffs: array = field(default_factory=lambda: array("d"))
    lines: array = field(default_factory=lambda: array("q"))

    def rows(self) -> np.ndarray:
        return np.array(self.grams, np.int32).reshape(-1, self.order)


def read_arpa(path: Path) -> Ngram:
    """Read a back-off model, ``.gz`` or plain.

    Raises UserError naming file and line: sections or orders that are missing or out of order, counts that are
    wrong, no empty line before ``\\end\\``, entries that are no n-grams, back-off weights or shorter n-grams that are
    missing where longer ones need them, words that graphs reserve, an n-gram that stands twice.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} is not there: give an ARPA file, plain or .gz")
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as file:
            words, sections = _Parser(path, file).parse()
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is damaged or not UTF-8 ({error}): an ARPA file, plain or .gz, is wanted") from None
    try:
        _check(path, words, sections)
    except ValueError as error:
        raise UserError(f"{path}: {error}; give a model of a lower order") from None
    levels = [
        (s.rows(), np.array(s.logps) * LOG10, np.nan_to_num(np.array(s.backoffs), nan=0.0) * LOG10) for s in sections
    ]
    return sorted_ngram(words, levels)


class _Parser:
    def __init__(self, path: Path, file: IO[str]):
        self.path, self.number, self.file = path, 0, file
        self.words: dict[str, int] = {}

    def error(self, text: str, number: int | None = None) -> UserError:
        return UserError(f"{self.path}:{self.number if number is None else number}: {text}")

    def lines(self) -> Iterator[str]:
        for line in self.file:
            self.number += 1
            if not line.strip("\r\n").replace("\t", " ").isprintable():  # blanks for some tools and not for others
                raise self.error(f"{line!a} has blanks other than spaces and tabs, or control characters; mend it")
            yield line.strip()

    def parse(self) -> tuple[list[str], list[_Section]]:
        lines = self.lines()
        for line in lines:
            if line == "\\data\\":
                break
        else:
            raise self.error("no \\data\\ line: this is no ARPA file, or its head is lost")
        counts, line = self._counts(lines)
        sections = []
        for order, count in enumerate(counts, 1):
            if line != f"\\{order}-grams:":
                raise self.error(f"'{line}' where \\{order}-grams: should stand: order {order} is missing or misplaced")
            section, line = self._section(lines, order, order == len(counts))
            if len(section.logps) != count:
                found = f"there are {len(section.logps)} {order}-grams, \\data\\ says {count}"
                raise self.error(f"{found}: the file was cut or edited; make it again")
            sections.append(section)
        if line != END:
            raise self.error(f"'{line}' where {END} should stand: the file is cut, or has an order that \\data\\ lacks")
        return list(self.words), sections

    def _counts(self, lines: Iterator[str]) -> tuple[list[int], str]:
        """Numbers of n-grams by order, and the line after them."""
        counts: list[int] = []
        for line in lines:
            if match := re.fullmatch(r"ngram\s+(\d+)\s*=\s*(\d+)", line):
                if int(match[1]) != len(counts) + 1:
                    raise self.error(f"'{line}': the count of order {len(counts) + 1} is missing")
                counts.append(int(match[2]))
            elif line:
                break
        else:
            line = ""
        if not counts:
            raise self.error("no `ngram 1=...` line after \\data\\")
        return counts, line

    def _section(self, lines: Iterator[str], order: int, last: bool) -> tuple[_Section, str]:
        """The n-grams of a section, and the line that ends it: the next section's, or ``\\end\\``."""
        section, blank = _Section(order), False
        for line in lines:
            if not line:
                blank = True
            elif line.startswith("\\") and (line == END or re.fullmatch(r"\\\d+-grams:", line)):
                if not blank:
                    raise self.error(f"no empty line before {line}: other readers would stop here; put one there")
                return section, line
            else:
                blank = False
                self._entry(section, line.split(), line, last)
        return section, ""

    def _entry(self, section: _Section, fields: list[str], line: str, last: bool) -> None:
        order, given = section.order, len(fields) - 1 - section.order
        if given not in (0, 1):
            raise self.error(f"'{line}': want a log-probability, {order} words and perhaps a back-off weight")
        try:
            logp, backoff = float(fields[0]), float(fields[-1]) if given else math.nan
        except ValueError:
            raise self.error(f"'{line}': want a log-probability, {order} words and perhaps a back-off weight") from None
        if not logp <= 0:
            raise self.error(f"'{line}': {fields[0]} is no logarithm of a probability")
        if given and not math.isfinite(backoff):
            raise self.error(f"'{line}': {fields[-1]} is no back-off weight")
        if given and last:
            raise self.error(f"'{line}': the highest order has no back-off weights; is an order missing?")
        if order == 1:
            self._new_word(fields[1])
        try:
            section.grams.extend([self.words[w] for w in fields[1 : order + 1]])
        except KeyError as error:
            raise self.error(f"'{line}': word {error} is not among the 1-grams") from None
        section.logps.append(logp)
        section.backoffs.append(backoff)
        section.lines.append(self.number)

    def _new_word(self, word: str) -> None:
        if word == EPS or word.startswith("#"):
            raise self.error(f"word '{word}' is reserved for graphs; remove or rename it")
        if word in self.words:
            raise self.error(f"word '{word}' stands twice among the 1-grams")
        self.words[word] = len(self.words)


def _check(path: Path, words: list[str], sections: list[_Section]) -> None:
    """What only the whole file tells."""
    for symbol in (BOS, EOS):
        if symbol not in words:
            raise UserError(f"{path}: no {symbol} among the 1-grams: the model was not made of sentences")

    def where(section: _Section, row: int) -> str:
        gram = " ".join(words[w] for w in section.rows()[row])
        return f"{path}:{section.lines[row]}: '{gram}'"

    shorter: np.ndarray | None = None
    for below, section in zip([None, *sections], sections):
        keys = pack(section.rows(), len(words))
        unique, first = np.unique(keys, return_index=True)
        if len(unique) < len(keys):
            raise UserError(f"{where(section, int(np.setdiff1d(np.arange(len(keys)), first)[0]))} stands twice")
        if below is not None and shorter is not None:
            history = pack(section.rows()[:, :-1], len(words))
            order = np.argsort(shorter)
            place = np.minimum(np.searchsorted(shorter, history, sorter=order), max(0, len(shorter) - 1))
            row = order[place] if len(shorter) else place
            lost = np.flatnonzero(shorter[row] != history) if len(shorter) else np.arange(len(history))
            if len(lost):
                raise UserError(f"{where(section, int(lost[0]))} is there, but not what comes before its last word")
            bare = row[np.isnan(np.array(below.backoffs)[row])]
            if len(bare):
                raise UserError(f"{where(below, int(bare.min()))} begins longer n-grams but has no back-off weight")
        shorter = keys
