"""What there is to see of a training: its curves, its epochs, and where the time of its workers has gone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from asr_parallel.log import UserError, duration, logger
from asr_parallel.parallel.account import Account
from asr_parallel.parallel.ledger import PROBED
from asr_parallel.results import curves
from asr_parallel.results.info import LOSSES, SIMULATED, summary, workers_words
from asr_parallel.results.record import Experiment
from asr_parallel.results.report.chart import Band, Chart, Line, Point
from asr_parallel.results.report.lack import Lack, command
from asr_parallel.results.table import training_seconds
from asr_parallel.results.training import Training

log = logger(__name__)
PROBES = ("mean of the workers' models", "average of parameters", "ensemble of outputs")  # as in ``PROBED``


@dataclass(frozen=True)
class Course:
    """``figures`` are those of verb ``info``; ``epochs`` has the columns of history.tsv."""

    figures: dict[str, Any] = field(default_factory=dict)
    charts: Sequence[Chart] = ()
    epochs: dict[str, list[str]] = field(default_factory=dict)
    lacks: Sequence[Lack] = ()


def course(e: Experiment) -> Course:
    """Of a GMM there is only what it lacks.  Files that cannot be summed up are such a lack too, with the reason."""
    if not (e.path / "config.json").exists():
        learn = command("train", "--ali", e.path, "--out", e.path.with_name("dnn"))
        return Course(lacks=[Lack("No curves: this is no network. One learns the frame labels of a GMM by", learn)])
    try:
        training = Training.open(e.path)
        figures, account = summary(training), training.account
    except UserError as error:
        log.warning("%s", error)
        return Course({}, charts(e), e.history, [Lack(f"No figures of workers and exchanges: {error}")])
    return Course(figures, [*charts(e), *probes(account)], e.history, list(_lacks(e, training)))


def _lacks(e: Experiment, training: Training) -> Sequence[Lack]:
    again, found = shlex.quote(str(e.path / "run.sh")), []
    if not training.finished:
        found.append(Lack("The training is not finished; it goes on with", again))
    if not len(training.account):
        found.append(Lack("No exchanges: one worker has nobody to meet." if training.workers == 1 else
                          "No exchanges: none has been written down yet."))  # fmt: skip
    elif not curves.probed(training.account):
        probe = f"{again} --force --strategy.probe 2000"
        found.append(Lack("Exchanges were not probed, so nothing tells what they are good for; anew with it:", probe))
    return found


def charts(e: Experiment) -> list[Chart]:
    """Loss, frames right and learning rate over epochs, those that there are."""
    loss = Chart("Loss", "epoch", "nats per frame", _over_epochs(e, "loss", 1))
    right = Chart("Frames right", "epoch", "%", _over_epochs(e, "acc", 100))
    rate = Chart("Learning rate", "epoch", "rate", [Line("rate", list(zip(curves.epochs_within(e), e.within("lr"))))])
    return [chart for chart in (loss, right, rate) if chart.shown]


def _over_epochs(e: Experiment, what: str, scale: float) -> list[Line]:
    epochs, undone = e.curve("epoch"), curves.undone(e)

    def points(x: Sequence[float], values: Sequence[float]) -> list[Point]:
        return [(a, scale * b) for a, b in zip(x, values)]

    dev = points(epochs, e.curve(f"dev_{what}"))
    return [
        Line("dev, after the epoch", list(compress(dev, [not no for no in undone])), "dots"),
        Line("dev, of an epoch that was undone", list(compress(dev, undone)), "marks"),
        Line("train, as it went", points(curves.middles(curves.epochs_within(e)), e.within(what)), "dotted"),
        Line("dev, mean of the ensemble's models", points(epochs, e.curve(f"local_{what}_mean")), "dots"),
    ]


def probes(account: Account) -> list[Chart]:
    """What was probed at exchanges: losses, and how far the models are apart."""
    of = {name: values.tolist() for name, values in curves.probed(account).items()}
    if not of:
        return []
    over = {name: list(zip(of["epochs"], values)) for name, values in of.items()}
    lines = [Line(label, over[name]) for name, label in zip(PROBED, PROBES)]
    band = Band("best to worst worker", over["best"], over["worst"])
    return [
        Chart("Probe at exchanges", "epoch", "nats per frame", lines, band),
        Chart("Spread of the models", "epoch", "relative", [Line("spread", over["spread"])]),
    ]


def facts(e: Experiment, figures: dict[str, Any]) -> list[tuple[str, str]]:
    """What the training was and what it has reached, by name, in words; of a GMM the seconds it was built in."""
    if not figures:
        seconds = training_seconds(e)
        return [("Built in", duration(seconds))] if seconds is not None else []
    epochs = f"{figures['epochs']} of {figures['of_epochs']}, {figures['frames']:,} frames"
    found = [
        ("Network", figures["network"] + (f", {figures['params']:,} parameters" if figures["params"] else "")),
        ("Workers", f"{workers_words(figures)}, strategy {figures['strategy']}"),
        ("Optimiser and schedule", f"{figures['optimizer']}, {figures['schedule']}"),
        ("Epochs", f"{epochs} in {duration(figures['seconds'])}, {figures['frames_per_s']:,} frames/s"),
    ]
    for what in ("kept", "best"):
        if f"{what}_epoch" in figures:
            loss, right = figures[f"{what}_dev_loss"], 100 * figures[f"{what}_dev_acc"]
            scores = f"loss {loss:.4f}, {right:.2f} % of frames right"
            found.append((f"Dev sets, {what} epoch", f"{scores} (epoch {figures[f'{what}_epoch']})"))
    return [*found, *_speed_ups(figures)]


def _speed_ups(figures: dict[str, Any]) -> list[tuple[str, str]]:
    if figures["simulated"] and "ranks" in figures:
        return [("Speed-up", f"not told: {SIMULATED}")]
    if "speed_up" not in figures:
        return []
    lost = ", ".join(f"{name} {100 * figures[name]:.1f} %" for name in LOSSES)
    gain = f"{figures['speed_up']:.2f}, efficiency {100 * figures['efficiency']:.1f} %"
    return [("Speed-up over one worker that computes as fast", gain), ("Lost to", lost)]
