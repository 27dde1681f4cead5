"""The table of optimizers."""

import pytest
from torch import nn

from asr_parallel.config import OptimConfig
from asr_parallel.log import UserError
from asr_parallel.optim.ngsgd import SU2015, NgSgd
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.optim.sgd import Sgd


def make(**options):
    return make_optimizer(OptimConfig(**options), nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 5)))


def test_names():
    assert isinstance(make(name="sgd", momentum=0.9), Sgd)
    assert isinstance(make(name="ngsgd"), NgSgd)


def test_options_reach_natural_gradient():
    options = make(name="ngsgd", rank_in=7, rank_out=9, update_period=3, max_change=0.5).options
    assert (options.rank_in, options.rank_out, options.update_period) == (7, 9, 3)
    assert options.max_change_per_sample == 0.5
    assert make(name="ngsgd", variant="su2015").options == SU2015


@pytest.mark.parametrize("option", ["momentum", "l2"])
def test_natural_gradient_refuses_what_it_does_not_have(option):
    with pytest.raises(UserError, match=option):
        make(name="ngsgd", **{option: 0.1})
