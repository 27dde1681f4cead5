"""Words of the references that training never had: how many of them are recognised all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from asr_parallel.score.lines import numbered
from asr_parallel.score.summary import finite
from asr_parallel.score.wer import SetScore
from asr_parallel.score.wording import Wording


def load_vocabulary(path: Path, wording: Wording) -> set[str]:
    """The first word of each line, as ``wording`` has it: a list of words, a lexicon or a table of symbols."""
    return {word for _, line in numbered(path) for word in wording.text(line.split()[0], "ref").split()}


def oov_figures(score: SetScore, known: Collection[str]) -> dict[str, Any]:
    """How many reference words are not ``known``, how many of these are right, and how many such words were heard.

    ``oov_recall`` is the share that is right, in percent; None if there is no such word.
    """
    pairs = [pair for u in score.utts for pair in u.pairs]
    unknown = [(ref, hyp) for ref, hyp in pairs if ref is not None and ref not in known]
    right = sum(ref == hyp for ref, hyp in unknown)
    return {
        "oov_words": len(unknown),
        "oov_right": right,
        "oov_recall": finite(100 * right / len(unknown)) if unknown else None,
        "oov_heard": sum(hyp is not None and hyp not in known for _, hyp in pairs),
    }


def oov_table(score: SetScore, known: Collection[str]) -> str:
    """``word``, how often it was ``said`` and how often it is ``right``, for all words that are not ``known``."""
    said, right = Counter[str](), Counter[str]()
    for ref, hyp in (pair for u in score.utts for pair in u.pairs):
        if ref is not None and ref not in known:
            said[ref] += 1
            right[ref] += ref == hyp
    rows = sorted(said.items(), key=lambda item: (-item[1], item[0]))
    return "word\tsaid\tright\n" + "".join(f"{word}\t{count}\t{right[word]}\n" for word, count in rows)
