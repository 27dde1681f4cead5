"""RESULTS.md from experiments whose figures are known."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from asr_parallel import cli, stages
from asr_parallel.config import ResultsConfig
from asr_parallel.log import UserError
from asr_parallel.results import plots, table
from asr_parallel.results.compare import claims, pairs, serial_twin
from asr_parallel.results.record import find, read_columns
from asr_parallel.results.run import run
from asr_parallel.results.table import markdown, systems
from asr_parallel.score.references import Reference
from asr_parallel.score.report import per_utt_table
from asr_parallel.score.run import summarise
from asr_parallel.score.wer import score_set

SETS = {"dev_a": "dev_a", "test_a": "dev_a", "test_b": "dev_a"}
MACHINE = {"cpu": "Some CPU", "cores": 2, "memory_gib": 24, "torch": "2.11", "device": "cpu"}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def add_scores(folder, right, seed):
    """Score hypotheses in which each word is right with probability ``right``."""
    rng = np.random.default_rng(seed)
    for name, dev in SETS.items():
        refs = {f"s{i % 4}-{i}": Reference(f"s{i % 4}", ["W"] * (1 + i % 9)) for i in range(120)}
        hyps = {utt: [w if rng.random() < right else "X" for w in ref.words] for utt, ref in refs.items()}
        score = score_set(refs, hyps)
        write(folder / f"decode_{name}" / "score.json", summarise(score, name, dev, (12, 0.5), 0))
        write(folder / f"decode_{name}" / "per_utt.tsv", per_utt_table(score))
        write(folder / f"decode_{name}" / "decode.json", {"audio_seconds": 600.0, "core_seconds": 25.0})


def add_dnn(folder, workers, right, seed, epochs=4):
    head = [
        "epoch",
        "lr",
        "frames",
        "train_loss",
        "train_acc",
        "dev_loss",
        "dev_acc",
        "dev_loss_dev_a",
        "dev_acc_dev_a",
    ]
    rows = ["\t".join([*head, "seconds", "frames_per_s", "verdict"])]
    for i in range(1, epochs + 1):
        loss, acc = 1.5 + 1.0 / i + 0.03 * workers, 0.6 - 0.2 / i - 0.005 * workers
        figures = [i, 0.5 / i, 100000, loss - 0.2, acc + 0.05, loss, acc, loss, acc, 40.0 / workers, 2500 * workers]
        rows.append("\t".join([*map(str, figures), "accept"]))
    write(folder / "history.tsv", "\n".join(rows) + "\n")
    parts = ["epoch\tminibatch\tframes\tseconds\tlr\tloss\tacc"]
    parts += [
        f"{i}\t{m}\t{100 * m}\t{m / 25 / workers}\t0.1\t{2 / i}\t0.5" for i in range(1, epochs + 1) for m in (500, 1000)
    ]
    write(folder / "curve.tsv", "\n".join(parts) + "\n")
    write(
        folder / "train.json",
        {
            "workers": workers,
            "threads": 1,
            "dev_acc": acc,
            "train_seconds": 160.0 / workers,
            "frames_per_s": 2500 * workers - 100 * (workers - 1),
            "params": 1000,
            "machine": MACHINE,
        },
    )
    add_scores(folder, right, seed)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two GMMs, two DNNs and what was left of data and language model."""
    root = tmp_path_factory.mktemp("results")
    exp, data = root / "exp", root / "data"
    phases = {"mono": 20.0, "mono_ali": 5.0, "tri": 70.0, "tri_ali": 9.0}
    write(exp / "align.json", {name: {"seconds": s} for name, s in phases.items()})
    for name, right, seed in (("mono", 0.4, 1), ("tri", 0.6, 2)):
        add_scores(exp / name, right, seed)
    add_dnn(exp / "dnn_w2", 2, 0.71, 4)
    add_dnn(exp / "dnn", 1, 0.72, 3)
    sets = {"train": {"words": 9000, "oov": 0, "oov_rate": 0.0, "perplexity": 20.0}}
    sets["test_a"] = {"words": 1000, "oov": 25, "oov_rate": 0.025, "perplexity": 107.3}
    write(data / "lang" / "lang.json", {"weight_train": 0.8, "sets": sets})
    size = {"utts": 1500, "speakers": 4, "minutes": 12.34, "words": 1000}
    write(data / "prepare.json", {"sets": {"test_a": size}, "dropped": {"test_a": {"also in train": 3}}})
    (root / "page").mkdir()
    return root


def config(root: Path) -> ResultsConfig:
    return ResultsConfig(exp=root / "exp", data=root / "data", out=root / "page" / "RESULTS.md", title="tiny")


def test_order_labels_and_figures(corpus):
    experiments = find(corpus / "exp")
    assert [e.name for e in experiments] == ["mono", "tri", "dnn", "dnn_w2"]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in systems(experiments).splitlines()]
    head = [
        "system",
        "directory",
        "WER test_a",
        "WER test_b",
        "frames right on dev",
        "training",
        "frames/s",
        "decoding",
    ]
    assert rows[0] == head
    assert [r[0] for r in rows[2:]] == ["GMM, monophones", "GMM, triphones", "DNN, 1 worker", "DNN, 2 workers"]
    assert [r[5] for r in rows[2:]] == ["0:20", "1:35", "2:40", "1:20"]
    assert rows[4][4] == "54.5 %"
    assert rows[4][6:] == ["2,500", "24 × real time"]
    score = json.loads((corpus / "exp" / "dnn" / "decode_test_a" / "score.json").read_text())
    low, high = score["ci95"]
    assert rows[4][2] == f"{score['wer']:.1f} ({low:.1f}–{high:.1f})"


def test_page_holds_all_parts_and_is_the_same_again(corpus, capsys):
    run(config(corpus))
    files = [corpus / "page" / name for name in ("RESULTS.md", "wer.png", "training.png")]
    first = [f.read_bytes() for f in files]
    text = first[0].decode()
    for line in (
        "# Results: tiny",
        "`make demo` prints these figures. Machine: Some CPU, 2 cores, 24 GiB, torch 2.11.",
    ):
        assert line in text.splitlines()
    assert "| dnn_w2 against dnn " in text
    assert "dnn_w2 (2 × 1 threads) trains on 1.96 × the frames per second of dnn (1 × 1 threads)." in text
    assert "![" in text
    assert "2.50" in text
    assert "107.3" in text
    assert "Weight of the training texts in the interpolated model: 0.80." in text
    assert "3 also in train" in text
    assert str(corpus) not in text
    assert "GMM, triphones" in capsys.readouterr().out
    run(config(corpus))
    assert [f.read_bytes() for f in files] == first


def test_log_and_stamp_lie_with_the_experiments(corpus):
    there = {p.name for p in (corpus / "page").iterdir()}
    before = config(corpus)
    assert cli.run("results", before) == 0
    assert {p.name for p in (corpus / "page").iterdir()} == there | {"RESULTS.md", "wer.png", "training.png"}
    assert (corpus / "exp" / "log" / "results.log").exists()
    assert stages.stamp_path("results", before).is_relative_to(corpus / "exp")
    assert stages.stale("results", before) == []
    assert stages.stamp_path("results", dataclasses.replace(before, out=corpus / "OTHER.md")).exists() is False


def test_comparisons_find_what_was_made(corpus):
    experiments = find(corpus / "exp")
    assert [(a.name, b.name) for a, b in pairs(experiments)] == [
        ("mono", "tri"),
        ("tri", "dnn"),
        ("tri", "dnn_w2"),
        ("dnn", "dnn_w2"),
    ]
    found = {(c.old.name, c.new.name, c.name): c.result for c in claims(experiments)}
    assert len(found) == 8
    assert found["mono", "tri", "test_a"].p_better == 1
    assert found["mono", "tri", "test_a"].relative == pytest.approx(100 * 0.2 / 0.6, abs=6)
    close = found["dnn", "dnn_w2", "test_a"]
    assert close.low < 0 < close.high


def test_systems_follow_from_each_other(tmp_path):
    """Each GMM is compared with the one before, networks with the last one; other features are named."""
    for name in ("sat", "tri", "lda_mllt", "mono"):
        add_scores(tmp_path / name, 0.5, 0)
    add_dnn(tmp_path / "dnn", 1, 0.7, 3)
    add_dnn(tmp_path / "dnn_fmllr", 1, 0.7, 3)
    write(tmp_path / "dnn_fmllr" / "config.json", {"features": "fmllr"})
    phases = ("mono", "mono_ali", "tri", "tri_ali", "lda_mllt", "lda_mllt_ali", "sat", "sat_ali", "graphs")
    write(tmp_path / "align.json", {name: {"seconds": 10.0} for name in phases})
    experiments = find(tmp_path)
    assert [e.label for e in experiments[2:]] == [
        "GMM, LDA + MLLT", "GMM, speaker-adapted", "DNN, 1 worker", "DNN on fmllr, 1 worker",
    ]  # fmt: skip
    assert [table.training_seconds(e) for e in experiments[:4]] == [10, 30, 50, 70]
    assert [(a.name, b.name) for a, b in pairs(experiments)] == [
        ("mono", "tri"), ("tri", "lda_mllt"), ("lda_mllt", "sat"), ("sat", "dnn"), ("sat", "dnn_fmllr"),
    ]  # fmt: skip


def test_twin_of_a_parallel_training_is_the_most_alike(tmp_path):
    for name, workers, params in (("a", 1, 5), ("b", 1, 7), ("w", 2, 7)):
        write(tmp_path / name / "train.json", {"workers": workers, "params": params})
    by_name = {e.name: e for e in find(tmp_path)}
    assert serial_twin(by_name["w"], list(by_name.values())).name == "b"
    assert serial_twin(by_name["w"], [by_name["w"]]) is None


def test_other_references_are_not_compared(corpus, tmp_path, caplog):
    for name, utts in (("mono", 120), ("tri", 119)):
        score = json.loads((corpus / "exp" / name / "decode_test_a" / "score.json").read_text())
        rows = (corpus / "exp" / name / "decode_test_a" / "per_utt.tsv").read_text().splitlines()[: utts + 1]
        write(tmp_path / name / "decode_test_a" / "score.json", score)
        write(tmp_path / name / "decode_test_a" / "per_utt.tsv", "\n".join(rows) + "\n")
    with caplog.at_level("WARNING"):
        assert claims(find(tmp_path)) == []
    assert "different versions of test_a" in caplog.text


def test_dev_sets_are_no_results(corpus):
    assert "dev_a" not in systems(find(corpus / "exp"))


def test_gmm_alone_has_no_training_curve(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "this_machine", lambda: {"cpu": "Old CPU", "cores": 1})
    add_scores(tmp_path / "exp" / "tri", 0.5, 0)
    run(ResultsConfig(exp=tmp_path / "exp", data=tmp_path / "data", out=tmp_path / "RESULTS.md"))
    assert (tmp_path / "wer.png").exists()
    assert not (tmp_path / "training.png").exists()
    text = (tmp_path / "RESULTS.md").read_text()
    assert "## Training" not in text
    assert "Machine: Old CPU, 1 cores." in text


def test_training_without_scores_is_shown(tmp_path):
    add_dnn(tmp_path / "exp" / "dnn", 1, 0.5, 0)
    for path in (tmp_path / "exp" / "dnn").glob("decode_*/*"):
        path.unlink()
    run(ResultsConfig(exp=tmp_path / "exp", data=tmp_path / "data", out=tmp_path / "RESULTS.md"))
    assert (tmp_path / "training.png").exists()
    assert not (tmp_path / "wer.png").exists()


def test_set_without_reference_words_is_undefined_not_zero(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "this_machine", lambda: MACHINE)
    score = score_set({"u": Reference("s", [])}, {"u": ["X"]})
    write(tmp_path / "exp" / "tri" / "decode_test_a" / "score.json", summarise(score, "test_a", "dev", (9, 0.0), 0))
    run(ResultsConfig(exp=tmp_path / "exp", data=tmp_path / "data", out=tmp_path / "RESULTS.md"))
    text = (tmp_path / "RESULTS.md").read_text()
    assert "undefined" in text
    assert "1 references are empty" in text


def test_systems_with_the_same_label_are_told_apart(tmp_path):
    for name in ("a", "b"):
        add_dnn(tmp_path / name, 1, 0.5, 0)
    assert plots.names(find(tmp_path)) == ["DNN, 1 worker (a)", "DNN, 1 worker (b)"]


def test_curves_stand_where_they_belong(tmp_path):
    add_dnn(tmp_path / "dnn", 1, 0.5, 0, epochs=3)
    history = tmp_path / "dnn" / "history.tsv"
    rows = history.read_text().splitlines()
    rows[2] = rows[2].replace("accept", "reject, halve")
    history.write_text("\n".join(rows) + "\n")
    axes = Figure().subplots(2, 2)
    plots._curves(axes, find(tmp_path)[0], "dnn", "red", "o")
    kept, hollow, train = (line.get_xydata() for line in axes[1][1].lines)
    assert kept.tolist() == [[40.0, pytest.approx(39.5)], [120.0, pytest.approx(100 * (0.6 - 0.2 / 3 - 0.005))]]
    assert hollow.tolist() == [[80.0, pytest.approx(49.5)]]
    assert train[:, 0].tolist() == [10.0, 30.0, 50.0, 70.0, 90.0, 110.0]
    assert train[0, 1] == 50.0
    epochs = [line.get_xdata().tolist() for line in axes[0][0].lines]
    assert epochs == [[1.0, 3.0], [2.0], [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]]


def test_a_system_has_one_colour(corpus):
    experiments = find(corpus / "exp")
    assert plots.styles(experiments) == {"dnn": (plots.COLOURS[0], "o"), "dnn_w2": (plots.COLOURS[1], "s")}


def test_nothing_there_and_damaged_files_are_named(tmp_path):
    with pytest.raises(UserError, match="no experiment has been trained or scored"):
        find(tmp_path)
    write(tmp_path / "dnn" / "train.json", '{"workers": 1')
    with pytest.raises(UserError, match=r"dnn/train\.json: damaged JSON"):
        find(tmp_path)
    write(tmp_path / "dnn" / "train.json", {"workers": 1})
    write(tmp_path / "dnn" / "decode_a" / "score.json", {"set": "a", "wer": 3.0})
    with pytest.raises(UserError, match=r"decode_a/score\.json lacks .*tuned_on.* run stage `score` again"):
        find(tmp_path)
    write(tmp_path / "history.tsv", "epoch\tseconds\n1\t5.0\n2\n")
    with pytest.raises(UserError, match=r"history\.tsv:3: not as many fields"):
        read_columns(tmp_path / "history.tsv")


def test_markdown_escapes_and_aligns():
    assert markdown(["a", "b"], [["x|y", "1"]]).splitlines() == ["| a    |   b |", "| ---- | --: |", "| x\\|y |   1 |"]
