"""One of our sets as a data directory of Kaldi: the same ids, times, channels and texts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from asr_parallel.config import cuts_path
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.manifests import read_jsonl
from asr_parallel.files import write_text
from asr_parallel.kaldi.cmvn import statistics
from asr_parallel.kaldi.lines import write_table
from asr_parallel.kaldi.tables import ArchiveWriter
from asr_parallel.kaldi.values import write_matrix
from asr_parallel.log import UserError, logger

log = logger(__name__)
Row = dict[str, Any]
DECODERS = {".flac": "flac -c -d -s"} | dict.fromkeys((".sph", ".wv1", ".wv2"), "sph2pipe -f wav -p")
AUDIO_FILES = ("wav.scp", "segments", "reco2dur", "reco2file_and_channel")


def export_data(data: Path, name: str, kind: str, out: Path) -> dict[str, int]:
    """Leave set ``name`` of corpus ``data`` in ``out``, with features of ``kind`` unless that is empty; give counts."""
    rows = read_jsonl(cuts_path(data, name, kind))
    utts = {row["id"]: row for row in rows}
    if len(utts) < len(rows):
        raise UserError(f"{cuts_path(data, name, kind)} has an id twice: run `validate`")
    for utt in utts:
        if not utt or any(c.isspace() for c in utt):
            raise UserError(f"set {name}: id {utt!a} has blanks, which Kaldi's files cannot have: rename it")
    said = {utt: row["supervisions"][0] for utt, row in utts.items()}
    speakers = {utt: s.get("speaker") or utt for utt, s in said.items()}
    write_table(out / "utt2spk", speakers)
    write_table(out / "spk2utt", _spk2utt(speakers))
    write_table(out / "utt2dur", {utt: f"{row['duration']:.8g}" for utt, row in utts.items()})
    texts = {utt: s["text"] for utt, s in said.items() if s.get("text") is not None}
    if texts:
        write_table(out / "text", texts)
    counts = {"utts": len(utts), "texts": len(texts), "recordings": _audio(name, utts, out)}
    if kind:
        counts |= _features(FeatureSet.open(data, name, kind), rows, out)
    return counts


def _spk2utt(speakers: dict[str, str]) -> dict[str, str]:
    """In the order of Kaldi's ``utt2spk_to_spk2utt.pl``, of a sorted table."""
    lists: dict[str, list[str]] = {}
    for utt in sorted(speakers, key=str.encode):
        lists.setdefault(speakers[utt], []).append(utt)
    return {spk: " ".join(utts) for spk, utts in lists.items()}


def _audio(name: str, utts: dict[str, Row], out: Path) -> int:
    """Write what tells where audio is; give the number of recordings, 0 if some utterance has no file."""
    for file in AUDIO_FILES:
        (out / file).unlink(missing_ok=True)
    recordings = {r["id"]: r for row in utts.values() if (r := row.get("recording"))}
    silent = [utt for utt, row in utts.items() if not row.get("recording")]
    odd = silent or [r for r in recordings if _file(recordings[r]) is None]
    if odd:
        log.warning("%s: %s has no audio file as it is (%d such): no wav.scp is written", name, odd[0], len(odd))
        return 0
    write_table(out / "wav.scp", {key: _entry(_file(r)) for key, r in recordings.items()})
    write_table(out / "reco2dur", {key: f"{r['duration']:.8g}" for key, r in recordings.items()})
    if any(not _is_whole(utt, row) for utt, row in utts.items()):
        write_table(out / "segments", {utt: _segment(row) for utt, row in utts.items()})
    sides = {row["recording"]["id"]: side_of(row) for row in utts.values()}
    write_table(out / "reco2file_and_channel", {key: f"{file} {side}" for key, (file, side) in sides.items()})
    return len(recordings)


def _file(recording: Row) -> Path | None:
    """The one file of a recording that is not changed in any way; None if there is no such."""
    sources = recording["sources"]
    if len(sources) != 1 or sources[0]["type"] != "file" or recording.get("transforms"):
        return None
    return Path(sources[0]["source"]).absolute()


def _entry(path: Path | None) -> str:
    """How ``wav.scp`` names a file: Kaldi reads RIFF alone, and others through a command."""
    command = DECODERS.get(path.suffix.lower()) if path else ""
    return f"{command} {shlex.quote(str(path))} |" if command else str(path)


def _is_whole(utt: str, row: Row) -> bool:
    recording = row["recording"]
    same = recording["id"] == utt and len(recording["sources"][0]["channels"]) == 1
    return same and row["start"] == 0 and abs(row["duration"] - recording["duration"]) < 1e-6


def _segment(row: Row) -> str:
    """``RECORDING START END``, and the channel if its file has several."""
    end = row["start"] + row["duration"]
    several = len(row["recording"]["sources"][0]["channels"]) > 1
    return f"{row['recording']['id']} {row['start']:.8g} {end:.8g}" + (f" {row['channel']}" if several else "")


def side_of(row: Row) -> tuple[str, str]:
    """File and channel in NIST's formats: as they came, or the recording (or utterance) and ``A``, ``B``, ..."""
    custom, recording = row["supervisions"][0].get("custom") or {}, row.get("recording") or row
    return custom.get("file", recording["id"]), custom.get("side", chr(ord("A") + row["channel"]))


def _features(feats: FeatureSet, rows: list[Row], out: Path) -> dict[str, int]:
    """Features as they are stored, and the statistics that normalise them as we do."""
    order = sorted(feats.utts, key=str.encode)
    with ArchiveWriter(out / "feats", write_matrix) as archive:
        for utt in order:
            i = feats.row_of[utt]
            archive.add(utt, np.asarray(feats.frames[feats.offsets[i] : feats.offsets[i + 1]], np.float32))
    frames = np.bincount(feats.speaker_of, np.diff(feats.offsets), len(feats.speakers)).astype(int)
    with ArchiveWriter(out / "cmvn", write_matrix) as archive:
        for s, speaker in enumerate(feats.speakers):
            archive.add(speaker, statistics(feats.mean[s], feats.std[s], max(1, int(frames[s]))))
    write_table(out / "utt2num_frames", {utt: str(feats.num_frames(utt)) for utt in order})
    write_text(out / "frame_shift", f"{rows[0]['features']['frame_shift']:g}\n")
    return {"frames": len(feats.frames), "values": feats.dim}
