"""Verb ``score``: tune (lmwt, wip) on each dev set, report WER on its test set."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asr_parallel.config import ScoreConfig, cuts_path
from asr_parallel.files import write_json, write_text
from asr_parallel.log import UserError, logger
from asr_parallel.score import report
from asr_parallel.score.references import Reference, load_references
from asr_parallel.score.significance import bootstrap
from asr_parallel.score.tune import Point, choose, edge_warnings, score_grid
from asr_parallel.score.wer import Counts, SetScore, kaldi_line, kaldi_report, score_set

log = logger(__name__)
Grid = dict[Point, dict[str, list[str]]]


def run(config: ScoreConfig) -> None:
    """Score every DEV:TEST pair of ``config``; print the table.  Raises UserError on bad pairs, ids or ranges."""
    pairs = parse_pairs(config.pairs)
    if not config.lmwt or not config.wip:
        raise UserError("--lmwt and --wip need at least one value each")
    if min(config.lmwt) <= 0:
        raise UserError(f"--lmwt {min(config.lmwt)}: LM weights must be positive (acoustic scores are divided by them)")
    rows = []
    for dev, tests in pairs.items():
        rows += _score_group(config, dev, tests)
    print(table(rows), flush=True)


def parse_pairs(pairs: Sequence[str]) -> dict[str, list[str]]:
    """Test sets of each dev set.  UserError if a pair is no DEV:TEST, or a test set would tune something."""
    tests: dict[str, list[str]] = {}
    for pair in pairs:
        dev, colon, test = pair.partition(":")
        if not (dev and colon and test) or ":" in test:
            raise UserError(f"--pairs {pair!r}: want DEV:TEST, e.g. dev_joe:test_joe")
        tests.setdefault(dev, []).append(test)
    both = tests.keys() & {t for group in tests.values() for t in group}
    if both:
        raise UserError(f"--pairs: {', '.join(sorted(both))} is a dev and a test set; nothing is tuned on a test set")
    return tests


def _score_group(config: ScoreConfig, dev: str, tests: Sequence[str]) -> list[dict[str, Any]]:
    """Tune on ``dev``, then score it and its test sets at the point found; their summaries."""
    refs = load_references(cuts_path(config.data, dev))
    grid = _hypotheses(config, dev, config.lmwt, config.wip)
    where = config.model / f"decode_{dev}"
    scores = score_grid(refs, grid, str(where))
    point = choose(scores)
    for warning in edge_warnings(point, scores):
        log.warning("%s: %s", dev, warning)
    missing = len(refs.keys() - grid[point].keys())
    _write_wer_files(where, scores, point, missing)
    rows = [_report(config, dev, dev, point, refs, grid[point])]
    for test in tests:
        refs = load_references(cuts_path(config.data, test))
        hyps = _hypotheses(config, test, [point[0]], [point[1]])[point]
        rows.append(_report(config, test, dev, point, refs, hyps))
    return rows


def _hypotheses(config: ScoreConfig, name: str, lmwt: Sequence[int], wip: Sequence[float]) -> Grid:
    """Hypotheses of a set at each point; utterances that the decoder gave up on are left out."""
    path = config.model / f"decode_{name}" / "lattices.npz"
    if not path.exists():
        raise UserError(f"{path}: no such file; run stage `decode` on set {name} first")
    lattices = load_lattices(path)
    failed = {utt for utt, flag in zip(lattices.utts, lattices.flags) if _failed(flag)}
    grid = lattices.best_grid(list(lmwt), list(wip))
    return {p: {utt: words for utt, words in hyps.items() if utt not in failed} for p, hyps in grid.items()}


def load_lattices(path: Path) -> Any:
    """Lattices of a set.  The decoder is imported only here, so that everything else runs without it."""
    from asr_parallel.decode.lattice import Lattices

    return Lattices.load(path)


def _failed(flag: object) -> bool:
    return str(flag) in ("failed", "empty")


def _report(
    config: ScoreConfig, name: str, dev: str, point: Point, refs: dict[str, Reference], hyps: dict[str, list[str]]
) -> dict[str, Any]:
    """Write everything about ``name`` at ``point``; give its summary, which is also ``score.json``."""
    where = config.model / f"decode_{name}"
    score = score_set(refs, hyps, str(where))
    if name != dev:
        _write_wer_files(where, {point: score.counts}, point, len(score.missing))
    _warn(name, score)
    summary = summarise(score, name, dev, point, config.seed)
    write_text(where / "per_spk.tsv", report.per_spk(score))
    write_text(where / "per_utt.tsv", report.per_utt_table(score))
    write_text(where / "per_utt.txt", report.per_utt(score.utts))
    write_text(where / "confusions.txt", report.confusions(score))
    write_json(where / "score.json", summary)
    return summary


def _warn(name: str, score: SetScore) -> None:
    if score.missing:
        some = ", ".join(score.missing[:5]) + (" ..." if len(score.missing) > 5 else "")
        log.warning("%s: %d utterances have no hypothesis and count as deleted: %s", name, len(score.missing), some)
    silent = [u for u in score.utts if u.counts.words == 0]
    if silent:
        inserted = sum(u.counts.ins for u in silent)
        log.warning("%s: %d references are empty; %d insertions there count", name, len(silent), inserted)


def summarise(score: SetScore, name: str, dev: str, point: Point, seed: int) -> dict[str, Any]:
    """Content of ``score.json``; rates in percent, null where there is no reference word."""
    c = score.counts
    utts = score.utts
    interval = bootstrap(
        [u.counts.errors for u in utts], [u.counts.words for u in utts], [u.spk for u in utts], seed=seed
    )
    return {
        "set": name,
        "tuned_on": dev,
        "lmwt": point[0],
        "wip": point[1],
        "wer": _finite(c.wer),
        "ci95": [round(interval.low, 4), round(interval.high, 4)] if interval else None,
        "ci95_unit": interval.unit if interval else None,
        "errors": c.errors,
        "words": c.words,
        "ins": c.ins,
        "del": c.dels,
        "sub": c.subs,
        "utts": c.sents,
        "ser": _finite(c.ser),
        "wrong_utts": c.wrong,
        "empty_references": sum(u.counts.words == 0 for u in utts),
        "missing": score.missing,
        "spk_wer": {spk: _finite(part.wer) for spk, part in score.speakers().items()},
    }


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def _write_wer_files(where: Path, scores: dict[Point, Counts], best: Point, missing: int) -> None:
    """``wer_LMWT_WIP`` of every point and ``best_wer``; files of points of an earlier run are removed."""
    names = {point: f"wer_{point[0]}_{point[1]}" for point in scores}
    for old in where.glob("wer_*"):
        if re.fullmatch(r"wer_\d+_[\d.eE+-]+", old.name) and old.name not in names.values():
            old.unlink()
    for point, c in scores.items():
        write_text(where / names[point], kaldi_report(c, missing))
    write_text(where / "best_wer", f"{kaldi_line(scores[best], missing)} {where / names[best]}\n")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Summaries as a table of plain text, one line a set."""
    head = ("set", "tuned on", "lmwt", "wip", "utts", "words", "WER", "95 %", "sub", "del", "ins", "SER", "missing")
    lines = [head] + [_table_row(r) for r in rows]
    wide = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(f(c, w) for f, c, w in zip([str.ljust] * 2 + [str.rjust] * 11, x, wide)) for x in lines)


def _table_row(r: dict[str, Any]) -> tuple[str, ...]:
    rate = [f"{100 * r[k] / r['words']:.1f}" if r["words"] else "nan" for k in ("sub", "del", "ins")]
    wer = "nan" if r["wer"] is None else f"{r['wer']:.2f}"
    interval = "-" if r["ci95"] is None else f"{r['ci95'][0]:.1f}-{r['ci95'][1]:.1f}"
    ser = "nan" if r["ser"] is None else f"{r['ser']:.1f}"
    where = "itself" if r["tuned_on"] == r["set"] else r["tuned_on"]
    counts = (str(r["lmwt"]), str(r["wip"]), str(r["utts"]), str(r["words"]))
    return (r["set"], where, *counts, wer, interval, *rate, ser, str(len(r["missing"])))
