"""Verb ``score``.  Of lattices: tune (lmwt, wip) on a dev set, report WER on its test sets; of files: ``files.py``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asr_parallel.config import ScoreConfig, cuts_path
from asr_parallel.files import write_text
from asr_parallel.log import UserError, logger
from asr_parallel.score.align import COSTS
from asr_parallel.score.files import score_files
from asr_parallel.score.oov import load_vocabulary, oov_figures, oov_table
from asr_parallel.score.references import load_cuts, references
from asr_parallel.score.sources import refuse_idle, wording_of
from asr_parallel.score.summary import figures, warn, write_details
from asr_parallel.score.timed import stm_line
from asr_parallel.score.transcripts import Utterance
from asr_parallel.score.tune import Point, choose, edge_warnings, score_grid
from asr_parallel.score.wer import Counts, SetScore, kaldi_line, kaldi_report, score_set
from asr_parallel.score.wording import Wording

log = logger(__name__)
Grid = dict[Point, dict[str, list[str]]]


def run(config: ScoreConfig) -> None:
    """Score ``config.hyp`` against ``config.ref``, or every DEV:TEST pair; print what came out.

    Raises UserError on bad files, pairs, ids or ranges.
    """
    if config.of_files:
        score_files(config)
        return
    refuse_idle(config, ("format", "hyp_format", "utt2spk", "out"), "is for --ref and --hyp, not for lattices")
    pairs = parse_pairs(config.pairs)
    if not config.lmwt or not config.wip:
        raise UserError("--lmwt and --wip need at least one value each")
    if min(config.lmwt) <= 0:
        raise UserError(f"--lmwt {min(config.lmwt)}: LM weights must be positive (acoustic scores are divided by them)")
    wording = wording_of(config)
    rows = []
    for dev, tests in pairs.items():
        rows += _score_group(config, dev, tests, wording)
    print(json.dumps(rows, indent=1, ensure_ascii=False) if config.json else table(rows), flush=True)


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


def _score_group(config: ScoreConfig, dev: str, tests: Sequence[str], wording: Wording) -> list[dict[str, Any]]:
    """Tune on ``dev``, then score it and its test sets at the point found; their summaries."""
    said = load_cuts(cuts_path(config.data, dev))
    refs = references(said, wording)
    grid = _hypotheses(config, dev, config.lmwt, config.wip)
    where = config.model / f"decode_{dev}"
    scores = score_grid(refs, grid, str(where), config.mode or "all", COSTS[config.costs], wording)
    point = choose(scores)
    for warning in edge_warnings(point, scores):
        log.warning("%s: %s", dev, warning)
    missing = len(refs.keys() - grid[point].keys())
    _write_wer_files(where, scores, point, missing)
    rows = [_report(config, dev, dev, point, said, grid[point], wording)]
    for test in tests:
        said = load_cuts(cuts_path(config.data, test))
        hyps = _hypotheses(config, test, [point[0]], [point[1]])[point]
        rows.append(_report(config, test, dev, point, said, hyps, wording))
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
    config: ScoreConfig,
    name: str,
    dev: str,
    point: Point,
    said: dict[str, Utterance],
    hyps: dict[str, list[str]],
    wording: Wording,
) -> dict[str, Any]:
    """Write everything about ``name`` at ``point``; give its summary, which is also ``score.json``."""
    where = config.model / f"decode_{name}"
    words = {utt: wording.words(" ".join(hyp), "hyp", utt) for utt, hyp in hyps.items()}
    score = score_set(references(said, wording), words, str(where), config.mode or "all", COSTS[config.costs])
    if name != dev:
        _write_wer_files(where, {point: score.counts}, point, len(score.missing))
    warn(name, score)
    summary = summarise(score, name, dev, point, config.seed)
    if config.vocabulary:
        known = load_vocabulary(config.vocabulary, wording)
        summary |= oov_figures(score, known)
        write_text(where / "oov.tsv", oov_table(score, known))
    write_details(where, score, summary)
    if all(u.seconds for u in said.values()):
        lines = [stm_line(utt, u.spk, u.seconds, wording.text(u.text, "ref")) for utt, u in said.items()]
        write_text(where / "ref.stm", "".join(lines))
    return summary


def summarise(score: SetScore, name: str, dev: str, point: Point, seed: int) -> dict[str, Any]:
    """Content of ``score.json``: what was chosen where, and the figures."""
    return {"set": name, "tuned_on": dev, "lmwt": point[0], "wip": point[1]} | figures(score, seed)


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
    if any("oov_words" in r for r in rows):
        lines = [(*line, cell) for line, cell in zip(lines, ["OOV right", *map(_oov_cell, rows)])]
    wide = [max(len(cell) for cell in column) for column in zip(*lines)]
    sides = [str.ljust] * 2 + [str.rjust] * (len(wide) - 2)
    return "\n".join("  ".join(f(c, w) for f, c, w in zip(sides, x, wide)) for x in lines)


def _oov_cell(r: dict[str, Any]) -> str:
    recall = "nan" if r["oov_recall"] is None else f"{r['oov_recall']:.1f} %"
    return f"{r['oov_right']}/{r['oov_words']} {recall}"


def _table_row(r: dict[str, Any]) -> tuple[str, ...]:
    rate = [f"{100 * r[k] / r['words']:.1f}" if r["words"] else "nan" for k in ("sub", "del", "ins")]
    wer = "nan" if r["wer"] is None else f"{r['wer']:.2f}"
    interval = "-" if r["ci95"] is None else f"{r['ci95'][0]:.1f}-{r['ci95'][1]:.1f}"
    ser = "nan" if r["ser"] is None else f"{r['ser']:.1f}"
    where = "itself" if r["tuned_on"] == r["set"] else r["tuned_on"]
    counts = (str(r["lmwt"]), str(r["wip"]), str(r["utts"]), str(r["words"]))
    return (r["set"], where, *counts, wer, interval, *rate, ser, str(len(r["missing"])))
