"""What a schedule is: it gives the rate, and judges each epoch by the dev sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from asr_parallel.config import ScheduleConfig
from asr_parallel.parallel.clock import Clock


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
    """Epochs count from 1.  The same on every worker: scores come from rank 0, so verdicts agree."""

    def __init__(self, config: ScheduleConfig, lr: float):
        self.config, self.lr = config, lr
        self.stopped = False

    def epochs(self, done: int) -> Iterator[int]:
        """Numbers of the epochs that are left after ``done`` of them."""
        for epoch in range(done + 1, self.config.epochs + 1):
            if self.stopped:
                return
            yield epoch

    @abstractmethod
    def rate(self, clock: Clock) -> float:
        """Learning rate of one worker for the next minibatch."""

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


def make_schedule(config: ScheduleConfig, lr: float) -> Schedule:
    """The schedule that ``config`` names; ``lr`` is the first rate."""
    from asr_parallel.schedule.constant import Constant
    from asr_parallel.schedule.exponential import Exponential
    from asr_parallel.schedule.newbob import Newbob

    kinds: dict[str, type[Schedule]] = {"constant": Constant, "exponential": Exponential, "newbob": Newbob}
    return kinds[config.name](config, lr)
