"""Frame labels that are spread a little over all pdfs."""

from types import SimpleNamespace

import pytest
import torch

from asr_parallel.config import StrategyConfig, TrainConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.train.run import run


def test_loss_is_cross_entropy_with_the_smoothed_label():
    logits, y = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 6, 3, 3, 1])
    strategy = make_strategy(StrategyConfig())
    log_posteriors = torch.log_softmax(logits, 1)
    for share in (0.0, 0.2):
        strategy.label_smoothing = share
        target = torch.full((5, 7), share / 7)
        target[torch.arange(5), y] += 1 - share
        expected = -(target * log_posteriors).sum(1).mean()
        assert strategy.loss(logits, SimpleNamespace(y=y)).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_shares_beyond_reason_are_refused(share):
    with pytest.raises(UserError, match="label_smoothing"):
        run(TrainConfig(label_smoothing=share))
