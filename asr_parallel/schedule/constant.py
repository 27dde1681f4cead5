"""The same rate throughout."""

from asr_parallel.parallel.clock import Clock
from asr_parallel.schedule.schedule import Schedule


class Constant(Schedule):
    def level(self, clock: Clock) -> float:
        return self.lr
