"""The audio of a data directory: what ``wav.scp`` names, as files that soundfile reads.

The commands that recipes mostly have there, such as ``flac -c -d -s FILE |`` and ``sph2pipe -f wav -p -c 1 FILE |``,
only decode a file, which soundfile does itself: nothing is run for them.  Others are run, once each, where that is
allowed, and what they print is kept as a file.
"""

from __future__ import annotations

import io
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import soundfile

from asr_parallel.files import atomic
from asr_parallel.kaldi.tables import ENTRY, located, run_command
from asr_parallel.log import UserError

SHORTENED = b"shorten"  # in the header of a SPHERE file


class BadRecording(Exception):
    """Why a recording cannot be used."""


@dataclass(frozen=True)
class Audio:
    """A recording: a file, of which it may be one channel ``only``; ``side`` is (file, channel) of NIST's formats."""

    path: str
    sampling_rate: int
    num_samples: int
    channels: int
    only: int | None = None
    side: tuple[str, str] | None = None

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.num_samples / self.sampling_rate


@dataclass(frozen=True)
class Recordings:
    """Finds the audio of entries of ``wav.scp``; relative paths are under ``root``; new files go to ``made``."""

    made: Path
    root: Path
    allow_commands: bool = False

    def find(self, key: str, entry: str, where: str) -> Audio:
        """The recording ``key``.  Raises ``BadRecording``, or ``UserError`` if a command is not allowed or fails."""
        if entry.endswith("|"):
            plain = decoded_file(entry[:-1])
            if plain:
                return self._look(located(plain[0], self.root), plain[1])
            if not self.allow_commands:
                raise UserError(f"{where}: `{entry}` is a command: give --allow_commands if all of them may be run")
            return self._look(self._keep(key, run_command(entry[:-1], where)))
        found = ENTRY.fullmatch(entry)
        if found and found["offset"]:
            with open(located(found["path"], self.root), "rb") as file:
                file.seek(int(found["offset"]))
                return self._look(self._keep(key, _wave(file)))
        return self._look(located(entry, self.root))

    def _keep(self, key: str, data: bytes) -> Path:
        path = self.made / f"{quote(key, safe='')}.wav"
        if not path.exists() or path.read_bytes() != data:
            with atomic(path) as temporary:
                temporary.write_bytes(data)
        return path

    def _look(self, path: Path, only: int | None = None) -> Audio:
        if not path.is_file():
            raise BadRecording(f"audio file {path} is not there")
        try:
            info = soundfile.info(str(path))
        except soundfile.SoundFileError as error:
            raise BadRecording(f"audio file {path} {_why(path, error)}") from None
        if info.frames < 1:
            raise BadRecording(f"audio file {path} has no samples")
        if only is not None and only >= info.channels:
            raise BadRecording(f"audio file {path} has {info.channels} channels, not channel {only + 1}")
        return Audio(str(path), info.samplerate, info.frames, info.channels, only)


def _why(path: Path, error: Exception) -> str:
    with open(path, "rb") as file:
        head = file.read(1024)
    if head.startswith(b"NIST_1A") and SHORTENED in head:
        return (
            "is compressed by shorten, which soundfile does not read: decode it with `sph2pipe -f wav` or "
            "`ffmpeg -i`, and name the result in wav.scp"
        )
    return f"cannot be read: {error}"


def _wave(file: io.BufferedReader) -> bytes:
    """The RIFF file that begins here in an archive of them."""
    head = file.read(8)
    if head[:4] != b"RIFF":
        raise BadRecording(f"{file.name} has no RIFF file at byte {file.tell() - len(head)}")
    return head + file.read(int.from_bytes(head[4:], "little"))


def decoded_file(command: str) -> tuple[str, int | None] | None:
    """The file that a command decodes, and the channel (from 0) that it takes; None if it may do more than that."""
    parts = shlex.shlex(command, posix=True, punctuation_chars=True)
    parts.whitespace_split = True
    try:
        name, *words = parts
    except ValueError:
        return None
    options, file = words[:-1], words[-1] if words else "-"
    name = Path(name).name
    if file.startswith("-") or any(set(word) <= set("|;&<>()") for word in words) or set(command) & set("$`*?{}~"):
        return None
    if (name == "cat" and not options) or (name == "flac" and options and set(options) <= {"-c", "-d", "-s", "-cds"}):
        return file, None
    if name == "sph2pipe" and options[:2] == ["-f", "wav"]:
        rest = [o for o in options[2:] if o != "-p"]
        if not rest:
            return file, None
        if len(rest) == 2 and rest[0] == "-c" and rest[1] in ("1", "2"):
            return file, int(rest[1]) - 1
    return None
