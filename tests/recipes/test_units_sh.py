"""units.sh plans its systems; the table that it ends with is made of what they leave."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_plan_has_all_systems(tmp_path):
    command = ["recipes/fotaq/units.sh", "--units", "phone grapheme subword ctc_grapheme", "--stop-stage", "7"]
    command += ["--data", tmp_path / "data", "--langs", tmp_path, "--exp", tmp_path / "exp"]
    plan = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, env=os.environ | {"ASR_PARALLEL_PLAN": "1"}
    )
    assert plan.returncode == 0, plan.stderr
    verbs = [line.split()[0] for line in plan.stdout.splitlines()]
    assert verbs == 3 * ["lang", "align", "train", "decode", "score"] + ["lang", "train", "graph", "decode", "score"]


def leave(exp, unit, graph, words, wer, right):
    """What ``units.py`` reads of a system."""
    folder = exp / unit / graph
    folder.mkdir(parents=True)
    (folder / "graph.json").write_text(json.dumps({"arcs": 1_234_567}))
    (folder / "words.txt").write_text("".join(f"w{i} {i}\n" for i in range(words + 6)))
    (folder / "HCLG.fst").write_bytes(bytes(2_000_000))
    for name in ("test_joe", "test_new"):
        model = exp / unit / "dnn" / f"decode_{name}"
        model.mkdir(parents=True)
        score = {"wer": wer, "ci95": [wer - 1, wer + 1], "oov_right": right, "oov_words": 40, "oov_recall": right / 0.4}
        (model / "score.json").write_text(json.dumps(score))
        (model / "decode.json").write_text(json.dumps({"xrt": 21.4}))


def test_table(tmp_path):
    leave(tmp_path, "phone", "tri/graph", 5000, 20.0, 10)
    leave(tmp_path, "ctc_grapheme", "graph", 900, 30.25, 0)
    command = [sys.executable, "benchmarks/units.py", "--exp", tmp_path, "--units", "phone", "ctc_grapheme"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[2].startswith("| phone | 5,000 | 1.2 M | 2 MB | 21 x | 20.0 (19.0–21.0) |")
    assert lines[2].endswith("| 10 / 40 (25 %) | 10 / 40 (25 %) |")
    assert lines[3].startswith("| ctc_grapheme | 900 |")
    assert lines[0].count("|") == lines[1].count("|") == lines[3].count("|")
