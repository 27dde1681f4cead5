"""What an audio file holds, told from its header and its size, and how to read one that soundfile can't.

soundfile believes headers: of a wav file that was cut it gives what is left without a word, of one that was streamed
(length 0 in its header) nothing, and an odd chunk without its padding byte (RIFF wants one) hides the samples.
"""

from __future__ import annotations

import io
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile

READ_HERE = (".wav", ".flac", ".sph", ".mp3", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".au", ".caf", ".w64")
SUFFIXES = frozenset((*READ_HERE, ".m4a", ".aac", ".webm", ".wma"))  # the rest by ffmpeg
STREAMED = 0x7FFFF000  # bytes; programs that write to a pipe put this or more for the length that they can't know


class AudioError(Exception):
    """What is wrong with an audio file, told as ``is not there``: the file itself is for the caller to name."""


@dataclass(frozen=True)
class Audio:
    """A file's rate in Hz, samples a channel, channels; ``lost`` says what it lacks if it was cut short.

    ``direct`` files can be read by soundfile as they are, others only by ``samples``.
    """

    rate: int
    frames: int
    channels: int
    lost: str = ""
    direct: bool = True

    @property
    def seconds(self) -> float:
        return self.frames / self.rate


def probe(path: Path) -> Audio:
    """Look at the header of a file.  Raises ``AudioError`` with the reason if it can't be read."""
    if not path.is_file():
        raise AudioError("is not there")
    with open(path, "rb") as f:
        head = f.read(1024)
        if not head:
            raise AudioError("is empty")
        if head[:4] == b"RIFF" and (wave := _wave(f)):
            return _probe_wave(path, wave)
    try:
        info = soundfile.info(path)
    except soundfile.SoundFileError as error:
        return _describe(io.BytesIO(_decoded(path, head, error)), direct=False)
    counted = re.search(rb"^sample_count -i (\d+)", head, re.MULTILINE) if head.startswith(b"NIST_1A") else None
    lost = _lost(int(counted[1]), info.frames) if counted else ""
    return Audio(info.samplerate, info.frames, info.channels, lost)


def samples(path: Path, audio: Audio) -> np.ndarray:
    """All samples, float32 [N, channels] in [-1, 1].  Raises ``AudioError`` if the file can't be decoded."""
    try:
        if audio.direct:
            return soundfile.read(path, dtype="float32", always_2d=True)[0]
        with open(path, "rb") as f:
            head = f.read(1024)
            wave = _wave(f) if head[:4] == b"RIFF" else None
            whole = _mended(f, wave) if wave else _decoded(path, head)
        return soundfile.read(io.BytesIO(whole), dtype="float32", always_2d=True)[0]
    except (soundfile.SoundFileError, OSError) as error:
        raise AudioError(f"cannot be decoded: {_reason(error)}") from None


def _describe(source: Path | io.BytesIO, direct: bool = True, lost: str = "") -> Audio:
    try:
        info = soundfile.info(source)
    except soundfile.SoundFileError as error:
        raise AudioError(f"cannot be read: {_reason(error)}") from None
    return Audio(info.samplerate, info.frames, info.channels, lost, direct)


def _reason(error: Exception | str) -> str:
    """What soundfile says, without the name of the file."""
    return str(error).removeprefix("Error opening ").split(": ", 1)[-1].rstrip(".")


def _lost(wanted: int, there: int) -> str:
    return f"is cut short: {there} samples where its header says {wanted}" if there < wanted else ""


@dataclass(frozen=True)
class _Wave:
    """Chunks of a RIFF file: the format, where samples begin, how many bytes they should and do have."""

    format: bytes
    start: int
    declared: int
    there: int
    well_formed: bool  # no odd chunk lacks its padding

    @property
    def streamed(self) -> bool:
        return self.declared >= STREAMED or (self.declared == 0 and self.there > 0)

    @property
    def block(self) -> int:
        """Bytes of a sample of all channels."""
        return max(1, struct.unpack_from("<H", self.format, 12)[0])


def _wave(f: BinaryIO) -> _Wave | None:
    """Walk the chunks of a wav file; None if there is no format or no samples."""
    size = f.seek(0, io.SEEK_END)
    f.seek(8)
    if f.read(4) != b"WAVE":
        return None
    place, layout, padded = 12, b"", True
    while place + 8 <= size:
        f.seek(place)
        name, length = struct.unpack("<4sI", f.read(8))
        if name == b"data":
            return _Wave(layout, place + 8, length, size - place - 8, padded) if len(layout) >= 16 else None
        if name == b"fmt ":
            layout = f.read(length)
        place += 8 + length
        if length % 2:
            f.seek(place)
            padding = f.read(1) == b"\0"  # no name begins so
            place, padded = place + padding, padded and padding
    return None


def _probe_wave(path: Path, wave: _Wave) -> Audio:
    block, lost = wave.block, ""
    if not wave.streamed:
        lost = _lost(wave.declared // block, wave.there // block)
    if wave.well_formed and wave.declared:
        return _describe(path, lost=lost)
    with open(path, "rb") as f:
        return _describe(io.BytesIO(_mended(f, wave)), direct=False, lost=lost)


def _mended(f: BinaryIO, wave: _Wave) -> bytes:
    """The same file with a header that is right."""
    f.seek(wave.start)
    data = f.read() if wave.streamed else f.read(wave.declared)
    data = data[: len(data) - len(data) % wave.block]
    layout = wave.format + b"\0" * (len(wave.format) % 2)
    body = b"WAVE" + struct.pack("<4sI", b"fmt ", len(wave.format)) + layout + struct.pack("<4sI", b"data", len(data))
    return struct.pack("<4sI", b"RIFF", len(body) + len(data)) + body + data


def _decoded(path: Path, head: bytes, error: Exception | str = "") -> bytes:
    """A wav file of what only another program can decode: old SPHERE files (shorten), AAC and the like."""
    sphere = head.startswith(b"NIST_1A")
    commands = {"sph2pipe": ["sph2pipe", "-f", "wav"], "ffmpeg": ["ffmpeg", "-nostdin", "-v", "error", "-i"]}
    tools = [tool for tool in commands if shutil.which(tool) and (sphere or tool == "ffmpeg")]
    if not tools:
        kind = (
            "is compressed with shorten"
            if b"shorten" in head
            else f"is nothing that can be read here ({_reason(error)})"
        )
        raise AudioError(f"{kind}: put ffmpeg {'or sph2pipe ' * sphere}on the PATH, or convert it to wav or flac")
    said = ""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.wav")
        for tool in tools:
            run = subprocess.run([*commands[tool], path.absolute(), out], capture_output=True)
            if run.returncode == 0 and out.is_file():
                return out.read_bytes()
            said = f"{tool} ended with {run.returncode}: {run.stderr[-200:].decode(errors='replace').strip()}"
    raise AudioError(f"cannot be decoded: {said}")
