"""A strategy written from ``docs/strategies.md`` alone, in under 60 lines: ``docs/examples/rotating_average.py``."""

import importlib.util
from pathlib import Path

import pytest
import torch
from test_run import assert_same_history, assert_same_model, stop_at, table
from torch import nn

import asr_parallel.train.run as train_run
from asr_parallel.config import ScheduleConfig, StrategyConfig
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.simulated import simulate

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "rotating_average.py"
spec = importlib.util.spec_from_file_location("rotating_average", EXAMPLE)
assert spec is not None
assert spec.loader is not None
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)


@pytest.fixture
def written(monkeypatch):
    """Let ``model_average`` be the example, in whose place it stands in the table."""
    monkeypatch.setattr(train_run, "make_strategy", example.RotatingAverage)


def training(toy, workers):
    strategy = StrategyConfig("model_average", every="5 minibatches")
    return toy(workers=workers, strategy=strategy, backend="simulated", schedule=ScheduleConfig(epochs=2))


def test_it_is_as_short_as_the_page_says():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 60


def test_after_a_round_of_all_parts_workers_have_the_mean_of_all():
    means, ends = [], []

    def work(comm):
        strategy = example.RotatingAverage(StrategyConfig("model_average"))
        strategy.start(nn.Linear(5, 3), comm)
        strategy.values.copy_(torch.randn(18, generator=torch.Generator().manual_seed(comm.rank)))
        means.append(strategy.values.clone())
        sent = sum(strategy.exchange(comm).bytes for _ in range(example.PARTS))
        assert sent == pytest.approx(2 * 18 * 4 * 2 / 3, abs=4 * example.PARTS)  # one vector round a ring of three
        ends.append(strategy.values)
        return 0

    simulate(3, work)
    for end in ends:
        torch.testing.assert_close(end, sum(means) / 3)


def test_one_worker_trains_as_without_it(toy, monkeypatch):
    alone = toy(strategy=StrategyConfig("single", every="5 minibatches"), schedule=ScheduleConfig(epochs=2))
    rotating = training(toy, 1)
    assert train_run.run(alone) == 0
    monkeypatch.setattr(train_run, "make_strategy", example.RotatingAverage)
    assert train_run.run(rotating) == 0
    assert_same_model(rotating, alone)


def test_workers_learn_and_a_stopped_training_goes_on(toy, written, monkeypatch):
    whole, cut = training(toy, 2), training(toy, 2)
    assert train_run.run(whole) == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 20)
        assert train_run.run(cut) == STOPPED
    assert train_run.run(cut) == 0
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)
    assert float(table(whole)[-1]["dev_acc"]) > 0.5  # six pdfs
    sizes = {int(row["bytes"]) for row in table(whole, "ledger.tsv")}
    assert len(sizes) > 1  # parts within an epoch, all at its end
