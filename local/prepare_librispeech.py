#!/usr/bin/env python3
"""Prepares LibriSpeech (openslr.org/12, 1,000 h of read English books), or its small parts (Mini LibriSpeech, /31).

    python local/prepare_librispeech.py --parts train-clean-5 dev-clean-2 --hold-out 0.1 --out data/mini_librispeech

fetches what is not in the folder --source, checks it against the published checksums, and leaves Lhotse manifests for

    train     the utterances of all train-* parts, and those of --with
    dev       with --hold-out: speakers that were taken out of train
    dev_clean, test_other, ...   the other parts, each a set of its own

and, if openslr.org/11 can be had, its lexicon and trigram in OUT/local.  Audio stays where it is.  A second run says
that the result is fresh; an interrupted one goes on where it stopped.  Exit code 3: the corpus can't be had.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import librispeech_parts as parts
from download import Unreachable
from preparing import code_hash, exit_code, nothing_to_do, show, stale

from asr_parallel.config import cores, cuts_path, found_sets
from asr_parallel.files import atomic, write_json, write_text
from asr_parallel.log import UserError, duration, logger

log = logger("asr_parallel.prepare_librispeech")

HERE = Path(__file__).parent
CODE = [HERE / f"{name}.py" for name in ("prepare_librispeech", "librispeech_parts", "librispeech_sets")]


def origin(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """All that the result depends on."""
    options = ("parts", "rate", "hold_out", "max_train_minutes", "max_test_minutes", "language")
    made_from: dict[str, Any] = {n: getattr(args, n) for n in options} | {"folder": str(folder)}
    for part in args.parts:
        made_from[part] = transcripts_hash(folder / part)
    if args.with_set:
        made_from["with"] = f"{args.with_set} {hashlib.sha256(cuts_of(args.with_set).read_bytes()).hexdigest()}"
    return made_from | {"code": code_hash(CODE)}


def transcripts_hash(folder: Path) -> str:
    """Of the names and contents of a part's transcripts."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.trans.txt")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def cuts_of(set_folder: Path) -> Path:
    """The cut manifest of another corpus's set."""
    path = set_folder / "cuts.jsonl.gz"
    if not path.is_file():
        raise UserError(f"--with {set_folder}: there is no {path}; prepare that corpus first, and give its SET folder")
    return path


def prepare(args: argparse.Namespace) -> None:
    """Leave the corpus in ``args.out``, unless it is fresh."""
    started = time.monotonic()
    folder = parts.corpus_folder(args.source)
    reasons = stale(args.out, origin(folder, args))
    if nothing_to_do(args.out, reasons):
        return
    (args.out / "prepare.json").unlink(missing_ok=True)  # what follows may be killed half-way
    folder = parts.get_parts(args.parts, args.source, args.mirrors)
    language = get_language(args)
    import librispeech_sets as sets  # here, for lhotse takes a second to import

    sizes = (args.max_train_minutes, args.max_test_minutes)
    choice = sets.Choice(args.rate, args.hold_out, args.with_set, *sizes, args.jobs or cores())
    report = sets.make(folder, args.parts, args.out, choice)
    for name in set(found_sets(args.out)) - report["sets"].keys():
        cuts_path(args.out, name).unlink()
        log.info("%s: the set %s of an earlier choice is gone", args.out, name)
    write_json(args.out / "prepare.json", report | {"language": language, "made_from": origin(folder, args)})
    show(report["sets"], report["dropped"])
    log.info("%s made from %s in %s", args.out, folder, duration(time.monotonic() - started))


def get_language(args: argparse.Namespace) -> str:
    """Leave the official lexicon and trigram in OUT/local, or none: which it is, is said and returned."""
    out = args.out / "local"
    for name in ("lexicon.txt", "lm.arpa.gz"):
        (out / name).unlink(missing_ok=True)
    if args.language == "own":
        log.info("lexicon and language model: own, of dictionaries and training texts")
        return "own"
    try:
        found = parts.get_language(args.source, args.mirrors)
    except Unreachable as error:
        if args.language == "official":
            raise
        log.warning("lexicon and language model: own, of dictionaries and training texts; the official ones: %s", error)
        return "own"
    write_text(out / "lexicon.txt", parts.plain_lexicon(found[parts.LEXICON].read_text("utf-8").splitlines()))
    with (
        gzip.open(found[parts.LM]) as lines,
        atomic(out / "lm.arpa.gz") as temporary,
        open(temporary, "wb") as raw,
        gzip.GzipFile("", "wb", 1, raw, mtime=0) as copy,  # the same bytes each time
    ):
        copy.writelines(line.replace(b"<UNK>", b"<unk>") for line in lines)
    log.info("lexicon and language model: official (openslr.org/11), in %s", out)
    return "official"


def known_parts(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in parts.PARTS:
            raise UserError(f"--parts {name}: LibriSpeech has {', '.join(parts.PARTS)}")
    if not any(name.startswith("train-") for name in names):
        raise UserError(f"--parts {' '.join(names)}: none of them is a train-* part")
    return list(dict.fromkeys(names))


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, default=Path("data/librispeech"), help="corpus directory (default: %(default)s)")
    add("--parts", nargs="+", default=["train-clean-5", "dev-clean-2"], help="parts to use (default: %(default)s)")
    add("--source", type=Path, default=Path("downloads"), metavar="DIR",
        help="holds LibriSpeech/PART or PART.tar.gz; what it lacks is fetched (default: %(default)s)")  # fmt: skip
    add("--mirrors", nargs="+", default=list(parts.MIRRORS), help="where resources/ of openslr.org is")
    add("--language", choices=("auto", "official", "own"), default="auto",
        help="lexicon and LM of openslr.org/11, our own, or (auto) our own if the others can't be had")  # fmt: skip
    add("--hold-out", type=float, default=0, metavar="SHARE", help="share of train's speakers that become the set dev")
    add("--with", dest="with_set", type=Path, metavar="DIR", help="set of another corpus for train: data/X/train")
    add("--rate", type=int, default=16000, help="Hz; other than 16000 resamples when audio is read")
    add("--max-train-minutes", type=float, default=0, metavar="M", help="quick runs: size of train (0: all)")
    add("--max-test-minutes", type=float, default=0, metavar="M", help="quick runs: size of each other set (0: all)")
    add("--jobs", type=int, default=0, help="processes (0: one a core)")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = options().parse_args(argv)

    def work() -> None:
        args.parts = known_parts(args.parts)
        prepare(args)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
