"""Whole trainings of independent subnets: several workers, stopping, going on, undoing."""

import dataclasses
import json

import pytest
import torch
from forked import together
from test_run import (
    STOPPED,
    assert_same_history,
    assert_same_model,
    dev_scores,
    killed_as,
    stop_at,
    table,
    train_as,
    weights,
)

from asr_parallel.config import ModelConfig, OptimConfig, ScheduleConfig, StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.parallel import subnets as subnets_module
from asr_parallel.schedule.newbob import Newbob
from asr_parallel.train import corpus
from asr_parallel.train.run import run

PAPER = ModelConfig(2, 20, "relu", context=1, batch_norm=True, bias=False, output_norm=True)
SGD = OptimConfig("sgd", lr=0.5, momentum=0.5)
TWO = ScheduleConfig(epochs=2)


def subnets(toy, workers=2, servers="central", **changes):
    strategy = StrategyConfig("independent_subnets", "5 minibatches", servers=servers)
    values = {"model": PAPER, "optim": SGD, "schedule": TWO, "strategy": strategy, "backend": "simulated"}
    return toy(workers=workers, **(values | changes))


@pytest.mark.parametrize("optim", [SGD, OptimConfig("ngsgd", lr=0.2)], ids=["sgd", "ngsgd"])
def test_one_worker_is_serial_training(toy, optim):
    one = subnets(toy, 1, optim=optim)
    single = subnets(toy, 1, optim=optim, strategy=StrategyConfig("single", "5 minibatches"))
    assert run(one) == run(single) == 0
    assert_same_model(one, single)
    assert_same_history(one, single)


@pytest.mark.parametrize("servers", ["central", "partitioned"])
def test_real_workers_are_simulated_ones_and_the_network_learns(toy, servers, monkeypatch):
    monkeypatch.setattr(corpus, "DEV_BATCH", 50)
    real, simulated = subnets(toy, servers=servers, backend="auto"), subnets(toy, servers=servers)
    assert together(train_as, real) == [0, 0]
    assert run(simulated) == 0
    assert_same_model(real, simulated)
    assert_same_history(real, simulated)
    row = table(real)[-1]
    assert (float(row["dev_loss"]), float(row["dev_acc"])) == dev_scores(real)
    assert float(row["dev_acc"]) > 0.7
    assert weights(real)["norms.0.num_batches_tracked"] == 20  # of the estimate, not of the training
    assert json.loads((real.out / "train.json").read_text())["effective_lr"] == 0.5
    sent = {int(row["bytes"]) for row in table(real, "ledger.tsv")}
    assert sent == {4 * ((12 + 6) * 20 // 2 + 20 * 20 // 4 + 2 * 2 * 20 // 2)}


@pytest.mark.parametrize(("servers", "step"), [("central", 12), ("partitioned", 2 * 31 + 24)])  # steps of both workers
def test_stopped_workers_go_on_to_the_same_bits(toy, monkeypatch, servers, step):
    model = dataclasses.replace(PAPER, dropout=0.1)
    whole, cut = (subnets(toy, servers=servers, model=model, optim=OptimConfig("ngsgd", lr=0.2)) for _ in range(2))
    run(whole)
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        assert run(cut) == STOPPED
    assert not (cut.out / "final.pt").exists()
    torch.manual_seed(12345)
    assert run(cut) == 0
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


def test_killed_workers_go_on_from_a_checkpoint_at_an_exchange(toy):
    whole, cut = (
        subnets(toy, servers="partitioned", backend="auto", save_every=8, schedule=ScheduleConfig(epochs=1))
        for _ in range(2)
    )
    assert together(train_as, whole) == [0, 0]
    assert together(killed_as, cut, 29) == [0, 0]
    assert max(p.name for p in (cut.out / "checkpoint").iterdir()) == "0000-00000020.pt"
    assert together(train_as, cut) == [0, 0]
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


@pytest.mark.parametrize("servers", ["central", "partitioned"])
def test_an_undone_epoch_leaves_no_trace(toy, monkeypatch, servers):
    config = subnets(toy, servers=servers, schedule=ScheduleConfig("newbob", epochs=2, keep_lr=1))
    scores = iter(2 * [0.0] + 2 * [1.0] + 2 * [0.5])  # of each worker: before training, and after two epochs
    monkeypatch.setattr(Newbob, "_score", lambda self, _: next(scores))
    run(config)
    assert [row["verdict"].split(",")[0] for row in table(config)] == ["accept", "reject"]
    first, second = (torch.load(p, weights_only=True)["workers"] for p in sorted((config.out / "checkpoint").iterdir()))
    for one, other in zip(first, second, strict=True):
        assert {"values", "strategy/round", "buffers/norms.0.running_mean"} <= one.keys() | first[0].keys()
        for name in one.keys() - {"tally"}:
            assert torch.equal(one[name], other[name]), name
    final = weights(config)
    assert torch.equal(final["layers.0.weight"].view(-1), first[0]["values"][: 20 * 12])
    assert torch.equal(final["output_norm.running_mean"], first[0]["buffers/output_norm.running_mean"])


def test_training_goes_on_after_an_undone_epoch_as_from_its_checkpoint(toy, monkeypatch):
    """All workers get back to the whole network that rank 0 keeps."""
    whole, cut = (subnets(toy, schedule=ScheduleConfig("newbob", epochs=3, keep_lr=1)) for _ in range(2))
    for config, stop in ((whole, -1), (cut, 2 * 2 * 31 - 1)):
        scores = iter(2 * [0.0] + 2 * [1.0] + 2 * [0.5] + 2 * [2.0])  # of two workers
        with monkeypatch.context() as patch:
            patch.setattr(Newbob, "_score", lambda self, _, scores=scores: next(scores))
            stop_at(patch, stop)
            assert run(config) == (STOPPED if config is cut else 0)
            if config is cut:
                assert max(p.name for p in (cut.out / "checkpoint").iterdir()) == "0002-00000000.pt"
                assert run(config) == 0
    assert [row["verdict"].split(",")[0] for row in table(whole)] == ["accept", "reject", "accept"]
    assert_same_model(whole, cut)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_workers_goes_on_from_the_last_epoch(toy, monkeypatch, before, after):
    config = subnets(toy, before, schedule=ScheduleConfig(epochs=3))
    with monkeypatch.context() as patch:
        stop_at(patch, before * (63 // before) + 10 * before)
        assert run(config) == STOPPED
    assert run(dataclasses.replace(config, workers=after)) == 0
    rows = table(config)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[2]["dev_acc"]) > 0.7


def test_the_trainings_seed_deals_the_units(toy):
    one, other = (subnets(toy, schedule=ScheduleConfig(epochs=1), seed=seed) for seed in (0, 1))
    dealt = []
    for config in (one, other):
        with pytest.MonkeyPatch.context() as patch:
            deal, seen = subnets_module.deal, set()
            patch.setattr(subnets_module, "deal", lambda *a, deal=deal, seen=seen: (seen.add(a[3]), deal(*a))[1])
            run(config)
            dealt.append(seen)
    assert dealt == [{0}, {1}]


def test_a_network_that_grows_is_refused_with_several_workers(toy):
    growing = dataclasses.replace(PAPER, layers=3, add_layer_every="5 minibatches")
    with pytest.raises(UserError, match="independent_subnets keeps another network"):
        run(subnets(toy, model=growing))
    assert run(subnets(toy, 1, model=growing)) == 0  # one trains all of it; and has no biases to start afresh
