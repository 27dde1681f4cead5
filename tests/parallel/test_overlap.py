"""Delayed averaging: an exchange that runs while the next minibatches train."""

import threading
import time

import pytest
import torch
from forked import together
from torch import nn

from asr_parallel.config import StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.background import in_thread
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.parallel.torch_comm import TorchComm

ROUNDS = 5


def step(rank, number, values):
    """What a worker learns between exchanges: depends on where it stands, so that staleness is seen."""
    g = torch.Generator().manual_seed(10 * rank + number)
    return -0.3 * values + torch.randn(len(values), generator=g)


def start():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def train(comm, config, cut=-1):
    """Parameters of a worker after each exchange, the last of which ends an epoch; ``cut``: go on from a copy there."""
    strategy = make_strategy(config)
    model = strategy.start(start(), comm)
    found = []
    for number in range(ROUNDS):
        values = flatten(model)
        values.add_(step(comm.rank, number, values))
        strategy.last = number == ROUNDS - 1
        strategy.exchange(comm)
        found.append(flatten(model).clone())
        if number == cut:
            kept = {name: value.clone() for name, value in strategy.state().items()}
            common = flatten(strategy.consensus()).clone()
            strategy = make_strategy(config)
            model = strategy.start(start(), comm)
            flatten(strategy.consensus()).copy_(common)
            strategy.restore(kept)
    return torch.stack(found)


def simulated(config, size=2, cut=-1):
    found = {}
    simulate(size, lambda comm: found.setdefault(comm.rank, train(comm, config, cut)) is None)
    return [found[rank] for rank in range(size)]


def by_hand(size):
    """w <- w + (mean_t - w_t) at exchange t + 1; the last exchange waits."""
    workers = [flatten(start()).clone() for _ in range(size)]
    found, pending = [], None
    for number in range(ROUNDS):
        workers = [w + step(rank, number, w) for rank, w in enumerate(workers)]
        if pending is not None:
            mean, copies = pending
            workers = [w + (mean - copy) for w, copy in zip(workers, copies)]
        pending = sum(workers) / size, workers
        if number == ROUNDS - 1:
            workers = [pending[0]] * size
        found.append(workers)
    return [torch.stack([at[rank] for at in found]) for rank in range(size)]


@pytest.mark.parametrize("size", [2, 3])
def test_delayed_averaging_follows_its_equation(size):
    for found, expected in zip(simulated(StrategyConfig("model_average", overlap=True), size), by_hand(size)):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def real(place, config):
    comm = TorchComm(place, "gloo", 20.0)
    try:
        return train(comm, config)
    finally:
        comm.close()


CONFIGS = [
    StrategyConfig("model_average", overlap=True),
    StrategyConfig("model_average", overlap=True, wire="int8"),
    StrategyConfig("block_momentum", overlap=True, wire="bf16", block_momentum=0.5, block_nesterov=True),
]


def name(config):
    return f"{config.name}-{config.wire}"


@pytest.mark.parametrize("config", CONFIGS, ids=name)
def test_real_workers_are_simulated_ones_to_the_bit_and_end_alike(config):
    found = simulated(config)
    for one, other in zip(found, together(real, config), strict=True):
        assert torch.equal(one, torch.as_tensor(other))
    assert torch.equal(found[0][-1], found[1][-1])
    assert not torch.equal(found[0][-2], found[1][-2])


@pytest.mark.parametrize("cut", [0, 2])
@pytest.mark.parametrize(
    "config",
    [*CONFIGS, StrategyConfig("model_average", wire="int8"), StrategyConfig("elastic_average", wire="bf16"),
     StrategyConfig("model_average", first="best")],
    ids=name,
)  # fmt: skip
def test_a_state_taken_while_an_exchange_is_under_way_goes_on_to_the_same_bits(config, cut):
    for one, other in zip(simulated(config), simulated(config, cut=cut)):
        assert torch.equal(one, other)


def test_overlapped_block_momentum_without_momentum_is_delayed_averaging():
    one = simulated(StrategyConfig("block_momentum", overlap=True, block_momentum=0.0))
    for a, b in zip(one, simulated(StrategyConfig("model_average", overlap=True))):
        assert torch.equal(a, b)


OPTIONS = [{"overlap": True}, {"wire": "int8"}, {"wire": "bf16", "overlap": True}, {"first": "best"}, {"max_gap": 0.1}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_worker_is_left_alone_by_every_option(options):
    plain = train(SoloComm(), StrategyConfig("single"))
    assert torch.equal(train(SoloComm(), StrategyConfig("model_average", **options)), plain)


@pytest.mark.parametrize("wire", ["bf16", "int8"])
@pytest.mark.parametrize("overlap", [False, True])
def test_replicas_with_the_same_data_stay_alike(wire, overlap):
    config, found = StrategyConfig("model_average", wire=wire, overlap=overlap), {}

    def work(comm):
        strategy = make_strategy(config)
        values = flatten(strategy.start(start(), comm))
        for number in range(ROUNDS):
            values.add_(step(0, number, values))
            strategy.last = number == ROUNDS - 1
            strategy.exchange(comm)
        found[comm.rank] = values.clone()
        return 0

    simulate(3, work)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    alone = train(SoloComm(), StrategyConfig("single"))[-1]
    torch.testing.assert_close(found[0], alone, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", ["model_average", "block_momentum"])
def test_what_is_sent_is_the_difference_to_what_all_went_on_from(name):
    """After a long way together a small difference is sent as exactly as one from the start."""
    config, found = StrategyConfig(name, wire="int8", block_momentum=0.0 if name == "block_momentum" else None), {}

    def work(comm):
        strategy = make_strategy(config)
        values = flatten(strategy.start(start(), comm))
        for number in range(8):
            values.add_(torch.arange(8.0) if number == 0 else 1e-3 * (comm.rank + 1))
            strategy.exchange(comm)
        found[comm.rank] = values - flatten(start()) - torch.arange(8.0)
        return 0

    simulate(2, work)
    torch.testing.assert_close(found[0], torch.full_like(found[0], 7 * 1.5e-3), rtol=0, atol=2e-3)


class SlowLink(SoloComm):
    """One of two workers, whose mean takes until ``arrived`` is set."""

    size = 2

    def __init__(self):
        super().__init__()
        self.arrived = threading.Event()

    def sum(self, values):
        return torch.ones_like(values)

    def all_reduce_mean(self, flat):
        assert self.arrived.wait(10)
        flat.zero_()
        return 4

    def in_background(self, work):
        return in_thread(work, self)


def test_a_worker_does_not_wait_for_a_slow_link():
    strategy, comm = make_strategy(StrategyConfig("model_average", overlap=True)), SlowLink()
    values = flatten(strategy.start(start(), comm))
    begun = values.clone()
    strategy.exchange(comm)  # comes back although nothing can arrive
    assert torch.equal(values, begun)
    values.add_(1.0)
    threading.Timer(0.2, comm.arrived.set).start()
    before = time.perf_counter()
    report = strategy.exchange(comm)
    assert time.perf_counter() - before > 0.1
    assert report.bytes == 4
    torch.testing.assert_close(values, torch.ones_like(values))


def test_what_fails_in_the_background_is_raised_at_the_next_exchange():
    class Broken(SlowLink):
        def all_reduce_mean(self, flat):
            flat.fill_(float("nan"))
            raise UserError("rank 1 did not come")

    strategy, comm = make_strategy(StrategyConfig("model_average", overlap=True)), Broken()
    values = flatten(strategy.start(start(), comm))
    begun = values.clone()
    strategy.exchange(comm)
    with pytest.raises(UserError, match="rank 1 did not come"):
        strategy.exchange(comm)
    assert torch.equal(values, begun)


def test_rings_have_neither_overlap_nor_other_wires():
    for options in ({"overlap": True}, {"wire": "int8"}):
        with pytest.raises(UserError, match=r"is for --strategy.topology all"):
            make_strategy(StrategyConfig("model_average", topology="ring", **options)).check(2)
