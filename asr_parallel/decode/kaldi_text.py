"""Hypotheses and lattices in Kaldi's text forms.

A hypothesis is a line ``UTT WORD WORD ...``.  Lattices are as ``lattice-copy ark:- ark,t:-`` writes and reads
``CompactLattice`` tables: an utterance is a line with its id, a line ``FROM TO WORD GRAPH,ACOUSTIC,IDS`` an arc, a line
``STATE GRAPH,ACOUSTIC,IDS`` a final state (``STATE`` alone if it costs nothing), and an empty line.  Words are
symbols, as ``int2sym.pl -f 3`` makes them, or numbers.  ``IDS`` are transition ids, ``1_1_2``, one a frame.  Our
lattices keep no frames: ids that are read are dropped, and none are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from asr_parallel.decode.arcs import Arcs
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.files import atomic, write_text
from asr_parallel.log import UserError

EPS = "<eps>"
Row = tuple[int, int, int, float, float]  # src, dst, word, graph, acoustic; dst -1 is the end


def write_hypotheses(hyps: Mapping[str, Sequence[str]], path: Path) -> None:
    """Write a line for each utterance, those without words too."""
    write_text(path, "".join(" ".join([utt, *words]) + "\n" for utt, words in hyps.items()))


def write_kaldi(lattices: Lattices, path: Path, numbers: Mapping[str, int] | None = None) -> None:
    """Write all lattices that have a path.  Words are written as symbols, or as their ``numbers``."""
    names = lattices.words if numbers is None else [str(_number(numbers, w)) for w in lattices.words]
    with atomic(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for row, utt in enumerate(lattices.utts):
            lattice = lattices.one(row)
            if len(lattice.src):
                file.write(f"{utt}\n{_text(lattice, names)}\n")


def _number(numbers: Mapping[str, int], word: str) -> int:
    if word not in numbers:
        raise UserError(f"word '{word}' of the lattices is not in the table of words: give that of their graph")
    return numbers[word]


def _text(lattice: WordLattice, names: list[str]) -> str:
    order = np.lexsort((lattice.dst, lattice.src))  # OpenFst takes the state of the first line for the start
    columns = (getattr(lattice, n)[order].tolist() for n in ("src", "dst", "word", "graph", "acoustic"))
    lines = [f"{s}\t{d}\t{names[w]}\t{g:.7g},{a:.7g},\n" for s, d, w, g, a in zip(*columns)]
    return "".join([*lines, f"{len(lattice.level) - 1}\n"])


def read_kaldi(path: Path, names: Mapping[int, str] | None = None) -> Lattices:
    """Read a text archive of compact lattices; words that are numbers need their ``names``.

    Raises UserError, naming file and line, for what is no such archive; utterances without a path are ``empty``.
    """
    found: dict[str, WordLattice] = {}
    table: dict[str, int] = {EPS: 0}
    for utt, rows in _utterances(path, table, names):
        if utt in found:
            raise UserError(f"{path}: utterance {utt} stands twice; remove one")
        try:
            found[utt] = _lattice(rows)
        except ValueError as error:
            raise UserError(f"{path}: utterance {utt}: {error}; export it again") from None
    if not found:
        raise UserError(f"{path} has no lattices: give what `lattice-copy ark:lat.1 ark,t:lat.txt` writes")
    flags = ["ok" if len(x.src) else "empty" for x in found.values()]
    return Lattices.join(list(found), flags, list(found.values()), {number: word for word, number in table.items()})


def _lattice(rows: list[Row]) -> WordLattice:
    if not rows:
        return WordLattice.empty()
    src, dst, word, graph, acoustic = (np.array(c) for c in zip(*rows, strict=True))
    end = int(max(src.max(), dst.max())) + 1
    return WordLattice.of(Arcs(int(src[0]), end, src, np.where(dst < 0, end, dst), word, graph, acoustic))


def _utterances(path: Path, table: dict[str, int], names: Mapping[int, str] | None) -> Iterator[tuple[str, list[Row]]]:
    utt, rows = "", list[Row]()
    for number, line in enumerate([*_lines(path), ""], 1):
        fields = line.split()
        if not fields:
            if utt:
                yield utt, rows
            utt, rows = "", []
        elif not utt:
            if len(fields) > 1:
                raise UserError(f"{path}:{number}: '{line}' where an utterance id alone should stand: no text lattice")
            utt = fields[0]
        else:
            try:
                rows.append(_row(fields, table, names))
            except (ValueError, KeyError) as error:
                raise UserError(
                    f"{path}:{number}: '{line}' is no arc `FROM TO WORD GRAPH,ACOUSTIC,IDS` and no final state "
                    f"({error}); words that are numbers need their table of words"
                ) from None


def _lines(path: Path) -> Iterable[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"{path} is not there") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text ({error.reason}): write it with `ark,t:`") from None


def _row(fields: list[str], table: dict[str, int], names: Mapping[int, str] | None) -> Row:
    if len(fields) <= 2:
        return int(fields[0]), -1, 0, *_pair(fields[1] if len(fields) == 2 else "0,0,")
    src, dst, word = int(fields[0]), int(fields[1]), fields[2]
    if names is not None:
        word = names[int(word)]
    elif word == "0":
        word = EPS
    pair = _pair(fields[3] if len(fields) > 3 else "0,0,")
    if len(fields) > 4 or min(src, dst) < 0:
        raise ValueError("wrong number of fields, or a state below 0")
    return src, dst, table.setdefault(word, len(table)), *pair


def _pair(weight: str) -> tuple[float, float]:
    graph, acoustic, *_ = (*weight.split(","), "")[:3]
    pair = float(graph), float(acoustic)
    if not np.isfinite(pair).all():
        raise ValueError(f"weight {weight} is not finite")
    return pair
