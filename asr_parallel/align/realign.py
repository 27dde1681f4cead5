"""Verb ``realign``: frame labels by a model that is there already, such as a DNN, for a second round of training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from asr_parallel.align.corpus import Corpus
from asr_parallel.align.ctc import is_ctc
from asr_parallel.align.ctc_labels import label_by_ctc
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labelling import label
from asr_parallel.config import RealignConfig
from asr_parallel.decode.acoustic import Scorer, load_scorer
from asr_parallel.files import write_json


@dataclass(frozen=True)
class Scored:
    """Any model as the aligner needs it; a DNN's scores are log posteriors minus log priors."""

    scorer: Scorer

    def prepare(self) -> None:
        """Nothing."""

    def log_likelihoods(self, feats: np.ndarray, pdfs: np.ndarray) -> np.ndarray:
        """Scores of normalised features [T, D] for ``pdfs`` [P]: float32 [T, P]."""
        return self.scorer.loglikes(feats)[:, pdfs]


def run(config: RealignConfig) -> None:
    """Leave what ``RealignConfig.outputs`` names, ``unaligned.tsv`` and ``realign.json``.

    Raises ``UserError`` if more than ``max_bad`` of a set cannot be aligned.
    """
    torch.set_num_threads(1)  # work is spread over processes
    if is_ctc(config.model):
        label_by_ctc(config)
        return
    scorer = load_scorer(config.model)
    HmmModel.load(config.model / "hmm.json").save(config.out / "hmm.json")

    def frames(name: str, _: object) -> Corpus:
        return Corpus.open(config.data, name, config.out, kind=scorer.kind)

    figures = label(config, config.out, Scored(scorer), [config.train, *config.dev], frames)
    write_json(config.out / "realign.json", figures)
