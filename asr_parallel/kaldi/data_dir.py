"""A Kaldi data directory: which utterances there are, where their audio is, who speaks, and what is said.

Every utterance that any of its files names is either good or bad; a bad one has a reason, with file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from asr_parallel.data.validate import text_problem
from asr_parallel.kaldi.audio import Audio, BadRecording, Recordings
from asr_parallel.kaldi.lines import read_table
from asr_parallel.log import UserError, logger

log = logger(__name__)
OVERSHOOT = 0.5  # seconds that a segment may end after its recording, as in Kaldi's extract-segments; it is cut
Table = Mapping[str, tuple[str, str]]  # FILE:LINE and the rest of the line, by id


@dataclass(frozen=True)
class KaldiUtt:
    """An utterance; times are seconds in ``recording``, which is empty if there are only features; channels from 0."""

    id: str
    speaker: str
    text: str | None  # None if the directory has no texts
    recording: str
    start: float
    end: float
    channel: int
    where: str


@dataclass
class DataDir:
    """What was found: utterances sorted by id, recordings by id, and why other utterances are left out."""

    path: Path
    utts: list[KaldiUtt] = field(default_factory=list)
    recordings: dict[str, Audio] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)

    def total(self) -> int:
        """Utterances, good and bad."""
        return len(self.utts) + len(self.bad)


def read_data_dir(path: Path, audio: Path, allow_commands: bool = False, root: Path = Path(".")) -> DataDir:
    """Read the directory ``path``; ``root`` is where Kaldi ran, which relative paths in it may begin from.

    Files made of commands and archives go to ``audio``.  Raises ``UserError`` for what spoils the whole directory.
    """
    path = Path(path)
    files = {name: _optional(path / name) for name in ("segments", "text", "feats.scp", "utt2dur", "spk2utt")}
    wavs, speakers = _optional(path / "wav.scp"), _speakers(path, files["spk2utt"])
    if not wavs and not files["feats.scp"]:
        raise UserError(f"{path} has neither wav.scp nor feats.scp: give a data directory of Kaldi")
    found = DataDir(path)
    lost = _recordings(found, wavs, Recordings(audio, root, allow_commands)) if wavs else {}
    spans = files["segments"] or wavs or files["feats.scp"] or {}
    for utt in sorted({*spans, *speakers, *(files["feats.scp"] or {}), *(files["text"] or {})}):
        try:
            found.utts.append(_utterance(found, utt, spans, speakers, files, lost))
        except BadUtterance as error:
            found.bad[utt] = str(error)
    if files["text"] is None:
        log.warning("%s has no text: its %d utterances have no references", path, len(found.utts))
    return found


class BadUtterance(Exception):
    """Why an utterance is left out."""


def _optional(path: Path) -> dict[str, tuple[str, str]] | None:
    return read_table(path) if path.exists() else None


def _speakers(path: Path, spk2utt: Table | None) -> dict[str, tuple[str, str]]:
    """The speaker of each utterance, from ``utt2spk``, or ``spk2utt`` if that is all there is."""
    if (path / "utt2spk").exists() or spk2utt is None:
        return read_table(path / "utt2spk")
    return {utt: (where, spk) for spk, (where, utts) in spk2utt.items() for utt in utts.split()}


def _recordings(found: DataDir, wavs: Table, recordings: Recordings) -> dict[str, str]:
    """Fill ``found.recordings``; give the reasons why others cannot be used."""
    sides = _optional(found.path / "reco2file_and_channel") or {}
    lost = {}
    for key, (where, entry) in sorted(wavs.items()):
        try:
            audio = recordings.find(key, entry, where)
        except (BadRecording, OSError) as error:
            lost[key] = f"{where}: {error}"
            continue
        side = tuple(sides[key][1].split()) if key in sides else ()
        if side and len(side) != 2:
            raise UserError(f"{sides[key][0]}: want `RECORDING FILE CHANNEL`")
        found.recordings[key] = replace(audio, side=(side[0], side[1]) if side else None)
    return lost


def _utterance(
    found: DataDir,
    utt: str,
    spans: Table,
    speakers: Table,
    files: Mapping[str, Table | None],
    lost: Mapping[str, str],
) -> KaldiUtt:
    """The utterance ``utt``.  Raises ``BadUtterance``."""
    if utt not in spans:
        raise BadUtterance(f"{found.path}: it has no audio and no features, only a speaker or a text")
    where, entry = spans[utt]
    if utt not in speakers or len(speakers[utt][1].split()) != 1:
        raise BadUtterance(f"{where}: it has no speaker in utt2spk, or several")
    text: str | None = None
    if (texts := files["text"]) is not None:
        if utt not in texts:
            raise BadUtterance(f"{where}: it has no line in text")
        text = " ".join(word for word in texts[utt][1].replace("\t", " ").split(" ") if word)
        if text and (problem := text_problem(text)):
            raise BadUtterance(f"{texts[utt][0]}: {problem}")
    whole = KaldiUtt(utt, speakers[utt][1], text, "", 0.0, 0.0, 0, where)
    if files["segments"] is not None:
        return _segment(found, whole, entry, lost, bool(files["feats.scp"]))
    return _of_recording(found, whole, utt, lost, files)


def _of_recording(
    found: DataDir, utt: KaldiUtt, key: str, lost: Mapping[str, str], files: Mapping[str, Table | None]
) -> KaldiUtt:
    """An utterance that is a whole recording, or of which there are only features."""
    audio = found.recordings.get(key)
    if audio:
        return replace(utt, recording=key, end=audio.duration, channel=_channel(audio, None, utt.where))
    if utt.id not in (files["feats.scp"] or {}):
        raise BadUtterance(lost[key])
    duration = (files["utt2dur"] or {}).get(utt.id, ("", "0"))[1]
    return replace(utt, end=max(0.0, _seconds(duration, utt.where)))  # 0: the import tells it from the features


def _segment(found: DataDir, utt: KaldiUtt, entry: str, lost: Mapping[str, str], has_feats: bool) -> KaldiUtt:
    """An utterance of ``segments``, whose line goes on with ``entry``."""
    fields = entry.split()
    if len(fields) not in (3, 4):
        raise BadUtterance(f"{utt.where}: want `UTT RECORDING START END [CHANNEL]`")
    key, (start, end) = fields[0], (_seconds(f, utt.where) for f in fields[1:3])
    audio = found.recordings.get(key)
    if audio is None and not has_feats:
        raise BadUtterance(lost.get(key, f"{utt.where}: recording {key} is not in wav.scp"))
    if audio and end == -1:
        end = audio.duration
    if start < 0 or end <= start:
        raise BadUtterance(f"{utt.where}: it lasts from {start:g} to {end:g} s")
    if audio is None:
        return replace(utt, start=start, end=end)
    if start >= audio.duration or end > audio.duration + OVERSHOOT:
        raise BadUtterance(f"{utt.where}: it ends at {end:g} s, its recording at {audio.duration:g} s")
    given = int(fields[3]) if len(fields) == 4 and fields[3].isdigit() else None
    if len(fields) == 4 and given is None:
        raise BadUtterance(f"{utt.where}: channel {fields[3]!r} is no number from 0 on")
    channel = _channel(audio, given, utt.where)
    return replace(utt, recording=key, start=start, end=min(end, audio.duration), channel=channel)


def _seconds(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadUtterance(f"{where}: {text!r} is no time in seconds") from None


def _channel(audio: Audio, given: int | None, where: str) -> int:
    """Which channel of the file; one of several must be named."""
    if audio.only is not None:
        return audio.only
    if given is None and audio.channels > 1:
        raise BadUtterance(
            f"{where}: {audio.path} has {audio.channels} channels and none is named: name it in segments"
        )
    if given is not None and given >= audio.channels:
        raise BadUtterance(f"{where}: channel {given} of {audio.path}, which has {audio.channels}")
    return given or 0
