"""Verb ``classify``: the class of each utterance of one frame, and how many are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from asr_parallel.align.classes import class_names, class_of
from asr_parallel.config import ClassifyConfig, cuts_path
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.files import read_json, write_text
from asr_parallel.log import UserError
from asr_parallel.model import Predictor, load_predictor
from asr_parallel.score.classes import accuracy, by_class, matrix
from asr_parallel.score.references import Reference, load_cuts
from asr_parallel.score.summary import figures, warn, write_details
from asr_parallel.score.wer import SetScore, score_set

BATCH = 1024  # utterances


def run(config: ClassifyConfig) -> None:
    """Leave ``classes.tsv``, ``confusion.tsv`` and what ``score`` leaves of each set; print accuracies.

    An utterance without features counts as wrong.  Raises ``UserError`` if the model is no classifier or does not fit.
    """
    torch.set_num_threads(config.num_jobs())
    predictor, names = load_predictor(config.model), class_names(config.model)
    trained = config.model / "config.json"
    dev = read_json(trained)["dev"] if trained.exists() else []
    for name in config.sets:
        score = score_classes(config.data, name, predictor, names)
        where = config.model / f"decode_{name}"
        warn(name, score)
        found = accuracy(score.utts, config.seed)
        summary = figures(score, config.seed) | {"set": name, "tuned_on": name if name in dev else None}
        summary |= {"lmwt": None, "wip": None, "accuracy": found["accuracy"], "accuracy_ci95": found["ci95"]}
        write_text(where / "classes.tsv", by_class(score, config.seed))
        write_text(where / "confusion.tsv", matrix(score))
        write_details(where, score, summary)
        print(in_words(name, found, summary["ci95_unit"]), flush=True)


def in_words(name: str, found: dict[str, Any], unit: str) -> str:
    low, high = found["ci95"]
    right = f"{found['right']} of {found['utts']} right"
    return f"{name}: accuracy {found['accuracy']:.2f} %, {right}; 95 % interval {low:.2f} to {high:.2f} ({unit} drawn)"


def score_classes(data: Path, name: str, predictor: Predictor, names: list[str]) -> SetScore:
    """What ``predictor`` says of set ``name``, beside the texts of its cuts."""
    said = load_cuts(cuts_path(data, name))
    refs = {utt: Reference(u.spk, (class_of(u.text),)) for utt, u in said.items()}
    features = FeatureSet.open(data, name, predictor.features)
    if (np.diff(features.offsets) != 1).any():
        raise UserError(f"{data / name} has utterances of more than one frame of {features.kind}: decode them")
    heard = {utt: (names[pdf],) for utt, pdf in zip(features.utts, best_pdfs(predictor, features))}
    return score_set(refs, heard, f"classes of {name}")


def best_pdfs(predictor: Predictor, features: FeatureSet) -> list[int]:
    """The pdf of the highest posterior of each utterance, in the order of ``features``."""
    found: list[int] = []
    for begin in range(0, len(features), BATCH):
        rows = np.concatenate([features[utt] for utt in features.utts[begin : begin + BATCH]])
        found += predictor.log_posteriors(rows).argmax(1).tolist()
    return found
