"""Verb ``classes``: labels for classification, where an utterance is one frame and its text names its class.

A class is written down as what it is to a recogniser: a word with an HMM of one state.  So all that is made for frames
and their pdfs (shards, strategies, schedules, checkpoints, validation) trains classifiers as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr_parallel.align.hmm import EPS_PHONE, HmmModel, Topology
from asr_parallel.align.labels import Labels
from asr_parallel.align.tree import monophone_tree
from asr_parallel.config import ClassesConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.files import atomic
from asr_parallel.log import UserError, logger

log = logger(__name__)

ONE_STATE = (((0, 0.5), (1, 0.5)),)


def class_of(text: str) -> str:
    """The class that a text names: its words, joined to one."""
    return "_".join(text.split())


def run(config: ClassesConfig) -> None:
    """Leave labels of all sets, priors, and ``hmm.json`` with the classes, sorted by name.

    Raises ``UserError`` if there are fewer than two, or an utterance has no class, or not one frame.
    """
    classes = {name: _classes(config, name) for name in (config.train, *config.dev)}
    names = sorted(set(classes[config.train].values()))
    if len(names) < 2:
        raise UserError(f"all texts of {config.data / config.train} are {names[0]!r}: there is nothing to tell apart")
    number = {name: i for i, name in enumerate(names)}
    for name, of_set in classes.items():
        if strange := [utt for utt, said in of_set.items() if said not in number]:
            raise UserError(
                f"{config.data / name}: {len(strange)} utterances are of no class that {config.train} has, "
                f"{strange[0]} ({of_set[strange[0]]}) first: mend their texts or leave them out"
            )
        labels = Labels.from_dict({utt: np.array([number[said]], np.int32) for utt, said in of_set.items()})
        labels.save(config.out / f"ali_{name}.npz")
        if name == config.train:
            counts = labels.counts(len(names))
            with atomic(config.out / "priors.npz") as temporary:
                np.savez(temporary, counts=counts)
    whole_words(names).save(config.out / "hmm.json")
    log.info("%d classes; utterances of each in %s: %d to %d", len(names), config.train, counts.min(), counts.max())


def _classes(config: ClassesConfig, name: str) -> dict[str, str]:
    """The class of each utterance of a set."""
    features, where = FeatureSet.open(config.data, name, config.features), config.data / name
    for utt, text, frames in zip(features.utts, features.texts, np.diff(features.offsets)):
        if frames != 1:
            raise UserError(f"{where}: {utt} has {frames} frames of {config.features}: a class is for one (`image`)")
        if not text:
            raise UserError(f"{where}: {utt} has no text, hence no class")
    return {utt: class_of(text) for utt, text in zip(features.utts, features.texts)}


def whole_words(names: Sequence[str]) -> HmmModel:
    """An HMM of one state for each class; pdf i is that of ``names[i]``."""
    phones = ["<eps>", *names]
    tree = monophone_tree([0, *[1] * len(names)])
    return HmmModel.start(phones, [], Topology(((), *[ONE_STATE] * len(names))), tree)


def class_names(model: Path) -> list[str]:
    """The name of the class of each pdf, from ``hmm.json`` in a directory.  UserError if its pdfs are no classes."""
    hmm = HmmModel.load(model / "hmm.json")
    tree = hmm.tree
    if tree.context_width != 1 or tree.num_pdfs != len(hmm.phones) - 1 or EPS_PHONE in tree.pdf_phone:
        raise UserError(f"{model} was not trained on labels of verb `classes`: its {tree.num_pdfs} pdfs are no classes")
    return [hmm.phones[phone] for phone in tree.pdf_phone]
