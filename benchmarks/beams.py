"""The curve of decoding speed against word error rate over beams, as a table and as ``docs/beams.png``.

    python benchmarks/beams.py --model exp/fotaq/dnn_2 --graph exp/fotaq/sat/graph

Every pair of ``--beams`` and ``--max-active`` decodes the dev sets on one core; ``--reference`` stands for no pruning.
Speed is audio over processor time, scores of the network included.  The word error rate is that of the best LM weight
and penalty on the same sets, so it compares beams with each other and nothing else.  Prints a table and JSON lines:
the fastest setting within 0.2 % (absolute) of the reference.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path

import torch
from decode import TARGET_LOSS, TARGET_XRT, Sample, lattices
from figure import Figure, command_line
from matplotlib import figure

from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.decode.decode import load_graph, load_words
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.search import Beams
from asr_parallel.files import atomic
from asr_parallel.results.plots import COLOURS, MARKERS


@dataclass(frozen=True)
class Point:
    """A setting, its speed (x real time a core) and its word error rate (%)."""

    beam: float
    max_active: int
    xrt: float
    wer: float


def fastest(points: list[Point], limit: float) -> Point | None:
    """The fastest of the points whose word error rate is at most ``limit``."""
    return max((p for p in points if p.wer <= limit), key=lambda p: p.xrt, default=None)


def show(points: list[Point], reference: Point) -> None:
    """The table, then the figures."""
    print(f"{'beam':>6} {'max_active':>10} {'x real time':>11} {'WER':>6} {'loss':>6}")
    for p in [*points, reference]:
        print(f"{p.beam:6g} {p.max_active:10d} {p.xrt:11.1f} {p.wer:6.2f} {p.wer - reference.wer:+6.2f}")
    best = fastest(points, reference.wer + TARGET_LOSS)
    if best is None:
        print(f"no setting is within {TARGET_LOSS} % of the reference")
        return
    print(f"fastest within {TARGET_LOSS} %: beam {best.beam:g}, max_active {best.max_active}")
    Figure("decode_xrt_near_unpruned", best.xrt, "x real time a core", f">= {TARGET_XRT:g}", command_line()).show()


def draw(points: list[Point], reference: Point, path: Path) -> None:
    """A line for each ``max_active``, a marker for each beam; the aim is the lower right corner."""
    picture = figure.Figure(figsize=(7, 4.5), layout="constrained")
    axis = picture.subplots()
    axis.axhline(reference.wer, color="black", linewidth=1, label=f"beam {reference.beam:g}: no pruning to speak of")
    axis.axhspan(reference.wer, reference.wer + TARGET_LOSS, color="0.9", label=f"within {TARGET_LOSS} % of it")
    for n, (size, group) in enumerate(itertools.groupby(points, key=lambda p: p.max_active)):
        line = sorted(group, key=lambda p: p.xrt)
        style = {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]}
        axis.plot([p.xrt for p in line], [p.wer for p in line], label=f"max_active {size}", **style)  # type: ignore[arg-type]
        for p in line:
            axis.annotate(f"{p.beam:g}", (p.xrt, p.wer), xytext=(5, 4), textcoords="offset points", fontsize=8)
    axis.axvline(TARGET_XRT, color="0.6", linestyle=":", linewidth=1)
    axis.set_xlabel("× real time on one core")
    axis.set_ylabel("WER of the dev sets, %")
    axis.set_title("Beams (numbers at the markers) and max_active", fontsize=10)
    axis.legend(fontsize=8, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    with atomic(path) as temporary:
        picture.savefig(temporary, format="png", dpi=130, metadata={"Software": None})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("exp/fotaq/dnn_2"))
    parser.add_argument("--graph", type=Path, default=Path("exp/fotaq/sat/graph"))
    parser.add_argument("--data", type=Path, default=Path("data/fotaq"))
    parser.add_argument("--sets", nargs="+", default=["dev_joe", "dev_new"])
    parser.add_argument("--utts", type=int, default=100_000, help="at most so many utterances, evenly from the sets")
    parser.add_argument("--beams", nargs="+", type=float, default=[9, 10, 11, 12])
    parser.add_argument("--max-active", nargs="+", type=int, default=[2000, 3000, 4000, 6000])
    parser.add_argument("--reference", nargs=2, type=float, default=[13, 10000], help="BEAM MAX_ACTIVE of no pruning")
    parser.add_argument("--lattice-beam", type=float, default=4.0)
    parser.add_argument("--acwt", type=float, default=0.1)
    parser.add_argument("--out", type=Path, default=Path("docs/beams.png"))
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    scorer, words = load_scorer(args.model), load_words(args.graph)
    sample = Sample.of(args.data, args.sets, scorer.kind, args.utts)
    graph = load_graph(args.graph, args.model, scorer, len(words))
    print(f"{len(sample.feats)} utterances, {sample.seconds:.0f} s of audio, one core", flush=True)

    def point(beam: float, max_active: int) -> Point:
        decoder = Decoder(graph, scorer, args.acwt, Beams(beam, args.lattice_beam, max_active))
        found = lattices(decoder, sample, words)
        print(f"beam {beam:g} max_active {max_active}: {found['xrt']:.1f} x, {found['wer']:.2f} %", flush=True)
        return Point(beam, max_active, found["xrt"], found["wer"])

    points = [point(beam, size) for size in args.max_active for beam in args.beams]
    reference = point(args.reference[0], int(args.reference[1]))
    show(points, reference)
    draw(points, reference, args.out)


if __name__ == "__main__":
    main()
