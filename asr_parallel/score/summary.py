"""The figures of a scored set: ``score.json``, and what is said about them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from asr_parallel.files import write_json, write_text
from asr_parallel.log import logger
from asr_parallel.score import report
from asr_parallel.score.significance import bootstrap
from asr_parallel.score.wer import Counts, SetScore

log = logger(__name__)


def figures(score: SetScore, seed: int) -> dict[str, Any]:
    """Rates in percent, null where there is no reference word (or character)."""
    c, chars, utts = score.counts, score.chars, score.utts
    interval = bootstrap(
        [u.counts.errors for u in utts], [u.counts.words for u in utts], [u.spk for u in utts], seed=seed
    )
    subsets = score.subsets()
    return {
        "wer": finite(c.wer),
        "ci95": [round(interval.low, 4), round(interval.high, 4)] if interval else None,
        "ci95_unit": interval.unit if interval else None,
        "errors": c.errors,
        "words": c.words,
        "ins": c.ins,
        "del": c.dels,
        "sub": c.subs,
        "cer": finite(chars.wer) if chars else None,
        "char_errors": chars.errors if chars else None,
        "chars": chars.words if chars else None,
        "utts": c.sents,
        "ser": finite(c.ser),
        "wrong_utts": c.wrong,
        "empty_references": sum(u.counts.words == 0 for u in utts),
        "missing": score.missing,
        "extra": score.extra,
        "spk_wer": _rates(score.speakers()),
    } | ({"subset_wer": _rates(subsets)} if subsets else {})


def _rates(parts: dict[str, Counts]) -> dict[str, float | None]:
    return {name: finite(part.wer) for name, part in parts.items()}


def finite(value: float) -> float | None:
    """Rounded to 4 digits; None for nan and inf, which JSON does not have."""
    return round(value, 4) if math.isfinite(value) else None


def write_details(where: Path, score: SetScore, summary: dict[str, Any]) -> None:
    """The files about speakers, utterances and words, those for sclite, and ``score.json``, which is the last."""
    write_text(where / "per_spk.tsv", report.per_spk(score))
    if score.subsets():
        write_text(where / "per_subset.tsv", report.per_subset(score))
    write_text(where / "per_utt.tsv", report.per_utt_table(score))
    write_text(where / "per_utt.txt", report.per_utt(score.utts))
    write_text(where / "confusions.txt", report.confusions(score))
    write_text(where / "ref.trn", report.trn(score, 0))
    write_text(where / "hyp.trn", report.trn(score, 1))
    write_json(where / "score.json", summary)


def warn(name: str, score: SetScore) -> None:
    """Log what a reader of the rate must know."""
    scored = {u.utt for u in score.utts}
    for ids, what in ((score.missing, "have no hypothesis"), (score.extra, "have no reference")):
        if ids:
            fate = "count as deleted" if ids[0] in scored else "are left out"
            some = ", ".join(ids[:5]) + (" ..." if len(ids) > 5 else "")
            log.warning("%s: %d utterances %s and %s: %s", name, len(ids), what, fate, some)
    silent = [u for u in score.utts if u.counts.words == 0]
    if silent:
        inserted = sum(u.counts.ins for u in silent)
        log.warning("%s: %d references are empty; %d insertions there count", name, len(silent), inserted)
