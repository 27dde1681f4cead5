"""What a network is trained for: the labels of frames, or the labels of an utterance in their order alone (CTC)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from asr_parallel.score.align import align
from asr_parallel.score.wer import count

BLANK = 0  # CTC's output for no label


class Criterion(ABC):
    """Losses and shares that are right are those of frames, so that minibatches may differ in size."""

    @abstractmethod
    def loss(self, logits: Tensor, batch: Any, label_smoothing: float = 0.0) -> Tensor:
        """Loss of a minibatch divided by its frames: ``logits`` [N, outputs], ``len(batch.y)`` is N."""

    @abstractmethod
    def right(self, logits: Tensor, batch: Any) -> Tensor:
        """Number of frames that are right."""

    def figures(self, logits: Tensor, batch: Any) -> Tensor:
        """Sums over a minibatch: loss, right frames, frames."""
        frames = len(batch.y)
        return torch.tensor([self.loss(logits, batch) * frames, self.right(logits, batch), frames])


class FrameCrossEntropy(Criterion):
    """``batch.y`` int64 [N] is the label of each frame."""

    def loss(self, logits: Tensor, batch: Any, label_smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(logits, batch.y, label_smoothing=label_smoothing)

    def right(self, logits: Tensor, batch: Any) -> Tensor:
        return correct(logits, batch.y)

    def figures(self, logits: Tensor, batch: Any) -> Tensor:
        return torch.tensor(
            [F.cross_entropy(logits, batch.y, reduction="sum"), self.right(logits, batch), len(batch.y)]
        )


class Ctc(Criterion):
    """Connectionist temporal classification (Graves et al. 2006): the probability of all ways to say the labels.

    Rows of a minibatch are the frames of whole utterances, one after another: ``batch.lengths`` says how many each
    has, ``batch.targets`` are the labels of all, ``batch.target_lengths`` how many each has.
    """

    def loss(self, logits: Tensor, batch: Any, label_smoothing: float = 0.0) -> Tensor:
        logp = logits.log_softmax(1).split(batch.lengths.tolist())
        padded = torch.nn.utils.rnn.pad_sequence(list(logp))  # what is added lies beyond `lengths` and is never read
        targets = batch.targets.to(logits.device)
        total = F.ctc_loss(padded, targets, batch.lengths, batch.target_lengths, BLANK, reduction="sum")
        return total / len(logits)

    def right(self, logits: Tensor, batch: Any) -> Tensor:
        """Frames of each utterance times its share of right labels: 1 less the error rate of its best path, or 0."""
        best = logits.argmax(1).cpu().split(batch.lengths.tolist())
        said = batch.targets.split(batch.target_lengths.tolist())
        total = 0.0
        for path, labels in zip(best, said):
            errors = count(align(_names(labels), _names(collapsed(path)))).errors
            total += len(path) * (1 - min(1.0, errors / max(1, len(labels))))
        return torch.tensor(total)


def _names(labels: Tensor) -> list[str]:
    return [str(label) for label in labels.tolist()]


def collapsed(path: Tensor) -> Tensor:
    """Labels that a path int64 [T] stands for: repetitions are one, blanks are none."""
    labels = torch.unique_consecutive(path)
    return labels[labels != BLANK]


def correct(logits: Tensor, y: Tensor) -> Tensor:
    """Number of rows of ``logits`` whose largest value is at ``y``."""
    return (logits.gather(1, y[:, None])[:, 0] >= logits.amax(1)).sum()
