"""Lhotse manifests from plain rows, and back.

A corpus gives one ``Utt`` for each utterance, whose audio is a file of its own or a part of one; ``write`` leaves
``recordings``, ``supervisions`` and ``cuts`` ``.jsonl.gz``.  Same rows, same bytes: the files hold no time.
"""

from __future__ import annotations

import dataclasses
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
    """One utterance: where its audio is, who speaks, and the normalised text.  ``id`` begins with ``speaker``.

    A file that holds several utterances or channels has a ``recording`` id of its own; ``start`` and ``length`` tell
    which part of it is this one.
    """

    id: str
    speaker: str
    text: str
    audio: str  # path, absolute or relative to where the stages run
    sampling_rate: int  # Hz
    num_samples: int  # of the whole file
    recording: str = ""  # the utterance's own id by default
    start: float = 0.0  # seconds
    length: float | None = None  # seconds, to the end of the file by default
    channel: int = 0
    channels: int = 1  # of the file
    language: str | None = "English"

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.num_samples / self.sampling_rate - self.start if self.length is None else self.length


def recording(utt: Utt) -> Recording:
    source = AudioSource(type="file", channels=list(range(utt.channels)), source=str(utt.audio))
    seconds = utt.num_samples / utt.sampling_rate
    return Recording(utt.recording or utt.id, [source], utt.sampling_rate, utt.num_samples, seconds)


def supervision(utt: Utt) -> SupervisionSegment:
    """What is said, at its time in the recording."""
    return SupervisionSegment(
        *(utt.id, utt.recording or utt.id, utt.start, utt.duration),
        channel=utt.channel, text=utt.text, language=utt.language, speaker=utt.speaker,
    )  # fmt: skip


def cut(utt: Utt) -> MonoCut:
    """The utterance alone; cut id = supervision id."""
    said = dataclasses.replace(supervision(utt), start=0.0)
    return MonoCut(utt.id, utt.start, utt.duration, utt.channel, supervisions=[said], recording=recording(utt))


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
    files = {utt.recording or utt.id: utt for utt in reversed(utts)}  # the first of each
    for kind, make, rows in zip(KINDS, (recording, supervision, cut), ([files[r] for r in sorted(files)], utts, utts)):
        write_jsonl(Path(directory) / f"{kind}.jsonl.gz", (make(utt).to_dict() for utt in rows))


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
