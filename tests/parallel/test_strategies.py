"""Each strategy on two real workers against a simulation of both in one process."""

import copy

import pytest
import torch
from forked import together
from torch import nn

from asr_parallel.config import ModelConfig, OptimConfig, StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.model import make_model
from asr_parallel.optim.flat import flatten
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.parallel.topology import TOPOLOGIES
from asr_parallel.parallel.torch_comm import TorchComm

LR, EVERY, EXCHANGES = 0.3, 3, 5


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Sigmoid(), nn.Linear(5, 4))


def minibatch(rank, step):
    g = torch.Generator().manual_seed(100 * rank + step)
    return torch.randn(8, 3, generator=g), torch.randint(4, (8,), generator=g)


def train(comm, config):
    """Parameters of the worker's own model and of the consensus, after all exchanges."""
    strategy = make_strategy(config)
    strategy.check(comm.size)
    model = strategy.start(small_net(), comm)
    optimizer = make_optimizer(OptimConfig("sgd"), model)
    optimizer.on_gradient = strategy.gradient
    for step in range(EVERY * EXCHANGES):
        x, y = minibatch(comm.rank, step)
        optimizer.step(nn.functional.cross_entropy(model(x), y), LR)
        if config.name != "gradient_average" and step % EVERY == EVERY - 1:
            strategy.exchange(comm)
    return torch.stack([flatten(model), flatten(strategy.consensus())])


def worker(place, config):
    comm = TorchComm(place, "gloo", 20.0)
    try:
        return train(comm, config)
    finally:
        comm.close()


def two(name, **options):
    """Models [2 ranks, own and consensus, parameters] that two workers come to."""
    found = together(worker, StrategyConfig(name, **options))
    assert not any(isinstance(x, str) for x in found), found
    return torch.stack([torch.as_tensor(x) for x in found])


class Locals:
    """The oracle's workers: each model in turn takes ``EVERY`` plain steps, with gradients of its own."""

    def __init__(self):
        self.models = [small_net(), small_net()]
        self.step = 0

    def run(self):
        for rank, model in enumerate(self.models):
            for step in range(self.step, self.step + EVERY):
                x, y = minibatch(rank, step)
                grads = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters()))
                with torch.no_grad():
                    for p, g in zip(model.parameters(), grads):
                        p -= LR * g
        self.step += EVERY
        return [nn.utils.parameters_to_vector(model.parameters()).detach() for model in self.models]

    def begin(self, *vectors):
        for model, vector in zip(self.models, vectors):
            nn.utils.vector_to_parameters(vector.clone(), model.parameters())


def start():
    return nn.utils.parameters_to_vector(small_net().parameters()).detach()


def test_gradient_averaging_is_one_worker_with_both_minibatches():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), LR)
    for step in range(EVERY * EXCHANGES):
        (xa, ya), (xb, yb) = minibatch(0, step), minibatch(1, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.cat([xa, xb])), torch.cat([ya, yb])).backward()
        optimizer.step()
    expected = nn.utils.parameters_to_vector(model.parameters()).detach()
    for vector in two("gradient_average").reshape(4, -1):
        torch.testing.assert_close(vector, expected, rtol=1e-5, atol=1e-6)


def test_classical_block_momentum_follows_its_equations():
    eta, zeta = 0.6, 0.9
    workers, whole, delta = Locals(), start(), torch.zeros_like(start())
    for _ in range(EXCHANGES):
        workers.begin(whole, whole)
        a, b = workers.run()
        delta = eta * delta + zeta * ((a + b) / 2 - whole)
        whole = whole + delta
    for vector in two("block_momentum", block_momentum=eta, block_lr=zeta).reshape(4, -1):
        torch.testing.assert_close(vector, whole, rtol=1e-5, atol=1e-6)


def test_nesterov_block_momentum_is_torchs_sgd_on_outer_gradients():
    """DiLoCo's outer optimizer: its parameters are the starts of the blocks."""
    eta, zeta = 0.9, 0.7
    workers, begun = Locals(), nn.Parameter(start())
    outer = torch.optim.SGD([begun], zeta, momentum=eta, nesterov=True)
    for _ in range(EXCHANGES):
        workers.begin(begun.detach(), begun.detach())
        a, b = workers.run()
        begun.grad = begun.detach() - (a + b) / 2
        outer.step()
    own = two("block_momentum", block_momentum=eta, block_lr=zeta, block_nesterov=True)
    for vector in own[:, 0]:
        torch.testing.assert_close(vector, begun.detach(), rtol=1e-5, atol=1e-6)
    ahead = eta * zeta * outer.state[begun]["momentum_buffer"].neg()  # W_s = W + eta D, D = -zeta times the buffer
    for vector in own[:, 1]:
        torch.testing.assert_close(vector, begun.detach() - ahead, rtol=1e-5, atol=1e-6)


def test_block_momentum_without_momentum_is_model_averaging():
    assert torch.equal(
        two("block_momentum", block_momentum=0.0, lr_scale="none"), two("model_average", lr_scale="none")
    )


def test_elastic_averaging_follows_its_equations():
    alpha = 0.3
    workers, centre = Locals(), start()
    a, b = centre, centre
    for _ in range(EXCHANGES):
        workers.begin(a, b)
        a, b = workers.run()
        pulls = alpha * (a - centre), alpha * (b - centre)
        a, b, centre = a - pulls[0], b - pulls[1], centre + sum(pulls)
    found = two("elastic_average", elasticity=alpha)
    for vector, expected in ((found[0, 0], a), (found[1, 0], b), (found[0, 1], centre), (found[1, 1], centre)):
        torch.testing.assert_close(vector, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(found[0, 1], found[1, 1])


class Four(SoloComm):
    """One of four workers who are all alike."""

    size = 4


def test_with_the_default_block_momentum_an_update_comes_to_k_times_itself():
    strategy = make_strategy(StrategyConfig("block_momentum"))
    values = flatten(strategy.start(small_net(), Four()))
    begun = values.clone()
    values.add_(1.0)
    for _ in range(100):
        strategy.exchange(Four())  # from the second block on nothing is learnt
    torch.testing.assert_close(flatten(strategy.consensus()), begun + 4.0)


@pytest.mark.parametrize(
    "name",
    ["gradient_average", "model_average", "block_momentum", "elastic_average", "ensemble", "independent_subnets"],
)
def test_workers_begin_with_the_model_of_rank_0(name):
    found = {}

    def work(comm):
        model = make_model(ModelConfig(2, 6, "relu", "glorot", context=0), 3, 4, seed=comm.rank)
        strategy = make_strategy(StrategyConfig(name))
        found[comm.rank] = flatten(model).clone()
        trained = strategy.start(model, comm)
        consensus = trained if name == "ensemble" else strategy.consensus()
        assert torch.equal(flatten(consensus), found[0]), f"rank {comm.rank}"
        return 0

    assert simulate(3, work) == 0
    assert not torch.equal(found[0], found[1])


def test_butterfly_of_two_is_model_averaging_and_rings_are_too():
    every = two("model_average")
    for topology in TOPOLOGIES:
        torch.testing.assert_close(two("model_average", topology=topology), every, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["gradient_average", "model_average", "block_momentum", "elastic_average"])
def test_one_worker_is_serial_training(name):
    own, consensus = train(SoloComm(), StrategyConfig(name))
    assert torch.equal(own, consensus)
    assert torch.equal(own, train(SoloComm(), StrategyConfig("single"))[0])


def test_a_state_continues_where_it_was_taken():
    """Exchanges after restoring a copy give what they would have given."""
    config = StrategyConfig("block_momentum", block_momentum=0.5, block_nesterov=True)
    one, other = make_strategy(config), make_strategy(config)
    a, b = one.start(small_net(), SoloComm()), other.start(small_net(), SoloComm())
    flatten(a).add_(1.0)
    one.exchange(SoloComm())
    flatten(other.consensus()).copy_(flatten(one.consensus()))
    other.restore(copy.deepcopy(one.state()))
    for strategy, model in ((one, a), (other, b)):
        flatten(model).mul_(0.9)
        strategy.exchange(SoloComm())
    assert torch.equal(flatten(a), flatten(b))
    assert torch.equal(flatten(one.consensus()), flatten(other.consensus()))


@pytest.mark.parametrize(
    ("name", "options", "scale"),
    [("gradient_average", {}, 4.0), ("model_average", {}, 4.0), ("model_average", {"lr_scale": "sqrt"}, 2.0),
     ("block_momentum", {}, 1.0), ("block_momentum", {"block_momentum": 0.0}, 4.0), ("elastic_average", {}, 1.0),
     ("elastic_average", {"lr_scale": "workers"}, 4.0)],
)  # fmt: skip
def test_rates_are_scaled_as_is_usual_or_as_asked_for(name, options, scale):
    strategy = make_strategy(StrategyConfig(name, **options))
    strategy.start(small_net(), Four())
    assert strategy.lr_scale == scale


@pytest.mark.parametrize(
    ("name", "options"),
    [("block_momentum", {"block_momentum": 1.0}), ("block_momentum", {"block_lr": 0.0}),
     ("elastic_average", {"elasticity": 0.6})],
)  # fmt: skip
def test_options_that_diverge_are_refused(name, options):
    with pytest.raises(UserError, match="give a number"):
        make_strategy(StrategyConfig(name, **options)).check(2)


def test_an_option_that_nobody_reads_is_refused():
    with pytest.raises(UserError, match="single does not read"):
        make_strategy(StrategyConfig("single", elasticity=0.1))
    with pytest.raises(UserError, match="elastic_average does not read"):
        make_strategy(StrategyConfig("elastic_average", topology="ring"))
