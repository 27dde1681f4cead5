"""Speed and word error rate of decoding over beams, with the peers of the same library.

    python benchmarks/decode.py --model exp/fotaq/dnn_1 --graph exp/fotaq/sat/graph [--sets dev_joe dev_new]

For each beam a sample of the utterances is decoded on one core.  The word error rate is that of the best
LM weight and penalty on the sample itself, so it compares beams with each other and nothing else; ``--reference``
is a beam and a ``max_active`` so wide that they stand for no pruning.  ``--peers`` adds kaldi-decoder's
``FasterDecoder`` (no lattices) and ``LatticeSimpleDecoder`` on the same scores.  Processor time is measured, not time
on the wall.  Prints a table and JSON lines.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from figure import Figure, command_line
from kaldi_decoder import (
    DecodableCtc,
    FasterDecoder,
    FasterDecoderOptions,
    LatticeSimpleDecoder,
    LatticeSimpleDecoderConfig,
)
from kaldifst import StdConstFst

from asr_parallel.config import ScoreConfig, cuts_path
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.acoustic import Scorer, load_scorer
from asr_parallel.decode.decode import load_graph, load_words
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.lattice import Lattices
from asr_parallel.decode.search import Beams
from asr_parallel.lang.arrays import read_const
from asr_parallel.score.references import load_cuts, references
from asr_parallel.score.tune import choose, score_grid
from asr_parallel.score.wording import Wording

TARGET_XRT, TARGET_LOSS = 20.0, 0.2


@dataclass(frozen=True)
class Sample:
    """Every n-th utterance of some sets."""

    feats: dict[str, np.ndarray]
    refs: dict
    seconds: float

    @classmethod
    def of(cls, data: Path, sets: list[str], kind: str, size: int) -> Sample:
        feats, refs, seconds = {}, {}, 0.0
        for name in sets:
            stored, texts = FeatureSet.open(data, name, kind), references(load_cuts(cuts_path(data, name)), Wording())
            for utt in stored.utts[:: max(1, len(stored) * len(sets) // size)]:
                feats[utt], refs[utt] = stored[utt], texts[utt]
                seconds += float(stored.durations[stored.utts.index(utt)])
        return cls(feats, refs, seconds)


def lattices(decoder: Decoder, sample: Sample, words: list[str]) -> dict[str, float]:
    """Figures of one setting of the lattice decoder."""
    decoded = [decoder.decode(x) for x in sample.feats.values()]
    core = sum(d.seconds for d in decoded)
    start = time.process_time()
    joined = Lattices.join(
        list(sample.feats), [d.flag for d in decoded], [d.lattice for d in decoded], dict(enumerate(words))
    )
    defaults = ScoreConfig()
    grid = joined.best_grid(defaults.lmwt, defaults.wip)
    grid_seconds = time.process_time() - start
    scores = score_grid(sample.refs, grid)  # type: ignore[arg-type]
    frames = sum(len(x) for x in sample.feats.values())
    point = choose(scores)
    return {
        "xrt": sample.seconds / core,
        "wer": scores[point].wer,
        "lmwt": point[0],
        "wip": point[1],
        "density": sum(d.arcs for d in decoded) / frames,
        "word_arcs": len(joined.lattice.src) / frames,
        "not_ok": sum(d.flag != "ok" for d in decoded),
        "grid_ms_an_utt": 1000 * grid_seconds / len(decoded),
    }


def peers(fst: StdConstFst, scorer: Scorer, acwt: float, beams: Beams, sample: Sample) -> dict[str, float]:
    """Real-time factors of kaldi-decoder on the same scores and graph: without lattices, and with raw ones."""
    spent = np.zeros(2)
    for feats in sample.feats.values():
        scores = DecodableCtc(scorer.loglikes(feats) * np.float32(acwt))
        start = time.process_time()
        best = FasterDecoder(fst, FasterDecoderOptions(beam=beams.beam, max_active=beams.max_active))
        best.decode(scores)
        best.get_best_path()
        middle = time.process_time()
        lattice = LatticeSimpleDecoder(fst, LatticeSimpleDecoderConfig(beams.beam, beams.lattice_beam))
        lattice.decode(scores)
        lattice.get_raw_lattice()
        spent += middle - start, time.process_time() - middle
    return dict(zip(("faster_xrt", "simple_xrt"), sample.seconds / spent))


def figures(rows: list[dict[str, float]], default: float) -> list[Figure]:
    """The figures that have a target, at beam ``default``; the last row stands for no pruning."""
    chosen = min(rows, key=lambda r: abs(r["beam"] - default))
    loss = chosen["wer"] - rows[-1]["wer"]
    return [
        Figure("decode_xrt", chosen["xrt"], "x real time a core", f">= {TARGET_XRT:g}", command_line()),
        Figure("decode_beam_wer_loss", loss, "% absolute", f"<= {TARGET_LOSS:g}", command_line()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("exp/fotaq/dnn_1"))
    parser.add_argument("--graph", type=Path, default=Path("exp/fotaq/sat/graph"))
    parser.add_argument("--data", type=Path, default=Path("data/fotaq"))
    parser.add_argument("--sets", nargs="+", default=["dev_joe", "dev_new"])
    parser.add_argument("--utts", type=int, default=60, help="size of the sample")
    parser.add_argument("--beams", nargs="+", type=float, default=[9, 10, 11, 12])
    parser.add_argument("--reference", nargs=2, type=float, default=[13, 10000], help="BEAM MAX_ACTIVE of no pruning")
    parser.add_argument("--lattice-beam", type=float, default=6.0)
    parser.add_argument("--max-active", type=int, default=7000)
    parser.add_argument("--peers", action="store_true", help="time kaldi-decoder's decoders too")
    parser.add_argument("--default-beam", type=float, default=12.0)
    parser.add_argument("--acwt", type=float, default=0.083333)
    args = parser.parse_args()
    torch.set_num_threads(1)
    scorer, words = load_scorer(args.model), load_words(args.graph)
    sample = Sample.of(args.data, args.sets, scorer.kind, args.utts)
    graph = load_graph(args.graph, args.model, scorer, len(words))
    fst = read_const(args.graph / "HCLG.fst")
    print(f"{len(sample.feats)} utterances, {sample.seconds:.0f} s of audio, one core")
    rows = []
    widest = (args.reference[0], int(args.reference[1]))
    for beam, max_active in [*((beam, args.max_active) for beam in args.beams), widest]:
        beams = Beams(beam, args.lattice_beam, max_active)
        row = {
            "beam": beam,
            "max_active": max_active,
            **lattices(Decoder(graph, scorer, args.acwt, beams), sample, words),
        }
        if args.peers:
            row |= peers(fst, scorer, args.acwt, beams, sample)
        rows.append(row)
        print("  ".join(f"{k} {v:.2f}" for k, v in rows[-1].items()), flush=True)
    for figure in figures(rows, args.default_beam):
        figure.show()


if __name__ == "__main__":
    main()
