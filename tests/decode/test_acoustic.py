"""Scores of both kinds of models against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asr_parallel.align.gmm import DiagGmm
from asr_parallel.config import ModelConfig
from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.log import UserError
from asr_parallel.model import make_model, save_model

rng = np.random.default_rng(0)


def test_gmm_scores_are_log_densities_of_features_with_deltas(tmp_path):
    means, variances = rng.normal(size=(4, 6)), rng.uniform(0.5, 2, (4, 6))
    weights, pdf = np.array([0.3, 0.7, 1.0, 1.0]), np.array([0, 0, 1, 2])
    DiagGmm(means, variances, weights, pdf).save(tmp_path / "gmm.npz")
    scorer = load_scorer(tmp_path)
    assert (scorer.kind, scorer.dim, scorer.num_pdfs) == ("mfcc", 2, 3)
    feats = np.tile(rng.normal(size=2).astype(np.float32), (9, 1))  # constant: all deltas are 0
    x = np.concatenate([feats, np.zeros((9, 4))], axis=1)
    squares = ((x[:, None] - means) ** 2 / variances).sum(2)
    densities = weights * np.exp(-0.5 * squares) / np.sqrt((2 * np.pi * variances).prod(1))
    expected = np.log(np.stack([densities[:, pdf == p].sum(1) for p in range(3)], axis=1))
    scores = scorer.loglikes(feats)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_dnn_scores_are_posteriors_over_priors(tmp_path):
    config = ModelConfig(layers=1, width=7, context=1)
    model = make_model(config, input_dim=3 * 4, num_pdfs=5, seed=0)
    counts = np.array([10, 20, 30, 0, 40])
    save_model(tmp_path / "final.pt", model, "fbank", counts)
    scorer = load_scorer(tmp_path)
    assert (scorer.kind, scorer.dim, scorer.num_pdfs) == ("fbank", 4, 5)
    feats = rng.normal(size=(6, 4)).astype(np.float32)
    scores = scorer.loglikes(feats)
    assert scores.dtype == np.float32
    padded = np.concatenate([feats[:1], feats, feats[-1:]])
    spliced = np.stack([padded[t : t + 3].ravel() for t in range(6)])
    with torch.no_grad():
        posteriors = torch.softmax(model(torch.from_numpy(spliced)), dim=1).numpy()
    priors = np.maximum(counts, 1) / np.maximum(counts, 1).sum()  # a pdf without frames counts as seen once
    np.testing.assert_allclose(scores, np.log(posteriors / priors), rtol=1e-4, atol=1e-4)


def test_dnn_is_preferred_to_a_gmm_beside_it(tmp_path):
    ones = np.ones((2, 6), np.float32)
    DiagGmm(ones, ones, ones[:, 0], np.arange(2)).save(tmp_path / "gmm.npz")
    assert load_scorer(tmp_path).kind == "mfcc"
    config = ModelConfig(layers=1, width=3, context=0)
    save_model(tmp_path / "final.pt", make_model(config, 4, 2, 0), "fbank", np.ones(2, int))
    assert load_scorer(tmp_path).kind == "fbank"


def test_features_of_another_model_are_an_error(tmp_path):
    odd = np.ones((1, 7), np.float32)
    DiagGmm(odd, odd, odd[:, 0], np.zeros(1, int)).save(tmp_path / "gmm.npz")
    with pytest.raises(UserError, match="takes 7 values"):
        load_scorer(tmp_path)


def test_empty_directory_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"neither final\.pt"):
        load_scorer(tmp_path)
