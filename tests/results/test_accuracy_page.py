"""The page of classifiers whose figures are known."""

import json

import numpy as np
import pytest

from asr_parallel.config import ResultsConfig
from asr_parallel.log import UserError
from asr_parallel.results.accuracy import page
from asr_parallel.results.record import find
from asr_parallel.results.run import run
from asr_parallel.score.classes import accuracy, by_class
from asr_parallel.score.references import Reference
from asr_parallel.score.summary import figures, write_details
from asr_parallel.score.wer import score_set


def add(folder, workers, right):
    """A system that gets the first ``right`` of 100 utterances right: GO and STOP in turn, by seven speakers."""
    said = ["GO", "STOP"] * 50
    refs = {f"s{i % 7}-{i}": Reference(f"s{i % 7}", (word,)) for i, word in enumerate(said)}
    hyps = {utt: (ref.words[0] if i < right else "UP",) for i, (utt, ref) in enumerate(refs.items())}
    score = score_set(refs, hyps)
    found = accuracy(score.utts, 0)
    summary = figures(score, 0) | {"set": "test", "tuned_on": None, "lmwt": None, "wip": None}
    summary |= {"accuracy": found["accuracy"], "accuracy_ci95": found["ci95"]}
    write_details(folder / "decode_test", score, summary)
    (folder / "decode_test/classes.tsv").write_text(by_class(score, 0))
    train = {
        "workers": workers,
        "threads": 1,
        "strategy": "x",
        "dev_acc": 0.5,
        "train_seconds": 60.0,
        "frames_per_s": 900,
    }
    train |= {"frames_per_s": 900, "params": 1234, "exchange_bytes": 3_000_000 * workers, "features": "image"}
    (folder / "train.json").write_text(json.dumps(train))


@pytest.fixture
def config(tmp_path):
    add(tmp_path / "exp/one", 1, 80)
    add(tmp_path / "exp/two", 2, 60)
    return ResultsConfig(exp=tmp_path / "exp", data=tmp_path, out=tmp_path / "R.md", title="t", measure="accuracy")


def cells(text, first):
    """The cells of the rows that begin with ``first``."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in lines if row[0] == first]


def test_figures_of_systems(config, capsys):
    run(config)
    text = config.out.read_text()
    assert capsys.readouterr().out.strip() in text
    (row,) = cells(text, "two")
    score = json.loads((config.exp / "two/decode_test/score.json").read_text())
    low, high = score["accuracy_ci95"]
    assert row == ["two", "2", "x", "1,234", f"60.0 ({low:.1f}–{high:.1f})", "50.0", "1:00", "900", "3.0"]
    assert low < 60 < high
    np.testing.assert_allclose([100 - high, 100 - low], score["ci95"], atol=1e-3)


def test_comparison_is_in_accuracy(config):
    (row,) = cells(page(config, find(config.exp), {}), "two against one")
    assert row[1:4] == ["test", "80.0", "60.0"]
    assert row[4].startswith("-20.0 (-2")
    assert row[5] == "0.0 %"


def test_each_class_has_a_row_with_all_systems(config):
    text = page(config, find(config.exp), {})
    assert cells(text, "GO") == [["GO", "50", "80", "60", "UP 10"]]
    assert cells(text, "class") == [["class", "clips", "one", "two", "taken for, by one"]]


def test_without_classes_there_is_no_page(config):
    for path in config.exp.glob("*/decode_test/score.json"):
        value = json.loads(path.read_text())
        value.pop("accuracy")
        path.write_text(json.dumps(value))
    with pytest.raises(UserError, match="run `classify` first"):
        run(config)
