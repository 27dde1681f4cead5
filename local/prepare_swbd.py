#!/usr/bin/env python3
"""Prepares Switchboard-1 for training (300 h of telephone calls) and NIST's Hub5 and RT sets for tests.

    python local/prepare_swbd.py --source /corpora --out data/swbd

looks in /corpora, where links will do, for what a licence of the LDC (and openslr.org/5) has given you:

    LDC97S62                     Switchboard-1 Release 2: sw0XXXX.sph, in folders of discs or in one
    swb_ms98_transcriptions      Mississippi State's transcripts and dictionary (openslr.org/5)
    LDC2002S09 and LDC2002T43    Hub5'00 (eval2000): audio and references
    LDC2002S13, LDC2007S10       Hub5'01, RT-03                                              (if you have them)
    LDC2004T19 and LDC2005T19    transcripts of Fisher, more text for the language model     (if you have them)

and leaves Lhotse manifests for train, dev (held out of it) and each part of a test (eval2000_swb, eval2000_ch,
hub5_01_swb, rt03_swb, rt03_fsh), the references of these in SET/ref.stm, and local/{lexicon,fisher}.txt.  Audio stays
where it is; only files compressed with shorten, which need sph2pipe or ffmpeg, are written anew to OUT/audio.  A second
run says that the result is fresh.  Exit code 3: the corpus is not there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from preparing import CorpusMissing, Table, code_hash, exit_code, nothing_to_do, show, stale

from asr_parallel.config import cores, listing
from asr_parallel.files import files_under, write_json, write_text
from asr_parallel.log import UserError, duration, logger

if TYPE_CHECKING:
    from swbd_calls import Bad

    from asr_parallel.data.manifests import Utt

log = logger("asr_parallel.prepare_swbd")

HERE = Path(__file__).parent
CODE = [HERE / f"{name}.py" for name in ("prepare_swbd", "swbd_calls", "swbd_sets", "swbd_train", "swbd_words", "hub5")]
PLACES = {  # names of folders in --source, by what they are for
    "train": ("LDC97S62", "swb_ms98_transcriptions"),
    "eval2000": ("LDC2002S09", "LDC2002T43"),
    "hub5_01": ("LDC2002S13",),
    "rt03": ("LDC2007S10",),
    "fisher": ("LDC2004T19", "LDC2005T19"),
}
OPTIONS = ("dev", "dev_share", "max_repeats", "max_train_minutes", "max_test_minutes", "max_bad")

Files = dict[str, list[Path]]


def find_files(source: Path) -> Files:
    """All files of each purpose, sorted; links are followed.  CorpusMissing says what is needed and is not there."""
    missing = [name for name in PLACES["train"] if not (source / name).is_dir()]
    if missing:
        raise CorpusMissing(
            f"--source {source} has no folder (or link) {' and none '.join(missing)}: LDC97S62 is sold by the LDC, "
            "swb_ms98_transcriptions is switchboard_word_alignments.tar.gz of openslr.org/5; --help lists all"
        )
    return {
        what: [path for name in names if (source / name).is_dir() for path in files_under(source / name)]
        for what, names in PLACES.items()
    }


def origin(files: Files, args: argparse.Namespace) -> dict[str, Any]:
    """All that the result depends on."""
    made_from: dict[str, Any] = {n: getattr(args, n) for n in OPTIONS}
    return made_from | {what: listing(paths) for what, paths in files.items()} | {"code": code_hash(CODE)}


def prepare(args: argparse.Namespace) -> None:
    """Leave the corpus in ``args.out``, unless it is fresh."""
    started = time.monotonic()
    if os.environ.get("ASR_PARALLEL_PLAN") and not args.source.is_dir():
        nothing_to_do(args.out, [f"{args.source} is not there"])
        return
    files = find_files(args.source)
    made_from = origin(files, args)
    if nothing_to_do(args.out, stale(args.out, made_from)):
        return
    (args.out / "prepare.json").unlink(missing_ok=True)  # what follows may be killed half-way
    import swbd_sets  # here, for lhotse takes a second to import

    from asr_parallel.data import manifests

    sets, bad, dropped = swbd_sets.make(files, args)
    for name, utts in sets.items():
        check_share(name, utts, bad[name], args)
        manifests.write(args.out / name, utts)
    table = summary(sets)
    all_bad = {name: [f"{b.kind}: {b.where}" for b in found] for name, found in bad.items() if found}
    write_json(args.out / "prepare.json", {"sets": table, "dropped": dropped, "bad": all_bad, "made_from": made_from})
    show(table, dropped)
    log.info("%s made from %s in %s", args.out, args.source, duration(time.monotonic() - started))


def check_share(name: str, utts: list[Utt], bad: list[Bad], args: argparse.Namespace) -> None:
    """List what is left out of a set; UserError if it is too much."""
    if not bad:
        return
    write_text(args.out / name / "prepare_bad.tsv", "".join(f"{b.kind}\t{b.where}\n" for b in bad))
    text = f"{name}: {len(bad)} left out, listed in {args.out / name}/prepare_bad.tsv, first: {bad[0].where}"
    if len(bad) > args.max_bad * (len(utts) + len(bad)):
        raise UserError(f"{text}; mend them, or raise --max-bad, now {args.max_bad:g}")
    log.warning("%s", text)


def summary(sets: dict[str, list[Utt]]) -> Table:
    """Utterances, speakers, minutes and words of each set."""
    return {
        name: {
            "utts": len(utts),
            "speakers": len({u.speaker for u in utts}),
            "minutes": round(sum(u.duration for u in utts) / 60, 2),
            "words": sum(len(u.text.split()) for u in utts),
        }
        for name, utts in sets.items()
    }


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--source", type=Path, default=Path("corpora"), help="folder of folders or links (default: %(default)s)")
    add("--out", type=Path, default=Path("data/swbd"), help="corpus directory (default: %(default)s)")
    add("--dev", choices=("speakers", "utterances"), default="speakers",
        help="held out are callers, or as in the paper's code the last utterances (default: %(default)s)")  # fmt: skip
    add("--dev-share", type=float, default=None, help="share of the utterances (default: 0.05; of utterances 0.1)")
    add("--max-repeats", type=int, default=300, help="training utterances of one text (default: %(default)s; 0: all)")
    add("--max-bad", type=float, default=0.01, help="share of a set that may be left out (default: %(default)s)")
    add("--max-train-minutes", type=float, default=0, metavar="M", help="quick runs: size of train (0: all)")
    add("--max-test-minutes", type=float, default=0, metavar="M", help="quick runs: size of each other set (0: all)")
    add("--jobs", type=int, default=0, help="processes (0: one a core)")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = options().parse_args(argv)
    args.jobs = args.jobs or cores()
    if args.dev_share is None:
        args.dev_share = 0.05 if args.dev == "speakers" else 0.1
    return exit_code(lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
