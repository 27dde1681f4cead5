"""A rate that falls by the same factor from step to step, whatever the dev sets say."""

from asr_parallel.config import ScheduleConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.clock import Clock
from asr_parallel.schedule.schedule import Schedule


class Exponential(Schedule):
    """``lr_x = lr ratio^x``, where x goes from 0 to 1 in steps.

    Steps are epochs as in Su & Chen 2015, x = (k - 1) / (E - 1) in epoch k of E; or exchanges as in Kaldi's nnet2
    (``train_tanh.sh``), where x is the part of the training that lies before the period in which the rate is
    constant.  x is a share of the data: one worker and many see the same curve over it.
    """

    def __init__(self, config: ScheduleConfig, lr: float, every: str = "1 minibatch", batch: int = 1):
        super().__init__(config, lr, every, batch)
        if config.final_ratio <= 0:
            raise UserError(f"--schedule.final_ratio {config.final_ratio}: give a number above 0, such as 0.02")

    def level(self, clock: Clock) -> float:
        return self.lr * self.config.final_ratio ** self._part(clock)

    def _part(self, clock: Clock) -> float:
        done = clock.epoch - 1
        if self.config.unit == "epoch":
            return done / max(self.config.epochs - 1, 1)
        begun = self.every.begun(clock, self.batch)
        return (done * clock.minibatches + begun) / (self.config.epochs * clock.minibatches)
