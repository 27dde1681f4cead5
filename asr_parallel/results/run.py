"""Verb ``results``: RESULTS.md and its pictures, from what the stages have left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr_parallel.config import ResultsConfig
from asr_parallel.files import write_text
from asr_parallel.log import logger
from asr_parallel.results import accuracy, plots, table
from asr_parallel.results.compare import claims, speedups
from asr_parallel.results.record import Experiment, find, load

log = logger(__name__)


def run(config: ResultsConfig) -> None:
    """Write ``config.out``, and pictures beside it; print the table of systems."""
    experiments = find(config.exp)
    drawn = [("training.png", "Training: loss and frame accuracy over epochs and seconds", plots.training)]
    write, systems = accuracy.page, accuracy.systems
    if config.measure == "wer":
        drawn = [("wer.png", "WER of the systems with 95 % intervals", plots.wer), *drawn]
        write, systems = page, table.systems
    folder = Path(config.out).parent
    pictures = {name: text for name, text, draw in drawn if draw(experiments, folder / name)}
    write_text(config.out, write(config, experiments, pictures))
    print(systems(experiments), flush=True)
    log.info("%s written; `asr-parallel report %s` makes pages to read and hear", config.out, config.exp)


def page(config: ResultsConfig, experiments: Sequence[Experiment], pictures: dict[str, str]) -> str:
    """The text of RESULTS.md; parts without figures are left out."""
    parts = [
        f"# Results: {config.title}",
        f"`{config.command}` prints these figures. Machine: {table.machines(experiments)}.",
        table.systems(experiments),
        "WER in percent with its 95 % bootstrap interval. LM weight and word insertion penalty were chosen on the dev "
        "set of each test set. Training: of a GMM with everything it is built from; of a DNN its epochs without "
        "validation. Decoding: one core.",
        "\n".join(f"- {remark}" for remark in table.remarks(experiments)),
        *_section("wer.png", pictures),
    ]
    if found := claims(experiments):
        parts += [
            "## Which is better\n\nPaired bootstrap: both systems on the same draws of the same "
            "utterances. Where the interval of the difference holds 0, the set is too small to tell them apart.",
            table.comparisons(found),
            *speedups(experiments),
        ]
    if "training.png" in pictures:
        parts += ["## Training", *_section("training.png", pictures)]
    if any(e.scores for e in experiments):
        parts += ["## Scored sets", table.details(experiments)]
    if lang := load(config.data / "lang" / "lang.json"):
        note = "Perplexity leaves unknown words out."
        weight = lang.get("weight_train")
        if weight is not None and weight < 1:
            note += f" Weight of the training texts in the interpolated model: {weight:.2f}."
        parts += ["## Language model", note, table.language_model(lang)]
    if prepare := load(config.data / "prepare.json"):
        parts += ["## Data", table.corpus(prepare)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(name: str, pictures: dict[str, str]) -> list[str]:
    return [f"![{pictures[name]}]({name})"] if name in pictures else []
