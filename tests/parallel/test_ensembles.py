"""Ensembles and ensemble-compression on simulated and real workers, against their equations."""

import copy
import math
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from forked import together
from torch import nn

from asr_parallel.config import OptimConfig, StrategyConfig
from asr_parallel.ensemble import Ensemble, OutputMean
from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.ensemble import check_bound
from asr_parallel.parallel.simulated import SimulatedComm, simulate
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.parallel.torch_comm import TorchComm

LR, EVERY, ROUNDS, FRAMES = 0.3, 3, 4, 8


class Minibatch:
    def __init__(self, rank, step):
        g = torch.Generator().manual_seed(100 * rank + step)
        self.x, self.y = torch.randn(FRAMES, 3, generator=g), torch.randint(4, (FRAMES,), generator=g)


class View:
    """The loop as the strategy sees it."""

    def __init__(self, rank):
        self.rank, self.step = rank, 0

    def logits(self, model, x):
        assert not model.training
        return model(x)

    def coming(self, count):
        return (Minibatch(self.rank, self.step + i) for i in range(count))


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Sigmoid(), nn.Linear(5, 4))


def train(comm, config):
    """This worker's parameters after all exchanges, those that the visits showed, and the bytes reported."""
    strategy = make_strategy(config)
    strategy.check(comm.size)
    model = strategy.start(small_net(), comm)
    optimizer = make_optimizer(OptimConfig("sgd"), model)
    if comm.size > 1:
        strategy.view = View(comm.rank)
    clock, sent = Clock(1, EVERY * ROUNDS), 0
    for step in range(EVERY * ROUNDS):
        if comm.size > 1:
            strategy.view.step = step
        batch = Minibatch(comm.rank, step)
        optimizer.step(strategy.loss(model(batch.x), batch), LR)
        if strategy.due(clock.tick(FRAMES)):
            sent += strategy.exchange(comm).bytes
    shown = torch.zeros(comm.size, len(flatten(model)))
    if comm.size > 1:
        for rank, guest in strategy.visits():
            shown[rank] = flatten(guest)
    return torch.cat([flatten(model), shown.view(-1), torch.tensor([float(sent)])]).detach()


def real(place, config):
    comm = TorchComm(place, "gloo", 20.0)
    try:
        return train(comm, config)
    finally:
        comm.close()


def simulated(size, config):
    found = {}

    def work(comm):
        found[comm.rank] = train(comm, config)
        return 0

    assert simulate(size, work) == 0
    return torch.stack([found[rank] for rank in range(size)])


def options(name="ensemble_compression", **changes):
    values = {"pseudo_minibatches": 2} if name == "ensemble_compression" else {}
    return StrategyConfig(name, **(values | {"every": f"{EVERY} minibatches"} | changes))


SIZE = len(flatten(small_net()))


def oracle(size, weight=1.0, decay=1.0, p=2, share=1.0, hard=False, of_logits=False):
    """Models [size, parameters] by the equations alone: frozen copies, means and losses written out."""
    models, frozen = [small_net() for _ in range(size)], []
    for step in range(EVERY * ROUNDS):
        exchanges, since = divmod(step, EVERY)
        if since == 0 and exchanges:
            frozen = copy.deepcopy(models)
        for rank, model in enumerate(models):
            x, y = Minibatch(rank, step).x, Minibatch(rank, step).y
            logp = torch.log_softmax(model(x), 1)
            loss = -logp[torch.arange(FRAMES), y]
            if frozen and since < p:
                with torch.no_grad():
                    outputs = [m(x) if of_logits else torch.softmax(m(x), 1) for m in frozen]
                    q = sum(outputs) / size
                    q = torch.softmax(q, 1) if of_logits else q
                    q = F.one_hot(q.argmax(1), 4).float() if hard else q
                soft = -(q * logp).sum(1)
                soft[math.ceil(share * FRAMES) :] = 0
                loss = loss + weight * decay ** (exchanges - 1) * soft
            grads = torch.autograd.grad(loss.mean(), list(model.parameters()))
            with torch.no_grad():
                for parameter, grad in zip(model.parameters(), grads):
                    parameter -= LR * grad
    return torch.stack([nn.utils.parameters_to_vector(m.parameters()).detach() for m in models])


CASES = {
    "plain": ({}, {}),
    "weights that decay": ({"pseudo_weight": 2.0, "pseudo_decay": 0.5}, {"weight": 2.0, "decay": 0.5}),
    "hard": ({"pseudo_labels": "hard"}, {"hard": True}),
    "logits": ({"ensemble_mean": "logits"}, {"of_logits": True}),
    "some frames": ({"pseudo_fraction": 0.6, "pseudo_minibatches": 1}, {"share": 0.6, "p": 1}),
}


@pytest.mark.parametrize("by", ["gather", "ring"])
@pytest.mark.parametrize("case", CASES)
def test_ensemble_compression_follows_its_equations(case, by):
    changes, expected = CASES[case]
    found = simulated(3, options(ensemble_by=by, **changes))
    models = oracle(3, **expected)
    torch.testing.assert_close(found[:, :SIZE], models, rtol=1e-5, atol=1e-6)
    for row in found:  # all see the same models, which differ
        assert torch.equal(row[SIZE:-1].view(3, SIZE), found[:, :SIZE])
    assert (models[0] - models[1]).abs().max() > 1e-3


def test_without_a_limit_all_minibatches_have_pseudo_labels():
    found = simulated(2, options(pseudo_minibatches=0))
    torch.testing.assert_close(found[:, :SIZE], oracle(2, p=EVERY), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("config", [options(), options(ensemble_by="ring"), options("ensemble")])
def test_two_simulated_workers_are_two_real_ones_to_the_bit(config):
    for one, other in zip(simulated(2, config), together(real, config), strict=True):
        assert not isinstance(other, str), other
        assert torch.equal(one, torch.as_tensor(other))


def test_gather_and_ring_agree_and_send_as_much():
    gather, ring = (simulated(4, options(ensemble_by=by)) for by in ("gather", "ring"))
    torch.testing.assert_close(gather[:, :-1], ring[:, :-1], rtol=1e-6, atol=1e-6)
    assert gather[:, -1].tolist() == [ROUNDS * 3 * 4 * SIZE] * 4
    assert ring[:, -1].tolist() == [(ROUNDS - 1) * 3 * 4 * SIZE] * 4  # of the last round nothing is needed


def test_an_ensemble_is_ensemble_compression_with_weight_0_and_sends_nothing_while_it_trains():
    without, zero = simulated(2, options("ensemble")), simulated(2, options(pseudo_weight=0.0))
    assert torch.equal(without[:, :-1], zero[:, :-1])
    assert not without[:, -1].any()
    torch.testing.assert_close(without[:, :SIZE], oracle(2, p=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["ensemble", "ensemble_compression"])
def test_one_worker_makes_no_pseudo_labels_and_is_serial_training(name):
    own = train(SoloComm(), options(name))[:SIZE]  # without a view there is nothing to make them with
    assert torch.equal(own, train(SoloComm(), StrategyConfig("single"))[:SIZE])


def test_a_ring_holds_one_guest_at_a_time(monkeypatch):
    """Whatever came before is gone when the next guest is sent for: memory is two models."""
    guests, whole = {}, SimulatedComm.pass_on

    def pass_on(self, flat, to, source):
        assert all(guest() is None for guest in guests.get(self.rank, []))
        received = whole(self, flat, to, source)
        guests.setdefault(self.rank, []).append(weakref.ref(received.untyped_storage()))
        return received

    monkeypatch.setattr(SimulatedComm, "pass_on", pass_on)
    simulated(4, options(ensemble_by="ring"))
    assert [len(guests[rank]) for rank in range(4)] == [3 * ROUNDS] * 4
    assert all(guest() is None for rank in range(4) for guest in guests[rank])  # nor is the last one kept


@pytest.mark.parametrize("by", ["gather", "ring"])
def test_a_state_goes_on_where_it_was_taken(by):
    """At an exchange the state is put into another strategy, whose pseudo labels are then the same."""
    config, found = options(ensemble_by=by), {}

    def work(comm):
        one, other = make_strategy(config), make_strategy(config)
        model, twin = one.start(small_net(), comm), other.start(small_net(), comm)
        flatten(model).add_(0.3 * comm.rank)
        one.exchange(comm)
        flatten(model).mul_(1.0)
        other.restore({name: value.clone() for name, value in one.state().items()})
        one.view, other.view = View(comm.rank), View(comm.rank)
        batch = Minibatch(comm.rank, 0)
        found[comm.rank] = [s.loss(m(batch.x), batch).item() for s, m in ((one, model), (other, twin))]
        found[comm.rank].append(F.cross_entropy(model(batch.x), batch.y).item())
        return 0

    simulate(2, work)
    for mine, restored, truth in found.values():
        assert mine == restored > truth


def test_visits_show_the_models_of_the_latest_exchange():
    begun = flatten(small_net()).clone()

    def work(comm):
        strategy = make_strategy(options("ensemble"))
        values = flatten(strategy.start(small_net(), comm))
        for number in (1, 2):
            values.add_(comm.rank + 1.0)
            strategy.exchange(comm)
            for rank, guest in strategy.visits():
                torch.testing.assert_close(flatten(guest), begun + number * (rank + 1.0))
        return 0

    assert simulate(2, work) == 0


def nets(count, scale=3.0):
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        models.append(nn.Linear(3, 4))
        models[-1].weight.data *= scale
    return models


@pytest.mark.parametrize("mean", ["posteriors", "logits"])
def test_the_mean_of_outputs_is_the_mean(mean):
    models, x = nets(3), torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    logits = np.stack([m(x).detach().double().numpy() for m in models])
    posteriors = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    expected = np.log(posteriors.mean(0))
    if mean == "logits":
        expected = np.exp(logits.mean(0))
        expected = np.log(expected / expected.sum(1, keepdims=True))
    found = Ensemble(models, mean)(x)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5, atol=1e-5)


def test_nothing_underflows():
    mean = OutputMean("posteriors")
    for scale in (300.0, 500.0):
        mean.add(torch.tensor([[0.0, scale]]))
    torch.testing.assert_close(mean.log_posteriors(), torch.tensor([[-300 - math.log(2), 0.0]]))


@pytest.mark.parametrize("mean", ["posteriors", "logits"])
def test_an_ensemble_is_never_worse_than_its_models_are_on_average(mean):
    models, g = nets(4), torch.Generator().manual_seed(2)
    gaps = []
    for _ in range(50):
        x, y = torch.randn(16, 3, generator=g), torch.randint(4, (16,), generator=g)
        members = torch.stack([F.cross_entropy(m(x), y) for m in models]).mean().item()
        ensemble = F.nll_loss(Ensemble(models, mean)(x), y).item()
        check_bound(ensemble, members)
        gaps.append(members - ensemble)
    assert min(gaps) > 0


def test_an_ensemble_above_the_bound_stops_the_training(monkeypatch):
    with pytest.raises(ArithmeticError, match="above"):
        check_bound(1.01, 1.0)
    whole = OutputMean.log_posteriors
    monkeypatch.setattr(OutputMean, "log_posteriors", lambda self: whole(self) - 1.0)
    with pytest.raises(ArithmeticError, match="above"):
        simulated(2, options())


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"pseudo_weight": -1.0}, "pseudo_weight"), ({"pseudo_fraction": 0.0}, "above 0"),
     ({"pseudo_fraction": 1.5}, "above 0"), ({"optimizer_state": "average"}, "stay different"),
     ({"ensemble_by": "ring", "pseudo_minibatches": 0}, "say how many")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        make_strategy(options(**changes)).check(2)


def test_options_of_pseudo_labels_are_for_compression_alone():
    with pytest.raises(UserError, match="ensemble does not read"):
        make_strategy(options("ensemble", pseudo_weight=0.5))
