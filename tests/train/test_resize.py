"""A training that goes on with another number of workers says what that changes, and goes on well."""

import dataclasses
import logging

import pytest
from test_run import stop_at, table

from asr_parallel.config import ScheduleConfig, StrategyConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.train.run import run

EPOCHS = {1: (63, 13), 2: (31, 7), 3: (21, 5)}  # minibatches and exchanges of an epoch, by workers
STRATEGIES = [  # the strategy, its rate's scale by workers, what is kept of its state and what is not
    (StrategyConfig("gradient_average", wire="int8"), {2: 2.0, 3: 3.0}, "", "wire_mean, wire_own"),
    (StrategyConfig("model_average", "5 minibatches"), {2: 2.0, 3: 3.0}, "first_done, pace", ""),
    (StrategyConfig("block_momentum", "5 minibatches"), {2: 1.0, 3: 1.0}, "begun, delta, first_done, pace", ""),
    (StrategyConfig("elastic_average", "5 minibatches"), {2: 1.0, 3: 1.0}, "first_done, own, pace", ""),
    (StrategyConfig("independent_subnets", "5 minibatches"), {2: 1.0, 3: 1.0}, "first_done, pace, round", ""),
]


@pytest.mark.parametrize("case", STRATEGIES, ids=lambda case: case[0].name)
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_what_changes_with_the_number_of_workers_is_said(toy, monkeypatch, caplog, case, before, after):
    strategy, scale, kept, dropped = case
    schedule = ScheduleConfig("constant", epochs=3)
    config = toy(workers=before, strategy=strategy, backend="simulated", schedule=schedule)
    with monkeypatch.context() as patch:
        stop_at(patch, before * (EPOCHS[before][0] + 7))  # in the second epoch
        assert run(config) == STOPPED
    caplog.set_level(logging.WARNING)
    caplog.clear()
    assert run(dataclasses.replace(config, workers=after)) == 0
    (said,) = (line for line in caplog.messages if "going on after" in line)
    told = said.split(": ", 1)[1]
    parts = [f"workers {before} -> {after}"]
    if scale[before] != scale[after]:
        parts += [f"lr {0.2 * scale[before]:g} -> {0.2 * scale[after]:g}"]
    minibatches, exchanges = zip(EPOCHS[before], EPOCHS[after])
    parts += [f"minibatches {minibatches[0]} -> {minibatches[1]}"]
    counted = minibatches if strategy.name == "gradient_average" else exchanges
    parts += [f"exchanges {counted[0]} -> {counted[1]}"]
    expected = f"{', '.join(parts)}; the epoch under way begins anew; the optimizer begins anew"
    expected += f"; of the strategy's state kept: {kept}" if kept else ""
    expected += f"; of the strategy's state dropped: {dropped}" if dropped else ""
    assert told == expected
    assert said.startswith("going on after epoch 1: ")
    rows = table(config)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])


@pytest.mark.parametrize("name", ["ensemble", "ensemble_compression"])
def test_an_ensemble_keeps_its_number_of_models(toy, monkeypatch, name):
    config = toy(workers=2, strategy=StrategyConfig(name, "5 minibatches"), backend="simulated")
    with monkeypatch.context() as patch:
        stop_at(patch, 20)
        assert run(config) == STOPPED
    words = "--out holds an ensemble of 2 models, with which 3 workers cannot go on: give --workers 2"
    with pytest.raises(UserError, match=words):
        run(dataclasses.replace(config, workers=3))
