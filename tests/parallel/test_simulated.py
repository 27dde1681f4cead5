"""Simulated workers against real ones."""

import pytest
import torch
from forked import together

from asr_parallel.log import UserError
from asr_parallel.parallel.simulated import SimulatedComm, simulate
from asr_parallel.parallel.torch_comm import TorchComm


def everything(comm):
    """What a worker gets from all operations, several times over."""
    found = []
    g = torch.Generator().manual_seed(comm.rank)
    for _ in range(3):
        flat = torch.randn(1000, generator=g)
        found.append(torch.tensor(float(comm.all_reduce_mean(flat))))
        found.append(flat)
        found.append(comm.pass_on(flat + comm.rank, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size))
        found += comm.gather(torch.randn(comm.rank + 1, 2, generator=g))
        found.append(comm.sum(torch.arange(3) * (comm.rank + 1)))
        other = torch.randn(4, generator=g)
        comm.broadcast(other)
        found.append(other)
        comm.meet()
        found.append(torch.tensor(float(comm.stopping)))
        if comm.rank == comm.size - 1 and len(found) > 10:
            comm.request_stop()
    return torch.cat([x.double().reshape(-1) for x in found])


def real(place):
    comm = TorchComm(place, "gloo", 20.0)
    try:
        return everything(comm)
    finally:
        comm.close()


def simulated(size):
    found = {}

    def work(comm):
        found[comm.rank] = everything(comm)
        return 0

    assert simulate(size, work) == 0
    return [found[rank] for rank in range(size)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_simulated_workers_get_what_real_ones_get(size):
    for one, other in zip(simulated(size), together(real, size=size), strict=True):
        if size == 2:  # to the bit: a sum of two has one order
            assert torch.equal(one, torch.as_tensor(other))
        torch.testing.assert_close(one, torch.as_tensor(other), rtol=1e-6, atol=1e-6)


def test_one_computes_at_a_time_in_the_order_of_ranks():
    order, running = [], []

    def work(comm: SimulatedComm):
        for _ in range(4):
            running.append(comm.rank)
            assert running == [comm.rank]
            order.append(comm.rank)
            running.remove(comm.rank)
            comm.meet()
        return 143 if comm.rank == 1 else 0

    assert simulate(3, work) == 143
    assert order == [0, 1, 2] * 4


def test_the_first_failure_is_raised_and_nobody_waits_for_it():
    def work(comm):
        comm.meet()
        if comm.rank == 1:
            raise UserError("no disk")
        comm.meet()
        return 0

    with pytest.raises(UserError, match="no disk"):
        simulate(3, work)
