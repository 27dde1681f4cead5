"""Who said what: Kaldi texts, NIST's trn, JSON lines, by the id of the utterance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from asr_parallel.log import UserError
from asr_parallel.score.lines import numbered

Format = Literal["text", "trn", "stm", "ctm", "jsonl"]
UNKNOWN = "unknown"  # the speaker, where nothing says who it was
_EXTENSIONS = ("trn", "stm", "ctm", "jsonl")


@dataclass(frozen=True)
class Utterance:
    """An utterance as a file has it; ``spk`` is empty if the file does not say, ``seconds`` 0."""

    text: str
    where: str  # FILE:LINE
    spk: str = ""
    seconds: float = 0.0
    labels: tuple[str, ...] = ()


def format_of(path: Path) -> Format:
    """By the extension, or by the whole name (``ctm``); what is unknown is a Kaldi text."""
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    return cast(Format, ending) if ending in _EXTENSIONS else "text"


def read(path: Path, kind: Literal["text", "trn", "jsonl"]) -> dict[str, Utterance]:
    """Utterances by id, in the order of the file.

    UserError names file and line of what is not of this format, and of an id that comes twice.
    """
    parse = {"text": _text, "trn": _trn, "jsonl": _jsonl}[kind]
    return unique(path, (parse(line, where) for where, line in numbered(path) if not _is_comment(line, kind)))


def unique(path: Path, utterances: Iterator[tuple[str, Utterance]]) -> dict[str, Utterance]:
    """By id.  UserError if an id comes twice, or there is no utterance at all."""
    found: dict[str, Utterance] = {}
    for utt, utterance in utterances:
        if utt in found:
            line = found[utt].where.rpartition(":")[2]
            raise UserError(f"{utterance.where}: {utt} is there twice (line {line} too); ids must be unique")
        found[utt] = utterance
    if not found:
        raise UserError(f"{path}: no utterances in it; nothing to score")
    return found


def _is_comment(line: str, kind: str) -> bool:
    return kind == "trn" and line.startswith(";;")


def _text(line: str, where: str) -> tuple[str, Utterance]:
    utt, *text = line.split(maxsplit=1)
    return utt, Utterance("".join(text), where)


def _trn(line: str, where: str) -> tuple[str, Utterance]:
    text, opening, utt = line.strip().removesuffix(")").rpartition("(")
    if not line.strip().endswith(")") or not opening or not utt.strip() or ")" in utt:
        raise UserError(f"{where}: want the id in parentheses at the end, e.g. `SO IT IS (spk-utt)`")
    return utt.strip(), Utterance(text, where, spk_of(utt.strip()))


def spk_of(utt: str) -> str:
    """As sclite finds it in a trn id (``-i spu_id``): all before the first ``-``, or else ``_``."""
    for mark in "-_":
        if mark in utt:
            return utt.partition(mark)[0]
    return ""


def _jsonl(line: str, where: str) -> tuple[str, Utterance]:
    """An object with ``id``, ``text`` and perhaps ``speaker``; or a Lhotse cut with one supervision."""
    try:
        row = json.loads(line)
        said = row
        if "supervisions" in row:
            (said,) = row["supervisions"]
        utt, text, spk = row["id"], said["text"], said.get("speaker") or ""
        if not all(isinstance(x, str) for x in (utt, text, spk)) or not utt:
            raise TypeError("`id`, `text` and `speaker` must be strings")
        return utt, Utterance(text, where, spk, _seconds(row))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise UserError(
            f"{where}: want an object with `id` and `text`, or a cut with one supervision that has a `text` ({e})"
        ) from None


def _seconds(row: dict[str, Any]) -> float:
    value = row.get("duration", 0)
    return float(value) if isinstance(value, (int, float)) else 0.0


def read_utt2spk(path: Path) -> dict[str, str]:
    """Kaldi's ``utt2spk``.  UserError names the line of what is not ``UTT SPK``."""
    speakers = {}
    for where, line in numbered(path):
        if len(fields := line.split()) != 2:
            raise UserError(f"{where}: want `UTT SPK`")
        speakers[fields[0]] = fields[1]
    return speakers
