"""Independent subnets: what is dealt, what travels, and what a round of training does to the whole network."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from forked import together
from torch import nn

from asr_parallel.config import ModelConfig, OptimConfig, StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.model import make_model, num_parameters
from asr_parallel.optim.flat import flatten
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.parallel import subnets
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.parallel.torch_comm import TorchComm
from asr_parallel.train import statistics
from asr_parallel.train.loop import settle

INPUTS, PDFS, LR, STEPS, ROUNDS = 5, 4, 0.2, 3, 4
PAPER = ModelConfig(3, 12, "relu", context=0, batch_norm=True, bias=False, output_norm=True)
SIGMOID = ModelConfig(2, 11, "sigmoid", "nnet1", context=0)
PNORM = ModelConfig(2, 10, "pnorm", context=0, pnorm_group=3, batch_norm=True)
SERVERS = ("central", "partitioned")
both = pytest.mark.parametrize("servers", SERVERS)


def network(config, seed=0):
    return make_model(config, INPUTS, PDFS, seed)


def minibatch(rank, step):
    g = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(8, INPUTS, generator=g), torch.randint(PDFS, (8,), generator=g)


def simulated(size, function, *arguments):
    """What ``function(comm, *arguments)`` gives on each rank."""
    found = {}

    def work(comm):
        found[comm.rank] = function(comm, *arguments)
        return 0

    assert simulate(size, work) == 0
    return [found[rank] for rank in range(size)]


def begin(comm, config, **options):
    strategy = make_strategy(StrategyConfig("independent_subnets", **options))
    strategy.check(comm.size)
    return strategy, strategy.start(network(config), comm)


# dealing


@pytest.mark.parametrize(("width", "workers"), [(12, 3), (11, 2), (13, 3), (16, 4), (7, 1)])
@pytest.mark.parametrize("layout", [subnets.central, subnets.partitioned])
def test_every_unit_is_dealt_to_exactly_one_worker(layout, width, workers):
    shards = layout(width, workers)
    assert sorted(u for shard in shards for u in range(*shard)) == list(range(width))
    for number in range(5):
        hands = subnets.deal(shards, 2, workers, seed=3, number=number)
        for layer in range(2):
            each = [hand[layer].tolist() for hand in hands]
            assert sorted(itertools.chain(*each)) == list(range(width))
            assert all(units == sorted(units) for units in each)
            assert [len(units) for units in each] == [subnets.width_of(width, k, workers) for k in range(workers)]
            for begin_, end in shards:  # strata
                counts = [sum(begin_ <= u < end for u in units) for units in each]
                assert max(counts) - min(counts) <= 1


def test_a_deal_depends_on_seed_round_and_layer_alone_and_is_uniform():
    shards = subnets.central(8, 2)

    def dealt(seed, number):
        return [units.tolist() for units in subnets.deal(shards, 2, 2, seed, number)[0]]

    assert dealt(0, 1) == dealt(0, 1)
    hands = [dealt(0, 1), dealt(0, 2), dealt(1, 1)]
    assert len({str(layers) for layers in hands} | {str(hands[0][::-1])}) == 4
    counts = np.bincount([u for n in range(2000) for u in dealt(0, n)[1]], minlength=8)
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(2000 * 0.25)


# what travels


def several_rounds(comm, config, servers):
    """The whole network before and after rounds without training."""
    strategy, _ = begin(comm, config, servers=servers)
    found = [flatten(strategy.consensus()).clone()]
    for _ in range(3):
        strategy.exchange(comm)
        found.append(flatten(strategy.consensus()).clone())
    return found


@both
@pytest.mark.parametrize("config", [PAPER, SIGMOID, PNORM], ids=["paper", "sigmoid", "pnorm"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_gathering_what_was_scattered_is_the_identity(config, servers, size):
    for found in simulated(size, several_rounds, config, servers):
        assert all(torch.equal(each, flatten(network(config))) for each in found)


def one_round(comm, config, servers):
    """Parameters of the subnet, then the whole network once every worker has put rank + 1 everywhere."""
    strategy, subnet = begin(comm, config, servers=servers)
    strategy.exchange(comm)
    before = {name: p.detach().clone() for name, p in subnet.named_parameters()}
    flatten(subnet).fill_(comm.rank + 1.0)
    strategy.exchange(comm)
    return before, {name: p.detach().clone() for name, p in strategy.consensus().named_parameters()}


def oracle_axes(name, layers):
    """Which hidden layer each axis of a parameter runs over, read off the network's drawing."""
    kind, layer, what = name.split(".")
    above, below = int(layer), int(layer) - 1
    above = above if above < layers else None
    return [above] if kind == "norms" or what == "bias" else [above, below if below >= 0 else None]


@both
@pytest.mark.parametrize("config", [PAPER, SIGMOID], ids=["paper", "sigmoid"])
@pytest.mark.parametrize("size", [2, 3])
def test_each_weight_is_trained_by_the_worker_that_has_all_of_its_units(config, servers, size):
    """Weight by weight: a worker writes where all hidden units at its ends are in the worker's hand."""
    layout = {"central": subnets.central, "partitioned": subnets.partitioned}[servers]
    hands = subnets.deal(layout(config.width, size), config.layers, size, 0, 1)
    whose = [{u: k for k, hand in enumerate(hands) for u in hand[layer].tolist()} for layer in range(config.layers)]
    initial = dict(network(config).named_parameters())
    for rank, (before, after) in enumerate(simulated(size, one_round, config, servers)):
        for name, values in after.items():
            axes, mine = oracle_axes(name, config.layers), []
            for place in itertools.product(*map(range, values.shape)):
                ranks = {whose[layer][i] for layer, i in zip(axes, place) if layer is not None}
                if not ranks:  # the output's bias: the mean of 1, 2, ...
                    assert values[place] == (size + 1) / 2
                elif len(ranks) == 1:
                    assert values[place] == ranks.pop() + 1
                else:
                    assert values[place] == initial[name][place]
                if ranks <= {rank} and all(whose[a][i] == rank for a, i in zip(axes, place) if a is not None):
                    mine.append(initial[name][place])
            assert before[name].flatten().tolist() == mine


def formula(config, workers):
    """Section 3.4's count of a worker's weights; and the biases, which the paper's network has not."""
    inner, edges = (config.layers - 1) * config.width**2, (INPUTS + PDFS) * config.width
    norms = 2 * config.layers * config.width if config.batch_norm else 0
    biases = config.layers * config.width if config.bias else 0
    return inner / workers**2 + (edges + norms + biases) / workers


def holdings(comm, config, servers):
    """Parameters of the subnet; bytes of all tensors that the strategy holds, between exchanges; bytes sent."""
    strategy, subnet = begin(comm, config, servers=servers)
    report = strategy.exchange(comm)
    assert (
        num_parameters(strategy.consensus()) == strategy.values.untyped_storage().nbytes() / 4
    )  # all have it for once
    strategy.loss(torch.zeros(1, PDFS), SimpleNamespace(y=torch.zeros(1, dtype=torch.int64)))  # training goes on
    tensors = [*subnet.parameters(), *strategy.whole.parameters(), *(kept for kept, _ in strategy.kept)]
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return num_parameters(subnet), sum(held.values()), report.bytes


@pytest.mark.parametrize("config", [PAPER, SIGMOID], ids=["paper", "sigmoid"])
@pytest.mark.parametrize("size", [2, 3])
def test_parameters_memory_and_bytes_of_a_worker_are_those_of_the_formula(config, size):
    config = dataclasses.replace(config, width=36)  # a multiple of K^2, so that all hands and strata are even
    one_way, bias = formula(config, size), PDFS if config.bias else 0
    whole = num_parameters(network(config)) - bias
    ring = 2 * 4 * bias * (size - 1) // size
    for rank, (parameters, held, sent) in enumerate(simulated(size, holdings, config, "central")):
        assert parameters == one_way + bias
        assert held == 4 * (one_way + bias + (whole if rank == 0 else 0))  # a worker holds its subnet, and that is all
        assert sent == 4 * one_way * (size - 1 if rank == 0 else 1) + ring
    for parameters, held, sent in simulated(size, holdings, config, "partitioned"):
        assert parameters == one_way + bias
        assert held == pytest.approx(4 * (one_way + bias + whole / size))
        assert sent == pytest.approx(2 * 4 * one_way * (size - 1) / size + ring)


# training


def trained(comm, config, options=None):
    """The whole network after some rounds of plain SGD."""
    strategy, subnet = begin(comm, config, **(options or {}))
    optimizer = make_optimizer(OptimConfig("sgd"), subnet)
    for step in range(STEPS * ROUNDS):
        x, y = minibatch(comm.rank, step)
        optimizer.step(strategy.loss(subnet(x), SimpleNamespace(y=y)), LR)
        if step % STEPS == STEPS - 1:
            strategy.exchange(comm)
    return flatten(strategy.consensus()).clone()


def masked(model, hand, gain, x):
    """The whole network with all units but those of ``hand`` silenced, and those made louder."""
    *hidden, output = model.layers
    for layer, (linear, units) in enumerate(zip(hidden, hand)):
        x = linear(x)
        if len(model.norms):
            norm = model.norms[layer]
            x = nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True)
        audible = torch.zeros(model.config.width).index_fill(0, units, gain)
        x = (torch.sigmoid(x) if model.config.activation == "sigmoid" else torch.relu(x)) * audible
    x = output(x)
    return nn.functional.batch_norm(x, None, None, training=True) if model.config.output_norm else x


def oracle(config, size, servers, scaled):
    """Workers train the whole network behind masks; changes add up, but for the output's bias, where they average."""
    layout = {"central": subnets.central, "partitioned": subnets.partitioned}[servers]
    state = network(config).state_dict()
    for number in range(ROUNDS):
        hands, changes = subnets.deal(layout(config.width, size), config.layers, size, 0, number), []
        for rank, hand in enumerate(hands):
            model = network(config)
            model.load_state_dict(state)
            optimizer = torch.optim.SGD(model.parameters(), LR)
            for step in range(number * STEPS, (number + 1) * STEPS):
                x, y = minibatch(rank, step)
                optimizer.zero_grad()
                logits = masked(model, hand, config.width / len(hand[0]) if scaled else 1.0, x)
                nn.functional.cross_entropy(logits, y).backward()
                optimizer.step()
            changes.append({name: p.detach() - state[name] for name, p in model.named_parameters()})
        for name in changes[0]:
            share = size if name == f"layers.{config.layers}.bias" else 1
            state[name] = state[name] + sum(change[name] for change in changes) / share
    model.load_state_dict(state)
    return flatten(model)


@both
@pytest.mark.parametrize("scale", ["fan_in", "none"])
@pytest.mark.parametrize(("config", "size"), [(PAPER, 3), (SIGMOID, 2)])
def test_training_subnets_is_training_the_whole_network_behind_masks(config, size, servers, scale):
    expected = oracle(config, size, servers, scale == "fan_in")
    for found in simulated(size, trained, config, {"servers": servers, "subnet_scale": scale}):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=5e-5)  # batch norm of 8 rows makes rounding large


def test_the_scale_of_hidden_outputs_is_nothing_to_the_papers_network():
    (x, _), model = minibatch(0, 0), network(dataclasses.replace(PAPER, width=48))
    plain = model(x)
    model.gain = 3.0
    torch.testing.assert_close(model(x), plain, rtol=1e-3, atol=1e-3)  # but for batch norm's epsilon
    one, other = (simulated(3, trained, SIGMOID, {"subnet_scale": scale})[0] for scale in ("fan_in", "none"))
    assert not torch.allclose(one, other, atol=1e-2)


def test_a_scaled_subnet_gives_the_upper_layer_on_average_what_all_units_give():
    """Mean over all hands of 2 of 4 units: exactly the whole network, where one linear layer follows the hidden one."""
    config = dataclasses.replace(SIGMOID, layers=1, width=4)
    whole, (x, _), found = network(config), minibatch(0, 0), []
    for units in itertools.combinations(range(4), 2):
        subnet = network(dataclasses.replace(config, width=2))
        subnet.gain = 2.0
        with torch.no_grad():
            subnet.layers[0].weight.copy_(whole.layers[0].weight[list(units)])
            subnet.layers[0].bias.copy_(whole.layers[0].bias[list(units)])
            subnet.layers[1].weight.copy_(whole.layers[1].weight[:, list(units)])
            subnet.layers[1].bias.copy_(whole.layers[1].bias)
        found.append(subnet(x))
    torch.testing.assert_close(sum(found) / len(found), whole(x))


def real(place, config, options):
    comm = TorchComm(place, "gloo", 20.0)
    try:
        return trained(comm, config, options)
    finally:
        comm.close()


def test_three_simulated_workers_are_three_real_ones():
    """Two are to the bit: ``test_subnet_training.py``."""
    options = {"servers": "partitioned"}
    for one, other in zip(
        simulated(3, trained, SIGMOID, options), together(real, SIGMOID, options, size=3), strict=True
    ):
        assert not isinstance(other, str), other
        torch.testing.assert_close(one, torch.as_tensor(other), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adamw", "ngsgd"])
@pytest.mark.parametrize("size", [1, 2])
def test_nothing_of_the_optimizer_outlives_a_subnet(name, size):
    """After an exchange it steps as a new one does; but one worker, whose units stay, goes on."""
    options = {"momentum": 0.9} if name == "sgd" else {}

    def stepped(comm, earlier, values=None):
        """Parameters before and after a step; ``earlier`` there was another step and an exchange."""
        strategy, subnet = begin(comm, PAPER)
        optimizer = make_optimizer(OptimConfig(name, lr=0.01, **options), subnet)
        if earlier:
            x, y = minibatch(comm.rank, 0)
            optimizer.step(nn.functional.cross_entropy(subnet(x), y), 0.01)
            settle(SimpleNamespace(strategy=strategy, optimizer=optimizer, comm=comm))
        else:
            flatten(subnet).copy_(values)
        before = flatten(subnet).clone()
        x, y = minibatch(comm.rank, 1)
        optimizer.step(nn.functional.cross_entropy(subnet(x), y), 0.01)
        return before, flatten(subnet).clone()

    used = simulated(size, lambda comm: stepped(comm, True))
    new = simulated(size, lambda comm: stepped(comm, False, used[comm.rank][0]))
    for (_, one), (_, other) in zip(used, new, strict=True):
        assert torch.equal(one, other) == (size > 1)


def test_running_statistics_are_those_of_the_whole_network_on_all_workers_minibatches():
    """By hand: normalise the first layer minibatch by minibatch, and see what the second meets."""

    def estimated(comm):
        strategy, subnet = begin(comm, PAPER)
        batches = (SimpleNamespace(x=minibatch(comm.rank, step)[0]) for step in range(50))
        statistics.estimate(subnet, strategy, comm, batches)
        whole = strategy.consensus()
        assert whole.training
        return {name: value.clone() for name, value in whole.named_buffers()}

    model, seen = network(PAPER), []
    for rank, step in itertools.product(range(2), range(statistics.MINIBATCHES)):
        x, row = minibatch(rank, step)[0].double(), []
        for linear in model.layers:
            x = x @ linear.weight.detach().double().T
            row.append((x.mean(0), x.var(0)))
            x = torch.relu((x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt())
        seen.append(row)
    for found in simulated(2, estimated):
        for layer in range(4):
            name = f"norms.{layer}" if layer < 3 else "output_norm"
            for i, what in enumerate(("running_mean", "running_var")):
                expected = sum(row[layer][i] for row in seen) / len(seen)
                torch.testing.assert_close(found[f"{name}.{what}"].double(), expected, rtol=1e-4, atol=1e-5)


def test_the_papers_network_is_that_of_plain_numpy_and_has_no_biases():
    model, (x, _) = network(PAPER), minibatch(0, 0)
    assert num_parameters(model) == 12 * INPUTS + 2 * 12 * 12 + 12 * PDFS + 3 * 2 * 12
    h = x.double().numpy()
    for linear in model.layers:
        h = h @ linear.weight.detach().double().numpy().T
        h = (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5)
        h = h if linear is model.layers[-1] else np.maximum(h, 0)
    np.testing.assert_allclose(model(x).detach().numpy(), h, rtol=1e-3, atol=1e-4)


# what makes no sense


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [(dataclasses.replace(PAPER, width=2), {}, "need at least 3 hidden units"),
     (dataclasses.replace(PAPER, width=8), {"servers": "partitioned"}, "need at least 9 hidden units"),
     (PAPER, {"optimizer_state": "average"}, "begin anew with each subnet")],
)  # fmt: skip
def test_what_cannot_be_dealt_is_refused(config, options, said):
    with pytest.raises(UserError, match=said):
        simulated(3, lambda comm: begin(comm, config, **options))


def test_options_of_subnets_are_of_no_use_elsewhere():
    for options in ({"servers": "partitioned"}, {"subnet_scale": "none"}):
        with pytest.raises(UserError, match="model_average does not read"):
            make_strategy(StrategyConfig("model_average", **options))
    with pytest.raises(TypeError, match="Dnn"):
        make_strategy(StrategyConfig("independent_subnets")).start(nn.Linear(2, 2), SoloComm())
