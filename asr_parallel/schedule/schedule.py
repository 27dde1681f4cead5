"""What a schedule is: it gives the rate, and judges each epoch by the dev sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from asr_parallel.config import ScheduleConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.clock import Cadence, Clock, Every


@dataclass(frozen=True)
class Scores:
    """Mean cross-entropy (nats a frame) and share of frames whose best pdf is the label."""

    loss: float
    accuracy: float


@dataclass(frozen=True)
class Verdict:
    """What is done after an epoch: keep or undo it, go on or stop; ``note`` says what else has changed."""

    accept: bool = True
    stop: bool = False
    note: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, ["accept" if self.accept else "reject", self.note, "stop" if self.stop else ""]))


class Schedule(ABC):
    """Epochs count from 1.  The same on every worker: scores come from rank 0, so verdicts agree.

    ``lr`` is the first rate, ``every`` the period of exchanges, ``batch`` the frames of a minibatch.  A rate
    depends on where the clock stands and on past verdicts alone, so a training that goes on has the same rates.
    """

    def __init__(self, config: ScheduleConfig, lr: float, every: str = "1 minibatch", batch: int = 1):
        self.config, self.lr, self.batch = config, lr, batch
        self.every = Cadence.parse(every)
        self.warmup = Every.parse(config.warmup, "--schedule.warmup") if config.warmup else None
        self.stopped = False

    def epochs(self, done: int) -> Iterator[int]:
        """Numbers of the epochs that are left after ``done`` of them."""
        for epoch in range(done + 1, self.config.epochs + 1):
            if self.stopped:
                return
            yield epoch

    def rate(self, clock: Clock) -> float:
        """Learning rate of one worker for the next minibatch."""
        return self.level(clock) * self._warmth(clock)

    @abstractmethod
    def level(self, clock: Clock) -> float:
        """The rate, warm-up apart."""

    def _warmth(self, clock: Clock) -> float:
        """Minibatch m of a warm-up of M has m / M of the rate."""
        if self.warmup is None:
            return 1.0
        minibatch = (clock.epoch - 1) * clock.minibatches + clock.minibatch + 1
        return min(1.0, minibatch * self.warmup.size(self.batch) / self.warmup.count)

    def begin(self, scores: Scores) -> None:  # noqa: B027
        """Told how good the network is before the first epoch."""

    def judge(self, epoch: int, scores: Scores) -> Verdict:
        """Told how good it is after ``epoch``; says what to do."""
        return Verdict(stop=epoch >= self.config.epochs)

    def state(self) -> dict[str, float]:
        """Numbers that continue from here."""
        return {"stopped": float(self.stopped)}

    def restore(self, state: dict[str, float]) -> None:
        self.stopped = bool(state["stopped"])


def make_schedule(config: ScheduleConfig, lr: float, every: str = "1 minibatch", batch: int = 1) -> Schedule:
    """The schedule that ``config`` names; see ``Schedule``.  Raises ``UserError`` for options that do not fit it."""
    from asr_parallel.schedule.constant import Constant
    from asr_parallel.schedule.exponential import Exponential
    from asr_parallel.schedule.listed import Listed
    from asr_parallel.schedule.newbob import Newbob, given

    kinds: dict[str, type[Schedule]] = {
        "constant": Constant,
        "exponential": Exponential,
        "list": Listed,
        "newbob": Newbob,
    }
    unread = [] if config.name == "newbob" else sorted(given(config))
    unread += ["rates"] if config.rates and config.name != "list" else []
    if unread:
        raise UserError(f"--schedule.name {config.name} does not read --schedule.{unread[0]}: leave it out")
    if config.epochs < 1:
        raise UserError(f"--schedule.epochs {config.epochs}: give 1 or more")
    return kinds[config.name](config, lr, every, batch)
