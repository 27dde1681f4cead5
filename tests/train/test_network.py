"""Trainings of networks that carry more than parameters: batch norm, dropout, growth."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from forked import together
from test_run import assert_same_history, assert_same_model, dev_scores, stop_at, table, train_as, weights
from torch import nn

from asr_parallel.config import ModelConfig, OptimConfig, ScheduleConfig, StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.model import Dnn, make_model
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.parallel.block_momentum import BlockMomentum
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.model_average import ModelAverage
from asr_parallel.parallel.single import Single
from asr_parallel.parallel.torch_comm import TorchComm
from asr_parallel.schedule.newbob import Newbob
from asr_parallel.train import growth, statistics
from asr_parallel.train.growth import Growth, grown_after
from asr_parallel.train.run import run
from asr_parallel.train.validate import evaluation
from asr_parallel.train.worker import Worker

RICH = ModelConfig(2, 16, "relu", context=1, batch_norm=True, dropout=0.2)
GROWING = ModelConfig(3, 16, "relu", context=1, add_layer_every="20 minibatches")
TWO = ScheduleConfig(epochs=2)


def states(config):
    newest = max((config.out / "checkpoint").iterdir())
    return torch.load(newest, weights_only=True)["workers"]


def test_dev_scores_are_those_of_the_decoders_network_and_training_mode_comes_back(toy):
    config = toy(model=RICH, schedule=TWO)
    run(config)
    row = table(config)[-1]
    assert (float(row["dev_loss"]), float(row["dev_acc"])) == dev_scores(config)
    assert float(row["dev_acc"]) > 0.7
    assert weights(config)["norms.1.num_batches_tracked"] == 2 * 63  # batch norm counts in training mode alone


def test_the_mode_of_before_comes_back_after_an_error_too():
    model = Dnn(RICH, 4, 3)
    for training in (True, False):
        model.train(training)
        with evaluation(model):
            assert not model.norms[0].training
        assert model.norms[0].training == training
        with pytest.raises(AttributeError), evaluation(model):
            _ = model.missing
        assert model.norms[0].training == training


def worker_of(rank=0, seed=3):
    comm, model, strategy = SoloComm(), Dnn(RICH, 4, 3), Single(StrategyConfig())
    comm.rank = rank
    optimizer = make_optimizer(OptimConfig("sgd"), strategy.start(model, comm))
    schedule, frames = object(), object()  # are not asked here
    return Worker(model, strategy, optimizer, schedule, comm, frames, 10, 4, [], seed=seed)  # type: ignore[arg-type]


def test_dropout_depends_on_seed_epoch_minibatch_and_rank_alone():
    def drawn(epoch, minibatch, rank, seed=3):
        worker_of(rank, seed).prepare(Clock(epoch, 10, minibatch))
        return torch.rand(2).tolist()

    keys = [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 0, 0, 4)]
    first, again = ([drawn(*key) for key in keys] for _ in range(2))
    assert first == again
    assert len({tuple(values) for values in first}) == len(keys)


@pytest.mark.parametrize(
    ("model", "optim", "step"),
    [
        (RICH, "sgd", 10),
        (RICH, "ngsgd", 70),
        (dataclasses.replace(GROWING, dropout=0.2), "ngsgd", 20),  # where a layer is due
        (GROWING, "sgd", 30),
        (ModelConfig(2, 8, "pnorm", context=1, pnorm_group=2), "ngsgd", 70),
    ],
)
def test_a_stopped_training_goes_on_to_the_same_bits(toy, monkeypatch, model, optim, step):
    options = {"model": model, "optim": OptimConfig(optim, lr=0.1), "schedule": TWO}
    whole, cut = toy(**options), toy(**options)
    run(whole)
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        assert run(cut) == STOPPED
    torch.manual_seed(12345)  # a new process has drawn other numbers before
    assert run(cut) == 0
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


def test_an_undone_epoch_gives_back_running_statistics(toy, monkeypatch):
    config = toy(model=RICH, schedule=ScheduleConfig("newbob", epochs=2, keep_lr=1))
    scores = iter([0.0, 1.0, 0.5])  # before training, and after two epochs
    monkeypatch.setattr(Newbob, "_score", lambda self, _: next(scores))
    run(config)
    assert [row["verdict"].split(",")[0] for row in table(config)] == ["accept", "reject"]
    first, second = (
        torch.load(p, weights_only=True)["workers"][0] for p in sorted((config.out / "checkpoint").iterdir())
    )
    names = [name for name in first if name.startswith("buffers/")]
    assert len(names) == 2 * 3  # mean, variance and counter of two layers
    for name in names:
        assert torch.equal(first[name], second[name]), name
    assert first["buffers/norms.0.num_batches_tracked"].item() == 63


# several workers


def shared(place):
    """Running statistics of a worker before and after ``share``; and its counter."""
    comm, model = TorchComm(place, "gloo", 20.0), make_model(RICH, 4, 3, 0)
    strategy = ModelAverage(StrategyConfig("model_average"))
    strategy.start(model, comm)
    for i in range(place.rank + 1):
        model(torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * place.rank + i)))
    before = {name: value.clone() for name, value in statistics.buffers(model).items()}
    statistics.share(model, strategy, comm)
    after = {name: value.tolist() for name, value in statistics.buffers(model).items()}
    comm.close()
    return {name: value.tolist() for name, value in before.items()}, after


def test_running_statistics_are_averaged_exactly_and_counters_are_kept():
    (before_0, after_0), (before_1, after_1) = together(shared)
    for name in before_0:
        if "tracked" in name:
            assert (after_0[name], after_1[name]) == ([1], [2])
        else:
            mean = (np.float32(before_0[name]) + np.float32(before_1[name])) / np.float32(2)
            assert before_0[name] != before_1[name]
            assert after_0[name] == after_1[name] == mean.tolist()


def test_a_consensus_that_is_a_copy_gets_the_statistics():
    model, strategy, comm = make_model(RICH, 4, 3, 0), BlockMomentum(StrategyConfig("block_momentum")), SoloComm()
    strategy.start(model, comm)
    model(torch.randn(8, 4))
    assert not strategy.consensus().norms[0].running_mean.any()
    statistics.share(model, strategy, comm)
    for one, other in zip(model.buffers(), strategy.consensus().buffers(), strict=True):
        assert torch.equal(one, other)


def test_different_networks_keep_their_statistics(monkeypatch):
    model, strategy, comm = make_model(RICH, 4, 3, 0), ModelAverage(StrategyConfig("model_average")), SoloComm()
    strategy.start(model, comm)
    strategy.exchanges = "outputs"
    monkeypatch.setattr(comm, "all_reduce_mean", lambda flat: flat.zero_())
    statistics.share(model, strategy, comm)
    assert model.norms[0].running_var.all()


@pytest.mark.parametrize(
    "model", [RICH, dataclasses.replace(GROWING, add_layer_every="7 minibatches")], ids=["batch norm", "growing"]
)
def test_two_stopped_workers_go_on_to_the_same_bits(toy, model):
    options = {"workers": 2, "model": model, "schedule": TWO, "optim": OptimConfig("sgd", lr=0.05)}
    whole, cut = toy(**options), toy(**options)
    assert together(train_as, whole) == [0, 0]
    assert together(train_as, cut, 1, 12) == [STOPPED, STOPPED]
    assert together(train_as, cut) == [0, 0]
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)
    row = table(whole)[-1]
    assert (float(row["dev_loss"]), float(row["dev_acc"])) == dev_scores(whole)
    if model is RICH:
        one, other = states(whole)
        for name in (n for n in one if n.startswith("buffers/")):
            assert torch.equal(one[name], other[name])
        assert one["buffers/norms.0.num_batches_tracked"].item() == 2 * 31


# growth


def test_growth_is_training_with_one_layer_then_with_two():
    """The oracle puts networks of its own together and takes plain steps."""
    config = ModelConfig(3, 8, "tanh", context=0, add_layer_every="4 minibatches")
    model, comm = make_model(config, 5, 3, seed=0), SoloComm()
    strategy = Single(StrategyConfig())
    optimizer = make_optimizer(OptimConfig("sgd", momentum=0.9), strategy.start(model, comm))
    growing = Growth.of(model, strategy, optimizer, grown_after(config, 12, 4), seed=0)
    plain: list[nn.Linear] = []
    for i in range(12):
        x, y = torch.randn(4, 5, generator=torch.Generator().manual_seed(i)), torch.tensor([0, 1, 2, 0])
        growing.prepare(Clock(1, 12, i))
        depth = 1 + i // 4
        if i % 4 == 0:  # old hidden layers are kept; what the new ones begin with is tested below
            fresh = [copy.deepcopy(model.layers[depth - 1]), copy.deepcopy(model.layers[-1])]
            plain = plain[:-1] + fresh
            steps = torch.optim.SGD([p for layer in plain for p in layer.parameters()], lr=0.1, momentum=0.9)
        steps.zero_grad()
        hidden = x
        for layer in plain[:-1]:
            hidden = torch.tanh(layer(hidden))
        nn.functional.cross_entropy(plain[-1](hidden), y).backward()
        steps.step()
        optimizer.step(nn.functional.cross_entropy(model(x), y), 0.1)
        for one, other in zip(plain, [*model.layers[:depth], model.layers[-1]], strict=True):
            torch.testing.assert_close(one.weight, other.weight)
            torch.testing.assert_close(one.bias, other.bias)


def test_an_added_layer_and_the_softmax_layer_start_as_at_random():
    config = dataclasses.replace(GROWING, width=100)
    model, strategy = make_model(config, 50, 60, seed=0), Single(StrategyConfig())
    optimizer = make_optimizer(OptimConfig("sgd"), strategy.start(model, SoloComm()))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(7.0)
    Growth.of(model, strategy, optimizer, 20, seed=0).prepare(Clock(1, 63, 20))
    assert [bool((layer.weight == 7).all()) for layer in model.layers] == [True, False, True, False]
    for layer, gain in ((model.layers[1], 2**0.5), (model.layers[3], 1.0)):
        assert layer.weight.std().item() == pytest.approx(gain * (2 / sum(layer.weight.shape)) ** 0.5, rel=0.03)
        assert not layer.bias.any()


def test_a_growing_network_is_whole_after_its_first_epoch(toy, monkeypatch):
    depths, whole = [], Growth.prepare

    def spy(self, clock):
        whole(self, clock)
        depths.append(self.model.depth)

    monkeypatch.setattr(growth.Growth, "prepare", spy)
    config = toy(model=GROWING, schedule=TWO)
    run(config)
    assert depths == [1] * 20 + [2] * 20 + [3] * (63 - 40) + [3] * 63
    row = table(config)[-1]
    assert (float(row["dev_loss"]), float(row["dev_acc"])) == dev_scores(config)
    assert float(row["dev_acc"]) > 0.8


def test_what_cannot_grow_is_refused_before_a_result_is_removed(toy):
    config = toy(model=dataclasses.replace(GROWING, layers=1), schedule=ScheduleConfig(epochs=1))
    run(config)
    for changes, said in (
        ({"layers": 5}, r"5 hidden layers, one every 20 minibatches.*which has 63: give at most 15 minibatches"),
        ({"add_layer_every": "soon"}, "--model.add_layer_every 'soon'"),
    ):
        other = dataclasses.replace(config, model=dataclasses.replace(GROWING, **changes))
        with pytest.raises(UserError, match=said):
            run(other)
        assert (config.out / "final.pt").exists()
    assert grown_after(dataclasses.replace(GROWING, add_layer_every="640 frames"), 63, 32) == 20
    with pytest.raises(UserError, match="block_momentum keeps another network"):
        run(toy(model=GROWING, strategy=StrategyConfig("block_momentum", "5 minibatches")))
    with pytest.raises(UserError, match="at least 2 frames"):
        run(toy(model=RICH, batch=1))


def test_a_training_starts_from_the_hidden_layers_of_another(toy):
    one = toy(model=ModelConfig(1, 16, "relu", context=1), schedule=ScheduleConfig(epochs=1))
    run(one)
    model = ModelConfig(2, 16, "relu", "network", context=1, network=str(one.out))
    two = toy(model=model, schedule=ScheduleConfig(epochs=1), optim=OptimConfig("sgd", lr=0.0))
    assert one.out / "final.pt" in two.inputs()
    run(two)
    assert torch.equal(weights(one)["layers.0.weight"], weights(two)["layers.0.weight"])
    with pytest.raises(UserError, match="is --out too"):
        run(dataclasses.replace(two, out=one.out))
    value = torch.load(one.out / "final.pt", weights_only=True)
    torch.save(value | {"features": "mfcc"}, one.out / "final.pt")
    with pytest.raises(UserError, match="takes mfcc features, not fbank: give --features mfcc"):
        run(two)
    assert (one.out / "final.pt").exists()
