"""Lhotse manifests from plain rows, and back.

A corpus gives one ``Utt`` for each utterance, whose audio is a file of its own; ``write`` leaves
``recordings``, ``supervisions`` and ``cuts`` ``.jsonl.gz``.  Same rows, same bytes: the files hold no time.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lhotse import CutSet, MonoCut, Recording, RecordingSet, SupervisionSegment, SupervisionSet
from lhotse.audio import AudioSource

from asr_parallel.config import cuts_path
from asr_parallel.files import atomic
from asr_parallel.log import UserError

KINDS = ("recordings", "supervisions", "cuts")


@dataclass(frozen=True)
class Utt:
    """One utterance: a mono audio file, who speaks, and the normalised text.  ``id`` begins with ``speaker``."""

    id: str
    speaker: str
    text: str
    audio: str  # path, absolute or relative to where the stages run
    sampling_rate: int  # Hz
    num_samples: int

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.num_samples / self.sampling_rate


def recording(utt: Utt) -> Recording:
    source = AudioSource(type="file", channels=[0], source=str(utt.audio))
    return Recording(utt.id, [source], utt.sampling_rate, utt.num_samples, utt.duration)


def supervision(utt: Utt) -> SupervisionSegment:
    """The whole recording, one speaker; cut id = supervision id = recording id."""
    return SupervisionSegment(
        utt.id, utt.id, 0.0, utt.duration, channel=0, text=utt.text, language="English", speaker=utt.speaker
    )


def cut(utt: Utt) -> MonoCut:
    return MonoCut(utt.id, 0.0, utt.duration, 0, supervisions=[supervision(utt)], recording=recording(utt))


def write(directory: str | Path, utts: Iterable[Utt]) -> None:
    """Leave the three manifests of a set in ``directory``, in order of utterance id.

    Raises ``UserError`` if an id comes twice or does not begin with its speaker.
    """
    utts = sorted(utts, key=lambda u: u.id)
    for before, utt in itertools.pairwise(utts):
        if before.id == utt.id:
            raise UserError(f"{directory}: two utterances have the id {utt.id}: {before.audio} and {utt.audio}")
    for utt in utts:
        if not utt.id.startswith(utt.speaker):
            raise UserError(f"{directory}: utterance {utt.id} does not begin with its speaker {utt.speaker}")
    for kind, make in zip(KINDS, (recording, supervision, cut)):
        write_jsonl(Path(directory) / f"{kind}.jsonl.gz", (make(utt).to_dict() for utt in utts))


def write_jsonl(path: str | Path, rows: Iterable[dict[str, Any]]) -> None:
    """One JSON object a line, gzipped, atomically, without the time of day in the file."""
    with (
        atomic(path) as temporary,
        open(temporary, "wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as lines,
    ):
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """All rows of a manifest.  ``UserError`` names the file and the last whole line if it is damaged."""
    path, rows = Path(path), []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                rows.append(json.loads(line))
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such manifest; run the recipe's prepare stage") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        last = f"after {rows[-1].get('id')!r}" if rows and isinstance(rows[-1], dict) else "at its beginning"
        raise UserError(
            f"{path}: line {len(rows) + 1}, {last}, cannot be read ({error}); run the prepare stage again"
        ) from error
    return rows


def load_recordings(path: str | Path) -> RecordingSet:
    return RecordingSet.from_recordings(Recording.from_dict(row) for row in read_jsonl(path))


def load_supervisions(path: str | Path) -> SupervisionSet:
    return SupervisionSet.from_segments(SupervisionSegment.from_dict(row) for row in read_jsonl(path))


def load_cuts(data: str | Path, name: str, kind: str = "") -> CutSet:
    """The cuts of set ``name`` of corpus ``data``, in memory; with features of ``kind`` if given."""
    rows = read_jsonl(cuts_path(Path(data), name, kind))
    return CutSet.from_cuts(MonoCut.from_dict({k: v for k, v in row.items() if k != "type"}) for row in rows)
