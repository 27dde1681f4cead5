"""Labels of frames by a network that was trained by CTC: its best paths, with the blanks."""

from __future__ import annotations

from typing import Any

import numpy as np

from asr_parallel.align.ctc import best_labels, save_ctc, targets
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.config import RealignConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.files import atomic, write_json
from asr_parallel.log import logger
from asr_parallel.pool import parallel_map

log = logger(__name__)


def label_by_ctc(config: RealignConfig) -> None:
    """Leave what ``RealignConfig.outputs`` names, and ``realign.json``.

    Raises ``UserError`` if more than ``max_bad`` of a set has no labels.
    """
    scorer, hmm = load_scorer(config.model), HmmModel.load(config.model / "hmm.json")
    figures: dict[str, Any] = {}
    for name in (config.train, *config.dev):
        features = FeatureSet.open(config.data, name, scorer.kind)
        said = targets(config.lang, hmm, features, config.max_bad)

        def one(utt: str, features: FeatureSet = features, said: dict[str, np.ndarray] = said) -> np.ndarray:
            return best_labels(scorer.loglikes(features[utt]), said[utt])

        labels = Labels.from_dict(dict(zip(said, parallel_map(one, list(said), config.num_jobs(), f"label {name}"))))
        labels.save(config.out / f"ali_{name}.npz")
        counts = labels.counts(hmm.tree.num_pdfs)
        figures[name] = {"utterances": len(said), "frames": len(labels.pdfs), "blanks": int(counts[0])}
        log.info("%s: %s", name, figures[name])
        if name == config.train:
            with atomic(config.out / "priors.npz") as temporary:
                np.savez(temporary, counts=counts)
    save_ctc(hmm, config.out)
    write_json(config.out / "realign.json", figures)
