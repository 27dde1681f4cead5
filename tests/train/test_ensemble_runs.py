"""Whole trainings of ensembles on a toy corpus: what is reported, kept and decoded, and going on after a kill."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from test_run import Killed, kill_at

from asr_parallel.align.labels import Labels
from asr_parallel.config import ModelConfig, OptimConfig, ScheduleConfig, StrategyConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.log import UserError
from asr_parallel.model import load_network, load_predictor
from asr_parallel.train.run import run

NET = ModelConfig(2, 16, "sigmoid", "nnet1", context=1, batch_norm=True, dropout=0.1)
TIMES = ("seconds", "frames_per_s")


def compression(**changes):
    return StrategyConfig("ensemble_compression", **({"every": "5 minibatches", "pseudo_minibatches": 3} | changes))


def two(toy, strategy, **changes):
    return toy(workers=2, backend="simulated", strategy=strategy, **({"model": NET} | changes))


def table(config):
    header, *rows = [line.split("\t") for line in (config.out / "history.tsv").read_text().splitlines()]
    return [{k: v for k, v in zip(header, row, strict=True) if k not in TIMES} for row in rows]


def weights(folder):
    return torch.load(folder / "final.pt", weights_only=True)["state"]


def assert_same(one, other):
    assert table(one) == table(other)
    a, b = weights(one.out), weights(other.out)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def dev_scores(config, folder):
    """The oracle: loss and accuracy on all dev sets, utterance by utterance through the decoder's door."""
    predictor, losses, right = load_predictor(folder), [], []
    for name in config.dev:
        features, labels = FeatureSet.open(config.data, name, "fbank"), Labels.load(config.ali / f"ali_{name}.npz")
        for utt in features.utts:
            scores, y = predictor.log_posteriors(features[utt]), labels[utt]
            losses += (-scores[np.arange(len(y)), y]).tolist()
            right += (scores.argmax(1) == y).tolist()
    return np.mean(losses), np.mean(right)


@pytest.mark.parametrize("name", ["ensemble", "ensemble_compression"])
def test_one_worker_is_serial_training(toy, name):
    single, other = (toy(strategy=StrategyConfig(n, "3 minibatches")) for n in ("single", name))
    run(single)
    run(other)
    assert_same(single, other)
    assert not list(other.out.glob("local_*"))


@pytest.mark.parametrize("strategy", [StrategyConfig("ensemble"), compression(), compression(ensemble_by="ring")])
def test_ensemble_and_its_models_are_reported_kept_and_decoded(toy, monkeypatch, strategy):
    monkeypatch.setattr("asr_parallel.train.corpus.DEV_BATCH", 50)
    monkeypatch.setattr("asr_parallel.train.validate.BLOCK", 2)
    config = two(toy, strategy)
    run(config)
    row = {name: float(value) for name, value in table(config)[-1].items() if name != "verdict"}
    loss, accuracy = dev_scores(config, config.out)
    assert (row["dev_loss"], row["dev_acc"]) == (pytest.approx(loss, abs=2e-5), pytest.approx(accuracy, abs=2e-5))
    local = [dev_scores(config, config.out / f"local_{rank}") for rank in range(2)]
    means = np.mean(local, axis=0)
    best = int(np.argmin([loss for loss, _ in local]))
    figures = [row[f"local_{what}"] for what in ("loss_mean", "acc_mean", "loss_best", "acc_best", "best")]
    assert figures == pytest.approx([*means, *local[best], best], abs=2e-5)
    assert row["dev_loss"] < row["local_loss_mean"]
    summary = json.loads((config.out / "train.json").read_text())
    assert summary["local_best"] == best
    assert (config.out / "local_1" / "hmm.json").exists()

    scorers = [load_scorer(folder) for folder in (config.out, config.out / "local_0", config.out / "local_1")]
    feats = np.random.default_rng(0).normal(size=(9, scorers[0].dim)).astype(np.float32)
    together, *alone = (np.exp(s.loglikes(feats) + load_predictor(config.out).log_priors) for s in scorers)
    np.testing.assert_allclose(together, np.mean(alone, axis=0), rtol=1e-4, atol=1e-6)
    own = [weights(config.out / f"local_{rank}")["norms.0.running_mean"] for rank in range(2)]
    assert not torch.equal(*own)  # statistics of batch norm are each model's own


def test_an_ensemble_is_not_one_network_to_start_from(toy):
    config = two(toy, StrategyConfig("ensemble"), schedule=ScheduleConfig(epochs=1))
    run(config)
    assert isinstance(load_network(config.out / "local_0"), torch.nn.Module)
    with pytest.raises(UserError, match="local_0"):
        load_network(config.out)


def newbob(epochs):
    """A rate that is far too high at first, so that epochs are undone."""
    schedule = ScheduleConfig("newbob", epochs=epochs, start_halving=0.2, stop=-1.0, latch="yes")
    return {"schedule": schedule, "optim": OptimConfig("sgd", lr=30.0)}


FIRST, SECOND = 2 * 23, 2 * 31 + 2 * 20  # steps of both workers: within the first and the second epoch


@pytest.mark.parametrize(
    ("strategy", "step"),
    [(StrategyConfig("ensemble", "5 minibatches"), SECOND), (compression(), FIRST), (compression(), SECOND),
     (compression(ensemble_by="ring", pseudo_decay=0.9), FIRST), (compression(ensemble_by="ring"), SECOND)],
)  # fmt: skip
def test_a_killed_training_goes_on_to_the_same_bits(toy, strategy, step):
    whole, cut = (two(toy, strategy, save_every=10, **newbob(3)) for _ in range(2))
    run(whole)
    assert [row["verdict"][:6] for row in table(whole)][0::2] == ["reject", "accept"]
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, step)
        with pytest.raises(Killed):
            run(cut)
    run(cut)
    assert_same(whole, cut)


def test_after_an_undone_epoch_the_ensemble_is_that_before_it(toy):
    config = two(toy, StrategyConfig("ensemble", "5 minibatches"), **newbob(5))
    run(config)
    rows = table(config)
    assert rows[-1]["verdict"].startswith("reject")
    kept = [row for row in rows if row["verdict"].startswith("accept")][-1]
    assert float(kept["dev_loss"]) == pytest.approx(dev_scores(config, config.out)[0], abs=2e-5)


def test_another_number_of_workers_is_refused(toy):
    config = two(toy, compression())
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 2 * 35)
        with pytest.raises(Killed):
            run(config)
    with pytest.raises(UserError, match=r"ensemble of 2 models.*--workers 2"):
        run(dataclasses.replace(config, workers=3))
    run(config)
    assert (config.out / "local_1" / "final.pt").exists()
    run(dataclasses.replace(config, workers=1, force=True))
    assert not (config.out / "local_1" / "final.pt").exists()
