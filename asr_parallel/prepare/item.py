"""What a reader of a form gives: utterances as the corpus tells of them, nothing checked, and what it could not use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from asr_parallel.data.audio import SUFFIXES
from asr_parallel.files import files_under

TO_THE_END = -1.0  # as in Kaldi's segments
NOT_MEANT = "not to be used"  # kind of what the corpus itself excludes; no fault
SETS = ("train", "dev", "test")
_SET_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "val", "valid", "validation"), "dev"),
    **dict.fromkeys(("test", "testing", "eval"), "test"),
}


@dataclass(frozen=True)
class Item:
    """One utterance and the place where it was told of (``FILE:LINE``)."""

    utt: str
    audio: Path
    text: str
    where: str
    speaker: str = ""  # unknown
    start: float = 0.0  # seconds
    end: float = TO_THE_END  # seconds
    channel: int | None = None  # from 0; None where the corpus does not say
    set: str = ""  # train, dev or test, where the corpus says so
    recording: str = ""  # id of the audio, where the corpus has one


@dataclass(frozen=True)
class Fault:
    """What is wrong with an utterance that is left out, or was: ``kind`` is what counts are of, ``detail`` the rest."""

    utt: str
    where: str
    kind: str
    detail: str = ""


def set_of(*names: str) -> str:
    """The set that the first of some names of folders or files tells of: ``train`` of ``train-clean-100``; or none."""
    words = (word for name in names for word in re.split(r"[\W\d_]+", name.casefold()))
    return next((_SET_WORDS[word] for word in words if word in _SET_WORDS), "")


def folders(path: Path, source: Path) -> tuple[str, ...]:
    """Names of the folders from ``source`` to a file, without both."""
    return path.relative_to(source).parts[:-1] if source.is_dir() else ()


def audio_files(source: Path) -> list[Path]:
    """Audio files of a corpus; those beside ``source`` if it is a file."""
    return files_under(source if source.is_dir() else source.parent, SUFFIXES)


class AudioFinder:
    """Finds the file that a name in a transcript means: absolute or from some folder, with or without suffix."""

    def __init__(self, source: Path, *bases: Path):
        self.source, self.bases = source, bases
        self._by_stem: dict[str, list[Path]] | None = None

    def __call__(self, name: str) -> Path:
        """The file; where there is none, the path at which it was looked for first."""
        tried = [base / name for base in (*self.bases, Path())]
        for path in tried:
            if path.is_file():
                return path
        if self._by_stem is None:
            self._by_stem = {}
            for path in audio_files(self.source):
                self._by_stem.setdefault(path.stem, []).append(path)
        wanted = Path(name)
        stem = wanted.stem if wanted.suffix.casefold() in SUFFIXES else wanted.name
        alike = self._by_stem.get(stem, [])
        return alike[0] if len(alike) == 1 else tried[0]


def utt_of(audio: Path, source: Path, start: float = 0.0, end: float = TO_THE_END) -> str:
    """An id for an utterance that has none: path below ``source``, and its times in hundredths of a second if given."""
    root = source if source.is_dir() else source.parent
    inner = audio.relative_to(root) if audio.is_relative_to(root) else Path(audio.name)
    times = f"-{100 * start:07.0f}-{100 * end:07.0f}" if end != TO_THE_END else ""
    return "-".join(inner.with_suffix("").parts) + times
