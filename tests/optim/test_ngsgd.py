"""NG-SGD against explicit inverses, a float64 re-implementation, and plain SGD."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from asr_parallel.optim.linear import Linear
from asr_parallel.optim.natural_gradient import FactorOptions, OnlineNaturalGradient, _comb
from asr_parallel.optim.ngsgd import SU2015, LayerFactors, NgOptions, NgSgd, precondition_linears
from asr_parallel.optim.sgd import Sgd


def rows(seed: int, n: int, dim: int, decay: float = 0.7) -> np.ndarray:
    """Rows [n, dim] with a mean and a decaying spectrum in a random basis that is the same for all seeds."""
    basis = np.linalg.qr(np.random.default_rng(99).normal(size=(dim, dim)))[0]
    scales = decay ** np.arange(dim)
    return (np.random.default_rng(seed).normal(size=(n, dim)) + 0.3) * scales @ basis


def fisher(factor: OnlineNaturalGradient) -> np.ndarray:
    """F [D, D], float64, from what the factor keeps."""
    d, rho, dim, alpha = factor.d, factor.rho, factor.dim, factor.options.alpha
    beta = rho * (1 + alpha) + alpha * d.sum() / dim
    r = factor.w.double().numpy() / np.sqrt(1 / (beta / d + 1))[:, None]
    return r.T @ np.diag(d) @ r + rho * np.eye(dim)


class Reference:
    """The same equations in float64, with explicit R, F and inverses, and an eigen-decomposition of D x D.

    The update is one step of the power method on S = eta/N X^T X + (1 - eta) F from the old R: with Y = R S, the
    new R spans the rows of Y, and sqrt(eig(Y Y^T)) estimate the eigenvalues of S.
    """

    def __init__(self, dim: int, rank: int, period: int = 4, history: float = 2000.0, alpha: float = 4.0):
        self.dim, self.rank, self.period, self.history, self.alpha = dim, rank, period, history, alpha
        self.r: np.ndarray = np.zeros((rank, dim))
        for k in range(rank):
            for c in range(k, dim, rank):
                self.r[k, c] = 1.1 if c == k else 1.0
            self.r[k] /= math.sqrt(self.r[k] @ self.r[k])
        self.d, self.rho, self.t = np.full(rank, 1e-10), 1e-10, 0

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        if self.t == 0:
            for _ in range(3 if len(x) > self.rank else 1):
                self.update(x)
        f = self.r.T @ np.diag(self.d) @ self.r + self.rho * np.eye(self.dim)
        smooth = self.alpha / self.dim * np.trace(f)
        out = (self.rho + smooth) * x @ np.linalg.inv(f + smooth * np.eye(self.dim))
        self.t += 1
        if self.t <= 10 or self.t % self.period == 0:
            self.update(x)
        return out, math.sqrt((x**2).sum() / (out**2).sum())

    def update(self, x: np.ndarray) -> None:
        eta = min(0.9, 1 - math.exp(-len(x) / self.history))
        f = self.r.T @ np.diag(self.d) @ self.r + self.rho * np.eye(self.dim)
        s = eta / len(x) * x.T @ x + (1 - eta) * f
        y = self.r @ s
        c, u = np.linalg.eigh(y @ y.T)
        c, u = c[::-1], u[:, ::-1]
        root = np.sqrt(np.maximum(c, (self.rho * (1 - eta)) ** 2))
        rho = (np.trace(s) - root.sum()) / (self.dim - self.rank)
        floor = max(1e-10, 5e-4 * root.max())
        self.rho, self.d = max(rho, floor), np.maximum(root - rho, floor)
        self.r = (u / np.sqrt(np.abs(c))).T @ y
        if np.abs(self.r @ self.r.T - np.eye(self.rank)).max() > 1e-3:
            self.r = np.linalg.inv(np.linalg.cholesky(self.r @ self.r.T)) @ self.r


def test_output_is_the_explicit_inverse() -> None:
    factor = OnlineNaturalGradient(12, FactorOptions(rank=5))
    for step in range(6):
        x = torch.tensor(rows(step, 40, 12), dtype=torch.float32)
        f = fisher(factor) if step else None
        before = factor.rho * 5 + 4 * float(factor.d.sum()) / 12
        out, gamma = factor.precondition(x)
        assert float((gamma * out).norm()) == pytest.approx(float(x.norm()), rel=1e-5)
        if f is not None:
            expected = before * x.double().numpy() @ np.linalg.inv(f + 4 / 12 * np.trace(f) * np.eye(12))
            np.testing.assert_allclose(out.numpy(), expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("dim", "rank", "n", "history"),
    [(30, 8, 64, 2000.0), (17, 8, 7, 2000.0), (9, 2, 128, 2000.0), (9, 3, 64, 10.0)],  # in the last one eta is capped
)
def test_fifty_minibatches_agree_with_the_reference(dim: int, rank: int, n: int, history: float) -> None:
    factor = OnlineNaturalGradient(dim, FactorOptions(rank=rank, num_samples_history=history))
    reference = Reference(dim, rank, history=history)
    for step in range(50):
        x = rows(step, n, dim)
        out, gamma = factor.precondition(torch.tensor(x, dtype=torch.float32))
        expected, expected_gamma = reference(x)
        assert float(gamma) == pytest.approx(expected_gamma, rel=1e-3), step
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-3 * np.abs(expected).max(), err_msg=f"step {step}")
    tolerance = 5e-4 * reference.d.max()  # float32: the smallest are differences of large numbers
    assert factor.rho == pytest.approx(reference.rho, abs=tolerance)
    np.testing.assert_allclose(factor.d, reference.d, atol=tolerance)


@pytest.mark.parametrize(("variant", "of_d"), [("kaldi", 4 * 5e-4), ("su2015", 1e-10)])
def test_floors(variant: str, of_d: float) -> None:
    """Two eigenvalues, 4 and 0, are the whole trace, so that nothing is left for rho; then all is 0."""
    factor = OnlineNaturalGradient(5, FactorOptions(rank=2, variant=variant))  # type: ignore[arg-type]
    factor._set_spectrum(np.array([4.0, 0.0]), 4.0)
    assert factor.rho == 4 * 5e-4
    assert factor.d.tolist() == [4.0, of_d]
    factor._set_spectrum(np.zeros(2), 0.0)
    assert factor.rho == 1e-10
    assert factor.d.tolist() == [1e-10, 1e-10]


def test_rows_that_are_not_orthonormal_any_more_are_made_so() -> None:
    """Like Gram-Schmidt from the first row on, and what they span stays."""
    factor = OnlineNaturalGradient(12, FactorOptions(rank=4))
    sqrt_e, rows_of_r = factor._sqrt_e(), np.linalg.qr(rows(0, 12, 4))[0].T
    mixed = (np.eye(4) + 0.3 * np.tril(np.ones((4, 4)))) @ rows_of_r
    factor.w = torch.tensor(sqrt_e[:, None] * mixed, dtype=torch.float32)
    factor._orthogonalise(sqrt_e)
    np.testing.assert_allclose(factor.w.numpy() / sqrt_e[:, None], rows_of_r, atol=1e-5)


def test_finds_the_covariance() -> None:
    """With as many directions as matter, F comes to the uncentred covariance."""
    factor = OnlineNaturalGradient(10, FactorOptions(rank=4, update_period=1))
    for step in range(60):
        factor.precondition(torch.tensor(rows(step, 500, 10, 0.2), dtype=torch.float32))
    x = rows(1000, 200_000, 10, 0.2)
    assert np.abs(fisher(factor) - x.T @ x / len(x)).max() < 0.1 * np.linalg.eigvalsh(x.T @ x / len(x)).max()


def test_update_period_and_first_ten() -> None:
    factor = OnlineNaturalGradient(6, FactorOptions(rank=2, update_period=4))
    changed = []
    for step in range(1, 21):
        before = factor.w.clone()
        factor.precondition(torch.tensor(rows(step, 16, 6), dtype=torch.float32))
        if not torch.equal(before, factor.w):
            changed.append(step)
    assert changed == [*range(1, 11), 12, 16, 20]


def test_unit_is_a_change_of_units() -> None:
    """Derivatives of a mean with unit N are treated as those of a sum, far below epsilon's scale too."""
    of_sum, of_mean = (OnlineNaturalGradient(20, FactorOptions(rank=5)) for _ in range(2))
    for step in range(15):
        x = torch.tensor(rows(step, 64, 20), dtype=torch.float32) * 1e-3
        a, gamma_a = of_sum.precondition(x)
        b, gamma_b = of_mean.precondition(x / 64, unit=64.0)
        torch.testing.assert_close(b * 64, a, rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(gamma_a, gamma_b, rtol=1e-4, atol=0)


@pytest.mark.parametrize("variant", ["kaldi", "su2015"])
@pytest.mark.parametrize("kind", ["identical rows", "zeros", "one row", "huge", "tiny", "sudden", "sparse"])
def test_degenerate_batches_stay_finite(kind: str, variant: str) -> None:
    factor = OnlineNaturalGradient(24, FactorOptions(rank=10, variant=variant, update_period=1))  # type: ignore[arg-type]
    normal = torch.tensor(rows(0, 32, 24), dtype=torch.float32)
    kinds = {
        "identical rows": normal[:1].expand(32, -1), "zeros": torch.zeros(32, 24), "one row": normal[:1],
        "huge": normal * 1e6, "tiny": normal * 1e-12, "sudden": normal * 1e5,
        "sparse": torch.eye(24)[[3] * 32],
    }  # fmt: skip
    for step in range(40):
        x = normal if kind == "sudden" and step % 20 < 10 else kinds[kind]
        out, gamma = factor.precondition(x.clone())
        assert out.isfinite().all()
        assert gamma.isfinite()
        assert factor.w.isfinite().all()
        assert 0 < factor.rho < math.inf
        if kind != "zeros":
            assert float((gamma * out).norm()) == pytest.approx(float(x.norm()), rel=1e-3)
            assert float((out * x).sum()) > 0, "a descent direction"
    if kind == "zeros":
        assert not out.any()
        assert gamma == 1
    assert factor.skipped == 0
    r = factor.w.double() / torch.from_numpy(factor._sqrt_e())[:, None]
    assert (r @ r.T - torch.eye(10, dtype=torch.float64)).abs().max() < 0.02, "orthonormal"


def test_not_a_number_does_not_spoil_the_factor() -> None:
    factor = OnlineNaturalGradient(8, FactorOptions(rank=3))
    x = torch.tensor(rows(0, 32, 8), dtype=torch.float32)
    factor.precondition(x)
    before = factor.w.clone()
    factor.precondition(x * math.nan)
    assert torch.equal(before, factor.w)
    assert factor.skipped == 1


def test_one_dimension_and_rank_zero_do_nothing() -> None:
    for factor in (OnlineNaturalGradient(1), OnlineNaturalGradient(7, FactorOptions(rank=0))):
        x = torch.randn(5, factor.dim, generator=torch.Generator().manual_seed(0))
        out, gamma = factor.precondition(x)
        assert torch.equal(out, x)
        assert gamma == 1


def test_comb_is_orthonormal_without_zero_columns() -> None:
    comb = _comb(3, 8)
    np.testing.assert_allclose(comb @ comb.T, np.eye(3), atol=1e-12)
    assert (np.abs(comb).sum(0) > 0).all()


def test_su2015_starts_from_the_first_minibatch() -> None:
    """Before its first update the factor is the covariance of that minibatch, floored."""
    x = rows(3, 50, 9)
    factor = OnlineNaturalGradient(9, FactorOptions(rank=4, variant="su2015", delta=1e-5))
    factor._start(torch.tensor(x, dtype=torch.float32), 1.0)
    values, vectors = np.linalg.eigh(x.T @ x / 50)
    rho = values[:5].mean()
    top = vectors[:, 5:]
    expected = top @ np.diag(values[5:] - rho) @ top.T + rho * np.eye(9)
    np.testing.assert_allclose(fisher(factor), expected, atol=1e-5)


@pytest.mark.parametrize(("variant", "kept"), [("kaldi", 0.1), ("su2015", 0.0)])
def test_su2015_may_forget_all_for_one_minibatch(variant: str, kept: float) -> None:
    factor = OnlineNaturalGradient(9, FactorOptions(rank=4, variant=variant, num_samples_history=1.0))  # type: ignore[arg-type]
    first, second = rows(0, 50, 9), 1e-2 * rows(1, 50, 9)
    for x in (first, second):
        factor.precondition(torch.tensor(x, dtype=torch.float32))
    traces = [(x**2).sum() / 50 for x in (first, second)]
    assert np.trace(fisher(factor)) == pytest.approx(kept * traces[0] + (1 - kept) * traces[1], rel=0.05)


def test_state_continues_exactly() -> None:
    a, b = (OnlineNaturalGradient(15, FactorOptions(rank=4)) for _ in range(2))
    batches = [torch.tensor(rows(i, 32, 15), dtype=torch.float32) for i in range(30)]
    for x in batches[:13]:
        a.precondition(x)
    b.restore(a.state())
    for x in batches[13:]:
        (out_a, gamma_a), (out_b, gamma_b) = a.precondition(x), b.precondition(x)
        assert torch.equal(out_a, out_b)
        assert torch.equal(gamma_a, gamma_b)


def network(seed: int = 0, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(10, 16, bias), nn.Sigmoid(), nn.Linear(16, 1, bias), nn.Sigmoid(), nn.Linear(1, 5, bias)
    )


def batch(seed: int, n: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, 10, generator=g), torch.randint(0, 5, (n,), generator=g)


@pytest.mark.parametrize("bias", [True, False])
def test_rank_zero_is_plain_sgd(bias: bool) -> None:
    plain, natural = network(bias=bias), network(bias=bias)
    a, b = Sgd(plain), NgSgd(natural, NgOptions(rank_in=0, rank_out=0, max_change_per_sample=0))
    for step in range(5):
        x, y = batch(step)
        a.step(F.cross_entropy(plain(x), y), 0.1)
        b.step(F.cross_entropy(natural(x), y), 0.1)
    for p, q in zip(plain.parameters(), natural.parameters()):
        torch.testing.assert_close(p, q)


def gradient(factors: LayerFactors, x: torch.Tensor, deriv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Of weight and bias."""
    x_hat, d_hat, bias = factors.sides(x, deriv, has_bias=True)
    return d_hat.T @ x_hat, bias


def test_layer_gradient_is_both_sides_times_their_norms() -> None:
    layer = nn.Linear(10, 6)
    factors = LayerFactors(layer, NgOptions(max_change_per_sample=0))
    factors.lr = 0.1
    one, two = OnlineNaturalGradient(11, FactorOptions(rank=6)), OnlineNaturalGradient(6, FactorOptions(rank=3))
    for step in range(3):
        x, d = (torch.tensor(rows(step + 10 * k, 40, dim), dtype=torch.float32) for k, dim in ((0, 10), (1, 6)))
        weight, bias = gradient(factors, x, d / 40)
        (x_hat, gamma_x), (d_hat, gamma_d) = one.precondition(torch.cat([x, torch.ones(40, 1)], 1)), two.precondition(d)
        both = gamma_x * gamma_d * d_hat.T @ x_hat / 40
        assert bias is not None
        torch.testing.assert_close(torch.cat([weight, bias[:, None]], 1), both, rtol=1e-3, atol=1e-5)


def test_only_the_gradients_of_weights_are_preconditioned() -> None:
    plain, natural = network(), network()
    layers = precondition_linears(natural, NgOptions())
    for factors in layers.values():
        factors.lr = 0.1
    assert [n for n, _ in plain.named_parameters()] == [n for n, _ in natural.named_parameters()]
    inputs = []
    for net in (plain, natural):
        x, y = batch(0)
        inputs.append(x.requires_grad_())
        F.cross_entropy(net(x), y).backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    assert not torch.allclose(plain[0].weight.grad, natural[0].weight.grad, rtol=0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("lr", "share"), [(1e-4, 1.0), (50.0, None)])
def test_max_change_has_the_rate_in_it(lr: float, share: float | None) -> None:
    layer = nn.Linear(8, 6)
    free, bound = (LayerFactors(layer, NgOptions(max_change_per_sample=m)) for m in (0.0, 0.075))
    free.lr = bound.lr = lr
    x, d = (torch.tensor(rows(k, 40, dim), dtype=torch.float32) for k, dim in ((0, 8), (1, 6)))
    (a, _), (b, _) = gradient(free, x, d / 40), gradient(bound, x, d / 40)
    x_hat, gamma_x = OnlineNaturalGradient(9, FactorOptions(rank=5)).precondition(torch.cat([x, torch.ones(40, 1)], 1))
    d_hat, gamma_d = OnlineNaturalGradient(6, FactorOptions(rank=3)).precondition(d)
    change = float(lr / 40 * gamma_x * gamma_d * (x_hat.norm(dim=1) * d_hat.norm(dim=1)).sum())  # rate of the sum
    expected = share or 0.075 * 40 / change
    torch.testing.assert_close(b, a * expected, rtol=1e-3, atol=1e-7)
    assert float(bound.limited) == (share is None)
    assert b.norm() * lr <= 0.075 * 40 * (1 + 1e-4)


def test_su2015_leaves_the_rate_out_and_forgets_at_epochs() -> None:
    layer = nn.Linear(8, 6)
    x, d = (torch.tensor(rows(k, 40, dim), dtype=torch.float32) for k, dim in ((0, 8), (1, 6)))
    results = []
    for lr in (1e-4, 50.0):
        factors = LayerFactors(layer, SU2015)
        factors.lr = lr
        results.append(gradient(factors, x, 100 * d / 40)[0])
        assert float(factors.limited) == 1
    torch.testing.assert_close(*results)
    net = network()
    optimizer = NgSgd(net, SU2015)
    inputs, y = batch(0)
    optimizer.step(F.cross_entropy(net(inputs), y), 0.1)
    assert optimizer.factors["0.input"].calls == 1
    optimizer.new_epoch()
    assert optimizer.factors["0.input"].calls == 0


def test_mean_and_sum_are_the_same_up_to_the_rate() -> None:
    nets = [network(), network()]
    optimizers = [NgSgd(net, NgOptions(reduction=r)) for net, r in zip(nets, ("mean", "sum"))]  # type: ignore[arg-type]
    for step in range(5):
        x, y = batch(step)
        optimizers[0].step(F.cross_entropy(nets[0](x), y), 3.2)
        optimizers[1].step(F.cross_entropy(nets[1](x), y, reduction="sum"), 3.2 / 32)
    for p, q in zip(nets[0].parameters(), nets[1].parameters()):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_learning_rate_must_be_known() -> None:
    net = network()
    precondition_linears(net, NgOptions())
    with pytest.raises(RuntimeError, match="learning rate"):
        net(batch(0)[0]).sum().backward()
    with pytest.raises(ValueError, match="no linear layer"):
        precondition_linears(nn.Sequential(nn.Sigmoid()), NgOptions())


def keep_gradient(optimizer: NgSgd) -> list[torch.Tensor]:
    """A list that gets the gradient of each step to come."""
    found: list[torch.Tensor] = []
    optimizer.on_gradient = lambda flat: found.append(flat.clone())
    return found


def test_autocast_keeps_float32_factors_and_close_gradients() -> None:
    nets, gradients = [network(), network()], []
    for net, cast in zip(nets, (False, True)):
        optimizer = NgSgd(net)
        x, y = batch(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            logits = net(x)
        assert logits.dtype == (torch.bfloat16 if cast else torch.float32)
        gradients.append(keep_gradient(optimizer))
        optimizer.step(F.cross_entropy(logits.float(), y), 0.1)
        assert {f.w.dtype for f in optimizer.factors.values()} == {torch.float32}
        assert {f.d.dtype for f in optimizer.factors.values()} == {np.dtype(np.float64)}
    (a,), (b,) = gradients
    assert a.dtype == b.dtype == torch.float32
    assert F.cosine_similarity(a, b, dim=0) > 0.98


def test_gradients_accumulate() -> None:
    net = network()
    layers = precondition_linears(net, NgOptions())
    for factors in layers.values():
        factors.lr = 0.1
    weight = net[0].weight
    parts: list[torch.Tensor] = []
    for step in range(2):
        x, y = batch(step)
        weight.grad, before = None, weight.grad
        F.cross_entropy(net(x), y).backward()
        assert isinstance(weight.grad, torch.Tensor)
        parts.append(weight.grad.clone())
        weight.grad = before
    # the same two batches again, from the same factors, without clearing between
    again = network()
    for factors in precondition_linears(again, NgOptions()).values():
        factors.lr = 0.1
    for step in range(2):
        x, y = batch(step)
        F.cross_entropy(again(x), y).backward()
    torch.testing.assert_close(again[0].weight.grad, parts[0] + parts[1])
    assert layers["0"].minibatches == 2
    assert all(bool(p.any()) for p in parts)


def test_optimizer_state_continues_exactly_and_zeros_begin_anew() -> None:
    nets = [network(), network(), network()]
    optimizers = [NgSgd(net) for net in nets]
    for step in range(25):
        if step == 13:
            nets[1].load_state_dict(nets[0].state_dict())
            optimizers[1].restore({k: v.clone() for k, v in optimizers[0].state().items()})
        for k in range(2 if step >= 13 else 1):
            x, y = batch(step)
            optimizers[k].step(F.cross_entropy(nets[k](x), y), 0.5)
    assert all(torch.equal(p, q) for p, q in zip(nets[0].parameters(), nets[1].parameters()))
    optimizers[0].restore({k: torch.zeros_like(v) for k, v in optimizers[0].state().items()})
    nets[0].load_state_dict(nets[2].state_dict())
    for k in (0, 2):
        x, y = batch(0)
        optimizers[k].step(F.cross_entropy(nets[k](x), y), 0.5)
    assert all(torch.equal(p, q) for p, q in zip(nets[0].parameters(), nets[2].parameters()))
    assert optimizers[0].shared() == {}


@pytest.mark.parametrize("kind", ["one frame", "identical frames", "zero gradient", "constant input", "one unit"])
def test_steps_on_degenerate_minibatches_are_finite_and_sane(kind: str) -> None:
    """Of a network with a layer of one unit; a minibatch of one frame is smaller than every rank."""
    net = network()
    optimizer = NgSgd(net)
    first = None
    for step in range(60):
        x, y = batch(step, 1 if kind == "one frame" else 32)
        if kind in ("identical frames", "one frame"):
            x, y = batch(0, 1)
            x, y = (v.expand(1 if kind == "one frame" else 32, *v.shape[1:]) for v in (x, y))
        x = torch.zeros_like(x) if kind == "constant input" else x
        before = optimizer.flat.values.clone()
        loss = F.cross_entropy(net(x), y)
        first = loss.item() if first is None else first
        optimizer.step(loss * (kind != "zero gradient"), 0.1)
        change = optimizer.flat.values - before
        assert change.isfinite().all()
        assert float(change.norm()) <= 3 * 0.075 * len(x)  # the bound of each of three layers
        if kind == "zero gradient":
            assert not change.any()
    if kind in ("one frame", "identical frames"):
        assert loss.item() < 0.9 * first  # type: ignore[operator]


def test_inference_does_not_touch_the_factors() -> None:
    net = network()
    optimizer = NgSgd(net)
    with torch.inference_mode():
        net(batch(0)[0])
    assert isinstance(net[0], Linear)
    assert isinstance(net[0].rule, LayerFactors)
    assert optimizer.factors["0.input"].calls == 0


def test_far_fewer_steps_than_sgd_on_an_ill_conditioned_problem() -> None:
    """Least squares, 2 of 50 directions of the inputs 20 times as wide; each method with its best rate of a grid."""
    g = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(50, 50, generator=g))[0]
    x = torch.randn(2000, 50, generator=g) * torch.cat([torch.full((2,), 5.0), torch.full((48,), 0.25)]) @ basis
    y = x @ torch.randn(50, 3, generator=g)
    goal = 1e-3 * float(y.square().mean())

    def steps(natural: bool, lr: float, most: int = 500) -> int:
        net = nn.Sequential(nn.Linear(50, 3))
        nn.init.zeros_(net[0].weight)  # type: ignore[arg-type]
        nn.init.zeros_(net[0].bias)  # type: ignore[arg-type]
        ng = NgOptions(rank_in=8, rank_out=0, alpha=0.1, max_change_per_sample=0)
        optimizer = NgSgd(net, ng) if natural else Sgd(net)
        for step in range(most):
            i = step * 100 % 2000
            loss = F.mse_loss(net(x[i : i + 100]), y[i : i + 100])
            if not goal < loss.item() < 1e6 * goal:
                return step if loss.item() <= goal else most
            optimizer.step(loss, lr)
        return most

    grid = [2.0**k for k in range(-5, 2)]
    best_sgd, best_ng = min(steps(False, lr) for lr in grid), min(steps(True, lr) for lr in grid)
    assert best_ng * 10 <= best_sgd, (best_ng, best_sgd)
