"""Linear layers whose gradients go straight to where they are wanted, beside torch's own."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from asr_parallel.config import ModelConfig, OptimConfig
from asr_parallel.model import make_model
from asr_parallel.optim.optimizer import make_optimizer


def network(bias=True):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7, bias), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 3, bias))


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(16, 5, generator=g), torch.randint(3, (16,), generator=g)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("watched", [True, False])  # whether the gradient is wanted, or only its effect
def test_plain_steps_are_those_of_torch(bias, watched):
    ours, theirs = network(bias), network(bias)
    optimizer = make_optimizer(OptimConfig("sgd"), ours)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.3)
    seen = []
    if watched:
        optimizer.on_gradient = lambda flat: seen.append(flat.clone())
    for seed in range(4):
        x, y = batch(seed)
        optimizer.step(F.cross_entropy(ours(x), y), 0.3)
        reference.zero_grad()
        F.cross_entropy(theirs(x), y).backward()
        reference.step()
        if watched:
            torch.testing.assert_close(seen[-1], torch.cat([p.grad.reshape(-1) for p in theirs.parameters()]))
        for p, q in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(p, q)


@pytest.mark.parametrize("name", ["sgd", "ngsgd"])
def test_a_step_at_once_is_a_step_by_way_of_the_gradient(name):
    nets = [network(), network()]
    optimizers = [make_optimizer(OptimConfig(name), net) for net in nets]
    optimizers[1].on_gradient = lambda flat: None
    for seed in range(12):
        x, y = batch(seed)
        for net, optimizer in zip(nets, optimizers):
            optimizer.step(F.cross_entropy(net(x), y), 0.1)
    for p, q in zip(*(net.parameters() for net in nets)):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


def test_a_layer_that_is_used_twice_gets_both_gradients_and_one_that_is_not_used_none():
    net = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    twin = copy.deepcopy(net)
    optimizer = make_optimizer(OptimConfig("sgd"), net)
    optimizer.on_gradient = lambda flat: None
    for seed in range(2):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
        optimizer.step(net[0](torch.tanh(net[0](x))).square().mean(), 0.0)
        grads = torch.autograd.grad(twin[0](torch.tanh(twin[0](x))).square().mean(), list(twin[0].parameters()))
        torch.testing.assert_close(optimizer.flat.grads[:20], torch.cat([g.reshape(-1) for g in grads]))
        assert not optimizer.flat.grads[20:].any()
    optimizer.on_gradient = None
    with pytest.raises(RuntimeError, match="used twice"):
        optimizer.step(net[0](torch.tanh(net[0](x))).square().mean(), 0.1)


def test_a_copy_of_the_network_has_gradients_of_its_own():
    net = network()
    optimizer = make_optimizer(OptimConfig("sgd"), net)
    twin, before = copy.deepcopy(net), optimizer.flat.values.clone()
    F.cross_entropy(twin(batch(0)[0]), batch(0)[1]).backward()
    assert twin[0].weight.grad.abs().sum() > 0
    assert torch.equal(optimizer.flat.values, before)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_chain_has_the_derivatives_that_torch_finds(activation, depth):
    """The network as one operation, beside its layers one by one; a layer that is not in use yet gets nothing."""
    model = make_model(ModelConfig(3, 6, activation, "glorot"), 5, 4, seed=0)
    model.depth = depth
    twin, inputs = copy.deepcopy(model), []
    optimizer = make_optimizer(OptimConfig("sgd"), model)
    optimizer.on_gradient = lambda flat: None
    for net in (model, twin):
        x, y = batch(1)
        inputs.append(x.requires_grad_())
        loss = F.cross_entropy(net(x), y)
        optimizer.step(loss, 0.0) if net is model else loss.backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    theirs = [torch.zeros_like(p) if p.grad is None else p.grad for p in twin.parameters()]
    torch.testing.assert_close(optimizer.flat.grads, torch.cat([g.reshape(-1) for g in theirs]))
