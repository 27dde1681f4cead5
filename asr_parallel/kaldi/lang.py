"""A lang directory of Kaldi: its words, phones and grammar as they are, and its lexicon for ``lang --lexicon``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from asr_parallel.files import atomic, write_json, write_text
from asr_parallel.kaldi.lines import read_rows
from asr_parallel.kaldi.tables import DAMAGE, open_input
from asr_parallel.kaldi.transitions import Phones, read_topology
from asr_parallel.kaldi.values import Reader
from asr_parallel.lang.lexicon import EPS, read_symbols
from asr_parallel.log import UserError

POSITION = re.compile(r"_[BIES]$")  # begin, inside, end, single: word-position dependent phones
COPIED = ("words.txt", "phones.txt", "G.fst")


def import_lang(source: Path, arpa: Path | None, out: Path) -> dict[str, Any]:
    """Leave words, phones, ``G.fst``, ``lexicon.txt``, ``lm.arpa.gz`` and ``kaldi.json`` in ``out``; give the last.

    ``kaldi.json`` has the silence phones and the states of each phone.  Raises ``UserError`` for files that contradict
    each other.
    """
    words, phones = read_symbols(source / "words.txt"), read_symbols(source / "phones.txt")
    silence = silence_phones(source, phones)
    states = {phones[p]: len(s) - 1 for p, s in topology(source / "topo").items()} if (source / "topo").exists() else {}
    for name in COPIED:
        if (source / name).exists():
            _copy(source / name, out / name)
    prons = read_lexicon(source / "phones" / "align_lexicon.txt")
    if prons:
        write_text(out / "lexicon.txt", "".join(f"{' '.join(line)}\n" for line in prons))
    if arpa:
        _copy(arpa, out / f"lm.arpa{'.gz' if arpa.suffix == '.gz' else ''}")
    real = [p for p in phones[1:] if not p.startswith("#")]
    figures = {"words": len(words), "phones": len(real), "prons": len(prons), "silence": silence, "states": states}
    write_json(out / "kaldi.json", figures)
    return figures


def _copy(source: Path, to: Path) -> None:
    try:
        with atomic(to) as temporary:
            shutil.copyfile(source, temporary)
    except FileNotFoundError:
        raise UserError(f"{source} is not there: leave the option out, or give the file") from None


def silence_phones(source: Path, phones: list[str]) -> list[str]:
    """Names of the phones in ``phones/silence.int``.  Raises ``UserError`` for numbers that ``phones.txt`` lacks."""
    path = source / "phones" / "silence.int"
    if not path.exists():
        return []
    found = [(where, key) for where, key, _ in read_rows(path)]
    for where, key in found:
        if not key.isdigit() or int(key) >= len(phones):
            raise UserError(f"{where}: there is no phone {key} in {source / 'phones.txt'}")
    return [phones[int(key)] for _, key in found]


def topology(path: Path) -> Phones:
    """The states of each phone number of a ``topo`` file, the last of which emits nothing."""
    with open_input(path) as file:
        try:
            reader = Reader(file)
            reader.header()
            return read_topology(reader)
        except (*DAMAGE, KeyError, IndexError) as error:
            raise UserError(f"{path} is no topology of Kaldi, or is damaged: {error}: copy it again") from None


def read_lexicon(path: Path) -> list[list[str]]:
    """``[word, phone, ...]`` of each line ``WORD WORD PHONE ...``, without positions and doubles."""
    if not path.exists():
        return []
    found: dict[tuple[str, ...], None] = {}
    for where, word, rest in read_rows(path):
        said, *phones = rest.split()
        if not phones:
            raise UserError(f"{where}: want `WORD WORD PHONE ...`")
        if word != EPS:
            found[said, *(POSITION.sub("", p) for p in phones)] = None
    return [list(line) for line in found]
