"""RBMs against enumeration, closed forms and hand-computed numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from asr_parallel.log import UserError
from asr_parallel.pretrain.partition import log_partition
from asr_parallel.pretrain.rbm import ContrastiveDivergence, Rbm, RbmOptions, Visible

PLAIN = RbmOptions(lr=1.0, l2=0.0, momentum_first=0.0, momentum_last=0.0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_rbm(visible: Visible = "bernoulli", v: int = 5, h: int = 4, scale: float = 0.5, seed: int = 0) -> Rbm:
    rbm = Rbm(visible, v, h)
    rbm.flat.normal_(0.0, scale, generator=generator(seed))
    return rbm


def binary(n: int) -> Tensor:
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=n)))


def joint(rbm: Rbm) -> np.ndarray:
    """p(v, h) [2^V, 2^H] of a binary RBM and, by name, nothing else: straight from the energy."""
    v, h = binary(rbm.num_visible).double().numpy(), binary(rbm.num_hidden).double().numpy()
    w, b, c = (t.double().numpy() for t in (rbm.weight, rbm.visible_bias, rbm.hidden_bias))
    return np.exp(v @ b[:, None] + c @ h.T + v @ w.T @ h.T)


def test_conditionals_and_free_energy_by_enumeration() -> None:
    rbm = random_rbm()
    p = joint(rbm)
    v, h = binary(5), binary(4)
    np.testing.assert_allclose(rbm.hidden_probs(v), p @ h.numpy() / p.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(rbm.visible_means(h), p.T @ v.numpy() / p.sum(0)[:, None], rtol=1e-5)
    np.testing.assert_allclose(-rbm.free_energy(v), np.log(p.sum(1)), rtol=1e-5, atol=1e-5)


def test_gaussian_units_by_numerical_integration() -> None:
    rbm = random_rbm("gaussian", v=1, h=3, scale=1.0)
    grid = np.linspace(-12, 12, 20001)
    w, b, c = (t.double().numpy() for t in (rbm.weight, rbm.visible_bias, rbm.hidden_bias))
    h = binary(3).double().numpy()
    density = np.exp(-((grid[:, None] - b) ** 2) / 2 + h @ c + grid[:, None] * (h @ w)[:, 0])  # [grid, 2^H]
    mean = (density * grid[:, None]).sum(0) / density.sum(0)
    np.testing.assert_allclose(rbm.visible_means(torch.tensor(h, dtype=torch.float32))[:, 0], mean, atol=1e-5)
    points = torch.tensor(grid[::1000], dtype=torch.float32)[:, None]
    np.testing.assert_allclose(-rbm.free_energy(points), np.log(density[::1000].sum(1)), rtol=1e-4, atol=1e-4)
    posterior = density @ h / density.sum(1, keepdims=True)
    np.testing.assert_allclose(rbm.hidden_probs(points), posterior[::1000], atol=1e-5)
    z = density.sum() * (grid[1] - grid[0])
    estimate, error = log_partition(rbm, generator(), chains=2000, temperatures=50)
    assert abs(estimate - math.log(z)) < max(4 * error, 0.01)
    assert error < 0.05


@pytest.mark.parametrize("scale", [0.5, 1.5])
def test_partition_function_by_enumeration(scale: float) -> None:
    rbm = random_rbm(v=8, h=6, scale=scale)
    estimate, error = log_partition(rbm, generator(), chains=1000, temperatures=200)
    assert error < 0.05
    assert abs(estimate - math.log(joint(rbm).sum())) < max(4 * error, 0.005)


def update_of(rbm: Rbm, v: Tensor, options: RbmOptions, seed: int = 1) -> Tensor:
    before = rbm.flat.clone()
    ContrastiveDivergence(rbm, options, generator(seed)).step(v)
    change = rbm.flat - before
    rbm.flat.copy_(before)
    return change


def exact_gradient(rbm: Rbm, v: Tensor) -> np.ndarray:
    """Gradient of the mean log-likelihood, laid out like ``flat``, by enumeration."""
    p = joint(rbm)
    p /= p.sum()
    all_v, all_h, data = binary(rbm.num_visible).numpy(), binary(rbm.num_hidden).numpy(), v.numpy()
    posterior = rbm.hidden_probs(v).numpy()
    weight = posterior.T @ data / len(data) - all_h.T @ p.T @ all_v
    visible = data.mean(0) - p.sum(1) @ all_v
    hidden = posterior.mean(0) - p.sum(0) @ all_h
    return np.concatenate([weight.ravel(), visible, hidden])


def test_cd_k_comes_to_the_exact_gradient() -> None:
    rbm = random_rbm(scale=2.0)
    data = torch.tensor([[1, 1, 0, 0, 1], [0, 1, 1, 0, 0]], dtype=torch.float32).repeat(20_000, 1)
    exact = exact_gradient(rbm, data)
    distance = {}
    for k in (1, 3, 60):
        options = RbmOptions(**{**PLAIN.__dict__, "k": k, "sample_visible": True, "reference_batch": len(data)})
        distance[k] = np.linalg.norm(update_of(rbm, data, options).numpy() - exact)
    noise = math.sqrt(len(exact) * 0.25 / len(data))  # of N averages of values with variance at most 1/4
    assert distance[60] < 2 * noise
    assert distance[1] > 2 * distance[3] > 8 * noise


def test_statistics_are_probabilities_and_hidden_units_are_sampled_once() -> None:
    """CD-1 as Kaldi's: with weights so large that samples are sure, the update is known exactly."""
    rbm = random_rbm(v=4, h=3, scale=0.0)
    rbm.hidden_bias.copy_(torch.tensor([30.0, -30.0, 30.0]))
    rbm.weight.copy_(torch.tensor([[0.4, -0.2, 0.1, 0.3], [1.0, 1.0, 1.0, 1.0], [-0.5, 0.2, 0.0, 0.1]]))
    v = torch.tensor([[0.9, 0.1, 0.5, 0.3], [0.2, 0.8, 0.4, 0.6]])
    means = torch.sigmoid(rbm.weight[0] + rbm.weight[2])  # of the visible units given h = (1, 0, 1)
    h = torch.tensor([1.0, 0.0, 1.0])
    weight = h[:, None] * (v.mean(0) - means)
    options = RbmOptions(**{**PLAIN.__dict__, "reference_batch": 2})
    expected = torch.cat([weight.flatten(), v.mean(0) - means, torch.zeros(3)])
    torch.testing.assert_close(update_of(rbm, v, options), expected, rtol=1e-4, atol=1e-5)


def test_momentum_l2_and_velocity_by_hand() -> None:
    """Two steps on one visible and one hidden unit that is always on."""
    rbm = Rbm("bernoulli", 1, 1)
    rbm.hidden_bias.fill_(40.0)
    rbm.weight.fill_(0.5)
    options = RbmOptions(lr=0.4, l2=0.1, reference_batch=2)
    trainer = ContrastiveDivergence(rbm, options, generator())
    data = torch.tensor([[1.0], [0.5]])
    w, b, dw, db = 0.5, 0.0, 0.0, 0.0
    for _ in range(2):
        gradient = 0.75 - 1 / (1 + math.exp(-(w + b)))
        dw = 0.9 * dw + 0.2 * (gradient - 0.1 * w)  # momentum 0.9 from the start, rate 0.4 (1 - 0.5)
        db = 0.9 * db + 0.2 * gradient
        w, b = w + dw, b + db
        trainer.step(data)
        assert float(rbm.weight) == pytest.approx(w, abs=1e-6)
        assert float(rbm.visible_bias) == pytest.approx(b, abs=1e-6)


def test_ramp_by_hand() -> None:
    kaldi, intended = RbmOptions(lr=0.4), RbmOptions(lr=0.4, momentum="intended")
    for frames, nominal in (
        (0, 0.5),
        (499_999, 0.5),
        (500_000, 0.51),
        (10_000_000, 0.7),
        (20_000_000, 0.9),
        (10**9, 0.9),
    ):
        assert kaldi.ramp(frames) == pytest.approx(nominal)
        assert kaldi.rates(frames, 100) == pytest.approx((0.4 * (1 - nominal), 0.9))
        assert intended.rates(frames, 100) == pytest.approx((0.4 * (1 - nominal), nominal))


def test_batch_size_changes_neither_the_memory_nor_the_way_per_frame() -> None:
    o = RbmOptions(lr=0.4)
    (lr, momentum), (big_lr, big_momentum) = o.rates(0, 100), o.rates(0, 400)
    assert big_momentum == pytest.approx(momentum**4)
    assert big_lr / (1 - big_momentum) / 400 == pytest.approx(lr / (1 - momentum) / 100)


def test_bernoulli_visible_bias_is_the_logit_of_the_mean() -> None:
    mean = torch.tensor([0.0, 0.25, 0.9, 1.0])
    rbm = Rbm("bernoulli", 4, 300).initialise(generator(), 0.1, mean)
    expected = [math.log(1e-4 / (1 - 1e-4)), math.log(1 / 3), math.log(9), math.log((1 - 1e-4) / 1e-4)]
    assert rbm.visible_bias.tolist() == pytest.approx(expected, abs=2e-3)
    assert float(rbm.weight.std()) == pytest.approx(0.1, rel=0.1)
    assert not rbm.hidden_bias.any()


def test_explosion_is_rescued(caplog: pytest.LogCaptureFixture) -> None:
    rbm = Rbm("gaussian", 6, 8).initialise(generator(), stddev=3.0)
    trainer = ContrastiveDivergence(rbm, RbmOptions(lr=0.01, ramp_frames=1000), generator(1))
    trainer.velocity.fill_(1.0)
    rbm.visible_bias.fill_(0.1)
    rbm.hidden_bias.fill_(-0.1)
    v = torch.randn(100, 6, generator=generator(2))
    before = rbm.flat.clone()
    trainer.step(v)
    ratio = float((before[rbm.flat != 0] / rbm.flat[rbm.flat != 0]).mean())
    assert ratio > 2
    torch.testing.assert_close(rbm.flat * ratio, before, rtol=1e-4, atol=1e-6)
    assert not trainer.velocity.any()
    assert trainer.rescues == 1
    assert trainer._rates(100)[0] == pytest.approx(0.9 * 0.01 * 0.5)
    assert "times as wide as the data" in caplog.text
    errors = [trainer.step(v) for _ in range(60)]
    assert errors[-1] < 1.2
    assert trainer.rescue_scale == 1.0, "the next step of the ramp brings the rate back"


def test_divergence_is_an_error() -> None:
    rbm = Rbm("bernoulli", 4, 4).initialise(generator())
    trainer = ContrastiveDivergence(rbm, RbmOptions(), generator(), "RBM 3")
    rbm.weight.fill_(math.nan)
    with pytest.raises(UserError, match="RBM 3 has diverged"):
        trainer.step(torch.rand(10, 4, generator=generator(1)))


def test_endless_rescue_is_an_error() -> None:
    rbm = Rbm("gaussian", 4, 4).initialise(generator())
    trainer = ContrastiveDivergence(rbm, RbmOptions(), generator())
    narrow = 1e-3 * torch.randn(50, 4, generator=generator(1))
    wide = torch.tensor([9.0, -9.0, 5.0, 0.0])

    def insist() -> None:
        for _ in range(100):
            rbm.visible_bias.copy_(wide)
            trainer.step(narrow)

    with pytest.raises(UserError, match="explodes"):
        insist()
    assert trainer.rescues == 51


@pytest.mark.parametrize("visible", ["gaussian", "bernoulli"])
def test_learns_a_mixture_better_than_independent_units(visible: Visible) -> None:
    """Two opposite patterns: likelihood (with AIS's Z) above the best model without hidden units."""
    g = generator(4)
    patterns = torch.tensor([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])

    def draw(n: int) -> Tensor:
        clean = patterns[torch.randint(0, 2, (n,), generator=g)]
        if visible == "gaussian":
            return 4 * (clean - 0.5) + torch.randn(n, 6, generator=g)
        flips = torch.rand(n, 6, generator=g) < 0.05
        return (clean - flips.float()).abs()

    rbm = Rbm(visible, 6, 8).initialise(generator(), 0.1, torch.full((6,), 0.5))
    options = RbmOptions(lr=0.02 if visible == "gaussian" else 0.2, momentum_first=0.9)
    trainer = ContrastiveDivergence(rbm, options, generator(1))
    errors = [trainer.step(draw(100)) for _ in range(600)]
    assert np.mean(errors[-50:]) < 0.7 * np.mean(errors[:20])
    test = draw(2000)
    z, error = log_partition(rbm, generator(2), 500, 200)
    assert error < 0.2
    likelihood = float((-rbm.free_energy(test)).mean()) - z
    variance = test.var(0)
    independent = (
        -0.5 * float((torch.log(2 * math.pi * variance) + 1).sum()) if visible == "gaussian" else -6 * math.log(2)
    )
    assert likelihood > independent + 1.0


def test_deterministic_from_the_seed() -> None:
    def train(seed: int) -> Tensor:
        rbm = Rbm("bernoulli", 5, 7).initialise(generator(seed))
        trainer = ContrastiveDivergence(rbm, RbmOptions(), generator(seed + 1))
        for i in range(5):
            torch.rand(3)  # the global generator plays no part
            trainer.step(torch.rand(20, 5, generator=generator(100 + i)))
        return rbm.flat

    assert torch.equal(train(0), train(0))
    assert not torch.equal(train(0), train(5))
