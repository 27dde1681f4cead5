"""A rate that falls by the same factor from epoch to epoch, whatever the dev sets say."""

from asr_parallel.parallel.clock import Clock
from asr_parallel.schedule.schedule import Schedule


class Exponential(Schedule):
    """``lr_k = lr ratio^((k - 1) / (E - 1))``, k = 1..E, constant inside an epoch (Su & Chen 2015, ratio 0.01)."""

    def rate(self, clock: Clock) -> float:
        steps = max(self.config.epochs - 1, 1)
        return self.lr * self.config.final_ratio ** ((clock.epoch - 1) / steps)
