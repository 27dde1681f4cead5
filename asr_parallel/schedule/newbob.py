"""Newbob: halve the rate when the dev sets no longer gain, stop when they hardly do.

"Newbob" names several rules, so each choice is an option of ``ScheduleConfig``:

===========  ==========================================  =============================  ====================
option       Kaldi nnet1 (``train_scheduler.sh``)        Su & Chen 2015 (text)          Su's script
===========  ==========================================  =============================  ====================
metric       loss, relative                              accuracy, absolute             loss, relative
start, stop  0.01, 0.001                                 0.005, 0.001                   0.01, 0.0001
latch        yes: once begun, every epoch halves         yes                            yes
reject       yes: an epoch that is no better is undone   not said                       yes
===========  ==========================================  =============================  ====================
"""

from __future__ import annotations

from asr_parallel.config import ScheduleConfig
from asr_parallel.parallel.clock import Clock
from asr_parallel.schedule.schedule import Schedule, Scores, Verdict


class Newbob(Schedule):
    """Kaldi's rule with its constants by default.  An epoch that is rejected counts as gain 0."""

    def __init__(self, config: ScheduleConfig, lr: float):
        super().__init__(config, lr)
        self.scale = 1.0  # rate / first rate, so that a resumed run may be given another first rate
        self.halving = False
        self.best: float | None = None  # the score that gains are measured against

    def rate(self, clock: Clock) -> float:
        return self.lr * self.scale

    def begin(self, scores: Scores) -> None:
        self.best = self._score(scores)

    def judge(self, epoch: int, scores: Scores) -> Verdict:
        if self.best is None:
            raise ValueError("Newbob needs the scores from before the first epoch: call begin()")
        c, new, before = self.config, self._score(scores), self.best
        free = epoch <= c.min_epochs  # always kept, never halved, never the last
        accept = new > before or free or not c.reject
        if accept:
            self.best = new
        gain = self.best - before
        if c.relative:
            gain /= max(abs(before), 1e-12)
        end = epoch >= c.epochs
        if free:
            return Verdict(accept, end)
        if self.halving and gain < c.stop:
            self.stopped = True
            return Verdict(accept, True, f"gain {gain:.4f}")
        self.halving = gain < c.start_halving or (self.halving and c.latch)
        if self.halving:
            self.scale *= c.factor
        return Verdict(accept, end, f"gain {gain:.4f}" + (", halve" if self.halving else ""))

    def _score(self, scores: Scores) -> float:
        """Larger is better."""
        return -scores.loss if self.config.metric == "loss" else scores.accuracy

    def state(self) -> dict[str, float]:
        return super().state() | {
            "scale": self.scale,
            "halving": float(self.halving),
            "best": float("nan") if self.best is None else self.best,
        }

    def restore(self, state: dict[str, float]) -> None:
        super().restore(state)
        self.scale, self.halving = state["scale"], bool(state["halving"])
        self.best = None if state["best"] != state["best"] else state["best"]
