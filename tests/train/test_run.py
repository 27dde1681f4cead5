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
from asr_parallel.criterion import correct
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor
from asr_parallel.optim.sgd import Sgd
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.place import Place
from asr_parallel.parallel.torch_comm import TorchComm
from asr_parallel.schedule.newbob import Newbob
from asr_parallel.train import corpus, loop
from asr_parallel.train.run import run, work
from asr_parallel.train.settings import arguments, load_config, plain, script

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
    begun = np.array([0, 60, 63, 123, 126, 186]) / (3 * 63)  # of the data, at the first and last minibatch of an epoch
    written = [float(row[name]) for row in rows for name in ("lr", "lr_last")]
    assert written == pytest.approx(0.2 * 0.02**begun, rel=1e-4)
    assert rows[-1]["verdict"] == "accept, stop"
    summary = json.loads((config.out / "train.json").read_text())
    assert summary["dev_acc"] == float(rows[-1]["dev_acc"])
    assert summary["params"] == 4 * 3 * 16 + 16 + 16 * 16 + 16 + 16 * 6 + 6
    assert summary["trained_frames"] == sum(int(row["frames"]) for row in rows) == 3 * summary["minibatches"] * 32
    assert load_config(config.out / "config.json") == config
    assert list((config.out / "tb").glob("events*"))
    assert sorted(p.name for p in (config.out / "checkpoint").iterdir()) == ["0002-00000000.pt", "0003-00000000.pt"]


def test_the_curve_adds_up_to_the_history(toy):
    config = toy()
    run(config)
    rows = table(config, "curve.tsv")
    assert len(rows) == 3 * loop.PARTS
    for epoch in table(config):
        part = [row for row in rows if row["epoch"] == epoch["epoch"]]
        frames = np.diff([0, *(int(row["frames"]) for row in part)])
        assert frames.sum() == int(epoch["frames"])
        for name in ("loss", "acc"):
            mean = np.average([float(row[name]) for row in part], weights=frames)
            assert mean == pytest.approx(float(epoch[f"train_{name}"]), abs=1e-4)
        assert float(part[-1]["lr"]) == float(epoch["lr_last"])


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


STRATEGIES = ["gradient_average", "model_average", "block_momentum", "elastic_average"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_one_worker_is_serial_training(toy, name):
    single, other = (toy(strategy=StrategyConfig(n, "3 minibatches")) for n in ("single", name))
    run(single)
    run(other)
    assert_same_model(single, other)
    assert_same_history(single, other)


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


@pytest.mark.parametrize(("rate", "warned"), [(200.0, True), (0.2, False)])
def test_a_model_worse_than_a_guess_is_not_praised(toy, caplog, rate, warned):
    run(toy(optim=OptimConfig("sgd", lr=rate), schedule=ScheduleConfig(epochs=1)))
    assert ("training has diverged" in caplog.text) == warned


class Killed(Exception):
    """Stands for a process that ends without notice."""


def kill_at(monkeypatch, step):
    """Let the training end in the given step, saving nothing; give a list that grows with the steps."""
    seen, whole = [], loop.count

    def count(*arguments):
        whole(*arguments)
        seen.append(1)
        if len(seen) == step:
            raise Killed

    monkeypatch.setattr(loop, "count", count)
    return seen


@pytest.mark.parametrize(("step", "lost"), [(50, 10), (63 + 25, 5), (10, 10), (60, 20)])
def test_a_killed_training_loses_what_came_after_its_latest_checkpoint(toy, monkeypatch, step, lost):
    whole, cut = toy(), toy(save_every=20)
    run(whole)
    with monkeypatch.context() as patch:
        kill_at(patch, step)
        with pytest.raises(Killed):
            run(cut)
    with monkeypatch.context() as patch:
        steps = kill_at(patch, -1)
        assert run(cut) == 0
    assert len(steps) == 3 * 63 - step + lost
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)
    for one, other in zip(table(whole, "curve.tsv"), table(cut, "curve.tsv"), strict=True):
        assert (one["epoch"], one["frames"], one["lr"]) == (other["epoch"], other["frames"], other["lr"])


def test_an_undone_epoch_leaves_no_trace(toy):
    """Newbob with a rate that is far too high: some epochs are rejected, and a stop within one changes nothing."""
    schedule = ScheduleConfig("newbob", epochs=6, start_halving=0.2, stop=-1.0, latch="yes")
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


def test_a_rejected_epoch_restores_weights_and_fisher_factors(toy):
    config = toy(optim=NG, schedule=ScheduleConfig("newbob", epochs=2, keep_lr=1))
    scores = iter([0.0, 1.0, 0.5])  # before training, and after two epochs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Newbob, "_score", lambda self, _: next(scores))
        run(config)
    assert [row["verdict"].split(",")[0] for row in table(config)] == ["accept", "reject"]
    first, second = (torch.load(path, weights_only=True)["workers"][0] for path in checkpoints(config))
    assert sorted(first) == sorted(second)
    factors = [name for name in first if name.startswith("optimizer/")]
    assert len(factors) == 3 * 2 * 3  # w, d and numbers of two factors of three layers
    assert any(first[name].any() for name in factors)
    for name in ["values", *factors]:
        assert torch.equal(first[name], second[name]), name


def checkpoints(config):
    return sorted((config.out / "checkpoint").iterdir())


def spy_on_rates(patch):
    """A list that grows with the rate of every step."""
    rates, update = [], Sgd.update

    def spy(self, lr):
        rates.append(lr)
        update(self, lr)

    patch.setattr(Sgd, "update", spy)
    return rates


SCHEDULES = {
    "per exchange": ScheduleConfig("exponential", epochs=3, warmup="70 minibatches"),
    "list": ScheduleConfig("list", epochs=3, rates=[0.3, 0.2]),
    "newbob": ScheduleConfig("newbob", epochs=3, start_halving=0.9, stop=-1.0),
}


@pytest.mark.parametrize(("name", "step"), [("per exchange", 17), ("per exchange", 80), ("list", 63), ("newbob", 80)])
def test_a_stopped_training_goes_on_with_the_same_rates_to_the_bit(toy, monkeypatch, name, step):
    rates = spy_on_rates(monkeypatch)
    whole, cut = toy(schedule=SCHEDULES[name]), toy(schedule=SCHEDULES[name])
    run(whole)
    expected = rates[:]
    assert len(expected) == 3 * 63
    assert len(set(expected)) > 1
    rates.clear()
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        assert run(cut) == STOPPED
    assert len(rates) == step
    assert run(cut) == 0
    assert rates == expected
    assert_same_history(whole, cut)


def test_a_stopped_training_goes_on_with_another_rate_and_says_so(toy, monkeypatch):
    config = toy()
    other = dataclasses.replace(config, optim=dataclasses.replace(config.optim, lr=0.05))
    rates = spy_on_rates(monkeypatch)
    for at in (20, 30):  # stopped twice: what was changed is not forgotten
        with monkeypatch.context() as patch:
            stop_at(patch, at)
            assert run(config if at == 20 else other) == STOPPED
    assert run(other) == 0
    curve = 0.02 ** (np.array([m // 63 * 63 + m % 63 // 10 * 10 for m in range(3 * 63)]) / (3 * 63))
    assert rates == pytest.approx(np.concatenate([0.2 * curve[:20], 0.05 * curve[20:]]))
    summary = json.loads((config.out / "train.json").read_text())
    assert summary["lr"] == 0.05
    assert summary["overrides"] == ["epoch 1, minibatch 20: optim.lr: 0.2 -> 0.05"]
    row = table(config)[0]
    assert (float(row["lr"]), float(row["lr_last"])) == pytest.approx((0.2, 0.05 * curve[62]), rel=1e-4)
    run(config)  # finished, so another rate begins anew
    assert "overrides" not in json.loads((config.out / "train.json").read_text())
    assert rates[-189:] == pytest.approx(0.2 * curve)


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


def test_options_of_a_schedule_are_checked_before_a_result_is_removed(toy):
    config = toy(schedule=ScheduleConfig(epochs=1))
    run(config)
    with pytest.raises(UserError, match=r"does not read --schedule.latch"):
        run(dataclasses.replace(config, schedule=ScheduleConfig(epochs=1, latch="no")))
    assert (config.out / "final.pt").exists()


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

    config = toy(workers=2, schedule=ScheduleConfig("newbob", latch="no", stop=0.5, warmup="9 frames"))
    assert cli.parse("train", arguments(config)) == config
    assert shlex.join(arguments(config)) in script(config)


def test_a_configuration_survives_json(toy, tmp_path):
    config = toy(workers=2, schedule=ScheduleConfig("list", rates=[0.5, 0.1]))
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


@pytest.mark.parametrize(
    "strategy",
    [
        StrategyConfig("gradient_average"),
        StrategyConfig("block_momentum", "5 minibatches", block_nesterov=True),
        StrategyConfig("elastic_average", "5 minibatches"),
        StrategyConfig("model_average", "5 minibatches", topology="ring"),
    ],
    ids=lambda s: s.name,
)
def test_every_strategy_goes_on_to_the_same_result(toy, strategy):
    whole, cut = (toy(workers=2, strategy=strategy, schedule=ScheduleConfig(epochs=2)) for _ in range(2))
    assert together(train_as, whole) == [0, 0]
    assert together(train_as, cut, 1, 42) == [STOPPED, STOPPED]
    assert together(train_as, cut) == [0, 0]
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


@pytest.mark.parametrize("name", ["model_average", "elastic_average"])
def test_two_simulated_workers_are_two_real_ones_to_the_bit(toy, name):
    strategy = StrategyConfig(name, "5 minibatches")
    real, simulated = (toy(workers=2, strategy=strategy, backend=b) for b in ("auto", "simulated"))
    assert together(train_as, real) == [0, 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "DEV_BATCH", 50)
        assert run(simulated) == 0
    assert_same_model(real, simulated)
    assert_same_history(real, simulated)


def test_simulated_workers_stop_and_go_on(toy, monkeypatch):
    whole, cut = (toy(workers=3, strategy=StrategyConfig("model_average", "5 minibatches"), backend="simulated")
                  for _ in range(2))  # fmt: skip
    assert run(whole) == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 40)
        assert run(cut) == STOPPED
    assert run(cut) == 0
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


def killed_as(place, config, step):
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, step)
        with pytest.raises(Killed):
            work(config, place)
    return 0


def test_two_killed_workers_go_on_from_a_checkpoint_at_an_exchange(toy):
    whole, cut = toy(workers=2), toy(workers=2, save_every=8)
    assert together(train_as, whole) == [0, 0]
    assert together(killed_as, cut, 29) == [0, 0]
    assert checkpoints(cut)[-1].name == "0000-00000020.pt"  # every 10th minibatch: the first exchange after 8
    assert together(train_as, cut) == [0, 0]
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


def train_with_other_scores(place, config):
    """As rank 1, add up scores that get worse and worse; give what the schedule heard and said."""
    with pytest.MonkeyPatch.context() as patch:
        heard, judge, total, calls = [], Newbob.judge, TorchComm.sum, []

        def other_sum(self, values):
            calls.append(1)
            mine = place.rank == 1 and values.shape == (1, 2, 3)  # the sums of two dev sets
            return total(self, values) + len(calls) * 100.0 if mine else total(self, values)

        def spy(self, epoch, scores):
            verdict = judge(self, epoch, scores)
            heard.append((scores, verdict))
            return verdict

        patch.setattr(TorchComm, "sum", other_sum)
        patch.setattr(Newbob, "judge", spy)
        assert work(config, place) == 0
        return heard


def test_rank_0_decides_for_all(toy):
    config = toy(workers=2, schedule=ScheduleConfig("newbob", epochs=3))
    first, second = together(train_with_other_scores, config)
    assert len(first) == 3
    assert first == second


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
