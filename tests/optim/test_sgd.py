import copy

import pytest
import torch
from torch import nn

from asr_parallel.config import OptimConfig
from asr_parallel.optim.flat import flatten
from asr_parallel.optim.optimizer import make_optimizer


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 2))


def step_loss(model, seed):
    g = torch.Generator().manual_seed(seed)
    return nn.functional.cross_entropy(model(torch.randn(6, 3, generator=g)), torch.randint(2, (6,), generator=g))


@pytest.mark.parametrize(("momentum", "l2"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)])
def test_steps_are_those_of_torch(momentum, l2):
    ours, theirs = network(), network()
    optimizer = make_optimizer(OptimConfig("sgd", momentum=momentum, l2=l2), ours)
    oracle = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=momentum, weight_decay=l2)
    for seed in range(5):
        optimizer.step(step_loss(ours, seed), lr=0.1)
        oracle.zero_grad()
        step_loss(theirs, seed).backward()
        oracle.step()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
    assert not torch.equal(next(ours.parameters()), next(network().parameters()))


def test_state_continues_exactly():
    one = network()
    optimizer = make_optimizer(OptimConfig("sgd", momentum=0.9), one)
    optimizer.step(step_loss(one, 1), 0.1)
    two = copy.deepcopy(one)
    other = make_optimizer(OptimConfig("sgd", momentum=0.9), two)
    other.restore({name: value.clone() for name, value in optimizer.state().items()})
    optimizer.step(step_loss(one, 2), 0.1)
    other.step(step_loss(two, 2), 0.1)
    assert torch.equal(flatten(one), flatten(two))


def test_the_flat_vector_is_the_parameters():
    model = network()
    expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    values = flatten(model)
    assert torch.equal(values, expected)
    values.add_(1.0)
    assert torch.equal(torch.cat([p.detach().reshape(-1) for p in model.parameters()]), expected + 1)


def test_flat_gradients_are_those_of_the_latest_loss_alone():
    model = network()
    optimizer = make_optimizer(OptimConfig("sgd"), model)
    for seed in (3, 4):
        grads = torch.autograd.grad(step_loss(model, seed), list(model.parameters()))
        optimizer.step(step_loss(model, seed), lr=0.0)
        assert torch.equal(optimizer.flat.grads, torch.cat([g.reshape(-1) for g in grads]))


def test_a_parameter_that_the_loss_does_not_use_stays():
    model = network()
    optimizer = make_optimizer(OptimConfig("sgd"), model)
    before = flatten(model).clone()
    optimizer.step(model[0](torch.ones(2, 3)).square().mean(), lr=0.1)
    after = flatten(model)
    assert torch.equal(after[28:], before[28:])
    assert not torch.equal(after[:28], before[:28])


def test_flattening_again_changes_nothing_and_a_copy_is_apart():
    model = network()
    values = flatten(model)
    assert flatten(model).data_ptr() == values.data_ptr()
    other = copy.deepcopy(model)
    flatten(other).zero_()
    assert values.abs().sum() > 0


def test_mixed_types_are_refused():
    model = network()
    model[0].double()
    with pytest.raises(ValueError, match="one type"):
        flatten(model)
