"""Verb ``report``: one page an experiment; of a folder of experiments a page each, and a table that leads to them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from asr_parallel.config import ReportConfig
from asr_parallel.files import write_text
from asr_parallel.log import UserError, duration, logger
from asr_parallel.results import table
from asr_parallel.results.record import Experiment, experiment, find, load
from asr_parallel.results.report import origin
from asr_parallel.results.report.lack import Lack, command
from asr_parallel.results.report.page import render
from asr_parallel.results.report.sets import Scored, scored_sets
from asr_parallel.results.report.sound import Sound
from asr_parallel.results.report.training import course, facts

log = logger(__name__)
MARKS = ("train.json", "config.json", "gmm.npz", "decode_*/score.json", "decode_*/lattices.npz")  # of an experiment


def run(config: ReportConfig) -> None:
    """Write the page, or the pages.  UserError if there is no experiment, or its files are damaged."""
    if config.worst < 0 or config.audio_mb < 0:
        raise UserError("--worst and --audio_mb cannot be negative; 0 means none")
    if config.data is not None and not config.data.is_dir():
        raise UserError(f"--data {config.data}: no such directory; it is where the recipe's prepare stage put the sets")
    exp = config.exp if config.exp.name.strip(".") else config.exp.resolve()
    if (exp / "rbm.tsv").exists():
        raise UserError(f"{exp} holds a pretraining: `{command('info', '--model', exp)}` sums it up")
    if any(any(exp.glob(mark)) for mark in MARKS):
        write(config, experiment(exp, load(exp.parent / "align.json")), config.out or exp / "report.html")
    else:
        write_index(config, exp, find(exp), config.out or exp / "report.html")


def write_index(config: ReportConfig, exp: Path, experiments: list[Experiment], out: Path) -> None:
    """A page in the folder of each experiment, and the table."""
    titles, rows = table.system_cells(experiments)
    systems = []
    for e, cells in zip(experiments, rows):
        page = e.path / "report.html"
        write(config, e, page)
        systems.append((quote(os.path.relpath(page, out.parent)), cells))
    write_text(out, render("index.html", name=exp.name, path=exp, titles=titles, systems=systems))
    log.info("%s written", out)


def write(config: ReportConfig, e: Experiment, out: Path) -> None:
    """The page of one experiment, the same bytes for the same figures."""
    options = origin.options(e.path)
    data = config.data or next((Path(o.values["data"]) for o in options if o.values.get("data")), None)
    sound = Sound(data, config.audio_mb * 1e6) if data and config.audio_mb else None
    sets, trained = scored_sets(e, config.worst, sound), course(e)
    values: dict[str, Any] = {
        "e": e,
        "label": e.label,
        "tiles": tiles(e),
        "sets": sets,
        "lacks": lacks(e, sets, data, silent=not config.audio_mb),
        "course": trained,
        "facts": facts(e, trained.figures),
        "options": options,
        "runs": origin.runs(e.path),
    }
    write_text(out, render("page.html", **values))
    heard = sum(bool(clip.uri) for clip in sound.clips) if sound else 0
    shown = sum(len(s.worst) for s in sets)
    log.info("%s written: %d utterances, %d with audio; %.1f MB", out, shown, heard, out.stat().st_size / 1e6)


def tiles(e: Experiment) -> list[tuple[str, str, str]]:
    """The figures that one looks for first: name, value, and what to know of it."""
    found = []
    for name, score in e.test_scores.items():
        rate, _, interval = table.wer_cell(score).partition(" ")
        found.append((f"WER {name}", f"{rate} %", interval))
    if "dev_acc" in e.train:
        found.append(("Frames right on dev", f"{100 * e.train['dev_acc']:.1f} %", ""))
    if (seconds := table.training_seconds(e)) is not None:
        found.append(("Training", duration(seconds), ""))
    if "frames_per_s" in e.train:
        found.append(("Frames per second", f"{e.train['frames_per_s']:,}", ""))
    if e.decodes and (speed := table.decoding_cell(e)) != table.NONE:
        times, _, words = speed.partition(" × ")
        found.append(("Decoding", f"{times} ×", words))
    return found


def lacks(e: Experiment, sets: list[Scored], data: Path | None, silent: bool) -> list[Lack]:
    """What of scores and sound there is not; ``silent`` if no sound was asked for."""
    where = ("--data", data) if data else ()
    decoded = sorted(p.parent.name.removeprefix("decode_") for p in e.path.glob("decode_*/lattices.npz"))
    found = []
    if not decoded and not sets:
        words = command("decode", "--model", e.path, "--graph", "GRAPH", *where)
        found.append(Lack("Nothing has been decoded, so that there are no rates.", words))
    if bare := [name for name in decoded if name not in e.scores]:
        words = command("score", "--model", e.path, *where, "--pairs", "DEV:TEST")
        found.append(Lack(f"Decoded but not scored: {', '.join(bare)}.", words))
    mute = [s.name for s in sets if any(u.clip is None for u in s.worst)]
    if mute and not silent:
        words = command("report", e.path, "--data", "DIR")
        why = f"{data} holds no manifests of it" if data else "nothing here tells which corpus it is of"
        found.append(Lack(f"No audio of {', '.join(mute)}: {why}.", words))
    return found
