"""Pictures beside RESULTS.md: training curves, and WER with its intervals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asr_parallel.files import atomic
from asr_parallel.parallel.account import Account
from asr_parallel.parallel.ledger import PROBED
from asr_parallel.results import curves
from asr_parallel.results.record import Experiment
from asr_parallel.results.table import sets_tested

# Okabe & Ito's colours, which people of all kinds of colour vision can tell apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vP*X"  # one more than colours, so that the two together repeat late
GREY = "0.6"  # GMMs


def names(experiments: Sequence[Experiment]) -> list[str]:
    """Label of each system; with its directory where two would be called the same."""
    labels = [e.label for e in experiments]
    return [label if labels.count(label) == 1 else f"{label} ({e.name})" for label, e in zip(labels, experiments)]


def styles(experiments: Sequence[Experiment]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each DNN, by its name: the same in all pictures."""
    dnns = [e.name for e in experiments if e.is_dnn]
    return dict(zip(dnns, zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS))))


def training(experiments: Sequence[Experiment], path: Path) -> bool:
    """Loss and frame accuracy over epochs and over seconds of training, one colour a DNN; False if there is none.

    A dev figure stands at the end of its epoch, a hollow one if the epoch was undone.  A train figure is a mean over a
    part of an epoch, while the network changed, and stands in the middle of that part.
    """
    dnns = [e for e in experiments if e.is_dnn and e.curve("dev_loss") and e.curve("seconds")]
    if not dnns:
        return False
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        figure = Figure(figsize=(9, 6), layout="constrained")
        axes = figure.subplots(2, 2, sharex="col", sharey="row")
        for e, label in zip(dnns, names(dnns)):
            _curves(axes, e, label, *styles(experiments)[e.name])
        for (left, _), what in zip(axes, ("cross-entropy (nats per frame)", "frames right (%)")):
            left.set_ylabel(what)
        axes[1][0].set_xlabel("epoch")
        axes[1][0].xaxis.get_major_locator().set_params(integer=True)
        axes[1][1].set_xlabel("seconds of training")
        for axis in axes.flat:
            axis.set_xlim(left=0)
            _quiet(axis)
        lines = [axes[0][0].plot([], [], color="0.4", linestyle=style)[0] for style in ("-", ":")]
        handles, labels = axes[0][0].get_legend_handles_labels()
        words = [*labels, "dev, after the epoch", "train, as it went"]
        figure.legend(handles + lines, words, loc="outside upper center", ncols=3, frameon=False)
        _save(figure, path)
    return True


def _curves(axes: Sequence[Sequence[Axes]], e: Experiment, label: str, colour: str, marker: str) -> None:
    undone = curves.undone(e)
    clock = list(itertools.accumulate(e.curve("seconds"), initial=0.0))
    seconds = [clock[int(epoch) - 1] + s for epoch, s in zip(e.within("epoch"), e.within("seconds"))]
    for column, (x, parts) in enumerate(((e.curve("epoch"), curves.epochs_within(e)), (clock[1:], seconds))):
        middle = curves.middles(parts)
        for row, (what, scale) in enumerate((("loss", 1), ("acc", 100))):
            dev, train = ([scale * v for v in values] for values in (e.curve(f"dev_{what}"), e.within(what)))
            axis = axes[row][column]
            kept, hollow = ([(a, b) for a, b, no in zip(x, dev, undone) if no == which] for which in (False, True))
            axis.plot(*zip(*kept), color=colour, marker=marker, markersize=5, label=label)
            if hollow:
                axis.plot(*zip(*hollow), color=colour, marker=marker, markersize=5, mfc="white", linestyle="none")
            axis.plot(middle, train, color=colour, linestyle=":", linewidth=1.5)


def wer(experiments: Sequence[Experiment], path: Path) -> bool:
    """A panel a test set, a bar a system with its 95 % interval; False if nothing was scored."""
    sets = sets_tested(experiments)
    scored = [e for e in experiments if any(s["wer"] is not None for s in e.test_scores.values())]
    if not scored:
        return False
    colours = {name: colour for name, (colour, _) in styles(experiments).items()}
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        figure = Figure(figsize=(4.2 * len(sets) + 0.8, 0.45 * len(scored) + 1.2), layout="constrained")
        panels = figure.subplots(1, len(sets), sharey=True, squeeze=False)[0]
        for axis, name in zip(panels, sets):
            for row, e in enumerate(scored):
                _bar(axis, row, e.test_scores.get(name), colours.get(e.name, GREY))
            axis.set_title(name, fontsize=10)
            axis.set_xlabel("WER (%), 95 % interval")
            axis.margins(x=0.15)
            axis.set_xlim(left=0)
            _quiet(axis)
            axis.grid(axis="y", visible=False)
            axis.tick_params(axis="y", length=0)
        panels[0].set_yticks(range(len(scored)), names(scored))
        panels[0].invert_yaxis()
        _save(figure, path)
    return True


def _bar(axis: Axes, row: int, score: dict[str, Any] | None, colour: str) -> None:
    if score is None or score["wer"] is None:
        return
    rate = score["wer"]
    low, high = score["ci95"] or (rate, rate)
    error = [[max(0.0, rate - low)], [max(0.0, high - rate)]]
    axis.barh(row, rate, height=0.6, color=colour, xerr=error, error_kw={"capsize": 3, "ecolor": "black"})
    axis.annotate(f"{rate:.1f}", (high, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)


def probes(account: Account, path: Path) -> bool:
    """What was probed at exchanges, over epochs: losses above, how far models are apart below.  False if nothing was.

    Of the workers' models the mean, and a band from the best to the worst.
    """
    of = curves.probed(account)
    if not of:
        return False
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        figure = Figure(figsize=(7, 6), layout="constrained")
        losses, spread = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        losses.fill_between(of["epochs"], of["best"], of["worst"], color=COLOURS[0], alpha=0.2, linewidth=0,
                            label="best to worst worker")  # fmt: skip
        labels = ("mean of the workers' models", "average of parameters", "ensemble of outputs")
        for name, label, colour in zip(PROBED, labels, COLOURS):
            losses.plot(of["epochs"], of[name], color=colour, linewidth=1.5, label=label)
        spread.plot(of["epochs"], of["spread"], color=COLOURS[-1], linewidth=1.5)
        losses.set_ylabel("cross-entropy (nats per frame)")
        spread.set(xlabel="epoch", ylabel="spread")
        for axis in (losses, spread):
            axis.set_xlim(left=0)
            _quiet(axis)
        losses.legend(frameon=False)
        _save(figure, path)
    return True


def _quiet(axis: Axes) -> None:
    axis.grid(color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    """Write a PNG, the same bytes for the same figures."""
    with atomic(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130, metadata={"Software": None})
