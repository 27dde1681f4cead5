"""One worker: plain serial training."""

from __future__ import annotations

from torch import nn

from asr_parallel.log import UserError
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Strategy


class Single(Strategy):
    def check(self, workers: int) -> None:
        if workers > 1:
            raise UserError(
                f"strategy `single` is for one worker, not {workers}: "
                "give --strategy.name model_average, or --workers 1"
            )

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        self.model = model
        return model

    def consensus(self) -> nn.Module:
        return self.model
