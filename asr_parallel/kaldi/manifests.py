"""From a data directory to our manifests: the same ids, times, channels and texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lhotse import MonoCut, Recording, SupervisionSegment
from lhotse.audio import AudioSource

from asr_parallel.data.manifests import KINDS, write_jsonl
from asr_parallel.kaldi.audio import Audio
from asr_parallel.kaldi.data_dir import DataDir, KaldiUtt

Row = dict[str, Any]


def recording(key: str, audio: Audio) -> Recording:
    """A recording of all channels of its file, or of the only one that it is."""
    channels = list(range(audio.channels))
    source = AudioSource("file", channels, str(Path(audio.path).absolute()))
    ids = channels if audio.only is None else [audio.only]
    return Recording(key, [source], audio.sampling_rate, audio.num_samples, audio.duration, channel_ids=ids)


def supervision(data: DataDir, utt: KaldiUtt, start: float) -> SupervisionSegment:
    """Who says what, from ``start`` s of the recording or cut; ``custom`` has the names that NIST's formats use."""
    audio = data.recordings.get(utt.recording)
    names = dict(zip(("file", "side"), audio.side)) if audio and audio.side else None
    place = (utt.id, utt.recording or utt.id, start, round(utt.end - utt.start, 8))
    return SupervisionSegment(*place, channel=utt.channel, text=utt.text, speaker=utt.speaker, custom=names)


def cut_row(data: DataDir, utt: KaldiUtt) -> Row:
    """The cut of an utterance as its manifest has it; without a recording if there are only features."""
    audio = data.recordings.get(utt.recording)
    sound = recording(utt.recording, audio) if audio else None
    said = [supervision(data, utt, 0.0)]
    return MonoCut(utt.id, utt.start, round(utt.end - utt.start, 8), utt.channel, said, recording=sound).to_dict()


def write_manifests(folder: Path, data: DataDir, rows: list[Row]) -> None:
    """Leave recordings, supervisions and cuts (``rows`` of ``cut_row``) in ``folder``."""
    used = sorted({utt.recording for utt in data.utts} - {""})
    content = (
        (recording(key, data.recordings[key]).to_dict() for key in used),
        (supervision(data, utt, utt.start).to_dict() for utt in data.utts),
        rows,
    )
    for kind, found in zip(KINDS, content, strict=True):
        write_jsonl(Path(folder) / f"{kind}.jsonl.gz", found)
