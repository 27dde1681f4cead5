"""The text of RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from asr_parallel.log import duration
from asr_parallel.results.compare import Claim
from asr_parallel.results.record import Experiment

GMM_PHASES = ("mono", "mono_ali", "tri", "tri_ali", "lda_mllt", "lda_mllt_ali", "sat")  # each stands on those before
NONE = "–"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table; the first ``left`` columns are flush left, the others right; padded for reading as text."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    wide = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(wide)]
    lines = [[c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, wide))] for row in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def sets_tested(experiments: Sequence[Experiment]) -> list[str]:
    """Sets that nothing was tuned on, sorted."""
    return sorted({name for e in experiments for name in e.test_scores})


def systems(experiments: Sequence[Experiment]) -> str:
    """One row a system: WER with its interval on each test set, frame accuracy, time of training, speeds."""
    return markdown(*system_cells(experiments), left=2)


def system_cells(experiments: Sequence[Experiment]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of that table; the second cell of a row is the name of the directory."""
    sets = sets_tested(experiments)
    head = [
        "system",
        "directory",
        *(f"WER {s}" for s in sets),
        "frames right on dev",
        "training",
        "frames/s",
        "decoding",
    ]
    rows = [
        [
            e.label,
            e.name,
            *(wer_cell(e.test_scores.get(s)) for s in sets),
            f"{100 * e.train['dev_acc']:.1f} %" if "dev_acc" in e.train else NONE,
            NONE if (seconds := training_seconds(e)) is None else duration(seconds),
            f"{e.train['frames_per_s']:,}" if "frames_per_s" in e.train else NONE,
            decoding_cell(e),
        ]
        for e in experiments
    ]
    return head, rows


def wer_cell(score: dict[str, Any] | None) -> str:
    """``28.4 (25.8–33.2)``: WER in percent and its 95 % interval."""
    if score is None:
        return NONE
    if score["wer"] is None:
        return "undefined"
    interval = score.get("ci95")
    return f"{score['wer']:.1f}" + (f" ({interval[0]:.1f}–{interval[1]:.1f})" if interval else "")


def training_seconds(e: Experiment) -> float | None:
    """Seconds of training: of a GMM with everything that it is built from; of a DNN without its validation."""
    if e.is_dnn:
        return e.train.get("train_seconds")
    if e.name not in GMM_PHASES:
        return None
    phases = [e.align.get(name, {}).get("seconds") for name in GMM_PHASES[: GMM_PHASES.index(e.name) + 1]]
    return None if None in phases else float(sum(phases))


def decoding_cell(e: Experiment) -> str:
    """How many times faster than real time one core decodes, over all sets."""
    speech = [d["audio_seconds"] for d in e.decodes.values() if d.get("core_seconds")]
    cores = [d["core_seconds"] for d in e.decodes.values() if d.get("core_seconds")]
    return f"{sum(speech) / sum(cores):.0f} × real time" if cores else NONE


def comparisons(found: Sequence[Claim]) -> str:
    """One row a claim: the two rates, how much better, how sure."""
    head = ["new against old", "set", "old", "new", "fewer errors", "WER difference (95 %)", "P(new is better)"]
    return markdown(head, [_claim_row(c) for c in found], left=2)


def _claim_row(c: Claim) -> list[str]:
    r = c.result
    return [
        f"{c.new.name} against {c.old.name}",
        c.name,
        f"{r.wer_a:.1f}",
        f"{r.wer_b:.1f}",
        NONE if r.relative != r.relative else f"{r.relative:+.1f} %",
        f"{r.wer_a - r.wer_b:+.1f} ({r.low:+.1f} to {r.high:+.1f})",
        f"{100 * r.p_better:.1f} %",
    ]


def details(experiments: Sequence[Experiment]) -> str:
    """One row a scored set: where the scales came from, what kinds of errors there are."""
    head = ["system", "set", "tuned on", "lmwt", "wip", "words", "WER", "sub", "del", "ins", "sentences wrong"]
    rows = []
    for e in experiments:
        for name, s in e.scores.items():
            share = [f"{100 * s[k] / s['words']:.1f}" if s["words"] else NONE for k in ("sub", "del", "ins")]
            tuned = "itself" if s["tuned_on"] == name else s["tuned_on"]
            ser = NONE if s["ser"] is None else f"{s['ser']:.1f} %"
            wer = "undefined" if s["wer"] is None else f"{s['wer']:.2f}"
            rows.append([e.name, name, tuned, str(s["lmwt"]), str(s["wip"]), f"{s['words']:,}", wer, *share, ser])
    return markdown(head, rows, left=3)


def remarks(experiments: Sequence[Experiment]) -> list[str]:
    """What a reader of the figures must know: utterances without hypothesis, empty references, few speakers."""
    found = []
    for e in experiments:
        for name, s in e.test_scores.items():
            if s["missing"]:
                lost = f"{len(s['missing'])} of {s['utts']} utterances have no hypothesis and count as deleted"
                found.append(f"{e.name}, {name}: {lost}.")
            if s["empty_references"]:
                found.append(f"{e.name}, {name}: {s['empty_references']} references are empty; insertions there count.")
    units = {name: s["ci95_unit"] for e in experiments for name, s in e.test_scores.items() if s["ci95"]}
    for unit in sorted(set(units.values())):
        found.append(f"Intervals of {', '.join(sorted(n for n in units if units[n] == unit))}: {unit} were drawn.")
    return found


def language_model(lang: dict[str, Any]) -> str:
    """Unknown words and perplexity of each set."""
    head = ["set", "words", "unknown", "unknown %", "perplexity"]
    rows = [
        [name, f"{s['words']:,}", f"{s['oov']:,}", f"{100 * s['oov_rate']:.2f}", f"{s['perplexity']:.1f}"]
        for name, s in lang.get("sets", {}).items()
    ]
    return markdown(head, rows)


def corpus(prepare: dict[str, Any]) -> str:
    """Size of each set, and what was left out of it."""
    head = ["set", "utterances", "speakers", "minutes", "words", "left out"]
    rows = []
    for name, s in prepare.get("sets", {}).items():
        dropped = prepare.get("dropped", {}).get(name, {})
        why = ", ".join(f"{n:,} {reason}" for reason, n in dropped.items() if n) or NONE
        rows.append([name, f"{s['utts']:,}", str(s["speakers"]), f"{s['minutes']:.1f}", f"{s['words']:,}", why])
    return markdown(head, rows)


def machines(experiments: Sequence[Experiment]) -> str:
    """The machine of the trainings in words; several, if they were several; without a DNN, the one we are on."""
    noted = [e.train["machine"] for e in experiments if e.train.get("machine")] or [this_machine()]
    return "; ".join(dict.fromkeys(machine_words(m) for m in noted))


def this_machine() -> dict[str, Any]:
    """As train.json has it."""
    import torch

    from asr_parallel.train.machine import machine

    return machine(torch.device("cpu"))


def machine_words(m: dict[str, Any]) -> str:
    parts = [m.get("cpu", "unknown processor"), f"{m.get('cores', '?')} cores"]
    parts += [f"{m['memory_gib']} GiB"] if "memory_gib" in m else []
    parts += [m["gpu"]] if m.get("gpu") else []
    parts += [f"torch {m['torch']}"] if "torch" in m else []
    return ", ".join(parts)
