"""Whole trainings on a toy corpus: results, records, stopping and going on."""

import dataclasses
import json
import os
import shlex
import signal
import subprocess

import numpy as np
import pytest
import torch
from forked import together

from asr_parallel.align.labels import Labels
from asr_parallel.config import ModelConfig, OptimConfig, ScheduleConfig, StrategyConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.place import Place
from asr_parallel.train import corpus, loop
from asr_parallel.train.run import run, work
from asr_parallel.train.settings import arguments, load_config, plain, script
from asr_parallel.train.validate import correct

TIMES = ("seconds", "frames_per_s")


def weights(config):
    return torch.load(config.out / "final.pt", weights_only=True)["state"]


def assert_same_model(one, other):
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def table(config, name="history.tsv"):
    header, *rows = [line.split("\t") for line in (config.out / name).read_text().splitlines()]
    return [dict(zip(header, row)) for row in rows]


def assert_same_history(one, other):
    a, b = ([{k: v for k, v in row.items() if k not in TIMES} for row in table(c)] for c in (one, other))
    assert a == b


def stop_at(monkeypatch, step):
    """Let this process receive SIGTERM in the given step of the training; give a list that grows with the steps."""
    seen, whole = [], loop.count

    def count(*arguments):
        whole(*arguments)
        seen.append(1)
        if len(seen) == step:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(loop, "count", count)
    return seen


def test_a_training_learns_and_leaves_its_records(toy):
    config = toy()
    assert run(config) == 0
    assert all(path.exists() for path in config.outputs())
    rows = table(config)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[-1]["dev_loss"]) < 0.7 < 1.0 < float(rows[0]["train_loss"]) + 0.3
    assert float(rows[-1]["dev_acc"]) > 0.8
    assert [float(row["lr"]) for row in rows] == pytest.approx([0.2, 0.2 * 0.02**0.5, 0.004], rel=1e-4)
    assert rows[-1]["verdict"] == "accept, stop"
    summary = json.loads((config.out / "train.json").read_text())
    assert summary["dev_acc"] == float(rows[-1]["dev_acc"])
    assert summary["params"] == 4 * 3 * 16 + 16 + 16 * 16 + 16 + 16 * 6 + 6
    assert summary["trained_frames"] == sum(int(row["frames"]) for row in rows) == 3 * summary["minibatches"] * 32
    assert load_config(config.out / "config.json") == config
    assert list((config.out / "tb").glob("events*"))
    assert sorted(p.name for p in (config.out / "checkpoint").iterdir()) == ["0002-00000000.pt", "0003-00000000.pt"]


def dev_scores(config):
    """The oracle: loss and accuracy on all dev sets, utterance by utterance through the decoder's door."""
    predictor, losses, right = load_predictor(config.out), [], []
    for name in config.dev:
        features, labels = FeatureSet.open(config.data, name, "fbank"), Labels.load(config.ali / f"ali_{name}.npz")
        for utt in features.utts:
            scores, y = predictor.log_posteriors(features[utt]), labels[utt]
            losses += (-scores[np.arange(len(y)), y]).tolist()
            right += (scores.argmax(1) == y).tolist()
    return pytest.approx(np.mean(losses), abs=2e-5), pytest.approx(np.mean(right), abs=2e-5)


def test_dev_scores_are_those_of_the_predictor(toy, monkeypatch):
    monkeypatch.setattr(corpus, "DEV_BATCH", 50)
    config = toy()
    run(config)
    row = table(config)[-1]
    assert (float(row["dev_loss"]), float(row["dev_acc"])) == dev_scores(config)


def test_model_averaging_of_one_worker_is_serial_training(toy):
    single, average = toy(), toy(strategy=StrategyConfig("model_average", every="3 minibatches"))
    run(single)
    run(average)
    assert_same_model(single, average)
    assert_same_history(single, average)


NG = OptimConfig("ngsgd", lr=0.2)


@pytest.mark.parametrize(
    ("step", "options"), [(10, {}), (63, {}), (64, {}), (100, {}), (10, {"optim": NG}), (100, {"optim": NG})]
)
def test_a_stopped_training_goes_on_to_the_same_result(toy, monkeypatch, step, options):
    """63 steps are an epoch: stopped within the first, with it, just after it, within the second."""
    whole, cut = toy(**options), toy(**options)
    run(whole)
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        assert run(cut) == STOPPED
    assert not (cut.out / "final.pt").exists()
    with monkeypatch.context() as patch:
        steps = stop_at(patch, -1)
        assert run(cut) == 0
    assert len(steps) == 3 * 63 - step  # none is done twice
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


def test_an_undone_epoch_leaves_no_trace(toy):
    """Newbob with a rate that is far too high: some epochs are rejected, and a stop within one changes nothing."""
    schedule = ScheduleConfig("newbob", epochs=6, start_halving=0.2, stop=-1.0)
    one = toy(schedule=schedule, optim=OptimConfig("sgd", lr=15.0, momentum=0.0))
    run(one)
    rows = table(one)
    rejected = [i for i, row in enumerate(rows) if row["verdict"].startswith("reject")]
    assert rejected
    short = toy(
        schedule=dataclasses.replace(schedule, epochs=rejected[-1] + 1), optim=OptimConfig("sgd", lr=15.0, momentum=0.0)
    )
    run(short)  # the last epoch is undone: what is left is the best one
    accepted = min(table(short), key=lambda row: float(row["dev_loss"]))
    assert (float(accepted["dev_loss"]), float(accepted["dev_acc"])) == dev_scores(short)
    assert table(short)[-1]["verdict"].startswith("reject")
    assert json.loads((short.out / "train.json").read_text())["dev_loss"] == float(accepted["dev_loss"])
    other = toy(schedule=schedule, optim=OptimConfig("sgd", lr=15.0, momentum=0.0))
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 63 * rejected[0] + 20)
        assert run(other) == STOPPED
    assert run(other) == 0
    assert_same_model(one, other)
    assert_same_history(one, other)


def test_a_damaged_checkpoint_is_passed_over(toy, monkeypatch):
    whole, cut = toy(), toy()
    run(whole)
    stop_at(monkeypatch, 63 * 2)
    assert run(cut) == STOPPED
    newest = max((cut.out / "checkpoint").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    assert run(cut) == 0
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


def test_other_options_are_refused_before_the_end_and_begin_anew_after_it(toy, monkeypatch):
    config = toy()
    other = dataclasses.replace(config, model=ModelConfig(1, 16, "sigmoid", "nnet1", context=1))
    with monkeypatch.context() as patch:
        stop_at(patch, 70)
        assert run(config) == STOPPED
    with pytest.raises(UserError, match=r"not finished.*model.layers: 2 -> 1.*--force"):
        run(other)
    run(config)
    fresh = toy(model=other.model)
    run(fresh)
    run(other)
    assert_same_model(fresh, other)


def test_force_begins_anew(toy, monkeypatch):
    config = toy()
    with monkeypatch.context() as patch:
        stop_at(patch, 70)
        run(config)
    run(dataclasses.replace(config, force=True))
    assert [row["epoch"] for row in table(config)] == ["1", "2", "3"]


def test_a_rate_that_is_too_high_is_an_error_and_not_a_model(toy):
    config = toy(optim=OptimConfig("sgd", lr=1e30), model=ModelConfig(1, 16, "relu", "glorot", 1))
    with pytest.raises(UserError, match=r"rank 0.*no longer a number.*--optim.lr"):
        run(config)
    assert not (config.out / "final.pt").exists()


def test_bf16_trains_nearly_as_well(toy):
    config = toy(precision="bf16")
    run(config)
    assert float(table(config)[-1]["dev_acc"]) > 0.8
    assert {value.dtype for value in weights(config).values()} == {torch.float32}


def test_single_refuses_more_workers_and_a_batch_may_not_exceed_a_shard(toy):
    with pytest.raises(UserError, match="model_average"):
        run(toy(workers=2, strategy=StrategyConfig("single")))
    with pytest.raises(UserError, match="smaller --batch"):
        run(toy(batch=5000))


def test_the_command_in_run_sh_gives_the_configuration_back(toy):
    from asr_parallel import cli

    config = toy(workers=2, schedule=ScheduleConfig("newbob", latch=False))
    assert cli.parse("train", arguments(config)) == config
    assert shlex.join(arguments(config)) in script(config)


def test_a_configuration_survives_json(toy, tmp_path):
    config = toy(workers=2)
    (tmp_path / "c.json").write_text(json.dumps(plain(config)))
    assert load_config(tmp_path / "c.json") == config


def test_right_frames_are_counted():
    logits = torch.tensor([[1.0, 2.0, 0.0], [3.0, 2.0, 1.0], [0.0, 0.0, 5.0]])
    assert correct(logits, torch.tensor([1, 1, 2])).item() == 2


# two real workers


def train_as(place, config, stop_rank=-1, step=0):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "DEV_BATCH", 50)
        if place.rank == stop_rank:
            stop_at(patch, step)
        return work(config, place)


def test_two_workers_stopped_by_a_signal_to_one_go_on_to_the_same_result(toy):
    whole, cut = toy(workers=2), toy(workers=2)
    assert together(train_as, whole) == [0, 0]
    assert together(train_as, cut, 1, 42) == [STOPPED, STOPPED]  # within the second epoch of 31 steps
    assert not (cut.out / "final.pt").exists()
    assert together(train_as, cut) == [0, 0]
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)
    rows = table(whole, "ledger.tsv")
    assert len(rows) == 3 * 7 * 2  # ceil(31 / 5) exchanges, two ranks
    keys = [(row["epoch"], row["exchange"], row["rank"]) for row in rows]
    assert keys == [(row["epoch"], row["exchange"], row["rank"]) for row in table(cut, "ledger.tsv")]
    summary = json.loads((whole.out / "train.json").read_text())
    assert (summary["workers"], summary["effective_lr"]) == (2, 0.4)
    assert (summary["dev_loss"], summary["dev_acc"]) == dev_scores(whole)


def test_two_workers_go_on_as_one(toy):
    config = toy(workers=2)
    assert together(train_as, config, 0, 42) == [STOPPED, STOPPED]
    assert work(dataclasses.replace(config, workers=1), Place()) == 0
    rows = table(config)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [int(row["frames"]) for row in rows] == [2 * 31 * 32, 63 * 32, 63 * 32]


def test_momentum_may_be_averaged_or_reset_at_exchanges(toy):
    results = {}
    for what in ("keep", "average", "reset"):
        config = toy(workers=2, strategy=StrategyConfig("model_average", "5 minibatches", optimizer_state=what))
        together(train_as, config)
        newest = max((config.out / "checkpoint").iterdir())
        states = torch.load(newest, weights_only=True)["workers"]
        results[what] = [state["optimizer/velocity"] for state in states]
    assert not torch.equal(*results["keep"])
    assert torch.equal(*results["average"])
    assert results["average"][0].any()
    assert not results["reset"][0].any()


def test_the_launcher_starts_both(toy, capsys):
    config = toy(workers=2, schedule=ScheduleConfig(epochs=1))
    assert run(config) == 0
    assert "epoch 1/1" in capsys.readouterr().err
    assert (config.out / "log" / "rank_1.log").exists()
    assert (config.out / "final.pt").exists()


def test_run_sh_is_valid_shell(toy):
    config = toy()
    run(config)
    assert subprocess.run(["bash", "-n", config.out / "run.sh"], check=False).returncode == 0
