"""Rates that are written down, one an epoch."""

from asr_parallel.config import ScheduleConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.clock import Clock
from asr_parallel.schedule.schedule import Schedule


class Listed(Schedule):
    """``--schedule.rates 0.5 0.5 0.1``; the last one stays if there are more epochs.  ``optim.lr`` is not read."""

    def __init__(self, config: ScheduleConfig, lr: float, every: str = "1 minibatch", batch: int = 1):
        super().__init__(config, lr, every, batch)
        if not config.rates or min(config.rates) < 0:
            raise UserError("--schedule.name list: give --schedule.rates, one number from 0 up an epoch")
        if len(config.rates) > config.epochs:
            raise UserError(f"--schedule.rates: {len(config.rates)} rates for --schedule.epochs {config.epochs}")

    def level(self, clock: Clock) -> float:
        return self.config.rates[min(clock.epoch, len(self.config.rates)) - 1]
