import time

import numpy as np
import pytest
import torch
from forked import together
from torch import nn

from asr_parallel.config import OptimConfig, StrategyConfig
from asr_parallel.optim.flat import flatten
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.model_average import ModelAverage
from asr_parallel.parallel.simulated import simulate
from asr_parallel.parallel.torch_comm import TorchComm


def small_net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Sigmoid(), nn.Linear(5, 4))


def minibatch(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(8, 3, generator=g), torch.randint(4, (8,), generator=g)


def steps(comm, every, data_seeds, lr=0.3, momentum=0.0, start_seed=0):
    """Parameters after one minibatch for each of ``data_seeds``, averaged after every ``every``."""
    strategy = ModelAverage(StrategyConfig("model_average", every=f"{every} minibatches", lr_scale="none"))
    model = strategy.start(small_net(start_seed), comm)
    optimizer = make_optimizer(OptimConfig("sgd", momentum=momentum), model)
    for i, seed in enumerate(data_seeds, 1):
        x, y = minibatch(seed)
        optimizer.step(nn.functional.cross_entropy(model(x), y), lr)
        if i % every == 0:
            strategy.exchange(comm)
    return flatten(model).clone()


def basics(place):
    comm = TorchComm(place, "gloo", 20.0)
    flat = torch.tensor([1.0, 2.0]) * (comm.rank + 1)
    sent = comm.all_reduce_mean(flat)
    parts = comm.gather(torch.arange(3.0 * comm.rank).reshape(-1, 3))
    shared = torch.tensor([float(comm.rank + 7)])
    comm.broadcast(shared)
    total = comm.sum(torch.tensor([comm.rank + 1], dtype=torch.int64))
    comm.meet()
    before = comm.stopping
    if comm.rank == 2:
        comm.request_stop()
    comm.meet()
    result = flat.tolist(), sent, [p.tolist() for p in parts], shared.item(), total.item(), before, comm.stopping
    comm.close()
    return result


def test_three_workers_reduce_gather_broadcast_and_agree_to_stop():
    results = together(basics, size=3)
    mean = [2.0, 4.0]  # (1 + 2 + 3) / 3 and twice that
    gathered = [[], [[0.0, 1.0, 2.0]], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]
    assert results[0] == (mean, 2 * 8 * 2 // 3, gathered, 7.0, 6, False, True)
    for other in results[1:]:
        assert other == (mean, 2 * 8 * 2 // 3, [], 7.0, 6, False, True)


def swapped(place):
    comm = TorchComm(place, "gloo", 20.0)
    found = swap_all(comm)
    comm.close()
    return found


def swap_all(comm):
    """Rank r sends to rank s a vector of r + 2 s values, all of them 10 r + s: none from 0 to itself."""
    parts = [torch.full((comm.rank + 2 * to,), 10.0 * comm.rank + to) for to in range(comm.size)]
    found = comm.swap(parts, [source + 2 * comm.rank for source in range(comm.size)])
    same = comm.all_gather(torch.tensor([comm.rank, 5]))
    return [part.tolist() for part in found], [part.tolist() for part in same]


def test_swap_delivers_to_each_what_is_meant_for_it_on_every_transport():
    by_gloo, simulated = together(swapped, size=3), {}
    simulate(3, lambda comm: simulated.setdefault(comm.rank, swap_all(comm)) and 0)
    for rank in range(3):
        expected = [[10.0 * source + rank] * (source + 2 * rank) for source in range(3)]
        assert by_gloo[rank] == simulated[rank] == (expected, [[0, 5], [1, 5], [2, 5]])


def averaged(place, every, seeds, momentum, start_seeds):
    comm = TorchComm(place, "gloo", 20.0)
    values = steps(comm, every, seeds[place.rank], momentum=momentum, start_seed=start_seeds[place.rank])
    comm.close()
    return values


def test_averaging_after_each_minibatch_is_gradient_averaging():
    seeds = [[1, 2, 3], [11, 12, 13]]
    results = together(averaged, 1, seeds, 0.0, (0, 0))
    model = small_net(0)
    for pair in zip(*seeds):  # the oracle: one model, the mean of the two gradients, by hand
        grads = []
        for seed in pair:
            x, y = minibatch(seed)
            grads.append(torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters())))
        with torch.no_grad():
            for p, a, b in zip(model.parameters(), *grads):
                p -= 0.3 * (a + b) / 2
    expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()
    assert (results[0] == results[1]).all()
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=1e-6)


def test_average_is_the_mean_of_what_workers_reach_alone():
    seeds = [[1, 2, 3], [11, 12, 13]]
    results = together(averaged, 3, seeds, 0.0, (0, 0))
    alone = [steps(SoloComm(), 3, s).numpy() for s in seeds]
    assert not np.allclose(*alone, atol=1e-3)
    assert (results[0] == (alone[0] + alone[1]) / 2).all()


def test_replicas_with_the_same_data_stay_the_run_of_one_worker():
    seeds = [[1, 2, 3, 4], [1, 2, 3, 4]]
    results = together(averaged, 2, seeds, 0.9, (0, 0))
    alone = steps(SoloComm(), 2, seeds[0], momentum=0.9).numpy()
    assert (results[0] == alone).all()
    assert (results[1] == alone).all()


def test_all_begin_with_the_parameters_of_rank_0():
    results = together(averaged, 1, [[1], [1]], 0.0, (0, 5))
    assert (results[1] == steps(SoloComm(), 1, [1], start_seed=0).numpy()).all()


def one_leaves(place):
    comm = TorchComm(place, "gloo", 2.0)
    comm.meet()
    if place.rank == 1:
        time.sleep(4)
        return "late"
    flat = torch.ones(4)
    comm.all_reduce_mean(flat)
    return "not reached"


def test_a_rank_that_does_not_come_is_named():
    zero, one = together(one_leaves)
    assert one == "late"
    assert zero.startswith("UserError: rank 0: averaging failed")
    assert "rank 1 did not come" in zero


def test_a_broken_exchange_leaves_the_weights_as_they_were():
    class Broken(SoloComm):
        def all_reduce_mean(self, flat):
            flat.fill_(float("nan"))
            raise RuntimeError("connection lost")

    strategy = ModelAverage(StrategyConfig("model_average"))
    model = strategy.start(small_net(0), Broken())
    before = flatten(model).clone()
    with pytest.raises(RuntimeError, match="connection lost"):
        strategy.exchange(Broken())
    assert torch.equal(flatten(model), before)
