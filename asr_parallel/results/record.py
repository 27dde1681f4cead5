"""What the experiments of a recipe have left: one record each, read from their JSON and TSV files."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr_parallel.files import read_json
from asr_parallel.log import UserError

SCORE_KEYS = {"set", "tuned_on", "lmwt", "wip", "wer", "ci95", "ci95_unit", "errors", "words", "ins", "del", "sub",
              "utts", "ser", "missing", "empty_references"}  # fmt: skip
GMM_LABELS = {"mono": "GMM, monophones", "tri": "GMM, triphones", "lda_mllt": "GMM, LDA + MLLT",
              "sat": "GMM, speaker-adapted"}  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """A model directory.  ``train`` is train.json (empty for a GMM), ``history`` and ``course`` have
    the columns of history.tsv and curve.tsv."""

    name: str
    path: Path
    train: dict[str, Any] = field(default_factory=dict)
    align: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[str]] = field(default_factory=dict)
    course: dict[str, list[str]] = field(default_factory=dict)
    decodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def is_dnn(self) -> bool:
        return bool(self.train)

    @property
    def workers(self) -> int:
        return int(self.train.get("workers", 1))

    @property
    def label(self) -> str:
        if not self.is_dnn:
            return GMM_LABELS.get(self.name, f"GMM, {self.name}")
        kind = self.train.get("features", "fbank")
        return f"DNN{'' if kind == 'fbank' else f' on {kind}'}, {self.workers} worker{'s' if self.workers > 1 else ''}"

    @property
    def order(self) -> tuple[Any, ...]:
        """GMMs before DNNs, GMMs as they follow from each other, few workers before many."""
        known = list(GMM_LABELS).index(self.name) if self.name in GMM_LABELS else len(GMM_LABELS)
        return (self.is_dnn, self.workers if self.is_dnn else known, self.name)

    @property
    def test_scores(self) -> dict[str, dict[str, Any]]:
        """Scores of the sets that nothing was tuned on."""
        return {name: s for name, s in self.scores.items() if s.get("tuned_on") != name}

    def curve(self, column: str) -> list[float]:
        """A column of the history as numbers; empty if it is not there."""
        return self._numbers("history.tsv", self.history.get(column, []), column)

    def within(self, column: str) -> list[float]:
        """A column of the curve within epochs as numbers; empty if it is not there."""
        return self._numbers("curve.tsv", self.course.get(column, []), column)

    def _numbers(self, file: str, texts: list[str], column: str) -> list[float]:
        try:
            return [float(value) for value in texts]
        except ValueError as e:
            raise UserError(f"{self.path / file}: column {column} is not numeric ({e})") from None


def find(exp: Path) -> list[Experiment]:
    """Experiments under ``exp`` that were trained or scored, in the order of the table.  UserError if there is none."""
    folders = {p.parent for p in exp.glob("*/train.json")} | {
        p.parent.parent for p in exp.glob("*/decode_*/score.json")
    }
    if not folders:
        raise UserError(f"{exp}: no experiment has been trained or scored there; run the stages up to `score` first")
    align = load(exp / "align.json")
    return sorted((experiment(folder, align) for folder in folders), key=lambda e: e.order)


def experiment(path: Path, align: dict[str, Any] | None = None) -> Experiment:
    """The one in the folder ``path``; ``align`` is align.json of its recipe.  UserError if a file is damaged."""
    decodes, scores = {}, {}
    for folder in sorted(path.glob("decode_*")):
        name = folder.name.removeprefix("decode_")
        if decode := load(folder / "decode.json"):
            decodes[name] = decode
        if score := load(folder / "score.json"):
            if lacks := SCORE_KEYS - score.keys():
                raise UserError(f"{folder / 'score.json'} lacks {', '.join(sorted(lacks))}; run stage `score` again")
            scores[name] = score
    if train := load(path / "train.json"):
        train = {"features": load(path / "config.json").get("features", "fbank")} | train
    history, course = read_columns(path / "history.tsv"), read_columns(path / "curve.tsv")
    return Experiment(path.name, path, train, {} if train else align or {}, history, course, decodes, scores)


def load(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is no such file.  UserError if it is damaged."""
    if not path.exists():
        return {}
    try:
        value = read_json(path)
    except (json.JSONDecodeError, UnicodeDecodeError) as e:
        raise UserError(f"{path}: damaged JSON ({e}); run the stage that writes it again") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: want a JSON object; run the stage that writes it again")
    return value


def read_columns(path: Path) -> dict[str, list[str]]:
    """Columns of a table by the names in its header; empty if there is no such file."""
    rows = _rows(path)
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise UserError(f"{path}:{number}: not as many fields as the header has; the file is damaged")
    return rows


@dataclass(frozen=True)
class UttErrors:
    """Errors and reference words of each utterance of a scored set."""

    utts: list[str]
    spks: list[str]
    words: list[int]
    errors: list[int]


def utt_errors(experiment: Experiment, name: str) -> UttErrors | None:
    """From ``per_utt.tsv`` of a set; None if there is none."""
    path = experiment.path / f"decode_{name}" / "per_utt.tsv"
    rows = _rows(path)
    if not rows:
        return None
    try:
        errors = [sum(int(row[kind]) for kind in ("ins", "del", "sub")) for row in rows]
        words = [int(row["words"]) for row in rows]
        return UttErrors([row["utt"] for row in rows], [row["spk"] for row in rows], words, errors)
    except (KeyError, ValueError) as e:
        raise UserError(f"{path}: want columns utt, spk, words, ins, del, sub ({e}); run stage `score` again") from None
