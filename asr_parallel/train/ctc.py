"""What a worker trains on by CTC: whole utterances with the labels of their words in order."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from asr_parallel.align.ctc import ctc_hmm, targets
from asr_parallel.config import TrainConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.utterances import UtteranceSource
from asr_parallel.log import UserError


class UtteranceLabels:
    """As ``corpus.FrameLabels``; all outputs count alike, since CTC's priors are not asked for."""

    def __init__(self, config: TrainConfig):
        self.config, self.hmm = config, ctc_hmm(config.lang)
        self.counts = np.ones(self.hmm.tree.num_pdfs, np.int64)
        self._sets: dict[str, tuple[FeatureSet, dict[str, np.ndarray]]] = {}

    def open(self, name: str, batch: int, utts: list[str] | None = None, prefetch: int = 0) -> UtteranceSource:
        """The utterances of set ``name`` that have features and labels, or those of them that are in ``utts``."""
        c = self.config
        if name not in self._sets:
            features = FeatureSet.open(c.data, name, c.features)
            self._sets[name] = features, targets(c.lang, self.hmm, features)
        features, said = self._sets[name]
        pin = c.device != "cpu" and torch.cuda.is_available()
        return UtteranceSource(
            *(features, said, features.utts if utts is None else utts, c.model.context, batch, c.seed),
            options=c.frames,
            prefetch=prefetch,
            pin=pin,
        )

    def lengths(self, name: str) -> dict[str, int]:
        """Frames of each utterance that can be used.  Raises ``UserError`` if one is longer than a minibatch."""
        features, said = self._sets[name]
        lengths = {utt: features.num_frames(utt) for utt in said}
        longest = max(lengths, key=lambda utt: lengths[utt])
        if lengths[longest] > self.config.batch:
            raise UserError(
                f"utterance {longest} has {lengths[longest]} frames and --batch is {self.config.batch}: CTC takes "
                "utterances whole, give a larger --batch or cut it into segments"
            )
        return lengths

    def checksum(self, name: str) -> int:
        """Changes when the labels do."""
        return zlib.crc32(np.concatenate([*self._sets[name][1].values(), np.zeros(0, np.int64)]).tobytes())


def check(config: TrainConfig) -> None:
    """Raise ``UserError`` for options that are about labels of frames."""
    idle = {
        "label_smoothing": config.label_smoothing > 0,
        "strategy.probe": config.strategy.probe > 0,
        "frames.shuffle": config.frames.shuffle != "full",
        "strategy.name": config.strategy.name in ("ensemble", "ensemble_compression"),
    }
    for option, given in idle.items():
        if given:
            raise UserError(f"--{option} is for labels of frames, --criterion ctc has none: leave it out")
