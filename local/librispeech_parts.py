"""What openslr.org has of LibriSpeech, and how it gets here: parts of the corpus, lexicon and language model."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from download import Unreachable, download
from preparing import CorpusMissing

from asr_parallel.log import logger

log = logger("asr_parallel.librispeech")

MIRRORS = tuple(
    f"https://{host}/resources"
    for host in ("www.openslr.org", "openslr.trmal.net", "openslr.elda.org", "openslr.magicdatatech.com")
)


@dataclass(frozen=True)
class Part:
    """A part of the corpus: its resource at openslr.org, the published md5 of its archive, and its utterances."""

    resource: int
    md5: str
    utts: int


PARTS = {
    "train-clean-5": Part(31, "5df7d4e78065366204ca6845bb08f490", 1519),
    "dev-clean-2": Part(31, "6d7ab67ac6a1d2c993d050e16d61080d", 1089),
    "train-clean-100": Part(12, "2a93770f6d5c6c964bc36631d331a522", 28539),
    "train-clean-360": Part(12, "c0e676e450a7ff2f54aeade5171606fa", 104014),
    "train-other-500": Part(12, "d1a0fd59409feb2c614ce4d30c387708", 148688),
    "dev-clean": Part(12, "42e2234ba48799c1f50f24a7926300a1", 2703),
    "dev-other": Part(12, "c8d0bcc9cca99d4f8b62fcc847357931", 2864),
    "test-clean": Part(12, "32fa31d27d2e1cad72775fee3f4849a9", 2620),
    "test-other": Part(12, "fb5a50374b501bb3bac4815ee91d3135", 2939),
}
LEXICON, LM = "librispeech-lexicon.txt", "3-gram.pruned.3e-7.arpa.gz"
LANGUAGE = {LEXICON: "28f72663f6bfed7cd346283c064c315b", LM: "8f67ec741827742eee05799ab7605b50"}  # resource 11

WAYS_OUT = """Ways out:
  - on a machine with a network, the same command fetches {files}
  - otherwise fetch {urls} elsewhere and put the archives into {folder}
  - or give --source FOLDER, where FOLDER/LibriSpeech/{part} is unpacked already"""


class PartsMissing(CorpusMissing):
    """Parts of the corpus can't be had here."""


def corpus_folder(source: Path) -> Path:
    """The folder of the parts: ``source`` itself if they lie in it, else ``source/LibriSpeech``."""
    return source if any((source / part).is_dir() for part in PARTS) else source / "LibriSpeech"


def get_parts(parts: Sequence[str], source: Path, mirrors: Sequence[str] = MIRRORS) -> Path:
    """The folder that holds all ``parts``; those that are not unpacked in ``source`` are, or are fetched into it.

    Raises ``PartsMissing`` with the ways out if that is not possible.
    """
    folder = corpus_folder(source)
    todo = [part for part in parts if not (folder / part).is_dir()]
    for part in todo:
        name, row = f"{part}.tar.gz", PARTS[part]
        try:
            archive = download([f"{m}/{row.resource}/{name}" for m in mirrors], source / name, row.md5)
            unpack(archive, folder, part)
        except (Unreachable, OSError) as error:
            raise PartsMissing(f"{folder / part} is not there, and {error}\n{ways_out(todo, source)}") from error
    return folder


def ways_out(parts: Sequence[str], source: Path) -> str:
    resources = dict.fromkeys(f"https://www.openslr.org/{PARTS[part].resource}" for part in parts)
    files = ", ".join(f"{part}.tar.gz" for part in parts)
    return WAYS_OUT.format(files=files, urls=f"them from {' and '.join(resources)}", folder=source, part=parts[0])


def unpack(archive: Path, folder: Path, part: str) -> None:
    """Leave ``folder/part`` out of an archive, whole or not at all."""
    from lhotse.utils import safe_extract

    log.info("unpacking %s", archive)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder) as scratch:
        with tarfile.open(archive) as tar:
            safe_extract(tar, path=scratch)
        os.replace(Path(scratch) / "LibriSpeech" / part, folder / part)


def get_language(source: Path, mirrors: Sequence[str] = MIRRORS) -> dict[str, Path]:
    """Lexicon and language model of openslr.org/11 by name, fetched into ``source``; ``Unreachable`` if they can't."""
    try:
        return {
            name: download([f"{m}/11/{name}" for m in mirrors], source / name, md5) for name, md5 in LANGUAGE.items()
        }
    except OSError as error:  # a folder that can't be written
        raise Unreachable(str(error)) from error


def plain_lexicon(lines: Iterable[str]) -> str:
    """The official lexicon in ours: without stress (0, 1, 2 after a vowel), so that variants become one."""
    rows = (line.split() for line in lines)
    plain = (" ".join([word, *(phone.rstrip("012") for phone in pron)]) for word, *pron in rows if pron)
    return "".join(f"{line}\n" for line in dict.fromkeys(plain))
