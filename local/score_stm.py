#!/usr/bin/env python3
"""Scores a system as NIST does: words with their times in the calls (CTM) against the references of the calls (STM).

    python local/score_stm.py --model exp/swbd/sat --sets eval2000_swb \\
      --filter recipes/swbd/conf/marks.glm recipes/swbd/conf/words.glm local/filters/english.glm

takes MODEL/decode_SET/ctm, which `asr-parallel hypotheses` has left, and DATA/SET/ref.stm, and leaves beside the
former hyp.ctm (times in the calls) and stm/ (all details of `asr-parallel score`).  Prints the rates, those of the
subsets that the STM names, and sclite's if it is on the PATH or where local/tools/get_sctk.sh has put it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from asr_parallel.config import ScoreConfig
from asr_parallel.data.manifests import load_cuts
from asr_parallel.files import write_text
from asr_parallel.log import UserError, setup
from asr_parallel.score.run import run as score

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "asr_parallel/sctk/usr/lib/sctk/bin")


def ctm_of_calls(ctm: Path, data: Path, name: str) -> str:
    """The lines of a CTM of utterances with the calls, sides and times that these utterances are of, in order of time.

    UserError if an utterance is not in the set.
    """
    if not ctm.is_file():
        raise UserError(f"{ctm} is not there; run `asr-parallel hypotheses` on set {name} first")
    places = {c.id: (c.recording.id, "AB"[c.channel], c.start) for c in load_cuts(data, name)}
    found = []
    for line in ctm.read_text(encoding="utf-8").splitlines():
        utt, _, begin, rest = line.split(maxsplit=3)
        if utt not in places:
            raise UserError(f"{ctm}: utterance {utt} is not in {data}/{name}; decode the set again")
        call, side, start = places[utt]
        found.append((call, side, start + float(begin), rest))
    return "".join(f"{call} {side} {begin:.2f} {rest}\n" for call, side, begin, rest in sorted(found))


def sclite(where: Path) -> str:
    """Its sum for the words as they were compared, or why there is none."""
    tool = shutil.which("sclite") or shutil.which("sclite", path=CACHE)
    if not tool:
        return "sclite: not installed (local/tools/get_sctk.sh)"
    files: list[Path | str] = ["-r", where / "ref.trn", "trn", "-h", where / "hyp.trn", "trn"]
    how = ["-i", "spu_id", "-s", "-e", "utf-8", "-o", "rsum", "stdout"]
    told = subprocess.run([tool, *files, *how], capture_output=True, text=True, errors="replace")
    numbers = re.search(r"\|\s*Sum\s*\|([^|]*)\|([^|]*)\|", told.stdout)
    if told.returncode or not numbers:
        raise UserError(f"{tool} ended with {told.returncode}: {(told.stderr or told.stdout)[-300:]}")
    words, (_, sub, dele, ins, err, _) = int(numbers[1].split()[1]), map(int, numbers[2].split())
    rate = f"{100 * err / words:.2f}" if words else "nan"
    return f"sclite %WER {rate} [ {err} / {words}, {ins} ins, {dele} del, {sub} sub ]"


def score_set(args: argparse.Namespace, name: str) -> None:
    where = args.model / f"decode_{name}"
    write_text(where / "hyp.ctm", ctm_of_calls(where / "ctm", args.data, name))
    print(f"== {name} ({args.model})", flush=True)
    ref, hyp, out = args.data / name / "ref.stm", where / "hyp.ctm", where / "stm"
    score(ScoreConfig(ref=ref, hyp=hyp, out=out, filter=args.filter, mode="all", costs="sclite"))
    print(sclite(out), flush=True)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", type=Path, required=True, help="model directory with decode_SET inside")
    add("--data", type=Path, default=Path("data/swbd"), help="corpus directory (default: %(default)s)")
    add("--sets", nargs="+", required=True, help="sets with ref.stm")
    add("--filter", nargs="*", type=Path, default=[], help="GLM files, as of `asr-parallel score`")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = options().parse_args(argv)
    setup()
    try:
        for name in args.sets:
            score_set(args, name)
    except UserError as error:
        print(f"score_stm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
