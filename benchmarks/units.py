"""Systems with other units side by side, from what ``recipes/fotaq/units.sh`` has left: WER, OOV recall, graph size.

    python benchmarks/units.py --exp exp/fotaq_units --units phone grapheme subword

A word is out of vocabulary (OOV) if the training transcripts do not have it, whatever the graph knows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from asr_parallel.files import read_json

SETS = ("test_joe", "test_new")


def row(exp: Path, unit: str) -> list[str]:
    """One system: entries of its graph, arcs, and rates of each set."""
    model = exp / unit / "dnn"
    graph = exp / unit / ("graph" if unit.startswith("ctc") else "tri/graph")
    made, words = read_json(graph / "graph.json"), (graph / "words.txt").read_text(encoding="utf-8").count("\n")
    scores = [read_json(model / f"decode_{name}" / "score.json") for name in SETS]
    speeds = [read_json(model / f"decode_{name}" / "decode.json")["xrt"] for name in SETS]
    size = (graph / "HCLG.fst").stat().st_size / 1e6
    entries = f"{words - 6:,}"  # without <eps>, !SIL, <unk>, #0, <s>, </s>
    head = [unit, entries, f"{made['arcs'] / 1e6:.1f} M", f"{size:.0f} MB", f"{min(speeds):.0f} x"]
    return head + [rate(s) for s in scores] + [recall(s) for s in scores]


def rate(score: dict[str, Any]) -> str:
    low, high = score["ci95"]
    return f"{score['wer']:.1f} ({low:.1f}–{high:.1f})"


def recall(score: dict[str, Any]) -> str:
    return f"{score['oov_right']} / {score['oov_words']} ({score['oov_recall']:.0f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exp", type=Path, default=Path("exp/fotaq_units"))
    parser.add_argument("--units", nargs="+", default=["phone", "grapheme", "subword"])
    options = parser.parse_args()
    head = ["system", "words or pieces", "arcs", "graph", "real time a core"]
    head += [f"{what} {name}" for what in ("WER", "OOV right") for name in SETS]
    print(f"| {' | '.join(head)} |\n|---{'|---:' * (len(head) - 1)}|")
    for unit in options.units:
        print(f"| {' | '.join(row(options.exp, unit))} |")


if __name__ == "__main__":
    main()
