"""Audio files of telephone calls: where they are, whether they are whole, and a copy of those that need a decoder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import soundfile

from asr_parallel.data.audio import Audio, AudioError, probe, samples
from asr_parallel.files import atomic
from asr_parallel.log import UserError, logger
from asr_parallel.pool import parallel_map

log = logger("asr_parallel.swbd_calls")

RATE, CHANNELS = 8000, 2
SHOWN = 5  # faults of audio that are said; all are in prepare_bad.tsv


@dataclass(frozen=True)
class Call:
    """An audio file that can be read as it is; ``samples`` a channel."""

    id: str
    audio: Path
    rate: int
    samples: int

    @property
    def seconds(self) -> float:
        return self.samples / self.rate


@dataclass(frozen=True)
class Bad:
    """What is left out and why; ``kind`` is what counts are of."""

    where: str
    kind: str


def open_calls(files: Iterable[Path], wanted: Iterable[str], out: Path, jobs: int) -> dict[str, Call | str]:
    """Each of the wanted calls, or why it can't be read; FLAC copies of compressed files go to ``out``.

    UserError if two files of one call differ in size.
    """
    found = dict[str, Path]()
    for path in files:
        if path.suffix.lower() == ".sph":
            other = found.setdefault(path.stem.lower(), path)
            if other.stat().st_size != path.stat().st_size:
                raise UserError(f"{other} and {path} are one call, but differ in size; take one of them away")

    def one(name: str) -> Call | str:
        if name not in found:
            return f"{name}.sph is not there"
        try:
            return open_call(name, found[name], out)
        except AudioError as error:
            return f"{found[name]} {error}"

    names = sorted(set(wanted))
    calls = dict(zip(names, parallel_map(one, names, jobs, "audio", "call", chunk=8)))
    for fault in [call for call in calls.values() if isinstance(call, str)][:SHOWN]:
        log.warning("%s", fault)
    return calls


def open_call(name: str, path: Path, out: Path) -> Call:
    """Raises ``AudioError`` if the file is not two whole channels of telephone speech."""
    copy = out / f"{name}.flac"
    if is_copy_of(copy, path):
        path = copy
    audio = probe(path)
    if (audio.rate, audio.channels) != (RATE, CHANNELS):
        raise AudioError(f"has {audio.channels} channels at {audio.rate} Hz; want {CHANNELS} at {RATE}")
    if audio.lost:
        raise AudioError(audio.lost)
    if not audio.direct:
        write_copy(path, audio, copy)
        path = copy
    return Call(name, path, audio.rate, audio.frames)


def is_copy_of(copy: Path, path: Path) -> bool:
    """Copies appear whole or not at all, so that one which is there and no older is a good one."""
    return copy.is_file() and copy.stat().st_mtime >= path.stat().st_mtime


def write_copy(path: Path, audio: Audio, copy: Path) -> None:
    """Mu-law has 14 bits, of which the 16 of this FLAC lose none."""
    with atomic(copy) as temporary:
        soundfile.write(temporary, samples(path, audio), audio.rate, format="FLAC", subtype="PCM_16")
