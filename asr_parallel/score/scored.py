"""Scores of an earlier run, read back from the files that it left."""

from __future__ import annotations

from pathlib import Path

from asr_parallel.log import UserError
from asr_parallel.score.align import Pair
from asr_parallel.score.lines import numbered
from asr_parallel.score.wer import SetScore, UttScore, count


def load_scored(folder: Path) -> SetScore:
    """Utterances of ``per_utt.txt`` with the speakers of ``per_utt.tsv``; without characters.

    UserError if a file is not there or damaged.
    """
    path = folder / "per_utt.txt"
    if not path.exists():
        raise UserError(f"{path}: no such file; score first")
    speakers = _speakers(folder / "per_utt.tsv")
    rows: dict[str, dict[str, list[str]]] = {}
    for where, line in numbered(path):
        utt, name, *cells = line.split()
        if utt not in speakers or name not in ("ref", "hyp", "op", "#csid"):
            raise UserError(f"{where}: want `UTT ref|hyp|op|#csid ...` of an utterance of per_utt.tsv; score again")
        rows.setdefault(utt, {})[name] = cells
    return SetScore([_utt(path, utt, spk, rows.get(utt, {})) for utt, spk in speakers.items()], [])


def _speakers(path: Path) -> dict[str, str]:
    lines = [line.rstrip("\n").split("\t") for _, line in numbered(path)]
    if not lines or lines[0][:2] != ["utt", "spk"]:
        raise UserError(f"{path}: want columns utt, spk, ...; score again")
    return {line[0]: line[1] for line in lines[1:]}


def _utt(path: Path, utt: str, spk: str, rows: dict[str, list[str]]) -> UttScore:
    try:
        cells = zip(rows["ref"], rows["hyp"], rows["op"], strict=True)
        pairs: list[Pair] = [(None if op == "I" else ref, None if op == "D" else hyp) for ref, hyp, op in cells]
    except (KeyError, ValueError):
        raise UserError(f"{path}: the lines of {utt} are not whole; score again") from None
    return UttScore(utt, spk, pairs, count(pairs))
