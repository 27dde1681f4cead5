#!/usr/bin/env python3
"""Prepares the corpus `fotaq`: acted dialogue of the game Flight of the Amazon Queen (Debian main, 35 MB).

    python local/prepare_fotaq.py --out data/fotaq

fetches the package without root, decodes its 6,544 clips with text, and leaves Lhotse manifests for

    train     everyone else                             dev_joe   5 % of JOE's lines
    test_joe  20 % of JOE's lines, by a hash            dev_new   Bud and Mary-Lou
    test_new  Henry, Frank, Naomi, Sparky, Faye, Jimmy

A line whose words also stand in train leaves the other sets, and of equal lines in one of them one stays.
A second run says that the result is fresh; an interrupted one goes on where it stopped.  Exit code 3: the
package can't be had.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import preparing
from fotaq_package import fetch, fingerprint, local_source, unpack
from fotaq_reader import Package, lines
from preparing import Table

from asr_parallel.config import cores
from asr_parallel.files import atomic, read_json, write_json
from asr_parallel.log import UserError, duration, logger
from asr_parallel.pool import parallel_map

if TYPE_CHECKING:
    from fotaq_sets import Spoken

log = logger("asr_parallel.prepare_fotaq")

SETS = ("train", "dev_joe", "dev_new", "test_joe", "test_new")
CLIP_RATE = 11025  # Hz, all clips
MAX_BAD = 0.01  # share of clips that may fail to decode
HERE = Path(__file__).parent
CODE = [*HERE.glob("*fotaq*.py"), HERE.parent / "asr_parallel/data/text.py"]  # the result depends on them, too


def write_audio(package: Package, utts: list[Spoken], folder: Path, rate: int, jobs: int) -> dict[str, int]:
    """Decode, resample and write what is not there yet; number of samples by utterance id."""
    import soundfile
    import torch
    from torchaudio.transforms import Resample

    resample = Resample(CLIP_RATE, rate)

    def one(spoken: Spoken) -> int | str:
        path = folder / f"{spoken.id}.flac"
        if path.is_file():
            with contextlib.suppress(soundfile.SoundFileError):
                info = soundfile.info(path)
                if info.samplerate == rate and info.frames:
                    return info.frames
        try:
            samples, clip_rate = soundfile.read(io.BytesIO(package[f"{spoken.line.clip}.SB"]), dtype="float32")
        except soundfile.SoundFileError as error:
            return f"{spoken.line.clip}.SB: {error}"
        if clip_rate != CLIP_RATE or samples.ndim != 1 or not len(samples):
            return f"{spoken.line.clip}.SB: {samples.shape} samples at {clip_rate} Hz; wanted is mono at {CLIP_RATE}"
        samples = resample(torch.from_numpy(samples)).numpy()
        with atomic(path) as temporary:
            soundfile.write(temporary, samples, rate, format="FLAC", subtype="PCM_16")
        return len(samples)

    results = list(parallel_map(one, utts, jobs, "audio", "utt", chunk=16))
    bad = [r for r in results if isinstance(r, str)]
    for message in bad:
        log.warning("%s", message)
    if len(bad) > MAX_BAD * len(utts):
        raise UserError(f"{package.path}: {len(bad)} of {len(utts)} clips cannot be decoded, first {bad[0]}")
    return {s.id: r for s, r in zip(utts, results) if isinstance(r, int)}


def summary(sets: dict[str, list[Spoken]], samples: dict[str, int], rate: int) -> Table:
    """Utterances, speakers, minutes and words of each set."""
    table = {}
    for name, all_utts in sets.items():
        utts = [s for s in all_utts if s.id in samples]
        table[name] = {
            "utts": len(utts),
            "speakers": len({s.speaker for s in utts}),
            "minutes": round(sum(samples[s.id] for s in utts) / rate / 60, 2),
            "words": sum(len(s.words.split()) for s in utts),
        }
    return table


def origin(source: Path | None, args: argparse.Namespace) -> dict[str, Any]:
    """All that the result depends on.  ``source`` None stands for whatever it was made from."""
    options = {n: getattr(args, n) for n in ("rate", "max_train_minutes", "max_test_minutes")}
    return {**({"source": fingerprint(source)} if source else {}), **options, "code": preparing.code_hash(CODE)}


def stale(out: Path, now: dict[str, Any]) -> list[str]:
    """Why the corpus has to be made (again); empty if it is fresh."""
    reasons = preparing.stale(out, now)
    if reasons != [preparing.NOT_DONE]:
        utts = sum(row["utts"] for row in read_json(out / "prepare.json")["sets"].values())
        if len(list((out / "audio").glob("*.flac"))) < utts:
            reasons.append("missing audio files")
    return reasons


def prepare(args: argparse.Namespace) -> None:
    """Leave the corpus in ``args.out``, unless it is fresh."""
    started = time.monotonic()
    source = local_source(args.source, args.downloads)
    reasons = stale(args.out, origin(source, args))
    if preparing.nothing_to_do(args.out, reasons):
        return
    (args.out / "prepare.json").unlink(missing_ok=True)  # what follows may be killed half-way
    source = source or fetch(args.downloads)
    table, dropped, failed = make(Package(unpack(source, args.downloads)), fingerprint(source), args)
    report = {"sets": table, "dropped": dropped, "failed": failed, "made_from": origin(source, args)}
    write_json(args.out / "prepare.json", report)
    preparing.show(table, dropped)
    log.info("%s made from %s in %s", args.out, source, duration(time.monotonic() - started))


def make(package: Package, source: str, args: argparse.Namespace) -> tuple[Table, dict[str, Any], list[str]]:
    """Write audio and manifests; give counts of what is kept, of what is dropped, and clips that failed."""
    import fotaq_sets  # here, for num2words and lhotse take a second to import

    from asr_parallel.data import manifests

    sets, dropped = fotaq_sets.split(lines(package))
    sets = fotaq_sets.limit(sets, package, args.max_train_minutes, args.max_test_minutes)
    audio = args.out / "audio"
    clear_stale(audio, {"source": source, "rate": args.rate})
    utts = [s for name in SETS for s in sets[name]]
    samples = write_audio(package, utts, audio, args.rate, args.jobs or cores())
    for name in SETS:
        rows = [
            manifests.Utt(s.id, s.speaker, s.words, str(audio / f"{s.id}.flac"), args.rate, samples[s.id])
            for s in sets[name]
            if s.id in samples
        ]
        manifests.write(args.out / name, rows)
    failed = sorted(s.line.clip for s in utts if s.id not in samples)
    return summary(sets, samples, args.rate), dropped, failed


def clear_stale(audio: Path, made_from: dict[str, object]) -> None:
    """Remove audio of another source or rate, and what a killed run left half-written."""
    note = audio / "made_from.json"
    fresh = note.is_file() and read_json(note) == made_from
    for path in audio.glob(".tmp*" if fresh else "*.flac"):
        path.unlink()
    if not fresh:
        write_json(note, made_from)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, default=Path("data/fotaq"), help="corpus directory (default: %(default)s)")
    add("--source", type=Path, help="the package (.deb) or queen.1c itself, instead of fetching it")
    add("--downloads", type=Path, default=Path("downloads"), help="where the package goes (default: %(default)s)")
    add("--rate", type=int, default=8000, choices=(8000, 11025, 16000), help="Hz (default: %(default)s)")
    add("--max-train-minutes", type=float, default=0, metavar="M", help="quick runs: size of train (0: all)")
    add("--max-test-minutes", type=float, default=0, metavar="M", help="quick runs: size of each other set (0: all)")
    add("--jobs", type=int, default=0, help="processes (0: one a core)")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = options().parse_args(argv)
    return preparing.exit_code(lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
