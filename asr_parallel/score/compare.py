"""Verb ``compare``: is one system better than another on the same speech, or may it be chance?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asr_parallel.config import CompareConfig
from asr_parallel.files import read_json
from asr_parallel.log import UserError, logger
from asr_parallel.score.mapsswe import mapsswe
from asr_parallel.score.scored import load_scored
from asr_parallel.score.significance import compare
from asr_parallel.score.sources import refuse_idle, score_pair
from asr_parallel.score.wer import SetScore, UttScore

log = logger(__name__)
HOW_TO_SCORE = ("format", "hyp_format", "utt2spk", "filter", "unicode", "fold_case", "alternates", "costs")
FEW = 50  # segments below which the normal distribution of MAPSSWE is in doubt


def run(config: CompareConfig) -> None:
    """Print paired bootstrap and MAPSSWE of each set that both systems have.  UserError if there is none."""
    rows = [row(config, *each) for each in in_common(config)]
    print(json.dumps(rows, indent=1, ensure_ascii=False) if config.json else table(rows), flush=True)


def in_common(config: CompareConfig) -> list[tuple[str, SetScore, SetScore]]:
    """Name of each set, scores of the old system, scores of the new one."""
    if config.ref:
        old, new = (score_pair(config, config.ref, hyp) for hyp in (config.old, config.new))
        return [(config.ref.name, old, new)]
    refuse_idle(config, HOW_TO_SCORE, "is for files (--ref): score both systems again with it, then compare them")
    a, b = scores_of(config.old), scores_of(config.new)
    both = [(name or config.new.name, a[name], b[name]) for name in a if name in b]
    if not both:
        raise UserError(f"{config.old} has sets {', '.join(a)}, {config.new} has {', '.join(b)}: none in common")
    return both


def scores_of(path: Path) -> dict[str, SetScore]:
    """Scored test sets of a model directory by name; what a directory of ``score --out`` holds has the name ``""``."""
    if path.is_file():
        raise UserError(f"{path} is a file: say what it is to be scored against, --ref")
    if (path / "per_utt.txt").exists():
        return {"": load_scored(path)}
    folders = sorted(p.parent for p in path.glob("decode_*/score.json"))
    names = {f.name.removeprefix("decode_"): f for f in folders}
    tests = {name: f for name, f in names.items() if _tuned_on(f / "score.json") != name}
    if not tests:
        raise UserError(f"{path}: no scored test set in it (decode_SET/score.json); run stage `score` first")
    return {name: load_scored(f) for name, f in tests.items()}


def _tuned_on(path: Path) -> str | None:
    try:
        return read_json(path).get("tuned_on")
    except (ValueError, AttributeError):
        raise UserError(f"{path}: damaged; run stage `score` again") from None


def row(config: CompareConfig, name: str, a: SetScore, b: SetScore) -> dict[str, Any]:
    """The comparison of B, the new system, with A on a set; rates in percent."""
    pairs = paired(config, name, a, b)
    columns = [[c.counts.errors for c in side] for side in zip(*pairs)]
    words = [[c.counts.words for c in side] for side in zip(*pairs)]
    boot = compare(columns[0], columns[1], words[0], [x.spk for x, _ in pairs], seed=config.seed, words_b=words[1])
    if boot is None:
        raise UserError(f"{name}: there are no reference words, so that there are no rates to compare")
    test = mapsswe((x.pairs, y.pairs) for x, y in pairs)
    if test.segments < FEW:
        log.warning("%s: %d segments with errors are few for MAPSSWE: its p value is rough", name, test.segments)
    return {
        "set": name,
        "old": str(config.old),
        "new": str(config.new),
        "utts": len(pairs),
        "wer_old": boot.wer_a,
        "wer_new": boot.wer_b,
        "difference": boot.wer_a - boot.wer_b,
        "ci95": [boot.low, boot.high],
        "ci95_unit": boot.unit,
        "p_new_better": boot.p_better,
        "p_bootstrap": boot.p,
        "segments": test.segments,
        "z_mapsswe": test.z,
        "p_mapsswe": test.p,
    }


def paired(config: CompareConfig, name: str, a: SetScore, b: SetScore) -> list[tuple[UttScore, UttScore]]:
    """Utterances of A with those of B.  UserError if these are not the same, unless the mode is ``present``."""
    of_a, of_b = ({u.utt: u for u in side.utts} for side in (a, b))
    alone = of_a.keys() ^ of_b.keys()
    if alone and config.mode != "present":
        raise UserError(f"{name}: {len(alone)} utterances were scored in one system only, e.g. {min(alone)}")
    pairs = [(u, of_b[utt]) for utt, u in of_a.items() if utt in of_b]
    changed = [] if config.ref else [x.utt for x, y in pairs if said(x) != said(y)]
    if changed:
        raise UserError(
            f"{name}: {len(changed)} references differ between the two, e.g. that of {changed[0]}: score both again on "
            "the same set; if they have alternates, give --ref and the hypothesis files"
        )
    return pairs


def said(u: UttScore) -> list[str]:
    return [ref for ref, _ in u.pairs if ref is not None]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Plain text, a line a set."""
    head = ("set", "old", "new", "difference", "95 %", "P(new better)", "p bootstrap", "segments", "z", "p MAPSSWE")
    lines = [head, *(_cells(r) for r in rows)]
    wide = [max(map(len, column)) for column in zip(*lines)]
    text = ["  ".join([line[0].ljust(wide[0]), *map(str.rjust, line[1:], wide[1:])]) for line in lines]
    return "\n".join([f"old: {rows[0]['old']}", f"new: {rows[0]['new']}", "", *text])


def _cells(r: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = r["ci95"]
    return (
        r["set"],
        f"{r['wer_old']:.2f}",
        f"{r['wer_new']:.2f}",
        f"{r['difference']:+.2f}",
        f"{low:+.2f} to {high:+.2f}",
        f"{r['p_new_better']:.3f}",
        _p(r["p_bootstrap"]),
        str(r["segments"]),
        "-" if r["z_mapsswe"] is None else f"{r['z_mapsswe']:.2f}",
        _p(r["p_mapsswe"]),
    )


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
