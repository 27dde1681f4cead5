"""Newbob: halve the rate when the dev sets no longer gain, stop when they hardly do.

"Newbob" names several rules.  They are presets of one: options that are given beside a preset take its place.

===========  ======================  ==================  =====================  =====================
option       kaldi                   su2015              speechbrain            returnn
===========  ======================  ==================  =====================  =====================
metric       loss                    accuracy            loss                   loss
gain         relative                absolute            relative               relative to the new
start, stop  0.01, 0.001             0.005, 0.001        0.0025, never          0.01, never
latch        once begun, each halves the same            only poor epochs       only poor epochs
reject       no better: undone       not said: the same  kept                   kept
first epoch  measured like others    the same            only measured against  only measured against
===========  ======================  ==================  =====================  =====================

kaldi: nnet1's ``steps/nnet/train_scheduler.sh``.  su2015: the text of Su & Chen 2015; their script is Kaldi's with
``stop`` 0.0001.  speechbrain: ``nnet/schedulers.py``, NewBobScheduler, whose ``patient`` is ``patience``.
returnn: ``learning_rate_control.py``, NewbobRelative (``newbob``); its ``newbob_abs`` has ``gain`` absolute.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from asr_parallel.config import ScheduleConfig
from asr_parallel.parallel.clock import Clock
from asr_parallel.schedule.schedule import Schedule, Scores, Verdict

NEVER = float("-inf")


@dataclass(frozen=True)
class Rule:
    """``ScheduleConfig`` explains the fields.  The defaults are Kaldi's."""

    metric: Literal["loss", "accuracy"] = "loss"
    gain: Literal["relative", "relative_to_new", "absolute"] = "relative"
    start_halving: float = 0.01
    stop: float = 0.001
    factor: float = 0.5
    latch: Literal["yes", "no"] = "yes"
    reject: Literal["yes", "no"] = "yes"
    keep_lr: int = 0  # Kaldi's keep_lr_iters
    min_epochs: int = 0  # Kaldi's min_iters
    patience: int = 0


PRESETS = {
    "kaldi": Rule(),
    "su2015": Rule(metric="accuracy", gain="absolute", start_halving=0.005),
    "speechbrain": Rule(start_halving=0.0025, stop=NEVER, latch="no", reject="no", keep_lr=1),
    "returnn": Rule(gain="relative_to_new", stop=NEVER, latch="no", reject="no", keep_lr=1),
}


def given(config: ScheduleConfig) -> dict[str, Any]:
    """The options of Newbob that ``config`` gives beside the preset."""
    values = {f.name: getattr(config, f.name) for f in fields(Rule)}
    return {name: value for name, value in values.items() if value is not None}


class Newbob(Schedule):
    """An epoch that is rejected counts as gain 0."""

    def __init__(self, config: ScheduleConfig, lr: float, every: str = "1 minibatch", batch: int = 1):
        super().__init__(config, lr, every, batch)
        self.rule = replace(PRESETS[config.preset], **given(config))
        self.scale = 1.0  # rate / first rate, so that a resumed run may be given another first rate
        self.halving = False
        self.waited = 0  # poor epochs that patience has let pass
        self.best: float | None = None  # the score that gains are measured against

    def level(self, clock: Clock) -> float:
        return self.lr * self.scale

    def begin(self, scores: Scores) -> None:
        self.best = self._score(scores)

    def judge(self, epoch: int, scores: Scores) -> Verdict:
        if self.best is None:
            raise ValueError("Newbob needs the scores from before the first epoch: call begin()")
        rule, new, before = self.rule, self._score(scores), self.best
        accept = new > before or rule.reject == "no" or epoch <= max(rule.keep_lr, rule.min_epochs)
        if accept:
            self.best = new
        last = epoch >= self.config.epochs
        if epoch <= rule.keep_lr:
            return Verdict(accept, last)
        gain = self._gain(before, self.best)
        note = f"gain {gain:.4f}"
        if self.halving and gain < rule.stop:
            self.stopped = epoch > rule.min_epochs
            return Verdict(accept, self.stopped or last, note)
        self.halving = self._poor(gain) or (self.halving and rule.latch == "yes")
        if self.halving:
            self.scale *= rule.factor
        return Verdict(accept, last, note + (", halve" if self.halving else ""))

    def _score(self, scores: Scores) -> float:
        """Larger is better."""
        return -scores.loss if self.rule.metric == "loss" else scores.accuracy

    def _gain(self, before: float, now: float) -> float:
        unit = {"absolute": 1.0, "relative": abs(before), "relative_to_new": abs(now)}[self.rule.gain]
        return (now - before) / max(unit, 1e-12)

    def _poor(self, gain: float) -> bool:
        """Whether it is time to halve; a gain that is not poor does not renew the patience."""
        if gain >= self.rule.start_halving:
            return False
        if self.waited < self.rule.patience:
            self.waited += 1
            return False
        self.waited = 0
        return True

    def state(self) -> dict[str, float]:
        return super().state() | {
            "scale": self.scale,
            "halving": float(self.halving),
            "waited": float(self.waited),
            "best": float("nan") if self.best is None else self.best,
        }

    def restore(self, state: dict[str, float]) -> None:
        super().restore(state)
        self.scale, self.halving, self.waited = state["scale"], bool(state["halving"]), int(state["waited"])
        self.best = None if state["best"] != state["best"] else state["best"]
