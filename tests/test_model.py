import numpy as np
import pytest
import torch

from asr_parallel.config import ModelConfig
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor, log_priors, make_model, num_parameters, save_model


def test_nnet1_initialisation_has_kaldis_statistics():
    model = make_model(ModelConfig(2, 400, "sigmoid", "nnet1"), 220, 600, seed=1)
    first, second, output = model.layers
    # 3.5 sqrt(2 / (in + out)), the first x sqrt(1 / 12)
    for layer, stddev in ((first, 3.5 * (2 / 620) ** 0.5 * (1 / 12) ** 0.5), (second, 3.5 * (2 / 800) ** 0.5),
                          (output, 3.5 * (2 / 1000) ** 0.5)):  # fmt: skip
        assert layer.weight.std().item() == pytest.approx(stddev, rel=0.02)
        assert abs(layer.weight.mean().item()) < 4 * stddev / layer.weight.numel() ** 0.5
    for layer in (first, second):
        assert -4 <= layer.bias.min() < -3.9
        assert -0.1 < layer.bias.max() <= 0
        assert layer.bias.mean().item() == pytest.approx(-2, abs=0.25)
    assert not output.bias.any()


def test_nnet1_gives_the_published_figures_of_a_440_2048_network():
    model = make_model(ModelConfig(1, 2048, "sigmoid", "nnet1"), 440, 8806, seed=0)
    assert model.layers[0].weight.std().item() == pytest.approx(0.0287, abs=2e-4)
    assert model.layers[1].weight.std().item() == pytest.approx(0.0475, abs=2e-4)


@pytest.mark.parametrize(("activation", "gain"), [("tanh", 1.0), ("sigmoid", 4.0), ("relu", 2**0.5)])
def test_glorot_is_uniform_within_its_limit(activation, gain):
    """The softmax layer has the limit of a linear one."""
    model = make_model(ModelConfig(layers=1, width=300, activation=activation, init="glorot"), 100, 50, seed=1)
    for layer, limit in zip(model.layers, (gain * (6 / 400) ** 0.5, (6 / 350) ** 0.5), strict=True):
        assert 0.99 * limit < layer.weight.abs().max().item() <= limit
        assert layer.weight.std().item() == pytest.approx(limit / 3**0.5, rel=0.02)
        assert not layer.bias.any()


def test_the_seed_alone_decides():
    config = ModelConfig(layers=1, width=8)
    one, same, other = (make_model(config, 4, 3, seed) for seed in (5, 5, 6))
    assert torch.equal(one.layers[0].weight, same.layers[0].weight)
    assert not torch.equal(one.layers[0].weight, other.layers[0].weight)


def test_nnet1_is_for_sigmoids():
    with pytest.raises(UserError, match="glorot"):
        make_model(ModelConfig(activation="relu", init="nnet1"), 4, 3, 0)


def test_parameters_are_counted():
    # 440 - 6 x 2048 - 8806 has 39.93 M (Su & Chen 2015); a small one by hand
    assert num_parameters(make_model(ModelConfig(layers=2, width=5), 3, 4, 0)) == (3 * 5 + 5) + (5 * 5 + 5) + (
        5 * 4 + 4
    )


ACTIVATIONS = {"sigmoid": lambda a: 1 / (1 + np.exp(-a)), "tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
def test_a_saved_model_gives_the_posteriors_of_plain_numpy(tmp_path, activation):
    config = ModelConfig(layers=2, width=7, context=1, activation=activation, init="glorot")
    model = make_model(config, 3 * 2, 5, seed=3)
    save_model(tmp_path / "final.pt", model, "fbank", np.array([5, 0, 3, 1, 1]))
    predictor = load_predictor(tmp_path)
    feats = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    found = predictor.log_posteriors(feats)

    x = np.stack([np.concatenate([feats[max(t - 1, 0)], feats[t], feats[min(t + 1, 3)]]) for t in range(4)])
    x = x.astype(np.float64)
    for i, layer in enumerate(model.layers):
        x = x @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        x = ACTIVATIONS[activation](x) if i < 2 else x
    expected = x - np.log(np.exp(x).sum(1, keepdims=True))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (predictor.features, predictor.context) == ("fbank", 1)
    np.testing.assert_allclose(np.exp(predictor.log_priors), np.array([5, 1, 3, 1, 1]) / 11, rtol=1e-6)


def test_priors_of_unseen_pdfs_are_finite():
    assert np.isfinite(log_priors(np.array([0, 0, 10]))).all()


def test_a_model_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UserError, match=r"final\.pt is missing"):
        load_predictor(tmp_path)
    save_model(tmp_path / "final.pt", make_model(ModelConfig(layers=1, width=4), 11, 3, 0), "fbank", np.ones(3))
    whole = (tmp_path / "final.pt").read_bytes()
    (tmp_path / "final.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged"):
        load_predictor(tmp_path)
    torch.save([1, 2], tmp_path / "final.pt")
    with pytest.raises(UserError, match=r"not of format 1 or 2.*train"):
        load_predictor(tmp_path)


def test_features_of_another_size_are_refused(tmp_path):
    save_model(tmp_path / "final.pt", make_model(ModelConfig(layers=1, width=4), 22, 3, 0), "fbank", np.ones(3))
    with pytest.raises(UserError, match="fbank"):
        load_predictor(tmp_path).log_posteriors(np.zeros((5, 3), np.float32))
