"""Pronunciation lexicon and symbol tables.

A lexicon file has a line ``WORD PHONE PHONE ...`` for each pronunciation; a word may have several.
Symbol tables have a line ``SYMBOL INTEGER`` and 0 is ``<eps>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr_parallel.files import write_text
from asr_parallel.log import UserError

EPS = "<eps>"
BOS, EOS = "<s>", "</s>"
BACKOFF = "#0"  # input symbol of G's back-off arcs
SIL, SPN = "SIL", "SPN"  # silence; spoken noise and unknown words
SILENCE_WORD, UNK = "!SIL", "<unk>"
SILENCE_PHONES = (SIL, SPN)

PROBABILITY = re.compile(r"\d*\.\d+([eE][-+]?\d+)?|\d+(\.|[eE][-+]?\d+)")  # lexiconp.txt's; SAMPA has phones 1, 2

Pron = tuple[str, ...]


def check_symbol(symbol: str, where: str) -> None:
    """Refuse names that mean something else in a graph."""
    if symbol in (EPS, BOS, EOS) or symbol.startswith("#"):
        raise UserError(f"{where}: '{symbol}' is reserved for graphs; remove the line or rename it")
    if not symbol or not symbol.isprintable() or any(c.isspace() for c in symbol):
        raise UserError(f"{where}: '{symbol!a}' is empty or has blanks or control characters in it; remove them")


def check_entry(word: str, pron: Pron, where: str) -> None:
    """Refuse a pronunciation that would spoil a graph."""
    for symbol in (word, *pron):
        check_symbol(symbol, where)
    if not pron:
        raise UserError(f"{where}: word '{word}' has an empty pronunciation; add phones or remove the line")
    if PROBABILITY.fullmatch(pron[0]):
        raise UserError(
            f"{where}: '{pron[0]}' of word '{word}' is a pronunciation probability, not a phone; remove that column"
        )
    if len(pron) > 1 and set(pron) & set(SILENCE_PHONES):
        raise UserError(f"{where}: '{word}' has a silence phone inside a word; {SIL} and {SPN} stand alone")
    if pron == (SIL,) and word != SILENCE_WORD:
        raise UserError(
            f"{where}: word '{word}' is pronounced as silence, so any pause may be that word; "
            f"give it phones, or {SPN} if it is a noise"
        )


@dataclass(frozen=True)
class Lexicon:
    """Words with their pronunciations, sorted by word; pronunciations keep their order."""

    prons: Mapping[str, tuple[Pron, ...]]

    def __post_init__(self) -> None:
        for word, prons in self.prons.items():
            if not prons:
                raise UserError(f"lexicon: word '{word}' has no pronunciation")

    @property
    def phones(self) -> list[str]:
        """Silence phones first, then the others, sorted."""
        used = {phone for prons in self.prons.values() for pron in prons for phone in pron}
        return [*SILENCE_PHONES, *sorted(used - set(SILENCE_PHONES))]

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """Read and check ``lexicon.txt``.  Errors name file and line."""
        found: dict[str, dict[Pron, None]] = {}
        for number, line in enumerate(read_lines(path), 1):
            where = f"{path}:{number}"
            word, *pron = line.split(" ")
            check_entry(word, tuple(pron), where)
            if tuple(pron) in found.setdefault(word, {}):
                raise UserError(f"{where}: '{line}' stands twice; remove one")
            found[word][tuple(pron)] = None
        lexicon = cls({word: tuple(prons) for word, prons in found.items()})
        for word, phone in ((SILENCE_WORD, SIL), (UNK, SPN)):
            if lexicon.prons.get(word) != ((phone,),):
                raise UserError(f"{path}: the line '{word} {phone}' must be there, once; add it")
        return lexicon

    def write(self, path: Path) -> None:
        lines = [f"{word} {' '.join(pron)}\n" for word, prons in self.prons.items() for pron in prons]
        write_text(path, "".join(lines))


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file in which only single blanks separate fields; errors name file and line."""
    lines = read_text_lines(path)
    for number, line in enumerate(lines, 1):
        if line != " ".join(line.split()) or not line.isprintable():
            raise UserError(f"{path}:{number}: {line!a} is empty or has blanks other than single spaces; mend it")
    return lines


def read_text_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file, none of them empty; errors name file and line."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is not there; run 'asr-parallel lang' first") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; convert the file") from None
    if not text.strip():
        raise UserError(f"{path} is empty; remove it and run 'asr-parallel lang' again")
    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise UserError(f"{path}:{number}: {line!a} is empty or has blanks other than single spaces; mend it")
    return lines


def disambiguate(lexicon: Lexicon) -> tuple[list[tuple[str, Pron]], int]:
    """Add ``#1``, ``#2``, ... where a pronunciation is not unique or begins another one.

    Returns the (word, pronunciation) pairs and the highest symbol used (Mohri, Pereira & Riley 2002, 3.1;
    Kaldi's ``add_lex_disambig.pl``).
    """
    pairs = [(word, pron) for word, prons in lexicon.prons.items() for pron in prons]
    count: dict[Pron, int] = {}
    prefixes: set[Pron] = set()
    for _, pron in pairs:
        count[pron] = count.get(pron, 0) + 1
        prefixes.update(pron[:n] for n in range(1, len(pron)))
    last: dict[Pron, int] = {}
    marked = []
    for word, pron in pairs:
        if count[pron] > 1 or pron in prefixes:
            last[pron] = last.get(pron, 0) + 1
            marked.append((word, (*pron, f"#{last[pron]}")))
        else:
            marked.append((word, pron))
    return marked, max(last.values(), default=0)


def write_symbols(path: Path, symbols: Sequence[str]) -> None:
    """Write a symbol table; a symbol's number is its place."""
    write_text(path, "".join(f"{symbol} {number}\n" for number, symbol in enumerate(symbols)))


def read_symbols(path: Path) -> list[str]:
    """Symbols in the order of their numbers, which must be 0, 1, 2, ...; ``<eps>`` is 0."""
    symbols = []
    for number, line in enumerate(read_lines(path), 1):
        symbol, _, value = line.partition(" ")
        if value != str(number - 1):
            raise UserError(f"{path}:{number}: expected number {number - 1} in '{line}'; make the table anew")
        symbols.append(symbol)
    if symbols[0] != EPS or len(set(symbols)) != len(symbols):
        raise UserError(f"{path}: {EPS} must be 0 and no symbol may stand twice; make the table anew")
    return symbols


def phone_table(phones: Iterable[str], num_disambig: int) -> list[str]:
    """``<eps>``, the phones, ``#0`` (back-off), then ``#1`` ... of the lexicon and one for silence."""
    return [EPS, *phones, *(f"#{n}" for n in range(num_disambig + 2))]


def word_table(words: Iterable[str]) -> list[str]:
    """``<eps>``, the words, sorted, then ``#0``, ``<s>`` and ``</s>``."""
    return [EPS, *sorted(words), BACKOFF, BOS, EOS]
