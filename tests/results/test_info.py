"""The verbs `info` and `project` on trainings whose figures are known."""

import dataclasses
import json
import re

import pytest

from asr_parallel import cli
from asr_parallel.config import StrategyConfig, TrainConfig
from asr_parallel.files import write_json, write_text
from asr_parallel.parallel.cost import Prediction
from asr_parallel.results.record import SCORE_KEYS
from asr_parallel.train.settings import plain

HISTORY = (
    "epoch\tlr\tframes\tdev_loss\tdev_acc\tseconds\tverdict\n"
    "1\t0\t40960\t2.5\t0.40\t12.0\taccept\n2\t0\t40960\t2.0\t0.50\t8.0\taccept\n"
    "3\t0\t40960\t2.2\t0.45\t10.0\treject, halve\n"
)
LEDGER = "epoch\texchange\trank\tminibatch\tbytes\twait_s\tsend_s\tcompute_s\tprobe_s\tleft_out\n"


def training(folder, workers=2, finished=True, history=HISTORY, backend="auto", **strategy):
    """Two epochs' worth of tables; each exchange 1 s of computing, 0.1 of waiting for all, 0.2 of sending."""
    options = {"name": "model_average" if workers > 1 else "single"} | strategy
    config = TrainConfig(out=folder, workers=workers, threads=1, backend=backend, strategy=StrategyConfig(**options))
    write_json(folder / "config.json", plain(config))
    write_text(folder / "history.tsv", history)
    rows = [f"{e}\t{x}\t{r}\t{10 * x}\t3000000\t0.1\t0.2\t1.0\t0\t0\n"
            for e in (1, 2) for x in (1, 2, 3) for r in range(workers) if workers > 1]  # fmt: skip
    write_text(folder / "ledger.tsv", LEDGER + "".join(rows))
    write_text(folder / "curve.tsv", "epoch\tminibatch\tframes\tseconds\n1\t5\t1280\t0.5\n1\t10\t2560\t1.0\n")
    if finished:
        write_json(folder / "train.json", {"workers": workers, "threads": 1, "params": 1234567})
    return folder


def said(capsys, *words):
    """What a verb prints, as JSON."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*map(str, words), "--json"])
    assert stop.value.code == 0
    return json.loads(capsys.readouterr().out)


def told(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main([*map(str, words)])
    assert stop.value.code == 0
    return capsys.readouterr().out


def refused(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main([*map(str, words)])
    assert stop.value.code == 1
    return capsys.readouterr().err


# info


def test_a_finished_training_is_summed_up(tmp_path, capsys):
    found = said(capsys, "info", "--model", training(tmp_path / "two"))
    assert (found["finished"], found["strategy"], found["workers"], found["params"]) == (
        True,
        "model_average",
        2,
        1234567,
    )
    assert (found["epochs"], found["frames"], found["seconds"], found["frames_per_s"]) == (3, 122880, 30.0, 4096)
    assert (found["kept_epoch"], found["kept_dev_loss"], found["best_epoch"], found["best_dev_acc"]) == (2, 2.0, 2, 0.5)
    assert (found["wall"], found["speed_up"], found["efficiency"]) == (7.8, pytest.approx(12 / 7.8, abs=1e-4), 0.7692)
    assert (found["communication"], found["stragglers"], found["probing"]) == (0.2308, 0.0, 0.0)
    assert [(r["rank"], r["compute_s"], r["bytes"]) for r in found["ranks"]] == [(0, 6.0, 18000000), (1, 6.0, 18000000)]
    text = told(capsys, "info", "--model", tmp_path / "two")
    assert "two: model_average, 2 workers x 1 thread, every 10 minibatches (finished)" in text
    assert "kept: loss 2.0000, 50.00 % right (epoch 2)" in text
    assert "speed-up 1.54, efficiency 76.9 %" in text
    assert "communication 23.1 %, stragglers 0.0 %" in text


def test_the_speed_up_against_a_training_that_was_measured(tmp_path, capsys):
    history = HISTORY.replace("12.0", "22.0").replace("8.0", "18.0").replace("10.0", "20.0")
    one = training(tmp_path / "one", workers=1, history=history)
    found = said(capsys, "info", "--model", training(tmp_path / "two"), "--against", one)
    assert found["against"]["speed_up"] == 2.0
    assert found["against"]["efficiency"] == 1.0
    assert "one, 1 worker x 1 thread that was measured at 2,048" in told(
        capsys, "info", "--model", tmp_path / "two", "--against", one
    )
    assert "give a training with one" in refused(capsys, "info", "--model", one, "--against", tmp_path / "two")


def test_one_worker_has_no_exchanges(tmp_path, capsys):
    found = said(capsys, "info", "--model", training(tmp_path / "one", workers=1))
    assert (found["workers"], found["exchanges"]) == (1, 0)
    assert "ranks" not in found
    assert "no exchanges: one worker" in told(capsys, "info", "--model", tmp_path / "one")


def test_a_training_under_way_tells_what_there_is(tmp_path, capsys):
    model = training(tmp_path / "two", finished=False, history=HISTORY.split("\n")[0] + "\n")
    found = said(capsys, "info", "--model", model)
    assert (found["finished"], found["epochs"], found["frames"], found["frames_per_s"]) == (False, 0, 2560, 2560)
    assert "kept_epoch" not in found
    assert "not finished" in told(capsys, "info", "--model", model)


def test_times_of_simulated_workers_are_not_made_a_speed_up_of(tmp_path, capsys):
    model = training(tmp_path / "four", workers=4, backend="simulated")
    assert "speed_up" not in said(capsys, "info", "--model", model)
    text = told(capsys, "info", "--model", model)
    assert "4 simulated workers" in text
    assert "take turns" in text
    assert "speed-up" not in text


def test_a_training_that_goes_on_with_a_launcher_has_the_workers_of_its_ledger(tmp_path, capsys):
    model = training(tmp_path / "four", workers=4, finished=False)
    config = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", config | {"workers": 1})
    assert said(capsys, "info", "--model", model)["workers"] == 4


def test_scores_of_test_sets_are_told(tmp_path, capsys):
    model = training(tmp_path / "two")
    for name, tuned_on in (("dev", "dev"), ("test", "dev")):
        score = dict.fromkeys(SCORE_KEYS, 0) | {"set": name, "tuned_on": tuned_on, "wer": 12.3}
        write_json(model / f"decode_{name}" / "score.json", score)
    assert said(capsys, "info", "--model", model)["wer"] == {"test": 12.3}
    assert "WER       test 12.3 %" in told(capsys, "info", "--model", model)


def test_a_pretraining_is_summed_up_from_what_it_left(tmp_path, capsys):
    write_text(tmp_path / "rbm.tsv", "layer\n")
    assert "give the same `pretrain` again" in refused(capsys, "info", "--model", tmp_path)
    layers = [{"error": 0.5, "gap": 0.1, "rescues": 0, "dead": 0}]
    found = {"workers": 2, "trained_frames": 1000, "layer_seconds": 10.0, "frames_per_s": 100, "layers": layers}
    write_json(tmp_path / "pretrain.json", found | {"config": {}, "machine": {}})
    assert said(capsys, "info", "--model", tmp_path) == found | {"model": str(tmp_path)}
    assert "1 RBMs, 2 workers, 1,000 frames in 0:10, 100 frames/s" in told(capsys, "info", "--model", tmp_path)


@pytest.mark.parametrize("verb", ["info", "project"])
def test_what_is_no_training_is_refused_with_a_way_out(tmp_path, capsys, verb):
    assert "no config.json" in refused(capsys, verb, "--model", tmp_path / "none")
    (tmp_path / "gmm.npz").touch()
    assert "It holds a GMM" in refused(capsys, verb, "--model", tmp_path)
    write_text(tmp_path / "config.json", "{")
    assert "damaged JSON" in refused(capsys, verb, "--model", tmp_path)
    write_text(tmp_path / "config.json", '{"option_of_later": 1}')
    assert "of another version" in refused(capsys, verb, "--model", tmp_path)
    model = training(tmp_path / "two")
    (model / "ledger.tsv").unlink()
    assert "two/ledger.tsv" in refused(capsys, verb, "--model", model)
    write_text(model / "ledger.tsv", LEDGER + "1\t1\t0\n")
    assert "ledger.tsv:2: 3 fields" in refused(capsys, verb, "--model", model)


def test_nothing_to_plot_is_said(tmp_path, capsys):
    assert "train with --strategy.probe" in refused(capsys, "info", "--model", training(tmp_path / "two"), "--plot")


def test_the_probe_is_plotted(tmp_path, capsys):
    model = training(tmp_path / "two")
    rows = [f"1\t{x}\t{r}\t{10 * x}\t8\t0\t0\t1\t0\t0\t2.0\t1.9\t1.8\t0.1\n" for x in (1, 2) for r in (0, 1)]
    write_text(
        model / "ledger.tsv", LEDGER.strip() + "\tloss_local\tloss_average\tloss_ensemble\tspread\n" + "".join(rows)
    )
    told(capsys, "info", "--model", model, "--plot")
    assert (model / "probe.png").read_bytes()[:4] == b"\x89PNG"


# project


def test_a_projection_by_hand(tmp_path, capsys):
    """Equal workers: 1 s of computing, 0.1 s of agreeing, and 0.2 s and a network's time of sending 3 MB."""
    model = training(tmp_path / "two")
    found = said(capsys, "project", "--model", model, "--workers", "2,4", "--bandwidth", "240Mbit", "--latency", "1ms")
    assert found["ledger"]["period_s"] == pytest.approx(1.3)
    assert found["ledger"]["frames_per_s"] == pytest.approx(2 * 2560 / 1.3)
    two, four = found["projected"]
    assert (two["workers"], two["bytes"]) == (2, pytest.approx(3e6))
    assert two["period_s"] == pytest.approx(1 + 0.1 + 0.2 + 0.1 + 3 * 2 * 0.001)
    assert four["period_s"] == pytest.approx(1 + 0.3 + 0.3 + 0.15 + 3 * 6 * 0.001)
    assert four["speed_up"] == pytest.approx(4 / four["period_s"])
    text = told(capsys, "project", "--model", model, "--workers", "16", "--bandwidth", "240Mbit/s")
    assert "as its ledger says: 2" in text
    assert "| 16 " in text
    assert "240Mbit/s for each worker and 50us" in text


def test_the_network_that_was_measured_on_is_taken_off(tmp_path, capsys):
    network = (
        "--bandwidth",
        "240Mbit",
        "--latency",
        "1ms",
        "--measured_bandwidth",
        "240Mbit",
        "--measured_latency",
        "1ms",
    )
    found = said(capsys, "project", "--model", training(tmp_path / "two"), "--workers", "2", *network)
    assert found["projected"] == [pytest.approx(found["ledger"])]
    assert found["ledger"]["period_s"] == pytest.approx(1.3)


def test_a_projection_against_a_training_that_was_measured(tmp_path, capsys):
    one = training(tmp_path / "one", workers=1)
    words = ("project", "--model", training(tmp_path / "two"), "--workers", "8", "--against", one)
    (eight,) = said(capsys, *words)["projected"]
    assert eight["speed_up"] == pytest.approx(eight["frames_per_s"] / 4096)
    assert eight["efficiency"] == pytest.approx(eight["speed_up"] / 8)
    assert f"against {one}" in told(capsys, *words)


@pytest.mark.parametrize(
    ("words", "what"),
    [(("--workers", "4..8"), "numbers of workers"), (("--workers", "0"), "numbers of workers"),
     (("--bandwidth", "10Gb"), "--bandwidth '10Gb'.*10Gbit"), (("--latency", "50"), "--latency '50'.*50us"),
     (("--measured_bandwidth", "x"), "--measured_bandwidth 'x'"),
     (("--measured_latency", "x"), "--measured_latency 'x'")],
)  # fmt: skip
def test_bad_options_are_refused(tmp_path, capsys, words, what):
    assert re.search(what, refused(capsys, "project", "--model", training(tmp_path / "two"), *words))


def test_numbers_of_workers_that_a_strategy_refuses_are_refused(tmp_path, capsys):
    model = training(tmp_path / "two", topology="butterfly")
    assert "not 6" in refused(capsys, "project", "--model", model, "--workers", "4,6")


def test_one_worker_cannot_tell_what_exchanges_cost(tmp_path, capsys):
    model = training(tmp_path / "one", workers=1)
    assert "one/ledger.tsv knows of no exchange" in refused(capsys, "project", "--model", model)


def test_a_projection_from_simulated_workers_warns(tmp_path, capsys):
    model = training(tmp_path / "four", workers=4, backend="simulated")
    with pytest.raises(SystemExit):
        cli.main(["project", "--model", str(model), "--workers", "4", "--bandwidth", "1GB", "--latency", "0us"])
    both = capsys.readouterr()
    assert "take turns" in both.err
    assert " 1.003 |" in both.out  # 3 MB


def test_every_field_of_a_projection_is_a_number(tmp_path, capsys):
    (row,) = said(capsys, "project", "--model", training(tmp_path / "two"), "--workers", "16")["projected"]
    assert row.keys() == {field.name for field in dataclasses.fields(Prediction)}
    assert all(isinstance(value, int | float) for value in row.values())
