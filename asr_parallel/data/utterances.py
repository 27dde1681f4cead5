"""Minibatches of whole utterances with their labels in order, for CTC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from asr_parallel.align.labels import Labels
from asr_parallel.config import FramesConfig
from asr_parallel.data.ahead import made_ahead
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.frames import Batch, FrameSource

SPREAD = 0.2  # of lengths, when utterances of about one length are drawn together


@dataclass
class Utterances(Batch):
    """``x`` float32 [N, dim] are the frames of utterances one after another, ``y`` int64 [N] which one each is of.

    ``lengths`` int64 [U] are frames of each, ``targets`` int64 the labels of all, ``target_lengths`` int64 [U].
    """

    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor


class UtteranceSource(FrameSource):
    """The frames of ``utts`` that have ``targets``, in minibatches of about ``batch`` frames."""

    def __init__(
        self,
        features: FeatureSet,
        targets: Mapping[str, np.ndarray],
        utts: Sequence[str],
        context: int,
        batch: int,
        seed: int,
        options: FramesConfig | None = None,
        prefetch: int = 0,
        pin: bool = False,
    ):
        utts = [utt for utt in utts if utt in targets]
        offsets = np.cumsum([0, *(features.num_frames(utt) for utt in utts)])
        no_labels = Labels(utts, offsets, np.broadcast_to(np.int32(0), int(offsets[-1])))
        super().__init__(features, no_labels, utts, context, batch, seed, options=options, prefetch=prefetch, pin=pin)
        self._targets = [targets[utt] for utt in self.utts]
        self._lengths = np.diff(self._start)

    def epoch(self, epoch: int, start_batch: int = 0, prefetch: int | None = None) -> Iterator[Batch]:
        """The minibatches of ``epoch`` from ``start_batch`` on; the order depends on the seed and ``epoch`` alone.

        Utterances of about the same length are together, so that little is padded; which, is drawn anew each epoch, and
        so is the order of minibatches.  What is left over by a whole number of them is left out, others each epoch.
        """
        random = np.random.default_rng((self.seed, epoch, 2))
        order = np.argsort(self._lengths * (1 + SPREAD * random.random(len(self._lengths))), kind="stable")
        groups = self._groups(order, self.batch)
        drawn = random.permutation(len(groups))[: self.num_batches]

        def make(i: int) -> Utterances:
            batch = self._of(groups[drawn[i]])
            self._mask(batch.x.numpy(), self._rows(groups[drawn[i]]), epoch)
            return batch

        return made_ahead(make, range(start_batch, self.num_batches), self.prefetch if prefetch is None else prefetch)

    def chunks(self, size: int = 8192, prefetch: int = 0) -> Iterator[Batch]:
        """All utterances, the shortest first, in minibatches of about ``size`` frames."""
        groups = self._groups(np.argsort(self._lengths, kind="stable"), size)
        return made_ahead(lambda i: self._of(groups[i]), range(len(groups)), prefetch)

    def _groups(self, order: np.ndarray, size: int) -> list[np.ndarray]:
        """Utterances in ``order``, cut where their frames pass multiples of ``size``."""
        lengths = self._lengths[order]
        group = (np.cumsum(lengths) - lengths) // size
        return np.split(order, np.flatnonzero(np.diff(group)) + 1)

    def _rows(self, utts: np.ndarray) -> np.ndarray:
        """Numbers of all frames of ``utts``."""
        return np.concatenate([np.arange(self._start[u], self._start[u + 1]) for u in utts])

    def _of(self, utts: np.ndarray) -> Utterances:
        lengths, targets = torch.from_numpy(self._lengths[utts]), [self._targets[u] for u in utts]
        return Utterances(
            x=self.gather(self._rows(utts)).x,
            y=torch.arange(len(utts)).repeat_interleave(lengths),
            lengths=lengths,
            targets=torch.from_numpy(np.concatenate(targets)),
            target_lengths=torch.tensor([len(t) for t in targets]),
        )
