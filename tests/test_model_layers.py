"""Hidden layers of every kind against plain numpy, and what a network may start from."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from asr_parallel.config import ModelConfig, OptimConfig
from asr_parallel.layers import normalise, normalised_pnorm, pnorm
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor, make_model, num_parameters, save_model
from asr_parallel.optim.flat import flatten
from asr_parallel.optim.ngsgd import LayerFactors
from asr_parallel.optim.optimizer import make_optimizer

PNORM = ModelConfig(2, 6, "pnorm", context=1, pnorm_group=3)
BATCH_NORM = ModelConfig(2, 6, "relu", context=1, batch_norm=True)
OPTIONS = {
    "pnorm": PNORM,
    "pnorm of p 3": dataclasses.replace(PNORM, pnorm_p=3.0, pnorm_group=2),
    "batch norm": BATCH_NORM,
    "batch norm, sigmoid, dropout": dataclasses.replace(BATCH_NORM, activation="sigmoid", dropout=0.3),
    "batch norm, pnorm": dataclasses.replace(PNORM, batch_norm=True),
    "dropout": ModelConfig(2, 6, "tanh", context=1, dropout=0.3),
}
some_options = pytest.mark.parametrize("config", OPTIONS.values(), ids=OPTIONS.keys())


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_pnorm_is_that_of_plain_numpy(p):
    x = randn(5, 12)
    expected = [[sum(abs(v) ** p for v in row[j : j + 4]) ** (1 / p) for j in (0, 4, 8)] for row in x.double().numpy()]
    np.testing.assert_allclose(pnorm(x, 4, p).numpy(), expected, rtol=1e-5)
    rms = np.sqrt(np.mean(np.square(expected), axis=1, keepdims=True))
    np.testing.assert_allclose(normalised_pnorm(x, 4, p).numpy(), expected / rms, rtol=1e-5)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_derivatives_of_pnorm_are_those_of_differences(p):
    x = randn(4, 12, dtype=torch.float64).requires_grad_()
    assert gradcheck(lambda v: pnorm(v, 3, p), x)
    assert gradcheck(normalise, x)
    assert gradcheck(lambda v: normalised_pnorm(v, 3, p), x)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_zeros_have_no_derivative_and_no_nan(p):
    x = randn(3, 8)
    x[0, :4] = 0  # a group
    x[1] = 0  # a whole row
    x.requires_grad_()
    y = normalised_pnorm(x, 4, p)
    assert not y[1].any()
    y.backward(randn(3, 2, seed=1))
    assert torch.isfinite(x.grad).all()
    assert not x.grad[0, :4].any()
    assert not x.grad[1].any()
    assert x.grad[2].any()


PLAIN = {"relu": lambda a: a.clip(0), "tanh": np.tanh, "sigmoid": lambda a: 1 / (1 + np.exp(-a))}


def in_numpy(config, state, x, statistics=None):
    """The oracle: logits of x [N, D] in float64, normalised by ``statistics`` or the minibatch's."""
    v = {name: value.double().numpy() for name, value in state.items()}
    x = x.astype(np.float64)
    for i in range(config.layers):
        x = x @ v[f"layers.{i}.weight"].T + v[f"layers.{i}.bias"]
        if config.batch_norm:
            mean, variance = (x.mean(0), x.var(0)) if statistics is None else statistics[i]
            x = (x - mean) / np.sqrt(variance + 1e-5) * v[f"norms.{i}.weight"] + v[f"norms.{i}.bias"]
        if config.activation == "pnorm":
            x = (np.abs(x).reshape(len(x), -1, config.pnorm_group) ** config.pnorm_p).sum(2) ** (1 / config.pnorm_p)
            x = x / np.sqrt((x**2).mean(1, keepdims=True))
        else:
            x = PLAIN[config.activation](x)
    return x @ v[f"layers.{config.layers}.weight"].T + v[f"layers.{config.layers}.bias"]


def unusual(config, dim=6, pdfs=5):
    """A network whose scales, offsets and running statistics are not what they begin with."""
    model = make_model(config, dim, pdfs, seed=3)
    for i, norm in enumerate(model.norms):
        with torch.no_grad():
            norm.weight.copy_(1 + 0.2 * randn(len(norm.weight), seed=i))
            norm.bias.copy_(randn(len(norm.weight), seed=i + 10))
            norm.running_mean.copy_(randn(len(norm.weight), seed=i + 20))
            norm.running_var.copy_(0.5 + randn(len(norm.weight), seed=i + 30).abs())
    return model


@some_options
def test_a_minibatch_goes_through_as_in_plain_numpy(config):
    config = dataclasses.replace(config, dropout=0.0)
    model, x = unusual(config), randn(20, 6)
    expected = in_numpy(config, model.state_dict(), x.numpy())
    np.testing.assert_allclose(model(x).detach().numpy(), expected, atol=2e-5)


@some_options
def test_a_saved_network_decodes_without_dropout_and_with_running_statistics(tmp_path, config):
    model = unusual(config)
    assert model.training
    save_model(tmp_path / "final.pt", model, "fbank", np.ones(5))
    predictor = load_predictor(tmp_path)
    assert predictor.model.config == config
    feats = randn(4, 2).numpy()
    x = np.stack([np.concatenate([feats[max(t - 1, 0)], feats[t], feats[min(t + 1, 3)]]) for t in range(4)])
    running = [(n.running_mean.double().numpy(), n.running_var.double().numpy()) for n in model.norms]
    logits = in_numpy(config, model.state_dict(), x, running)
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    for _ in range(2):  # decoding changes nothing
        np.testing.assert_allclose(predictor.log_posteriors(feats), expected, atol=2e-5)


def test_running_statistics_forget_a_tenth_a_minibatch():
    model = make_model(dataclasses.replace(BATCH_NORM, layers=1), 4, 3, seed=0)
    mean, variance = np.zeros(6), np.ones(6)
    for i in range(3):
        x = randn(8, 4, seed=i)
        model(x)
        a = model.layers[0](x).detach().double().numpy()
        mean, variance = 0.9 * mean + 0.1 * a.mean(0), 0.9 * variance + 0.1 * a.var(0, ddof=1)
    np.testing.assert_allclose(model.norms[0].running_mean.numpy(), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.norms[0].running_var.numpy(), variance, rtol=1e-4)
    assert model.norms[0].num_batches_tracked == 3


def test_dropout_drops_its_share_of_hidden_outputs_and_scales_the_rest():
    config = ModelConfig(1, 100, "sigmoid", "nnet1", dropout=0.3)
    model, plain = (make_model(c, 4, 3, seed=0) for c in (config, dataclasses.replace(config, dropout=0.0)))
    seen = []
    for m in (model, plain):
        m.layers[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().clone()))
        torch.manual_seed(1)
        m(randn(200, 4))
    kept = seen[0] != 0
    assert 1 - kept.float().mean().item() == pytest.approx(0.3, abs=0.01)
    torch.testing.assert_close(seen[0][kept], (seen[1] / 0.7)[kept])
    x = randn(9, 4)
    assert torch.equal(model.eval()(x), plain.eval()(x))


@some_options
def test_parameters_are_counted_and_are_one_vector(config):
    model = make_model(config, 4, 3, seed=0)
    wide = 6 * (config.pnorm_group if config.activation == "pnorm" else 1)
    count = (4 + 1) * wide + (6 + 1) * wide + (6 + 1) * 3 + (2 * 2 * wide if config.batch_norm else 0)
    values = flatten(model)
    assert num_parameters(model) == len(values) == count
    values.fill_(0.25)
    assert all((p == 0.25).all() for p in model.parameters())


@pytest.mark.parametrize("name", ["ngsgd", "sgd", "adamw"])
@some_options
def test_every_optimiser_trains_it(config, name):
    x, y = randn(64, 4), torch.arange(64) % 3
    x = x + 2 * torch.eye(4)[y]
    model = make_model(dataclasses.replace(config, width=24), 4, 3, seed=0)
    names = list(model.state_dict())
    lr = 0.01 if name == "adamw" else 0.3
    optimizer = make_optimizer(OptimConfig(name, lr=lr), model)
    torch.manual_seed(0)
    for _ in range(60):
        optimizer.step(nn.functional.cross_entropy(model(x), y), lr)
    assert nn.functional.cross_entropy(model.eval()(x), y) < 0.85  # log 3 = 1.1 without learning
    assert list(model.state_dict()) == names
    if name == "ngsgd":
        assert all(isinstance(layer.rule, LayerFactors) for layer in model.layers)


def test_ngsgd_leaves_the_gradients_of_batch_norm_as_they_are():
    x, y, after = randn(32, 4), torch.arange(32) % 3, {}
    for name in ("ngsgd", "sgd"):
        model = unusual(BATCH_NORM, 4, 3)
        optimizer = make_optimizer(OptimConfig(name), model)
        optimizer.step(nn.functional.cross_entropy(model(x), y), 0.5)
        after[name] = model
    for one, other in pairwise(after.values()):
        assert torch.equal(one.norms[1].weight, other.norms[1].weight)
        assert torch.equal(one.norms[1].bias, other.norms[1].bias)
        assert not torch.equal(one.layers[1].weight, other.layers[1].weight)


@some_options
def test_bf16_is_near_to_float32(config):
    model, x = unusual(config).eval(), randn(20, 6)
    with torch.autocast("cpu", torch.bfloat16):
        near = model(x).float()
    torch.testing.assert_close(near, model(x), atol=0.1, rtol=0.1)


def test_files_of_before_these_options_still_load_and_later_ones_are_named(tmp_path):
    path, config = tmp_path / "final.pt", ModelConfig(1, 4, "relu", context=0)
    save_model(path, make_model(config, 2, 3, 0), "fbank", np.ones(3))
    value = torch.load(path, weights_only=True)
    for name in ("network", "add_layer_every", "batch_norm", "dropout", "pnorm_group", "pnorm_p"):
        del value["model"][name]
    assert sorted(value["state"]) == ["layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.weight"]
    torch.save(value, path)
    assert load_predictor(tmp_path).model.config == config
    value["model"]["gates"] = 3
    torch.save(value, path)
    with pytest.raises(UserError, match=r"final.pt .*gates.* newer version"):
        load_predictor(tmp_path)


@pytest.mark.parametrize("config", [PNORM, BATCH_NORM], ids=["pnorm", "batch norm"])
def test_a_network_starts_from_the_hidden_layers_of_another(tmp_path, config):
    one = unusual(config)
    save_model(tmp_path / "final.pt", one, "fbank", np.ones(5))
    deeper = dataclasses.replace(config, layers=3, init="network", network=str(tmp_path))
    model, fresh = make_model(deeper, 6, 7, seed=8), make_model(dataclasses.replace(deeper, init="glorot"), 6, 7, 8)
    for i in range(2):
        assert torch.equal(model.layers[i].weight, one.layers[i].weight)
        assert torch.equal(model.layers[i].bias, one.layers[i].bias)
    for mine, its in zip(model.norms, one.norms):
        assert all(torch.equal(a, b) for a, b in zip(mine.state_dict().values(), its.state_dict().values()))
    for i in (2, 3):
        assert torch.equal(model.layers[i].weight, fresh.layers[i].weight)


@pytest.mark.parametrize(
    ("changes", "dim", "said"),
    [
        ({"width": 5}, 6, "--model.width 6, the network 5"),
        ({"activation": "pnorm"}, 6, "--model.activation relu, the network pnorm"),
        ({"batch_norm": False}, 6, "--model.batch_norm True, the network False"),
        ({"layers": 1}, 6, "has 2 hidden layers: give at least as many --model.layers"),
        ({}, 8, "takes 6 values, the network 8"),
        ({"network": "nowhere"}, 6, "nowhere/final.pt is missing"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(tmp_path, changes, dim, said):
    save_model(tmp_path / "final.pt", make_model(BATCH_NORM, 6, 5, 0), "fbank", np.ones(5))
    config = dataclasses.replace(BATCH_NORM, init="network", network=str(tmp_path))
    with pytest.raises(UserError, match=said):
        make_model(dataclasses.replace(config, **changes), dim, 5, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dropout": 1.0}, "--model.dropout 1"),
        ({"pnorm_group": 0}, "pnorm_group 0"),
        ({"layers": 0}, "--model.layers 0"),
        ({"init": "dbn", "activation": "sigmoid", "batch_norm": True}, "leave out --model.batch_norm"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        make_model(ModelConfig(**options), 4, 3, 0)
