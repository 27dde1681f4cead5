import copy

import pytest
import torch
from torch import nn

from asr_parallel.config import OptimConfig
from asr_parallel.optim.flat import flatten
from asr_parallel.optim.optimizer import make_optimizer


def network(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 2)).to(dtype)


def step_loss(model, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 3, generator=g).to(model[0].weight.dtype)
    return nn.functional.cross_entropy(model(x), torch.randint(2, (6,), generator=g))


ORACLES = [
    (OptimConfig("sgd"), lambda p: torch.optim.SGD(p)),
    (OptimConfig("sgd", l2=0.1), lambda p: torch.optim.SGD(p, weight_decay=0.1)),
    (OptimConfig("sgd", momentum=0.9), lambda p: torch.optim.SGD(p, momentum=0.9)),
    (OptimConfig("sgd", momentum=0.9, l2=0.1), lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=0.1)),
    (
        OptimConfig("sgd", momentum=0.8, nesterov=True, l2=0.1),
        lambda p: torch.optim.SGD(p, momentum=0.8, nesterov=True, weight_decay=0.1),
    ),
    (OptimConfig("adamw"), lambda p: torch.optim.AdamW(p, weight_decay=0.0)),
    (OptimConfig("adamw", l2=0.3), lambda p: torch.optim.AdamW(p, weight_decay=0.3)),
    (
        OptimConfig("adamw", beta1=0.7, beta2=0.9, eps=1e-3, l2=0.3),
        lambda p: torch.optim.AdamW(p, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.3),
    ),
]
NAMES = [f"{c.name}{i}" for i, (c, _) in enumerate(ORACLES)]


@pytest.mark.parametrize(("config", "make"), ORACLES, ids=NAMES)
def test_fifty_steps_are_those_of_torch(config, make):
    """In float64, with a rate that falls, and going on from a saved state in the middle."""
    ours, theirs = (network(dtype=torch.float64) for _ in range(2))
    optimizer, oracle = make_optimizer(config, ours), make(theirs.parameters())
    for step in range(50):
        if step == 23:
            state = {name: value.clone() for name, value in optimizer.state().items()}
            ours = copy.deepcopy(ours)
            optimizer = make_optimizer(config, ours)
            optimizer.restore(state)
        lr = 0.1 * 0.95**step
        optimizer.step(step_loss(ours, step), lr)
        oracle.param_groups[0]["lr"] = lr
        oracle.zero_grad()
        step_loss(theirs, step).backward()
        oracle.step()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    start = next(network(dtype=torch.float64).parameters())
    assert (next(ours.parameters()) - start).abs().max() > 0.01


@pytest.mark.parametrize("config", [c for c, _ in ORACLES], ids=NAMES)
def test_state_continues_exactly(config):
    one = network()
    optimizer = make_optimizer(config, one)
    optimizer.step(step_loss(one, 1), 0.1)
    two = copy.deepcopy(one)
    other = make_optimizer(config, two)
    other.restore({name: value.clone() for name, value in optimizer.state().items()})
    for seed in range(2, 6):
        optimizer.step(step_loss(one, seed), 0.1)
        other.step(step_loss(two, seed), 0.1)
    assert torch.equal(flatten(one), flatten(two))


@pytest.mark.parametrize("config", [c for c, _ in ORACLES], ids=NAMES)
def test_a_state_of_zeros_begins_anew(config):
    """What an exchange does that resets the optimizer's state, and a change of the number of workers."""
    used, new = network(), network()
    optimizer = make_optimizer(config, used)
    for seed in range(4):
        optimizer.step(step_loss(used, seed), 0.1)
    for value in optimizer.shared().values():
        assert value.dim() > 0
        value.zero_()
    other = make_optimizer(config, new)
    flatten(new).copy_(flatten(used))
    for seed in range(4, 8):
        optimizer.step(step_loss(used, seed), 0.1)
        other.step(step_loss(new, seed), 0.1)
    assert torch.equal(flatten(used), flatten(new))


def test_the_flat_vector_is_the_parameters():
    model = network()
    expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    values = flatten(model)
    assert torch.equal(values, expected)
    values.add_(1.0)
    assert torch.equal(torch.cat([p.detach().reshape(-1) for p in model.parameters()]), expected + 1)


def test_flat_gradients_are_those_of_the_latest_loss_alone():
    model = network()
    twin = copy.deepcopy(model)  # with torch's own layers
    optimizer = make_optimizer(OptimConfig("sgd"), model)
    optimizer.on_gradient = lambda flat: None  # somebody wants to see it
    for seed in (3, 4):
        grads = torch.autograd.grad(step_loss(twin, seed), list(twin.parameters()))
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
