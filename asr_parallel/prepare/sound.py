"""The audio of a corpus at one rate: files that the stages can read stay where they are, others are converted once."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import soundfile

from asr_parallel.data.audio import Audio, AudioError, probe, samples
from asr_parallel.files import atomic
from asr_parallel.pool import parallel_map


def look(paths: Sequence[Path], jobs: int) -> dict[Path, Audio | str]:
    """The header of each file, or what is wrong with it."""

    def one(path: Path) -> Audio | str:
        try:
            return probe(path)
        except (AudioError, OSError) as error:
            return str(error)

    return dict(zip(paths, parallel_map(one, paths, jobs, "audio", "file", chunk=64)))


def usual_rate(audio: Iterable[Audio]) -> int:
    """The rate of most seconds, Hz; of two alike the lower."""
    seconds = defaultdict[int, float](float)
    for each in audio:
        seconds[each.rate] += each.seconds
    return min(seconds, key=lambda rate: (-seconds[rate], rate))


def convert(
    wanted: Mapping[Path, str], audio: Mapping[Path, Audio], rate: int, folder: Path, jobs: int
) -> tuple[dict[Path, tuple[Path, Audio]], dict[Path, str]]:
    """``{file: (file to use, its header)}`` of files in ``wanted``, and what is wrong with those that can't be read.

    ``wanted`` has an id for each; copies in ``folder`` are called so. They are FLAC of 16 bits with all channels.
    """
    # Lhotse gives *.sph to the program sph2pipe, which few have
    todo = [p for p in wanted if not audio[p].direct or audio[p].rate != rate or p.suffix.casefold() == ".sph"]
    copies = {path: (folder / _copy_name(path, wanted[path], rate)).absolute() for path in todo}

    def one(path: Path) -> Audio | str:
        try:
            return _copy(path, audio[path], rate, copies[path])
        except AudioError as error:
            return str(error)

    made = dict(zip(todo, parallel_map(one, todo, jobs, "converting audio", "file", chunk=4)))
    ready, failed = dict[Path, tuple[Path, Audio]](), dict[Path, str]()
    for path in wanted:
        result = made.get(path, audio[path])
        if isinstance(result, str):
            failed[path] = result
        else:
            ready[path] = (copies.get(path, path.absolute()), result)
    return ready, failed


def _copy_name(path: Path, name: str, rate: int) -> str:
    """A name that is another one for another file, so that a copy which is there need not be made again."""
    status = path.stat()
    made_from = f"{path.absolute()} {status.st_size} {status.st_mtime_ns} {rate}"
    return f"{name}.{hashlib.sha256(made_from.encode()).hexdigest()[:8]}.flac"


def _copy(path: Path, audio: Audio, rate: int, out: Path) -> Audio:
    if out.is_file():
        return probe(out)
    import torch
    from torchaudio.functional import resample

    wave = torch.from_numpy(samples(path, audio).T.copy())
    if audio.rate != rate:
        wave = resample(wave, audio.rate, rate)
    with atomic(out) as temporary:
        soundfile.write(temporary, wave.T.numpy(), rate, format="FLAC", subtype="PCM_16")
    return dataclasses.replace(audio, rate=rate, frames=wave.shape[1])
