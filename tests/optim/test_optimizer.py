"""The table of optimizers."""

import dataclasses
import logging
import typing

import pytest
from torch import nn

from asr_parallel.config import OptimConfig
from asr_parallel.log import UserError
from asr_parallel.optim.adamw import AdamW
from asr_parallel.optim.ngsgd import SU2015, NgSgd
from asr_parallel.optim.optimizer import OF_ALL, OPTIONS, make_optimizer
from asr_parallel.optim.sgd import Sgd


def make(**options):
    return make_optimizer(OptimConfig(**options), nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 5)))


def test_names():
    assert isinstance(make(name="sgd", momentum=0.9), Sgd)
    assert isinstance(make(name="ngsgd"), NgSgd)
    assert isinstance(make(name="adamw", lr=0.001), AdamW)
    assert set(OPTIONS) == set(typing.get_args(typing.get_type_hints(OptimConfig)["name"]))
    named = set().union(*OPTIONS.values()) | OF_ALL
    assert named == {f.name for f in dataclasses.fields(OptimConfig)}


def test_options_reach_natural_gradient():
    options = make(name="ngsgd", rank_in=7, rank_out=9, update_period=3, max_change=0.5).options
    assert (options.rank_in, options.rank_out, options.update_period) == (7, 9, 3)
    assert options.max_change_per_sample == 0.5
    assert make(name="ngsgd", variant="su2015").options == SU2015


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ngsgd", {"momentum": 0.1}),
        ("ngsgd", {"clip": 1.0}),
        ("ngsgd", {"beta2": 0.9}),
        ("ngsgd", {"rank_in": 7, "variant": "su2015"}),
        ("sgd", {"rank_out": 7}),
        ("sgd", {"eps": 1.0}),
        ("sgd", {"variant": "su2015"}),
        ("adamw", {"momentum": 0.9}),
        ("adamw", {"nesterov": True}),
        ("adamw", {"max_change": 0.0}),
    ],
)
def test_options_of_other_optimizers_are_refused(name, options):
    option, value = next(iter(options.items()))
    with pytest.raises(UserError, match=rf"--optim.{option} {value}: {name}.* has no such option, only .*l1, l2, lr,"):
        make(name=name, **options)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"l2": -1.0}, "l2 -1.0: must not be negative"),
        ({"lr": -1.0}, "lr -1.0: must not be negative"),
        ({"momentum": 1.0}, "momentum 1.0: must be below 1"),
        ({"nesterov": True}, "nesterov needs a --optim.momentum"),
    ],
)
def test_values_without_sense_are_refused(options, why):
    with pytest.raises(UserError, match=why):
        make(name="sgd", **options)


def test_the_default_rate_is_too_high_for_adamw(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    make(name="adamw", lr=0.001)
    assert not caplog.text
    make(name="adamw")
    assert "wants about 0.001" in caplog.text
