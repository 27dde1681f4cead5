"""What is sent as bf16 or int8: against arithmetic by hand, and against what was meant."""

import numpy as np
import pytest
import torch
from forked import together
from torch import nn

from asr_parallel.config import StrategyConfig
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.parallel.torch_comm import TorchComm
from asr_parallel.parallel.wire import BLOCK, Wire, coded_size, decode, encode, mean_of

FORMS = ["bf16", "int8"]


def vector(rank, number, size=1000):
    return torch.randn(size, generator=torch.Generator().manual_seed(100 * rank + number)) * 10.0 ** (number % 3)


def on_simulated(size, work):
    found = {}
    simulate(size, lambda comm: found.setdefault(comm.rank, work(comm)) is None)
    return [found[rank] for rank in range(size)]


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 1000])
@pytest.mark.parametrize("form", FORMS)
def test_a_code_has_the_size_that_is_told(form, size):
    assert len(encode(vector(0, 0, size), form)) == coded_size(size, form)


def test_bf16_rounds_to_eight_bits_and_int8_to_127_steps_of_each_block():
    values = torch.cat([vector(0, 1, BLOCK), 1e-3 * vector(0, 4, 100), torch.zeros(BLOCK)])
    bf16 = decode(encode(values, "bf16"), "bf16", len(values))
    assert ((bf16 - values).abs() <= values.abs() * 2.0**-8).all()
    int8 = decode(encode(values, "int8"), "int8", len(values)).numpy()
    for begin in range(0, len(values), BLOCK):  # by numpy, a block at a time
        block = values[begin : begin + BLOCK].numpy()
        scale = np.float32(np.abs(block).max() / np.float32(127))
        expected = np.rint(block / scale) * scale if scale else block
        np.testing.assert_allclose(int8[begin : begin + BLOCK], expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_sum_of_what_was_sent_is_the_sum_of_what_was_meant_up_to_the_last_loss(form):
    """The error of a sum of n means stays that of one, where rounding each for itself would add up."""

    def work(comm):
        wire = Wire(form)
        wire.start(vector(0, 0), comm)
        sent = torch.zeros(1000, dtype=torch.float64)
        for _ in range(30):
            mean = vector(comm.rank, 1) + 1e-3  # the same each time: a bias would grow
            wire.mean(comm, mean)
            sent += mean
        return sent, wire.lost

    meant = sum((vector(rank, 1) + 1e-3).double() for rank in range(3)) / 3 * 30
    found = on_simulated(3, work)
    lost_means = torch.cat([lost["wire_mean"] for _, lost in found])
    lost_own = sum(lost["wire_own"] for _, lost in found) / 3
    for sent, _ in found:
        torch.testing.assert_close(sent + lost_means + lost_own, meant, rtol=1e-6, atol=1e-3)
        assert ((sent - meant).abs().max() / vector(0, 1).abs().max()) < 0.02  # less than two steps of one code


def means(comm, form, rounds=4):
    wire = Wire(form)
    wire.start(vector(0, 0), comm)
    found, sent = [], 0
    for number in range(rounds):
        flat = vector(comm.rank, number)
        sent += wire.mean(comm, flat, (1,) if number == 3 else None)
        found.append(flat)
    return torch.cat([*found, torch.tensor([float(sent)])])


def real(place, form):
    comm = TorchComm(place, "gloo", 20.0)
    try:
        return means(comm, form)
    finally:
        comm.close()


@pytest.mark.parametrize("form", FORMS)
def test_two_simulated_workers_send_what_real_ones_do_and_all_get_the_same(form):
    simulated = on_simulated(2, lambda comm: means(comm, form))
    for one, other in zip(simulated, together(real, form), strict=True):
        assert torch.equal(one, torch.as_tensor(other))
    assert torch.equal(simulated[0][:-1], simulated[1][:-1])
    for number in range(3):
        exact = (vector(0, number) + vector(1, number)) / 2
        found = simulated[0][1000 * number : 1000 * (number + 1)]
        assert (found - exact).abs().max() < 0.04 * exact.abs().max()


@pytest.mark.parametrize(("form", "share"), [("bf16", 0.5), ("int8", 0.25 + 1 / BLOCK)])
def test_bytes_are_saved(form, share):
    def work(comm):
        wire = Wire(form)
        wire.start(torch.zeros(BLOCK * 12), comm)
        return wire.mean(comm, torch.ones(BLOCK * 12))

    fp32 = on_simulated(3, lambda comm: mean_of(comm, torch.ones(BLOCK * 12)))
    assert on_simulated(3, work) == [pytest.approx(n * share) for n in fp32]


@pytest.mark.parametrize("taken", [None, (2,), (0, 2)])
@pytest.mark.parametrize("form", ["fp32", *FORMS])
def test_what_is_not_taken_has_no_influence_even_if_it_is_no_number(form, taken):
    def work(comm):
        wire = Wire(form)
        flat = vector(comm.rank, 0) if taken is None or comm.rank in taken else torch.full((1000,), float("nan"))
        wire.start(flat, comm)
        wire.mean(comm, flat, taken)
        return flat

    ranks = taken or range(3)
    exact = sum(vector(rank, 0) for rank in ranks) / len(ranks)
    close = {"fp32": 1e-6, "bf16": 0.02, "int8": 0.03}[form]
    for found in on_simulated(3, work):
        assert (found - exact).abs().max() < close
        assert taken != (2,) or form != "fp32" or torch.equal(found, exact)


@pytest.mark.parametrize("form", FORMS)
def test_who_is_left_out_has_nothing_to_make_up_for(form):
    def work(comm):
        wire = Wire(form)
        wire.start(vector(0, 0), comm)
        found = []
        for taken in (None, (1,)):
            wire.mean(comm, vector(comm.rank, 0), taken)
            found.append(bool(wire.lost["wire_own"].any()))
        return found

    assert on_simulated(2, work) == [[True, False], [True, True]]


@pytest.mark.parametrize("form", ["fp32", *FORMS])
def test_one_worker_keeps_its_vector(form):
    wire, flat = Wire(form), vector(0, 0)
    wire.start(flat, SoloComm())
    assert wire.mean(SoloComm(), flat) == 0
    assert torch.equal(flat, vector(0, 0))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_travel_so_too(form):
    """The mean gradients of 20 minibatches add up to what fp32 gives, and continue from a state to the bit."""

    def work(comm, cut=False):
        strategy = make_strategy(StrategyConfig("gradient_average", wire=form))
        strategy.start(nn.Linear(30, 20), comm)
        total = torch.zeros(620)
        for number in range(20):
            flat = vector(comm.rank, 3 * (number % 2), 620)
            strategy.gradient(flat)
            total += flat
            if cut and number == 7:
                kept = {name: value.clone() for name, value in strategy.state().items()}
                strategy = make_strategy(StrategyConfig("gradient_average", wire=form))
                strategy.start(nn.Linear(30, 20), comm)
                strategy.restore(kept)
        return total

    exact = sum(vector(rank, number, 620) for rank in range(2) for number in (0, 3)) * 10 / 2
    found = on_simulated(2, work)
    assert torch.equal(found[0], found[1])
    assert (found[0] - exact).abs().max() < 0.04 * vector(0, 0, 620).abs().max()
    assert torch.equal(on_simulated(2, lambda comm: work(comm, cut=True))[0], found[0])
