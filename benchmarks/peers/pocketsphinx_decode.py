"""Recognise a folder of WAV files with PocketSphinx; runs in the environment that ``sphinxtrain.py`` makes.

The word penalty is that of SphinxTrain's decoding script; so are the ``script`` beams, the defaults of ``pstrain``.
"""

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from pstrain.lib.native_worker import close_helper_before_children_are_joined
from pstrain.lib.testing import Decoder

PLACES = ("beam", "pbeam", "lpbeam", "lponlybeam", "fwdflatbeam", "wbeam", "fwdflatwbeam")
BEAMS: dict[str, dict[str, float]] = {
    "narrow": dict(zip(PLACES, (1e-60, 1e-60, 1e-50, 1e-36, 1e-64, 1e-32, 1e-34))),
    "wide": dict(zip(PLACES, (1e-64, 1e-64, 1e-64, 1e-64, 1e-64, 1e-40, 1e-40))),
    "script": {},
}


def recognise(args: argparse.Namespace, paths: list[Path]) -> list[str]:
    """Lines ``utt word word ...``."""
    beams = BEAMS[args.beams]
    decoder = Decoder(args.model, args.dictionary, lm=args.lm, lw=args.lw, topn=args.topn, **beams)
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
    parser.add_argument("--beams", choices=BEAMS, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    paths = sorted(args.audio.glob("*.wav"))
    shares = [(args, paths[job :: args.jobs]) for job in range(args.jobs)]
    context = multiprocessing.get_context("spawn")
    # These processes start one of their own to read the model, which those of multiprocessing.Pool may not.
    with ProcessPoolExecutor(args.jobs, context, close_helper_before_children_are_joined) as pool:
        lines = [line for share in pool.map(recognise, *zip(*shares)) for line in share]
    args.out.write_text("".join(sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
