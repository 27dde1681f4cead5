"""Check a prepared corpus before hours are spent on it.

``run`` is the verb; ``check_set`` and ``check_across`` are for other code.  A problem names the set, the
utterance and what is wrong; what only tells something (speakers that are in two sets) is information.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import soundfile
from lhotse import MonoCut, Recording
from lhotse.augmentation import Resample

from asr_parallel.config import ValidateConfig, found_sets
from asr_parallel.data.manifests import load_cuts, load_recordings, load_supervisions
from asr_parallel.files import write_json
from asr_parallel.log import UserError, logger
from asr_parallel.pool import parallel_map

log = logger(__name__)

TOLERANCE = 1e-3  # seconds that a time may lie outside, from rounding
SHOWN = 10  # problems that are printed; all are in validated.json


@dataclass(frozen=True)
class Problem:
    """What is wrong with one utterance (or, if ``utt`` is empty, with a whole set)."""

    set: str
    utt: str
    what: str

    def __str__(self) -> str:
        return f"{self.set}: {self.utt}: {self.what}" if self.utt else f"{self.set}: {self.what}"


@dataclass
class SetReport:
    """Counts of a set and the problems found in it."""

    name: str
    speakers: Counter[str] = field(default_factory=Counter)  # utterances of each speaker
    utts: set[str] = field(default_factory=set)
    rates: Counter[int] = field(default_factory=Counter)  # recordings of each sampling rate, Hz
    seconds: float = 0.0
    words: int = 0
    problems: list[Problem] = field(default_factory=list)


def text_problem(text: str | None) -> str:
    """What is wrong with a reference; empty if it is words separated by single blanks.

    Other white space (tabs, no-break and ideographic blanks, byte-order marks) splits words in some tools
    and not in others.
    """
    if not text or not text.strip():
        return "no text"
    for c in text:
        if c != " " and (c.isspace() or unicodedata.category(c) in ("Cc", "Cf", "Zs")):
            return f"text has the character U+{ord(c):04X}, which tools take for different things: {text!r}"
    return f"text has blanks at its ends or two in a row: {text!r}" if text != " ".join(text.split()) else ""


def cut_problems(cut: MonoCut) -> list[str]:
    """What is wrong with one cut, audio apart."""
    if not cut.has_recording or len(cut.supervisions) != 1:
        return [f"{len(cut.supervisions)} supervisions, recording: {cut.has_recording}; wanted is one of each"]
    found, supervision, recording = [], cut.supervisions[0], cut.recording
    if cut.start < 0 or cut.duration <= 0 or cut.end > recording.duration + TOLERANCE:
        found.append(f"cut is {cut.start}-{cut.end} s of a recording of {recording.duration} s")
    if supervision.start < -TOLERANCE or supervision.end > cut.duration + TOLERANCE or supervision.duration <= 0:
        found.append(f"supervision is {supervision.start}-{supervision.end} s of a cut of {cut.duration} s")
    if abs(recording.num_samples / recording.sampling_rate - recording.duration) > TOLERANCE:
        found.append(f"{recording.num_samples} samples at {recording.sampling_rate} Hz are not {recording.duration} s")
    if not supervision.speaker:
        found.append("no speaker")
    elif not cut.id.startswith(supervision.speaker):
        found.append(f"id does not begin with the speaker {supervision.speaker}; sorting by either must be the same")
    if cut.id != supervision.id:
        found.append(f"its supervision has another id, {supervision.id}")
    if what := text_problem(supervision.text):
        found.append(what)
    return found


def audio_problem(recording: Recording) -> str:
    """Compare the header of an audio file with the manifest; empty if they agree."""
    for source in recording.sources:
        if source.type != "file":
            continue
        if not Path(source.source).is_file():
            return f"audio file {source.source} is not there"
        try:
            info = soundfile.info(source.source)
        except soundfile.SoundFileError as error:
            return f"audio file {source.source} cannot be read: {error}"
        if not fits(recording, info.samplerate, info.frames):
            return (
                f"audio file {source.source} has {info.frames} samples at {info.samplerate} Hz, "
                f"the manifest says {recording.num_samples} at {recording.sampling_rate}"
            )
    return ""


def fits(recording: Recording, rate: int, samples: int) -> bool:
    """Whether a file with so many ``samples`` at ``rate`` Hz is what a manifest says; reading may resample it."""
    resampled = [t.source_sampling_rate for t in recording.transforms or () if isinstance(t, Resample)]
    if not resampled:
        return (rate, samples) == (recording.sampling_rate, recording.num_samples)
    return rate == resampled[0] and abs(samples / rate - recording.duration) <= 1 / recording.sampling_rate


def check_set(data: Path, name: str, jobs: int = 1) -> SetReport:
    """Check the manifests of one set and the headers of its audio files."""
    report = SetReport(name)
    cuts = list(load_cuts(data, name))
    for cut in cuts:
        if cut.id in report.utts:
            report.problems.append(Problem(name, cut.id, "the id comes twice in the set"))
        report.utts.add(cut.id)
        report.problems += [Problem(name, cut.id, what) for what in cut_problems(cut)]
        report.seconds += cut.duration
        for s in cut.supervisions:
            report.speakers[s.speaker or ""] += 1
            report.words += len((s.text or "").split())
        if cut.has_recording:
            report.rates[cut.recording.sampling_rate] += 1
    if not cuts:
        report.problems.append(Problem(name, "", "has no utterances"))
    if len(report.rates) > 1:
        report.problems.append(Problem(name, "", f"has several sampling rates: {dict(report.rates)}"))
    with_audio = [cut for cut in cuts if cut.has_recording]
    recordings = {cut.recording.id: cut.recording for cut in with_audio}
    found = dict(zip(recordings, parallel_map(audio_problem, list(recordings.values()), jobs, chunk=64)))
    report.problems += [Problem(name, c.id, what) for c in with_audio if (what := found[c.recording.id])]
    report.problems += _parts_problems(data, name, cuts)
    return report


def _parts_problems(data: Path, name: str, cuts: list[MonoCut]) -> list[Problem]:
    """Whether ``recordings`` and ``supervisions`` hold the same as ``cuts``."""
    recordings = {r.id: r for r in load_recordings(data / name / "recordings.jsonl.gz")}
    segments = {s.id: s for s in load_supervisions(data / name / "supervisions.jsonl.gz")}
    in_cuts = {s.id: s for c in cuts for s in c.supervisions}
    found = []
    for kind, ours, theirs in (
        ("recordings", {c.recording.id for c in cuts if c.has_recording}, set(recordings)),
        ("supervisions", set(in_cuts), set(segments)),
    ):
        found += [Problem(name, key, f"is in cuts, but not in {kind}.jsonl.gz") for key in sorted(ours - theirs)]
        found += [Problem(name, key, f"is in {kind}.jsonl.gz, but not in cuts") for key in sorted(theirs - ours)]
    for key in in_cuts.keys() & segments.keys():
        a, b = in_cuts[key], segments[key]
        if (a.text, a.speaker) != (b.text, b.speaker):
            found.append(Problem(name, key, "supervisions.jsonl.gz has another text or speaker than cuts"))
    return found


def check_across(reports: list[SetReport]) -> list[Problem]:
    """Ids that are in two sets, and sets that differ in sampling rate."""
    found, first = [], dict[str, str]()
    for report in reports:
        for utt in sorted(report.utts):
            if utt in first:
                found.append(Problem(report.name, utt, f"is in the set {first[utt]}, too"))
            first.setdefault(utt, report.name)
    rates = {report.name: sorted(report.rates) for report in reports if report.rates}
    if len({r for of_set in rates.values() for r in of_set}) > 1:
        found.append(Problem("all sets", "", f"sampling rates differ: {rates}"))
    return found


def shared_speakers(reports: list[SetReport]) -> dict[str, list[str]]:
    """Speakers that two sets have in common, by ``"SET SET"``."""
    shared = {}
    for i, a in enumerate(reports):
        for b in reports[i + 1 :]:
            if both := sorted((a.speakers.keys() & b.speakers.keys()) - {""}):
                shared[f"{a.name} {b.name}"] = both
    return shared


def check(data: Path, sets: list[str], jobs: int = 1) -> tuple[list[SetReport], list[Problem]]:
    """Check all ``sets`` of corpus ``data``; their reports, and all problems within and across them."""
    reports = [check_set(data, name, jobs) for name in sets]
    return reports, [p for r in reports for p in r.problems] + check_across(reports)


def run(config: ValidateConfig) -> None:
    """Check a corpus, print its table, leave ``validated.json``.

    Raises ``UserError`` if more than ``max_bad`` of the utterances, or anything of a whole set, is wrong.
    """
    sets = config.sets or found_sets(config.data)
    if not sets:
        raise UserError(f"{config.data}: has no SET/cuts.jsonl.gz; run the recipe's prepare stage (--stage 0)")
    reports, problems = check(config.data, sets, config.num_jobs())
    shared = shared_speakers(reports)
    _print(reports, shared)
    for problem in problems[:SHOWN]:
        log.warning("%s", problem)

    bad = {(p.set, p.utt) for p in problems if p.utt}
    total = sum(len(r.utts) for r in reports)
    if any(not p.utt for p in problems) or len(bad) > config.max_bad * total:
        first = "".join(f"\n  {p}" for p in sorted(problems, key=lambda p: p.utt != "")[:3])
        raise UserError(
            f"{config.data}: {len(bad)} of {total} utterances are bad, {len(problems)} problems, first:{first}\n"
            "mend the corpus and prepare it again, or allow a share of bad utterances with --max_bad"
        )
    write_json(config.data / "validated.json", _summary(reports, shared, problems))


def _summary(reports: list[SetReport], shared: dict[str, list[str]], problems: list[Problem]) -> dict[str, Any]:
    sets = {
        r.name: {
            "utts": len(r.utts),
            "speakers": len(r.speakers),
            "minutes": round(r.seconds / 60, 2),
            "words": r.words,
            "sampling_rate": next(iter(r.rates), None),
        }
        for r in reports
    }
    return {"sets": sets, "shared_speakers": shared, "problems": [str(p) for p in problems]}


def _print(reports: list[SetReport], shared: dict[str, list[str]]) -> None:
    print(f"{'set':<14}{'utts':>7}{'speakers':>10}{'hours':>8}{'words':>8}{'Hz':>7}{'problems':>10}")
    for r in reports:
        rates = "/".join(map(str, sorted(r.rates)))
        print(
            f"{r.name:<14}{len(r.utts):>7}{len(r.speakers):>10}{r.seconds / 3600:>8.2f}{r.words:>8}{rates:>7}"
            f"{len(r.problems):>10}"
        )
    for pair, speakers in shared.items():
        more = f" and {len(speakers) - 5} more" if len(speakers) > 5 else ""
        print(f"speakers in both of {pair}: {', '.join(speakers[:5])}{more}")
