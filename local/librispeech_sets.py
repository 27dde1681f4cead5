"""Which utterance of LibriSpeech is in which set, and the manifests of the sets, read through Lhotse."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lhotse import MonoCut, Recording, SupervisionSegment
from lhotse.recipes.librispeech import parse_utterance
from librispeech_parts import PARTS

from asr_parallel.data.manifests import KINDS, read_jsonl, write_jsonl
from asr_parallel.log import UserError, logger
from asr_parallel.pool import parallel_map

log = logger("asr_parallel.librispeech")

MAX_BAD = 0.01  # share of a part's utterances that may have no transcript or no audio
Row = dict[str, Any]
Spoken = tuple[Recording, SupervisionSegment]


@dataclass(frozen=True)
class Choice:
    """What is taken of the corpus."""

    rate: int = 16000  # Hz
    hold_out: float = 0.0  # share of the training speakers that become the set dev
    with_set: Path | None = None  # set of another corpus that is added to train
    max_train_minutes: float = 0.0  # 0: all
    max_test_minutes: float = 0.0
    jobs: int = 1


def make(folder: Path, parts: Sequence[str], out: Path, choice: Choice) -> dict[str, Any]:
    """Write the sets of ``parts`` under ``out``; give counts of what is kept and dropped, and what failed."""
    sets: dict[str, list[Spoken]] = {"train": []}
    dropped: dict[str, Counter[str]] = {"train": Counter()}
    failed: list[str] = []
    for part in parts:
        name = "train" if part.startswith("train-") else part.replace("-", "_")
        utts, bad = read_part(folder / part, choice)
        sets.setdefault(name, []).extend(utts)
        dropped.setdefault(name, Counter()).update(why.rpartition(": ")[2] for why in bad)
        failed += bad
    if choice.hold_out:
        sets["dev"], sets["train"] = hold_out(sets["train"], choice.hold_out)
    for name, utts in sets.items():
        minutes = choice.max_train_minutes if name == "train" else choice.max_test_minutes
        sets[name] = take(utts, minutes) if minutes else utts
    table = {}
    for name, utts in sets.items():
        rows = rows_of(utts)
        if name == "train" and choice.with_set:
            add(rows, choice.with_set, choice.rate)
        write(out / name, rows)
        table[name] = counts(rows["cuts"])
    return {"sets": table, "dropped": dropped, "failed": failed}


def read_part(folder: Path, choice: Choice) -> tuple[list[Spoken], list[str]]:
    """Utterances of a part in order of their ids, and why others are none: ``WHERE: what is missing``.

    Raises ``UserError`` if more than ``MAX_BAD`` are none.
    """
    lines = [
        (f"{path}:{number}", line)
        for path in sorted(folder.rglob("*.trans.txt"))
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1)
        if line.strip()
    ]

    def one(item: tuple[str, str]) -> Spoken | str:
        return read_utt(folder, *item, choice.rate)

    results = list(parallel_map(one, lines, choice.jobs, folder.name, chunk=64))
    utts = sorted((r for r in results if not isinstance(r, str)), key=lambda u: u[0].id)
    said = {line.split()[0] for _, line in lines}
    bad = [r for r in results if isinstance(r, str)]
    bad += [f"{p}: no transcript" for p in sorted(folder.rglob("*.flac")) if p.stem not in said]
    for why in bad:
        log.warning("%s", why)
    if not utts or len(bad) > MAX_BAD * len(lines):
        first = f", first {bad[0]}" if bad else ""
        raise UserError(f"{folder}: {len(bad)} of {len(lines)} utterances are bad{first}; unpack its archive again")
    if len(lines) != PARTS[folder.name].utts:
        log.warning("%s: %d of the %d utterances at openslr.org", folder.name, len(lines), PARTS[folder.name].utts)
    return utts, bad


def read_utt(folder: Path, where: str, line: str, rate: int) -> Spoken | str:
    """An utterance by its line of a transcript, or why it is none."""
    if len(line.split()) < 2:
        return f"{where}: {line!r}: no text"
    try:
        found = parse_utterance(folder, line, {})
    except Exception as error:  # of Lhotse's readers, which raise several kinds
        log.warning("%s: %s", where, " ".join(str(error).split()))
        return f"{where}: {line.split()[0]}: audio can't be read"
    if found is None:
        return f"{where}: {line.split()[0]}: no audio file"
    recording = found[0].resample(rate)
    text = " ".join(found[1].text.split())
    return recording, dataclasses.replace(found[1], duration=recording.duration, text=text)


def _draw(name: str) -> str:
    """Sorts names at random, but always in the same way."""
    return hashlib.sha256(name.encode()).hexdigest()


def hold_out(utts: Sequence[Spoken], share: float) -> tuple[list[Spoken], list[Spoken]]:
    """Utterances of ``share`` of the speakers (at least one), and those of the others."""
    speakers = sorted({segment.speaker for _, segment in utts}, key=_draw)
    held = set(speakers[: math.ceil(share * len(speakers))])
    if len(held) == len(speakers):
        raise UserError(f"--hold-out {share} of {len(speakers)} speakers leaves none to train on")
    return [u for u in utts if u[1].speaker in held], [u for u in utts if u[1].speaker not in held]


def take(utts: Iterable[Spoken], minutes: float) -> list[Spoken]:
    """As many utterances, drawn by their ids, as fill ``minutes``; in order of their ids."""
    taken, left = [], 60 * minutes
    for utt in sorted(utts, key=lambda u: _draw(u[0].id)):
        left -= utt[0].duration
        if left < 0:
            break
        taken.append(utt)
    return sorted(taken, key=lambda u: u[0].id)


def rows_of(utts: Iterable[Spoken]) -> dict[str, list[Row]]:
    """Rows of the three manifests; a cut is a whole recording."""
    rows: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    for recording, segment in utts:
        cut = MonoCut(recording.id, 0.0, recording.duration, 0, supervisions=[segment], recording=recording)
        for kind, item in zip(KINDS, (recording, segment, cut)):
            rows[kind].append(item.to_dict())
    return rows


def add(rows: dict[str, list[Row]], other: Path, rate: int) -> None:
    """Add the rows of a set of another corpus.  UserError if its sampling rate is another, or an id is in both."""
    more = {kind: read_jsonl(other / f"{kind}.jsonl.gz") for kind in KINDS}
    rates = {row["sampling_rate"] for row in more["recordings"]}
    if rates != {rate}:
        raise UserError(f"--with {other}: has {', '.join(map(str, sorted(rates)))} Hz; give --rate of that as well")
    if both := {row["id"] for row in rows["cuts"]} & {row["id"] for row in more["cuts"]}:
        raise UserError(f"--with {other}: has utterance {min(both)}, too; is it the same corpus?")
    for kind in KINDS:
        rows[kind] = sorted(rows[kind] + more[kind], key=lambda row: row["id"])


def write(directory: Path, rows: dict[str, list[Row]]) -> None:
    for kind in KINDS:
        write_jsonl(directory / f"{kind}.jsonl.gz", rows[kind])


def counts(cuts: Sequence[Row]) -> dict[str, float]:
    """Utterances, speakers, minutes and words of a set."""
    segments = [s for cut in cuts for s in cut["supervisions"]]
    return {
        "utts": len(cuts),
        "speakers": len({s["speaker"] for s in segments}),
        "minutes": round(sum(cut["duration"] for cut in cuts) / 60, 2),
        "words": sum(len(s["text"].split()) for s in segments),
    }
