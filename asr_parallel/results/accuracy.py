"""The page of results of classifiers: accuracy with intervals, what workers have sent, comparisons, classes."""

from __future__ import annotations

from collections.abc import Sequence

from asr_parallel.config import ResultsConfig
from asr_parallel.log import UserError, duration
from asr_parallel.results import table
from asr_parallel.results.compare import claims, speedups
from asr_parallel.results.record import Experiment, load, read_columns


def page(config: ResultsConfig, experiments: Sequence[Experiment], pictures: dict[str, str]) -> str:
    """The text of RESULTS.md; ``pictures`` are names of files with what they show.  UserError if nothing is there."""
    sets = table.sets_tested(experiments)
    if not any("accuracy" in s for e in experiments for s in e.scores.values()):
        raise UserError(f"{config.exp}: no classes have been told there; run `classify` first")
    parts = [
        f"# Results: {config.title}",
        f"`{config.command}` prints these figures. Machine: {table.machines(experiments)}.",
        systems(experiments),
        "Accuracy in percent with its 95 % bootstrap interval; nothing was tuned on the test set. Training: without "
        "validation. MB sent: by a worker, in all.",
        *(f"![{text}]({name})" for name, text in pictures.items()),
    ]
    if found := comparisons(experiments):
        parts += [
            "## Which is better\n\nPaired bootstrap: both systems on the same draws of the same clips. Where the "
            "interval of the difference holds 0, the set is too small to tell them apart.",
            found,
            *speedups(experiments),
        ]
    parts += [part for name in sets for part in (f"## Classes of {name}", classes(experiments, name))]
    if prepare := load(config.data / "prepare.json"):
        parts += ["## Data", table.corpus(prepare)]
    return "\n\n".join(parts) + "\n"


def systems(experiments: Sequence[Experiment]) -> str:
    """One row a system: strategy, accuracy on each test set and on dev, time of training, speed, what was sent."""
    sets = table.sets_tested(experiments)
    head = ["system", "workers", "strategy", "parameters", *(f"accuracy {s}" for s in sets), "on dev"]
    head += ["training", "clips/s", "MB sent"]
    rows = []
    for e in experiments:
        t = e.train
        right = [_accuracy(e, s) for s in sets]
        rest = [f"{100 * t['dev_acc']:.1f}", duration(t["train_seconds"]), f"{t['frames_per_s']:,}"]
        sent = f"{t['exchange_bytes'] / e.workers / 1e6:,.1f}"
        rows.append([e.name, str(e.workers), t["strategy"], f"{t['params']:,}", *right, *rest, sent])
    return table.markdown(head, rows)


def _accuracy(e: Experiment, name: str) -> str:
    """``81.5 (80.9–82.1)``."""
    score = e.scores.get(name, {})
    if score.get("accuracy") is None:
        return table.NONE
    low, high = score["accuracy_ci95"]
    return f"{score['accuracy']:.1f} ({low:.1f}–{high:.1f})"


def comparisons(experiments: Sequence[Experiment]) -> str:
    """Each system of several workers against that of one; empty if there is no such pair."""
    head = ["new against old", "set", "old", "new", "difference (95 %)", "P(new is better)"]
    rows = []
    for c in claims(experiments):
        r = c.result  # of error rates
        gain = f"{r.wer_a - r.wer_b:+.1f} ({r.low:+.1f} to {r.high:+.1f})"
        rates = [f"{100 - r.wer_a:.1f}", f"{100 - r.wer_b:.1f}", gain, f"{100 * r.p_better:.1f} %"]
        rows.append([f"{c.new.name} against {c.old.name}", c.name, *rates])
    return table.markdown(head, rows, left=2) if rows else ""


def classes(experiments: Sequence[Experiment], name: str) -> str:
    """One row a class: clips, accuracy of each system, and what the first system takes it for."""
    tables = {e.name: read_columns(e.path / f"decode_{name}" / "classes.tsv") for e in experiments}
    scored = {system: columns for system, columns in tables.items() if columns}
    first = next(iter(scored.values()))
    accuracies = {system: dict(zip(c["class"], c["accuracy"])) for system, c in scored.items()}
    rows = [
        [said, clips, *(f"{float(of.get(said, 'nan')):.0f}" for of in accuracies.values()), others]
        for said, clips, others in zip(first["class"], first["utts"], first["taken_for"])
    ]
    return table.markdown(["class", "clips", *scored, f"taken for, by {next(iter(scored))}"], rows)
