#!/usr/bin/env python3
"""Prepares Google Speech Commands v0.02 (2.4 GB): 105,829 clips of one of 35 words, by 2,618 speakers (Warden 2018).

    python local/prepare_speech_commands.py --out data/speech_commands

fetches the archive, or takes --source (the archive, or the folder that holds WORD/SPEAKER_nohash_N.wav), and leaves
Lhotse manifests for train, dev and test: by validation_list.txt and testing_list.txt, without these by a hash of the
speaker's name.  Audio stays where it is.  A second run says that the result is fresh.  Exit code 3: the corpus can't
be had.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from download import Unreachable, download
from preparing import CorpusMissing, code_hash, exit_code, nothing_to_do, show, stale

from asr_parallel.config import cores
from asr_parallel.data.audio import AudioError, probe
from asr_parallel.files import write_json
from asr_parallel.log import UserError, duration, logger
from asr_parallel.pool import parallel_map

log = logger("asr_parallel.prepare_speech_commands")

URL = "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz"
SHA256 = "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58"  # as torchaudio and TFDS have it
NAME = re.compile(r"(.+)_nohash_(\d+)\.wav")
LISTS = {"dev": "validation_list.txt", "test": "testing_list.txt"}
PERCENT = 10.0  # of the speakers in dev, and as many in test
BUCKETS = 2**27  # of the hash
RATE = 16000  # Hz
MAX_BAD = 0.01  # share of clips that may be unreadable

WAYS_OUT = f"""Ways out:
  - on a machine with a network, the same command fetches it
  - otherwise fetch {URL} elsewhere, and put it into {{folder}} or give it as --source
  - or give --source FOLDER, where it is unpacked: FOLDER/yes/0a7c2a8d_nohash_0.wav"""


@dataclass(frozen=True)
class Clip:
    """A clip: its path below the corpus's folder, the word, who says it, which time."""

    path: str
    word: str
    speaker: str
    number: int

    @property
    def id(self) -> str:
        return f"{self.speaker}-{self.word}-{self.number}"


def set_by_hash(speaker: str) -> str:
    """``which_set`` of the corpus's README: one set for all clips of a speaker, whatever other clips there are."""
    percent = int(hashlib.sha1(speaker.encode()).hexdigest(), 16) % BUCKETS * (100.0 / (BUCKETS - 1))
    if percent < PERCENT:
        return "dev"
    return "test" if percent < 2 * PERCENT else "train"


def find_clips(folder: Path, words: Sequence[str]) -> tuple[list[Clip], list[str]]:
    """Clips of all word folders (or of ``words``), in order of their ids, and names that are none's."""
    clips, strange = [], []
    for path in sorted(folder.glob("*/*.wav")):
        word = path.parent.name
        if word.startswith("_") or (words and word not in words):  # _background_noise_ holds no words
            continue
        name = NAME.fullmatch(path.name)
        if name:
            clips.append(Clip(f"{word}/{path.name}", word, name[1], int(name[2])))
        else:
            strange.append(f"{path}: its name is not SPEAKER_nohash_N.wav")
    if missing := set(words) - {clip.word for clip in clips}:
        raise UserError(f"--words {min(missing)}: {folder} has no clips of it")
    if not clips:
        raise UserError(f"{folder} holds no WORD/SPEAKER_nohash_N.wav; give --source the folder of the words")
    return sorted(clips, key=lambda clip: clip.id), strange


def read_lists(folder: Path) -> dict[str, str]:
    """The set of each clip that the official lists name, by its path; empty if there are no lists."""
    there = {name: folder / file for name, file in LISTS.items() if (folder / file).is_file()}
    if len(there) == 1:
        raise UserError(f"{folder} has {next(iter(there.values())).name} alone: mend it, or remove that, too")
    found: dict[str, str] = {}
    for name, path in there.items():
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
            if (clip := line.strip()) and found.setdefault(clip, name) != name:
                raise UserError(f"{path}:{number}: {clip} is in {LISTS['dev']}, too; sets must not share clips")
    return found


def sets_of(clips: Sequence[Clip], listed: dict[str, str]) -> dict[str, list[Clip]]:
    """Clips of train, dev and test: by the lists if there are any, else by hash."""
    sets: dict[str, list[Clip]] = {"train": [], "dev": [], "test": []}
    differ = 0
    for clip in clips:
        by_hash = set_by_hash(clip.speaker)
        name = listed.get(clip.path, "train") if listed else by_hash
        sets[name].append(clip)
        differ += name != by_hash
    if listed:
        lost = listed.keys() - {clip.path for clip in clips}
        log.info("sets by the official lists; the hash puts %d of %d clips elsewhere", differ, len(clips))
        if lost:
            log.warning("%d listed clips are not there or not wanted, such as %s", len(lost), min(lost))
    else:
        log.info("no official lists: sets by a hash of the speaker")
    if empty := [name for name, of_set in sets.items() if not of_set]:
        raise UserError(f"the set {empty[0]} has no clips: the corpus is not whole")
    return sets


def samples_of(folder: Path, clips: Sequence[Clip], jobs: int) -> tuple[dict[str, int], list[str]]:
    """Samples of each readable clip by id, and what is wrong with others.  UserError if these are too many."""

    def one(clip: Clip) -> int | str:
        try:
            audio = probe(folder / clip.path)
        except AudioError as error:
            return f"{folder / clip.path}: {error}"
        if audio.lost or not audio.frames:
            return f"{folder / clip.path}: {audio.lost or 'has no samples'}"
        if (audio.rate, audio.channels) != (RATE, 1):
            return f"{folder / clip.path}: {audio.channels} channels of {audio.rate} Hz; wanted is one of {RATE}"
        return audio.frames

    results = list(parallel_map(one, clips, jobs, "clips", "clip", chunk=64))
    bad = [r for r in results if isinstance(r, str)]
    for why in bad[:10]:
        log.warning("%s", why)
    if len(bad) > MAX_BAD * len(clips):
        raise UserError(f"{folder}: {len(bad)} of {len(clips)} clips cannot be used, first {bad[0]}")
    return {clip.id: r for clip, r in zip(clips, results) if isinstance(r, int)}, bad


def make(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Write the manifests; give counts of what is kept and dropped, and what failed."""
    from asr_parallel.data import manifests  # here, for lhotse takes a second to import

    clips, strange = find_clips(folder, args.words)
    sets = sets_of(clips, read_lists(folder))
    samples, bad = samples_of(folder, clips, args.jobs or cores())
    table, dropped = {}, {}
    for name, of_set in sets.items():
        read = [clip for clip in of_set if clip.id in samples]
        kept = [clip for clip in read if not args.only_whole or samples[clip.id] == RATE]
        rows = [manifests.Utt(c.id, c.speaker, c.word.upper(), str(folder / c.path), RATE, samples[c.id]) for c in kept]
        manifests.write(args.out / name, rows)
        dropped[name] = {"unreadable": len(of_set) - len(read), "not of one second": len(read) - len(kept)}
        seconds = sum(utt.duration for utt in rows)
        speakers = len({clip.speaker for clip in kept})
        table[name] = {"utts": len(kept), "speakers": speakers, "minutes": round(seconds / 60, 2), "words": len(kept)}
    return {"sets": table, "dropped": dropped, "failed": strange + bad, "classes": Counter(c.word for c in clips)}


def corpus_folder(source: Path) -> Path:
    """The folder of the words: ``source``, or where its archive is unpacked, which may not have happened yet."""
    if source.is_dir() and any(source.glob("*/*_nohash_*.wav")):
        return source
    archive = source if source.is_file() else source / URL.rpartition("/")[2]
    return archive.with_name(archive.name.removesuffix(".gz").removesuffix(".tar"))


def get_corpus(source: Path) -> Path:
    """The same, unpacked; fetched first if there is no archive.  Raises ``CorpusMissing`` with the ways out."""
    folder = corpus_folder(source)
    if folder.is_dir():
        return folder
    from lhotse.utils import safe_extract

    try:
        if source.suffix in (".gz", ".tar") and not source.is_file():
            raise FileNotFoundError("there is no such file")
        archive = source if source.is_file() else download([URL], source / URL.rpartition("/")[2], SHA256)
        log.info("unpacking %s", archive)
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder.parent) as scratch, tarfile.open(archive) as tar:
            safe_extract(tar, path=Path(scratch, "words"))
            os.replace(Path(scratch, "words"), folder)
    except (Unreachable, OSError, EOFError, tarfile.TarError) as error:
        why = f"Speech Commands is not in {source}, and {error}"
        raise CorpusMissing(f"{why}\n{WAYS_OUT.format(folder=source)}") from error
    return folder


def origin(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """All that the result depends on; of audio the names and sizes."""
    found = hashlib.sha256()
    for path in sorted((*folder.glob("*/*.wav"), *folder.glob("*.txt"))):
        found.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
    options = {"words": args.words, "only_whole": args.only_whole, "folder": str(folder)}
    return options | {"files": found.hexdigest(), "code": code_hash([Path(__file__)])}


def prepare(args: argparse.Namespace) -> None:
    """Leave the corpus in ``args.out``, unless it is fresh."""
    started = time.monotonic()
    if nothing_to_do(args.out, stale(args.out, origin(corpus_folder(args.source), args))):
        return
    (args.out / "prepare.json").unlink(missing_ok=True)  # what follows may be killed half-way
    folder = get_corpus(args.source)
    report = make(folder, args)
    write_json(args.out / "prepare.json", report | {"made_from": origin(folder, args)})
    show(report["sets"], report["dropped"])
    log.info("%s made from %s in %s", args.out, folder, duration(time.monotonic() - started))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, default=Path("data/speech_commands"), help="corpus directory (default: %(default)s)")
    add("--source", type=Path, default=Path("downloads"),
        help="the words' folder, the archive, or a folder to fetch it into (default: %(default)s)")  # fmt: skip
    add("--words", nargs="*", default=[], help="words to take (default: all)")
    add("--only-whole", action="store_true", help="leave out clips that are not 1 s to the sample, as IST's authors do")
    add("--jobs", type=int, default=0, help="processes (0: one a core)")
    args = parser.parse_args(argv)
    return exit_code(lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
