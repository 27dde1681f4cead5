"""Audio with texts beside it: ``a.wav`` and ``a.txt`` (or ``a.lab``), or one text a chapter as in LibriSpeech."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from asr_parallel.data.audio import SUFFIXES
from asr_parallel.files import files_under
from asr_parallel.log import UserError
from asr_parallel.prepare.item import Fault, Item, audio_files, folders, set_of, utt_of
from asr_parallel.score.lines import numbered

TEXTS = (".txt", ".lab")
CHAPTER = ".trans.txt"
ABOUT = ("readme", "license", "licence", "copying", "changes", "speakers", "books", "chapters", "notice")


def claims_files(source: Path) -> bool:
    return source.is_dir() and any(_text_beside(audio) for audio in audio_files(source))


def claims_librispeech(source: Path) -> bool:
    return source.is_dir() and bool(files_under(source, [CHAPTER]))


def read_files(source: Path) -> Iterator[Item | Fault]:
    """One text file an audio file.  The folder of a file is its speaker, unless it is the folder of a set."""
    used = set[Path]()
    for audio in audio_files(source):
        text, above = _text_beside(audio), folders(audio, source)
        utt = utt_of(audio, source)
        if not text:
            yield Fault(utt, str(audio), "no text file", f"{audio.with_suffix(TEXTS[0])} is not there")
            continue
        used.add(text)
        try:
            lines = [line for _, line in numbered(text)]
        except UserError as error:
            yield Fault(utt, str(text), "unreadable text", str(error))
            continue
        speaker = above[-1] if above and not set_of(above[-1]) else ""
        yield Item(utt, audio, " ".join(lines), f"{text}:1", speaker, set=set_of(*above))
    for text in files_under(source, TEXTS):
        if text not in used and not text.stem.casefold().startswith(ABOUT):
            yield Fault(utt_of(text, source), str(text), "no audio", "no audio file has its name")


def _text_beside(audio: Path) -> Path | None:
    return next((text for suffix in TEXTS if (text := audio.with_suffix(suffix)).is_file()), None)


def read_librispeech(source: Path) -> Iterator[Item | Fault]:
    """``SET/SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt`` with lines ``UTT WORDS``, and ``UTT.flac`` beside it."""
    for chapter in files_under(source, [CHAPTER]):
        audio = {path.stem: path for path in chapter.parent.iterdir() if path.suffix.casefold() in SUFFIXES}
        for where, line in numbered(chapter):
            utt, _, text = line.strip().partition(" ")
            path = audio.pop(utt, chapter.parent / f"{utt}.flac")
            yield Item(utt, path, text, where, utt.partition("-")[0], set=set_of(*folders(chapter, source)))
        for utt, path in sorted(audio.items()):
            yield Fault(utt, str(path), "no text", f"{chapter} does not have it")
