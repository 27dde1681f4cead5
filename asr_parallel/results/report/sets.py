"""What there is to see of a scored set: where the errors are, by speaker, utterance and word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asr_parallel.log import UserError
from asr_parallel.results.record import Experiment
from asr_parallel.results.report.chart import Chart, Line, Point
from asr_parallel.results.report.sound import Clip, Sound
from asr_parallel.score.align import Pair
from asr_parallel.score.report import confused
from asr_parallel.score.scored import load_scored
from asr_parallel.score.significance import Interval, bootstrap
from asr_parallel.score.wer import Counts, SetScore, UttScore

SPEAKERS = 40  # shown at most
ENOUGH = 5  # utterances of a speaker; fewer of them draw no interval


@dataclass(frozen=True)
class Speaker:
    """``interval`` is None where there are too few utterances for one."""

    name: str
    counts: Counts
    interval: Interval | None


@dataclass(frozen=True)
class Utterance:
    """One of the worst, with its sound if there is any."""

    score: UttScore
    clip: Clip | None


@dataclass(frozen=True)
class Scored:
    """A set: the figures of score.json; the worst speakers and utterances first, confusions by kind."""

    name: str
    figures: dict[str, Any]
    speakers: Sequence[Speaker]
    worst: Sequence[Utterance]
    confused: dict[str, list[tuple[Pair, int]]]
    tuning: Chart | None

    @property
    def tuned(self) -> bool:
        """Whether LM weight and penalty were chosen on this very set."""
        return bool(self.figures["tuned_on"] == self.name)

    @property
    def scale(self) -> float:
        """Percent at the right end of the bars."""
        ends = [s.interval.high if s.interval else s.counts.wer for s in self.speakers]
        return max(ends, default=0) or 1


def scored_sets(e: Experiment, worst: int, sound: Sound | None) -> list[Scored]:
    """Those that nothing was tuned on come first.  UserError if a set's files do not belong together."""
    names = sorted(e.scores, key=lambda name: (e.scores[name]["tuned_on"] == name, name))
    return [_scored(e, name, worst, sound) for name in names]


def _scored(e: Experiment, name: str, worst: int, sound: Sound | None) -> Scored:
    folder, figures = e.path / f"decode_{name}", e.scores[name]
    score = load_scored(folder)
    if (score.counts.errors, score.counts.words) != (figures["errors"], figures["words"]):
        raise UserError(f"{folder}: per_utt.txt and score.json are of different runs; run stage `score` again")
    heard = sound if sound and sound.known(name) else None
    found = [Utterance(u, heard.clip(name, u.utt) if heard else None) for u in worst_of(score, worst)]
    return Scored(name, figures, speakers(score), found, confused(score), tuning(folder, figures))


def worst_of(score: SetScore, count: int) -> list[UttScore]:
    """The utterances with the most errors; among equals the shorter ones first."""
    wrong = [u for u in score.utts if u.counts.errors]
    return sorted(wrong, key=lambda u: (-u.counts.errors, u.counts.words, u.utt))[:count]


def speakers(score: SetScore) -> list[Speaker]:
    """Those with the highest rates; an interval is of new utterances of the same speaker."""
    rated = {name: counts for name, counts in score.speakers().items() if counts.words}
    found = []
    for name in sorted(rated, key=lambda name: (-rated[name].wer, name))[:SPEAKERS]:
        own = [u.counts for u in score.utts if u.spk == name]
        interval = bootstrap([c.errors for c in own], [c.words for c in own]) if len(own) >= ENOUGH else None
        found.append(Speaker(name, rated[name], interval))
    return found


def tuning(folder: Path, figures: dict[str, Any]) -> Chart | None:
    """WER over LM weight, a line a word penalty, from the wer_LMWT_WIP files; None if only one point was tried."""
    rates: dict[float, list[Point]] = {}
    for path in folder.glob("wer_*"):
        point = re.fullmatch(r"wer_(\d+)_([\d.eE+-]+)", path.name)
        rate = re.match(r"%WER ([\d.]+) ", path.read_text(encoding="utf-8"))
        if point and rate:
            rates.setdefault(float(point[2]), []).append((float(point[1]), float(rate[1])))
    if sum(map(len, rates.values())) < 2:
        return None
    lines = [Line(f"penalty {wip:g}", sorted(points)) for wip, points in sorted(rates.items())]
    chosen = Line("chosen", [(float(figures["lmwt"]), figures["wer"])], "marks")
    return Chart(f"Tuning on {figures['set']}", "LM weight", "WER (%)", [*lines, chosen], near=True)
