"""Clipping, decay and max-norm against a few lines of numpy, around every optimizer."""

import numpy as np
import pytest
import torch
from torch import nn

from asr_parallel.config import OptimConfig
from asr_parallel.optim.ngsgd import NgOptions
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.optim.regularisation import Regularisation


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double()


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(8, 4, generator=g, dtype=torch.float64), torch.randint(3, (8,), generator=g)


def values(net):
    return [p.detach().numpy().copy() for p in net.parameters()]


def gradients(weights, seed):
    """Of the mean cross-entropy by hand: [dW1, db1, dW2, db2]."""
    w1, b1, w2, b2 = weights
    x, y = (t.numpy() for t in batch(seed))
    h = np.maximum(x @ w1.T + b1, 0)
    z = h @ w2.T + b2
    d = np.exp(z - z.max(1, keepdims=True))
    d /= d.sum(1, keepdims=True)
    d[range(len(y)), y] -= 1
    d /= len(y)
    below = (d @ w2) * (h > 0)
    return [below.T @ x, below.sum(0), d.T @ h, d.sum(0)]


class Numpy:
    """What the optimizers say they do."""

    def __init__(self, c, weights):
        self.c, self.w, self.t = c, weights, 0
        self.m, self.v = ([np.zeros_like(w) for w in weights] for _ in range(2))

    def step(self, g, lr):
        c = self.c
        self.t += 1
        norm = np.sqrt(sum((x**2).sum() for x in g))
        if c.clip and norm > c.clip:
            g = [x * c.clip / norm for x in g]
        decay = [c.l1 * np.sign(w) + c.l2 * w for w in self.w]
        if c.name == "sgd":
            g = [x + y for x, y in zip(g, decay)]
            self.m = [c.momentum * m + x for m, x in zip(self.m, g)]
            move = [x + c.momentum * m if c.nesterov else m for m, x in zip(self.m, g)]
        else:
            self.m = [c.beta1 * m + (1 - c.beta1) * x for m, x in zip(self.m, g)]
            self.v = [c.beta2 * v + (1 - c.beta2) * x * x for v, x in zip(self.v, g)]
            corrected = ((m / (1 - c.beta1**self.t), v / (1 - c.beta2**self.t)) for m, v in zip(self.m, self.v))
            move = [m / (np.sqrt(v) + c.eps) + y for (m, v), y in zip(corrected, decay)]
        self.w = [w - lr * x for w, x in zip(self.w, move)]
        if c.max_norm:
            for w in (w for w in self.w if w.ndim == 2):
                for row in w:
                    row *= min(1, c.max_norm / np.linalg.norm(row))


PLAIN = [OptimConfig("sgd"), OptimConfig("sgd", momentum=0.9, nesterov=True), OptimConfig("adamw", lr=0.001)]
PARTS = [
    {"l1": 0.05},
    {"l2": 0.1},
    {"clip": 0.3},
    {"max_norm": 0.5},
    {"l1": 0.02, "l2": 0.1, "clip": 0.3, "max_norm": 0.5},
]


@pytest.mark.parametrize("parts", PARTS, ids=lambda p: "_".join(p))
@pytest.mark.parametrize("plain", PLAIN, ids=["sgd", "nesterov", "adamw"])
def test_fifty_steps_are_those_of_numpy(plain, parts):
    config = OptimConfig(**(vars(plain) | parts))
    net, without = network(), network()
    optimizer, oracle, bare = make_optimizer(config, net), Numpy(config, values(net)), make_optimizer(plain, without)
    for step in range(50):
        x, y = batch(step)
        optimizer.step(nn.functional.cross_entropy(net(x), y), 0.05)
        bare.step(nn.functional.cross_entropy(without(x), y), 0.05)
        oracle.step(gradients(oracle.w, step), 0.05)
    for ours, theirs in zip(values(net), oracle.w):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(values(net), values(without)))


def test_natural_gradient_with_decay_and_max_norm():
    """Decay is added to the preconditioned gradient; a step with it is one without it and the decay of before."""
    base = OptimConfig("ngsgd", rank_in=2, rank_out=2)
    config = OptimConfig(**(vars(base) | {"l1": 0.01, "l2": 0.1, "max_norm": 0.7}))
    net, without = network().float(), network().float()
    optimizer, bare = make_optimizer(config, net), make_optimizer(base, without)
    x, y = (t.float() if t.is_floating_point() else t for t in batch(0))
    expected = [w - 0.5 * (0.1 * w + 0.01 * np.sign(w)) for w in values(net)]
    start = values(net)
    optimizer.step(nn.functional.cross_entropy(net(x), y), 0.5)
    bare.step(nn.functional.cross_entropy(without(x), y), 0.5)
    expected = [e + (b - s) for e, b, s in zip(expected, values(without), start)]
    for w in (w for w in expected if w.ndim == 2):
        w *= np.minimum(1, 0.7 / np.linalg.norm(w, axis=1, keepdims=True))
    for ours, theirs in zip(values(net), expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert NgOptions().variant == optimizer.options.variant


def test_clipping_shows_what_is_not_a_number_and_leaves_zeros():
    clip = Regularisation(clip=1.0)
    for given, expected in (([0.0, 0.0], [0.0, 0.0]), ([3.0, 4.0], [0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4])):
        grads = torch.tensor(given)
        clip.clip_gradient(grads)
        assert grads.tolist() == pytest.approx(expected)
    for bad in (float("nan"), float("inf")):
        grads = torch.tensor([bad, 1.0])
        clip.clip_gradient(grads)
        assert grads.isnan().any()


def test_max_norm_leaves_short_rows_zero_rows_and_biases():
    weight, bias = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), torch.tensor([9.0])
    Regularisation(max_norm=2.5).shorten_rows([weight, bias])
    torch.testing.assert_close(weight, torch.tensor([[1.5, 2.0], [0.3, 0.4], [0.0, 0.0]]))
    assert bias.tolist() == [9.0]
