"""Options of exchanges in whole trainings: going on, being left out, training alone, the probe."""

import dataclasses
import json
import math

import pytest
import torch
from forked import together
from test_run import assert_same_history, assert_same_model, stop_at, table, train_as

from asr_parallel.config import OptimConfig, ScheduleConfig, StrategyConfig
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.model_average import ModelAverage
from asr_parallel.train import loop
from asr_parallel.train.run import run

SHORT = ScheduleConfig(epochs=2)


def training(toy, workers=2, backend="simulated", optim=None, **options):
    strategy = StrategyConfig(**({"name": "model_average", "every": "5 minibatches"} | options))
    changes = {"optim": optim} if optim else {}
    return toy(workers=workers, strategy=strategy, backend=backend, schedule=SHORT, **changes)


@pytest.mark.parametrize(
    ("step", "options"),
    [(20, {"overlap": True, "wire": "int8", "optimizer_state": "average"}),
     (70, {"wire": "bf16", "first": "best", "max_gap": 0.5}),
     (70, {"alone": "7 minibatches", "every": "1 minibatch until 1 epoch, then 4 minibatches"}),
     (70, {"overlap": True, "probe": 40})],
    ids=str,
)  # fmt: skip
def test_a_stopped_training_goes_on_to_the_same_result(toy, monkeypatch, options, step):
    whole, cut = training(toy, **options), training(toy, **options)
    assert run(whole) == 0
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        assert run(cut) == STOPPED
    assert run(cut) == 0
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)
    columns = ("epoch", "exchange", "rank", "minibatch", "bytes", "left_out", "loss_average", "spread")
    a, b = ([[row[c] for c in columns] for row in table(c, "ledger.tsv")] for c in (whole, cut))
    assert a == b


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
@pytest.mark.parametrize(
    "options", [{"overlap": True, "wire": "int8"}, {"name": "elastic_average", "wire": "bf16"}], ids=str
)
def test_a_training_goes_on_with_other_workers(toy, monkeypatch, before, after, options):
    strategy = StrategyConfig(**({"name": "model_average", "every": "5 minibatches"} | options))
    config = toy(workers=before, strategy=strategy, backend="simulated", schedule=ScheduleConfig("constant", epochs=2))
    one_epoch = 63 if before == 1 else 62
    with monkeypatch.context() as patch:
        stop_at(patch, one_epoch + 20)
        assert run(config) == STOPPED
    assert run(dataclasses.replace(config, workers=after)) == 0
    rows = table(config)
    assert float(rows[1]["train_loss"]) < float(rows[0]["train_loss"])
    assert float(rows[1]["dev_acc"]) > 0.7


def test_two_real_workers_are_simulated_ones_to_the_bit(toy):
    real, simulated = (training(toy, backend=b, overlap=True, wire="int8", alone="6 minibatches")
                       for b in ("auto", "simulated"))  # fmt: skip
    assert together(train_as, real) == [0, 0]
    together_alone(simulated)
    assert_same_model(real, simulated)
    assert_same_history(real, simulated)


def together_alone(config):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asr_parallel.train.corpus.DEV_BATCH", 50)
        assert run(config) == 0


def test_a_stop_while_real_workers_exchange_in_the_background(toy):
    whole, cut = (training(toy, backend="auto", overlap=True, wire="bf16") for _ in range(2))
    assert together(train_as, whole) == [0, 0]
    assert together(train_as, cut, 1, 42) == [STOPPED, STOPPED]
    assert together(train_as, cut) == [0, 0]
    assert_same_model(whole, cut)


@pytest.mark.parametrize("sick", [0, 1])
def test_a_worker_that_diverges_is_saved_by_the_mean_and_counted(toy, monkeypatch, sick):
    """In minibatch 3 its parameters and momentum become NaN; the exchange after minibatch 5 mends both."""
    whole, seen = loop.step, []

    def step(worker, batch, lr):
        if worker.comm.rank == sick and worker.clock.epoch == 1 and worker.clock.minibatch == 3:
            worker.optimizer.flat.values.fill_(math.nan)
        whole(worker, batch, lr)
        if worker.comm.rank == sick and worker.clock.minibatch == 4:
            seen.append(all(torch.isfinite(v).all() for v in worker.optimizer.state().values()))

    monkeypatch.setattr(loop, "step", step)
    config = training(toy)
    assert run(config) == 0
    assert seen == [False, True]
    rows = table(config, "ledger.tsv")
    assert [(r["exchange"], r["rank"]) for r in rows if r["left_out"] == "1"] == [("1", str(sick))]
    summary = json.loads((config.out / "train.json").read_text())
    assert summary["exchange_left_out"] == 1
    assert summary["dev_acc"] > 0.7
    first = table(config)[0]
    minibatches = summary["minibatches"]
    assert int(first["frames"]) == 32 * (2 * minibatches - 5)  # what it did before is not counted
    assert math.isfinite(float(first["train_loss"]))


@pytest.mark.parametrize("optim", [OptimConfig("sgd", lr=0.2, momentum=0.5), OptimConfig("ngsgd", lr=0.2)], ids=str)
def test_a_gradient_of_nans_is_left_out_and_the_workers_stay_alike(toy, monkeypatch, optim):
    """In minibatch 3 one worker's frames are no numbers: nothing of them is left, in weights, momentum or factors."""
    whole, ends = loop.step, {}

    def step(worker, batch, lr):
        if worker.comm.rank == 1 and worker.clock.epoch == 1 and worker.clock.minibatch == 3:
            batch.x[0] = math.nan
        whole(worker, batch, lr)
        shared = [value.clone() for value in worker.optimizer.shared().values()]
        ends[worker.comm.rank] = torch.cat([worker.optimizer.flat.values, *shared])

    monkeypatch.setattr(loop, "step", step)
    config = training(toy, name="gradient_average", every="10 minibatches", optim=optim)
    assert run(config) == 0
    assert torch.isfinite(ends[0]).all()
    assert torch.equal(ends[0], ends[1])
    rows = table(config, "ledger.tsv")
    assert [(r["epoch"], r["exchange"], r["rank"]) for r in rows if r["left_out"] == "1"] == [("1", "4", "1")]
    summary = json.loads((config.out / "train.json").read_text())
    assert summary["dev_acc"] > 0.7
    assert int(table(config)[0]["frames"]) == 32 * (2 * summary["minibatches"] - 1)


def test_rank_0_trains_alone_at_first(toy):
    config = training(toy, alone="10 minibatches")
    assert run(config) == 0
    rows = table(config, "ledger.tsv")
    minibatches = json.loads((config.out / "train.json").read_text())["minibatches"]
    assert [int(r["minibatch"]) for r in rows if r["epoch"] == "1" and r["rank"] == "0"][:3] == [10, 15, 20]
    assert int(table(config)[0]["frames"]) == 32 * (2 * minibatches - 10)


def test_periods_in_seconds_end_with_the_epoch(toy):
    config = training(toy, every="1 s")
    assert run(config) == 0
    rows = [r for r in table(config, "ledger.tsv") if r["rank"] == "0"]
    assert int(rows[0]["minibatch"]) == 10
    assert next(r["exchange"] for r in rows if r["epoch"] == "2") == "1"
    assert {int(r["minibatch"]) for r in rows if r["exchange"] == "2"} == {31}


def test_the_probe_sees_losses_of_models_average_and_ensemble(toy, monkeypatch):
    kept = []
    whole = ModelAverage.exchange

    def exchange(strategy, comm):
        kept.append(strategy.values.clone())
        report = whole(strategy, comm)
        kept.append(strategy.values.clone())
        return report

    monkeypatch.setattr(ModelAverage, "exchange", exchange)
    config = training(toy, probe=30, optim=OptimConfig("sgd", lr=0.2))
    assert run(config) == 0
    rows = table(config, "ledger.tsv")
    for a, b in zip(rows[0::2], rows[1::2]):
        local = [float(r["loss_local"]) for r in (a, b)]
        assert a["loss_average"] == b["loss_average"]
        assert a["loss_ensemble"] == b["loss_ensemble"]
        assert float(a["loss_ensemble"]) <= sum(local) / 2 + 1e-6
    one, other = kept[0], kept[1]  # both ranks come to the exchange before either has the mean
    mean = (one + other) / 2
    assert float(rows[0]["spread"]) == pytest.approx(float((one - mean).norm() / mean.norm()), abs=2e-6)
    assert float(rows[0]["spread"]) > 1e-4
    blank = training(toy, optim=OptimConfig("sgd", lr=0.2))
    assert run(blank) == 0
    assert {r["spread"] for r in table(blank, "ledger.tsv")} == {"nan"}
    assert_same_model(config, blank)  # to look changes nothing
