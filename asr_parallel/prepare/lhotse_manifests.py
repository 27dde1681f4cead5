"""Lhotse's manifests: recordings with supervisions, or cuts, as ``*.jsonl`` or ``*.jsonl.gz`` of any name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asr_parallel.files import files_under
from asr_parallel.log import UserError
from asr_parallel.prepare.item import AudioFinder, Fault, Item, folders, set_of
from asr_parallel.score.lines import numbered

SUFFIXES = (".jsonl", ".jsonl.gz")
Row = dict[str, Any]


def claims(source: Path) -> bool:
    return any(_kind(path) in ("recordings", "cuts") for path in files_under(source, SUFFIXES))


def read(source: Path) -> Iterator[Item | Fault]:
    """An utterance a supervision.  Cuts are read only where supervisions are not, for they repeat them."""
    found: dict[str, list[Path]] = {"recordings": [], "supervisions": [], "cuts": [], "": []}
    for path in files_under(source, SUFFIXES):
        found[_kind(path)].append(path)
    recordings = {row["id"]: row for path in found["recordings"] for _, row in _rows(path) if row}
    whole = bool(recordings and found["supervisions"])
    unsaid = set(recordings) if whole else set[str]()
    for path in found["supervisions" if whole else "cuts"]:
        find, of_set = AudioFinder(source, Path(), path.parent, source), set_of(*folders(path, source), path.name)
        for told in _of_supervisions(path, recordings) if whole else _of_cuts(path):
            yield _item(*told, find, of_set)
            unsaid.discard((told[2] or {}).get("id", ""))
    for recording in sorted(unsaid):
        yield Fault(recording, str(found["recordings"][0]), "no text", "no supervision is of this recording")


def _kind(path: Path) -> str:
    """What a manifest holds, told by its first row."""
    try:
        row = next((row for _, row in _rows(path)), None) or {}
    except UserError:
        return ""
    if "sources" in row:
        return "recordings"
    if "recording_id" in row and "duration" in row and "type" not in row:
        return "supervisions"
    return "cuts" if str(row.get("type", "")).endswith("Cut") else ""


def _rows(path: Path) -> Iterator[tuple[str, Row | None]]:
    """``FILE:LINE`` and content of each row; None for a line that is none."""
    for where, line in numbered(path):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        yield where, row if isinstance(row, dict) else None


Told = tuple[str, Row | None, Row | None, float]  # where, supervision, its recording, seconds to add to its times


def _of_supervisions(path: Path, recordings: dict[str, Row]) -> Iterator[Told]:
    for where, row in _rows(path):
        yield where, row, recordings.get(str((row or {}).get("recording_id"))), 0.0


def _of_cuts(path: Path) -> Iterator[Told]:
    for where, row in _rows(path):
        if row is None or "tracks" in row:
            yield where, None, None, 0.0
            continue
        for supervision in row.get("supervisions", []):
            yield where, supervision, row.get("recording"), row["start"]


def _item(
    where: str, said: Row | None, recording: Row | None, offset: float, find: AudioFinder, of_set: str
) -> Item | Fault:
    utt = str((said or {}).get("id", ""))
    if said is None:
        return Fault(utt, where, "not a row", "it is damaged, or a mix of cuts")
    if recording is None:
        return Fault(utt, where, "no audio", f"no manifest has its recording {said.get('recording_id')}")
    try:
        channel = said.get("channel", 0)
        source, channel = _source(recording, channel[0] if isinstance(channel, list) else channel)
        start = said["start"] + offset
        times = (start, start + said["duration"])
    except (KeyError, TypeError, ValueError) as error:
        return Fault(utt, where, "not usable", str(error))
    text, speaker = said.get("text") or "", said.get("speaker") or ""
    return Item(utt, find(source), text, where, speaker, *times, channel, of_set, recording["id"])


def _source(recording: Row, channel: int) -> tuple[str, int]:
    """The file that holds a channel of a recording, and the channel's place in it; ValueError if there is none."""
    if recording.get("transforms"):
        raise ValueError(f"its recording {recording['id']} is to be changed when read ({recording['transforms']})")
    for source in recording["sources"]:
        if channel in source["channels"]:
            if source["type"] != "file":
                raise ValueError(f"its recording {recording['id']} is a {source['type']}, not a file; save it as one")
            return source["source"], source["channels"].index(channel)
    raise ValueError(f"its recording {recording['id']} has no channel {channel}")
