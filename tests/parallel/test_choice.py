"""Who is left out of a mean, whose parameters are taken first, who trains alone."""

import logging
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from asr_parallel.config import StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.strategy import make_strategy

NAN = math.nan


def exchange(losses, config, values=(1.0, 2.0, 6.0), rounds=1):
    """Values and reports of workers with these mean losses, whose only parameters are equal to ``values``."""
    found = {}

    def work(comm):
        strategy = make_strategy(config)
        model = strategy.start(nn.Linear(2, 1), comm)
        for _ in range(rounds):
            flatten(model).fill_(values[comm.rank])
            strategy.choice.count(torch.tensor(losses[comm.rank] - 1.0), 3)
            strategy.choice.count(torch.tensor(losses[comm.rank] + 3.0), 1)
            report = strategy.exchange(comm)
        found[comm.rank] = flatten(model)[0].item(), report.left_out, flatten(strategy.consensus())[0].item()
        return 0

    simulate(len(losses), work)
    return [found[rank] for rank in range(len(losses))]


@pytest.mark.parametrize(
    ("losses", "gap", "taken"),
    [((1.0, 1.2, 1.4), None, (0, 1, 2)), ((1.0, 1.2, 1.4), 0.3, (0, 1)), ((1.4, 1.0, 1.2), 0.3, (1, 2)),
     ((NAN, 1.0, 1.2), None, (1, 2)), ((1.0, math.inf, 99.0), None, (0, 2)), ((NAN, NAN, 1.0), None, (2,))],
)  # fmt: skip
@pytest.mark.parametrize("wire", ["fp32", "int8"])
def test_workers_that_diverged_or_lag_are_left_out(losses, gap, taken, wire):
    values = (1.0, 2.0, 6.0)
    mean = sum(values[rank] for rank in taken) / len(taken)
    found = exchange(losses, StrategyConfig("model_average", max_gap=gap, wire=wire))
    assert [left_out for _, left_out, _ in found] == [rank not in taken for rank in range(3)]
    assert [value for value, _, _ in found] == pytest.approx([mean] * 3, rel=2e-2 if wire == "int8" else 1e-6)


def test_a_worker_whose_parameters_are_no_numbers_is_left_out_and_warned_of(caplog):
    with caplog.at_level(logging.WARNING, logger="asr_parallel"):
        found = exchange((1.0, 1.0, 1.0), StrategyConfig("model_average"), values=(1.0, NAN, 3.0))
    assert [value for value, _, _ in found] == [2.0] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "rank 1 (loss nan) left out of the mean, and goes on from it; the best is rank 0 (1.000)"
    ]


@pytest.mark.parametrize("topology", ["ring", "hopping_ring"])
def test_rings_leave_out_too(topology):
    found = exchange((1.0, NAN, 1.0), StrategyConfig("model_average", topology=topology))
    assert [value for value, _, _ in found] == [3.5] * 3


def test_block_momentum_leaves_out_too():
    found = exchange((1.0, NAN, 1.0), StrategyConfig("block_momentum", block_momentum=0.0), values=(1.0, NAN, 2.0))
    assert found == [(1.5, False, 1.5), (1.5, True, 1.5), (1.5, False, 1.5)]


def test_elastic_averaging_gives_the_centre_to_who_is_left_out():
    found = exchange((1.0, NAN, 1.0), StrategyConfig("elastic_average", elasticity=0.25), values=(1.0, NAN, 2.0))
    centre = found[1][2]
    assert found[1][:2] == (centre, True)
    assert centre == found[0][2] == found[2][2]
    # a centre c has become c + 0.25 (1 - c) + 0.25 (2 - c), rank 0's values 1 - 0.25 (1 - c)
    before = (centre - 0.75) / 0.5
    assert found[0][0] == pytest.approx(1 - 0.25 * (1 - before), rel=1e-5)


def test_with_nobody_left_it_is_an_error():
    with pytest.raises(UserError, match=r"no longer a number on any worker.*--optim.lr"):
        exchange((NAN, NAN), StrategyConfig("model_average"))


def test_the_first_exchange_may_take_the_best():
    config = StrategyConfig("model_average", first="best")
    losses = (1.2, 1.0, 1.1)
    assert exchange(losses, config) == [(2.0, False, 2.0)] * 3
    assert exchange(losses, config, rounds=2) == [(3.0, False, 3.0)] * 3
    assert exchange((0.9, NAN, 1.1), config) == [(1.0, rank == 1, 1.0) for rank in range(3)]


@pytest.mark.parametrize("name", ["model_average", "block_momentum"])
def test_rank_0_trains_alone_at_first_and_then_all_have_its_model(name):
    config = StrategyConfig(
        name, "3 minibatches", alone="5 minibatches", block_momentum=0.0 if name[0] == "b" else None
    )
    found = {}

    def work(comm):
        strategy = make_strategy(config)
        model = strategy.start(nn.Linear(2, 1), comm)
        start, clock, seen = flatten(model).clone(), Clock(1, 10), []
        for minibatch in range(1, 11):
            if not strategy.idle(clock, comm):
                flatten(model).add_(comm.rank + 1)
            if strategy.due(clock.tick(4)):
                strategy.exchange(comm)
                seen.append((minibatch, (flatten(model) - start)[0].item()))
        found[comm.rank] = seen
        return 0

    simulate(2, work)
    assert found[0] == found[1]  # 5 steps alone; then, at 6, 9 and 10, the mean of steps of 1 and of 2
    assert [m for m, _ in found[0]] == [5, 6, 9, 10]
    assert [v for _, v in found[0]] == pytest.approx([5, 6.5, 11, 12.5], rel=1e-5)


@pytest.mark.parametrize("option", [{"max_gap": 0.0}, {"max_gap": NAN}, {"alone": "5 s"}])
def test_options_that_make_no_sense_are_refused(option):
    with pytest.raises(UserError, match=f"--strategy.{next(iter(option))}.*give"):
        make_strategy(StrategyConfig("model_average", **option))


def test_losses_are_those_since_the_exchange_before():
    strategy = make_strategy(StrategyConfig("model_average"))
    batch = SimpleNamespace(y=torch.tensor([0, 1]))
    logits = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    strategy.loss(logits, batch)
    assert strategy.choice.brought.tolist() == pytest.approx([2 * math.log(2), 2.0])
    taken = {}

    def work(comm):
        choice = make_strategy(StrategyConfig("model_average", max_gap=0.5)).choice
        for losses in ((1.0, 9.0), (1.0, 1.0)):
            choice.count(torch.tensor(losses[comm.rank]), 1)
            taken.setdefault(comm.rank, []).append(choice.choose(comm, torch.zeros(1)))
        return 0

    simulate(2, work)
    assert taken == {rank: [(0,), (0, 1)] for rank in range(2)}


@pytest.mark.parametrize("wire", ["fp32", "bf16"])
@pytest.mark.parametrize("sick", [(), (1,), (0, 2)])
def test_a_gradient_that_is_no_numbers_is_left_out_of_the_mean(wire, sick):
    gradients, found = torch.tensor([[1.0, 2.0, 8.0], [4.0, 0.5, 2.0], [16.0, 4.0, 1.0]]), {}
    sound = [rank for rank in range(3) if rank not in sick]

    def work(comm):
        strategy = make_strategy(StrategyConfig("gradient_average", wire=wire))
        strategy.start(nn.Linear(2, 1), comm)
        flat = gradients[comm.rank].clone()
        if comm.rank in sick:
            flat[1] = NAN if comm.rank else math.inf
        strategy.gradient(flat)
        found[comm.rank] = flat, strategy.exchange(comm).left_out
        return 0

    simulate(3, work)
    for rank in range(3):
        tolerance = {"fp32": 1e-6, "bf16": 1e-2}[wire]
        torch.testing.assert_close(found[rank][0], gradients[sound].mean(0), rtol=tolerance, atol=0)
        assert found[rank][1] == (rank in sick)


def test_if_no_gradient_is_made_of_numbers_training_ends():
    def work(comm):
        strategy = make_strategy(StrategyConfig("gradient_average"))
        strategy.start(nn.Linear(2, 1), comm)
        strategy.gradient(torch.full((3,), NAN))
        return 0

    with pytest.raises(UserError, match="no longer made of numbers on any worker"):
        simulate(2, work)
