"""The sound of utterances, small enough to lie in a page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import soundfile
from lhotse import CutSet

from asr_parallel.config import cuts_path
from asr_parallel.data.frontend import BadAudio, read_audio
from asr_parallel.data.manifests import load_cuts


@dataclass(frozen=True)
class Clip:
    """``uri`` holds the sound itself, ``seconds`` long; if it is empty, ``why`` says so."""

    uri: str = ""
    seconds: float = 0.0
    why: str = ""


@dataclass
class Sound:
    """Utterances of the sets of corpus ``data``, as long as they need no more than ``limit`` bytes of a page."""

    data: Path
    limit: float
    taken: int = 0
    clips: list[Clip] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cuts = cache(lambda name: load_cuts(self.data, name))

    def known(self, name: str) -> bool:
        """Whether there are manifests of set ``name``."""
        return cuts_path(self.data, name).exists()

    def clip(self, name: str, utt: str) -> Clip:
        """An utterance of set ``name``."""
        try:
            samples, rate = samples_of(self._cuts(name), utt)
            uri = "data:audio/mpeg;base64," + base64.b64encode(mp3(samples, rate)).decode("ascii")
        except (BadAudio, soundfile.LibsndfileError) as error:
            return self._noted(Clip(why=f"its audio cannot be had: {error}"))
        if self.taken + len(uri) > self.limit:
            return self._noted(Clip(why="the page has no room for its audio: --audio_mb gives more"))
        self.taken += len(uri)
        return self._noted(Clip(uri, len(samples) / rate))

    def _noted(self, clip: Clip) -> Clip:
        self.clips.append(clip)
        return clip


def samples_of(cuts: CutSet, utt: str) -> tuple[np.ndarray, int]:
    """Samples and their rate.  Raises ``BadAudio``; sources that are commands are not run."""
    if utt not in cuts:
        raise BadAudio("the manifest has no such utterance")
    cut = cuts[utt]
    if cut.has_recording and any(source.type == "command" for source in cut.recording.sources):
        raise BadAudio("it is the output of a command, which is not run for a page")
    return read_audio(cut), cut.sampling_rate


def mp3(samples: np.ndarray, rate: int) -> bytes:
    """The format that every browser plays, of samples [N] in [-1, 1].

    Raises ``soundfile.LibsndfileError`` at rates that it has not got (it has 8, 11.025, 12, 16, ... 48 kHz).
    """
    stream = io.BytesIO()
    soundfile.write(stream, np.clip(samples, -1, 1), rate, format="MP3")
    return stream.getvalue()
