"""Recognise a folder of WAV files with PocketSphinx; runs in the environment that ``sphinxtrain.py`` makes.

Beams and word penalty are those of SphinxTrain's decoding script, which are the defaults of ``pstrain``.
"""

import argparse
import multiprocessing
from pathlib import Path

from pstrain.lib.native_worker import close_helper_before_children_are_joined
from pstrain.lib.testing import Decoder


def recognise(args: argparse.Namespace, paths: list[Path]) -> list[str]:
    """Lines ``utt word word ...``."""
    decoder = Decoder(args.model, args.dictionary, lm=args.lm, lw=args.lw, topn=args.topn)
    found = [decoder.decode_file(path) for path in paths]
    decoder.close()
    for result in found:
        if not result.success:
            raise RuntimeError(f"{result.utterance_id}: {result.error}")
    return [f"{result.utterance_id} {result.hypothesis}".strip() + "\n" for result in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "dictionary", "lm", "audio", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--lw", type=float, required=True)
    parser.add_argument("--topn", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    paths = sorted(args.audio.glob("*.wav"))
    shares = [(args, paths[job :: args.jobs]) for job in range(args.jobs)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(args.jobs, close_helper_before_children_are_joined) as pool:
        lines = [line for share in pool.starmap(recognise, shares) for line in share]
    args.out.write_text("".join(sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
