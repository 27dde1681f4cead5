"""Rounds of exchanges as permutations; four real workers against a simulation."""

import numpy as np
import pytest
import torch
from forked import together

from asr_parallel.config import StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.parallel.topology import TOPOLOGIES, butterfly, hopping_ring
from asr_parallel.parallel.torch_comm import TorchComm

SIZES = {"ring": range(1, 9), "hopping_ring": range(1, 9), "butterfly": (1, 2, 4, 8, 16)}
CASES = [(name, size) for name, sizes in SIZES.items() for size in sizes]


def one_round(values, topology, number):
    """``values`` [K, ...] after everyone took the mean of its own and what it received."""
    sources = [TOPOLOGIES[topology](number, rank, len(values))[1] for rank in range(len(values))]
    return (values + values[sources]) / 2


@pytest.mark.parametrize(("name", "size"), CASES)
def test_what_one_sends_the_other_receives(name, size):
    for number in range(2 * size):
        for rank in range(size):
            to, source = TOPOLOGIES[name](number, rank, size)
            assert TOPOLOGIES[name](number, to, size)[1] == rank
            assert TOPOLOGIES[name](number, source, size)[0] == rank
            assert size == 1 or rank not in (to, source)


@pytest.mark.parametrize(("name", "size"), CASES)
def test_the_mean_stays_and_workers_draw_together(name, size):
    values = np.random.default_rng(size).normal(size=(size, 5))
    mean, spread = values.mean(0), values.std(0).sum()
    for number in range(6 * size):
        values = one_round(values, name, number)
        assert values.mean(0) == pytest.approx(mean)
        assert values.std(0).sum() <= spread + 1e-12
        spread = values.std(0).sum()
    assert spread < 0.1


@pytest.mark.parametrize("size", SIZES["butterfly"])
def test_a_butterfly_is_the_exact_mean_after_log2_rounds(size):
    values = np.random.default_rng(1).integers(-8, 8, (size, 5)).astype(float)  # halves of these are exact
    mean = values.mean(0)
    for number in range(size.bit_length() - 1):
        values = one_round(values, "butterfly", number)
    assert (values == mean).all()


def test_a_hopping_ring_reaches_everyone():
    assert {hopping_ring(number, 2, 6)[0] for number in range(5)} == {0, 1, 3, 4, 5}


def test_a_butterfly_refuses_other_numbers_of_workers():
    with pytest.raises(UserError, match="2, 4, 8"):
        butterfly(0, 0, 6)
    with pytest.raises(UserError, match="2, 4, 8"):
        make_strategy(StrategyConfig("model_average", topology="butterfly")).check(3)


def worker(place, topology, rounds):
    comm = TorchComm(place, "gloo", 20.0)
    strategy = make_strategy(StrategyConfig("model_average", topology=topology))
    model = strategy.start(torch.nn.Linear(3, 1), comm)
    flatten(model).copy_(torch.arange(4.0) * (comm.rank + 1) ** 2)
    for _ in range(rounds):
        strategy.exchange(comm)
    found = flatten(model).clone(), strategy.exchange(comm).bytes
    strategy.last = True
    strategy.exchange(comm)
    comm.close()
    return [found[0].tolist(), found[1], flatten(model).tolist()]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_four_workers_do_the_rounds(topology):
    values = np.arange(4.0) * (np.arange(4)[:, None] + 1) ** 2
    mean = values.mean(0)
    for number in range(3):
        values = one_round(values, topology, number)
    for rank, (own, sent, last) in enumerate(together(worker, topology, 3, size=4)):
        assert own == pytest.approx(values[rank])
        assert sent == 4 * 4  # one vector
        assert last == pytest.approx(mean)  # an epoch ends with the mean of all
