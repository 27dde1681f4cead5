"""Training that goes on when a worker is lost: what is averaged, who comes back, what is left."""

import os
import signal
from dataclasses import replace

import pytest
import torch
from lossy import going_on, notes_of, rows, spied, summary, workers
from test_faults import freeze, kill
from torch import nn
from toys import assert_same_model, make_toy

from asr_parallel.config import ModelConfig, ScheduleConfig, StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel import surviving
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.train import loop
from asr_parallel.train.run import run

toy = make_toy
PAUSE_S = 0.1


def test_survivors_go_on_from_their_mean_to_the_bit(toy):
    config = going_on(toy)
    with workers(config, 3, fault=kill, step=27) as those:
        those.wait_for_end(1)
        assert those.found(0, 2) == [0, 0]
    found = notes_of(config, "exchange", [0, 2])
    (where, one, after), (there, other, same) = found[0], found[2]
    assert not torch.equal(one, other)
    assert torch.equal(after, (one + other) / 2)
    assert torch.equal(after, same)
    assert where == there
    failed = notes_of(config, "attempt", [0, 1, 2], latest=True)
    assert torch.equal(failed[0][1], one)  # what they had come to when the exchange failed
    assert torch.equal(failed[2][1], other)
    old = notes_of(config, "exchange", [0, 1, 2])[0][0][2]
    assert where == [2, 10 * where[2] // old, where[2]]  # the exchange after step 27 of 21 an epoch; as far as before
    assert where[2] == pytest.approx(old * 3 / 2, abs=1)  # the shard of the third is dealt to the two
    assert (summary(config)["lost"], summary(config)["rejoined"]) == (1, 0)
    assert summary(config)["dev_acc"] > 0.8
    assert summary(config)["effective_lr"] == pytest.approx(0.4)


def test_a_stopped_worker_is_left_behind_and_disturbs_nobody_when_it_wakes_up(toy):
    config = replace(going_on(toy, schedule=ScheduleConfig(epochs=4)), timeout=6.0)
    with workers(config, 3, fault=freeze, step=27, pause=PAUSE_S) as those:
        those.wait_for_loss()
        os.kill(those.children[1].pid, signal.SIGCONT)
        late, zero, two = those.found(1, 0, 2)
    assert "rank 1 came too late: the others have gone on without it" in late
    assert (zero, two) == (0, 0)
    assert summary(config)["lost"] == 1
    assert {row["rank"] for row in rows(config) if int(row["epoch"]) > 2} == {"0", "2"}


@pytest.mark.parametrize("seat", [0, 1])
def test_a_lost_worker_comes_back_with_what_the_others_have(toy, seat):
    """Rank 0 too, whose files another one goes on with meanwhile and then."""
    config = going_on(toy, 2, schedule=ScheduleConfig(epochs=6))
    with workers(config, 2, fault=kill, step=40, seat=seat, pause=PAUSE_S) as those:
        those.wait_for_end(seat)
        those.children[seat] = those.start(seat, fault=None)
        assert those.found(0, 1) == [0, 0]
    other = 1 - seat
    (where, _, mine), (there, _, theirs) = (notes_of(config, "regrouped", [other, seat])[s] for s in (other, seat))
    assert torch.equal(mine, theirs)
    assert where == there
    assert (summary(config)["lost"], summary(config)["rejoined"]) == (1, 1)
    assert summary(config)["dev_acc"] > 0.8
    assert [row["epoch"] for row in rows(config, "history.tsv")] == list("123456")
    taking_part = [row["rank"] for row in rows(config)]
    gap = "".join(taking_part).replace("01", "")
    assert set(gap) == {str(other)}  # alone for some exchanges
    assert taking_part[-2:] == ["0", "1"]
    assert sorted(path.name for path in (config.out / "checkpoint").iterdir())[-1] == "0006-00000000.pt"


STRATEGIES = [
    StrategyConfig("gradient_average"),
    StrategyConfig("block_momentum", "5 minibatches", wire="bf16", block_nesterov=True),
    StrategyConfig("elastic_average", "5 minibatches", wire="int8"),
    StrategyConfig("model_average", "5 minibatches", overlap=True, wire="int8", optimizer_state="average"),
    StrategyConfig("model_average", "1 s", first="best"),
    StrategyConfig("model_average", "5 minibatches", topology="hopping_ring"),
    StrategyConfig("ensemble_compression", "5 minibatches", ensemble_by="ring", pseudo_minibatches=2),
]


@pytest.mark.parametrize(
    "strategy", STRATEGIES, ids=lambda strategy: f"{strategy.name}-{strategy.wire}-{strategy.topology}"
)
def test_every_strategy_loses_a_worker_and_has_it_back(toy, strategy):
    network = ModelConfig(2, 16, "sigmoid", "nnet1", context=1, batch_norm=True)
    config = going_on(
        toy, 2, strategy=strategy, model=network, schedule=ScheduleConfig("newbob", epochs=6, min_epochs=6)
    )
    with workers(config, 2, fault=kill, step=43, pause=PAUSE_S) as those:
        those.wait_for_end(1)
        those.children[1] = those.start(1, fault=None)
        assert those.found(0, 1) == [0, 0]
    assert (summary(config)["lost"], summary(config)["rejoined"]) == (1, 1)
    assert summary(config)["dev_acc"] > 0.75
    mine, theirs = (notes_of(config, "regrouped", [0, 1])[seat][2] for seat in (0, 1))
    assert torch.equal(mine, theirs)
    if strategy.name in ("gradient_average", "model_average", "block_momentum"):
        mine, theirs = (notes_of(config, "exchange", [0, 1], latest=True)[seat][2] for seat in (0, 1))
        assert torch.equal(mine, theirs)  # to the end


def fall_ill(place, config):
    """Rank 1 meets frames that are no numbers, so that its gradient and parameters become none; later rank 2 dies."""
    whole = loop.step

    def step(worker, batch, lr):
        if place.rank == 1 and worker.clock.epoch == 1 and worker.clock.minibatch == 2:
            batch.x[0] = float("nan")
        whole(worker, batch, lr)

    loop.step = step
    return spied(place, config, kill, 27, seat=2)


@pytest.mark.parametrize("name", ["gradient_average", "model_average", "block_momentum", "elastic_average"])
def test_numbers_that_are_none_are_left_out_where_training_goes_on(toy, name):
    strategy = StrategyConfig(name, "5 minibatches", lr_scale="workers")
    config = going_on(toy, strategy=strategy)
    with workers(config, 3, fall_ill) as those:
        those.wait_for_end(2)
        assert those.found(0, 1) == [0, 0]
    left_out = [(row["epoch"], row["exchange"], row["rank"]) for row in rows(config) if row["left_out"] == "1"]
    assert left_out == [("1", "3" if name == "gradient_average" else "1", "1")]
    assert summary(config)["dev_acc"] > 0.7
    assert summary(config)["lost"] == 1


@pytest.mark.parametrize(
    "config",
    [StrategyConfig("gradient_average"), StrategyConfig("elastic_average"), StrategyConfig("block_momentum"),
     StrategyConfig("model_average", wire="int8"), StrategyConfig("block_momentum", wire="bf16", block_nesterov=True)],
    ids=lambda config: f"{config.name}-{config.wire}",
)  # fmt: skip
def test_workers_of_which_one_has_finished_an_exchange_and_one_has_not_are_alike_again(config):
    found = {}

    def worker(comm):
        strategy = make_strategy(config)
        flatten(strategy.start(nn.Linear(3, 2), comm)).fill_(comm.rank + 1.0)
        common = [value for name, value in strategy.state().items() if name not in ("own", "wire_own", "wire_mean")]
        for value in (flatten(strategy.consensus()), *common):
            value.add_(comm.rank)  # as if rank 1 had gone on by itself
        for tensor in strategy.regroup(Clock(1, 9)):
            comm.broadcast(tensor)
        for _ in range(2):
            strategy.exchange(comm)
        alike = [flatten(strategy.consensus()), *strategy.regroup(Clock(1, 9))]
        found[comm.rank] = torch.cat([tensor.float() for tensor in alike])
        return 0

    simulate(2, worker)
    assert torch.equal(found[0], found[1])


def die_between(place, config):
    """Rank 1 dies when it has met the others in an exchange: two of the three have its answer, and wait for more."""
    meet, met = surviving.SurvivingComm.meet, []

    def meet_and_die(self):
        meet(self)
        met.append(1)
        if place.rank == 1 and len(met) == 8:
            kill()

    surviving.SurvivingComm.meet = meet_and_die
    return spied(place, config)


def test_a_worker_that_dies_within_an_exchange_is_not_in_the_mean(toy):
    config = going_on(toy)
    with workers(config, 3, die_between) as those:
        those.wait_for_end(1)
        assert those.found(0, 2) == [0, 0]
    (_, one, after), (_, other, same) = (notes_of(config, "exchange", [0, 2])[seat] for seat in (0, 2))
    assert torch.equal(after, (one + other) / 2)
    assert torch.equal(after, same)


def test_a_training_that_has_lost_a_worker_stops_when_asked_and_goes_on(toy):
    config = going_on(toy, schedule=ScheduleConfig(epochs=4), save_every=5)
    with workers(config, 3, fault=kill, step=27, pause=PAUSE_S) as those:
        those.wait_for_end(1)
        those.wait_for_loss()
        os.kill(those.children[2].pid, signal.SIGTERM)
        assert those.found(0, 2) == [STOPPED, STOPPED]
    assert not (config.out / "final.pt").exists()
    with workers(replace(config, workers=2), 2) as those:
        assert those.found(0, 1) == [0, 0]
    assert summary(config)["dev_acc"] > 0.8


def test_without_a_failure_the_bits_are_those_of_stopping(toy):
    config, other = going_on(toy, 2), toy(workers=2, backend="simulated")
    with workers(config, 2) as those:
        assert those.found(0, 1) == [0, 0]
    assert run(other) == 0
    assert_same_model(config, other)
    one, alone = toy(on_failure="continue"), toy()
    assert run(one) == run(alone) == 0
    assert_same_model(one, alone)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backend": "mpi"}, "a job of MPI ends when one of its processes does"),
        ({"backend": "simulated"}, "its workers are one process"),
        ({"backend": "nccl"}, "give --backend gloo"),
        ({"strategy": StrategyConfig("independent_subnets")}, "nobody else holds what a lost worker has trained"),
        ({"strategy": StrategyConfig("model_average", topology="butterfly")}, "give hopping_ring"),
        ({"strategy": StrategyConfig("model_average", alone="1 epoch")}, "nothing to go on from"),
        ({"model": ModelConfig(2, 16, add_layer_every="5 minibatches")}, "one worker's minibatches say when"),
        ({"restarts": -1}, "--restarts -1: give 0 or more"),
    ],
)
def test_what_cannot_go_on_is_refused_before_the_start(toy, changes, words):
    with pytest.raises(UserError, match=words):
        run(going_on(toy, 2, **changes))


def test_under_torchrun_it_is_refused(toy, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    with pytest.raises(UserError, match="torchrun, which ends all when one ends"):
        run(going_on(toy, 2))
