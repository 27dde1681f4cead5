"""What was said: references from a cut manifest.

The manifest is read as plain JSON lines: the scorer needs three of its fields and starts in a tenth of the time.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

from asr_parallel.log import UserError

_BLANKS = re.compile(r"[ \t\n\r\f\v]+")  # what separates words in Kaldi; other Unicode blanks belong to words


def split_words(text: str) -> list[str]:
    """Words of ``text``, which only ASCII blanks separate."""
    return [word for word in _BLANKS.split(text) if word]


@dataclass(frozen=True)
class Reference:
    """What was said in an utterance, and by whom."""

    spk: str
    words: list[str]


def load_references(path: Path) -> dict[str, Reference]:
    """Speaker and words of each cut of a manifest (``cuts.jsonl.gz``), by cut id, in its order.

    UserError names file and line of a cut that is no JSON, has not one supervision with a text, or comes twice.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file; the references are read from it. Run stage `prepare` first")
    refs: dict[str, Reference] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                utt, ref = _reference(line, f"{path}:{number}")
                if utt in refs:
                    raise UserError(f"{path}:{number}: {utt} is there twice; ids must be unique")
                refs[utt] = ref
        except (OSError, EOFError, UnicodeDecodeError) as e:
            raise UserError(f"{path}: damaged file ({e}); make it again") from e
    if not refs:
        raise UserError(f"{path}: no cuts in it; nothing to score")
    return refs


def _reference(line: str, where: str) -> tuple[str, Reference]:
    try:
        cut = json.loads(line)
        (supervision,) = cut["supervisions"]
        text = supervision["text"]
        if not isinstance(text, str):
            raise TypeError("text is no string")
        return cut["id"], Reference(supervision.get("speaker") or cut["id"], split_words(text))
    except (ValueError, KeyError, TypeError) as e:
        raise UserError(f"{where}: want a cut with one supervision that has a `text` ({e})") from e
