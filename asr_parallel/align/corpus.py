"""A set as the GMM sees it: transcripts and all frames with deltas."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.transforms import deltas

IN_MEMORY = 1 << 30  # bytes above which frames are in a mapped file of no name instead of memory


@dataclass(frozen=True)
class Corpus:
    """Utterance i has the words ``words[i]`` and the frames ``feats[offsets[i]:offsets[i + 1]]``."""

    name: str
    utts: list[str]
    words: list[list[str]]
    offsets: np.ndarray  # int64 [U + 1]
    feats: np.ndarray  # float32 [frames, D]
    scratch: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))  # where big copies of frames go

    @classmethod
    def open(cls, data: Path, name: str, scratch: Path) -> Corpus:
        """MFCC with per-speaker CMVN, deltas and delta-deltas of set ``name``; big ones are kept under ``scratch``."""
        feature_set = FeatureSet.open(data, name, "mfcc")
        feats = scratch_array((int(feature_set.offsets[-1]), 3 * feature_set.dim), scratch)
        for i, utt in enumerate(feature_set.utts):
            feats[feature_set.offsets[i] : feature_set.offsets[i + 1]] = deltas(feature_set[utt])
        words = [text.split() for text in feature_set.texts]
        return cls(name, feature_set.utts, words, feature_set.offsets, feats, scratch)

    def __len__(self) -> int:
        """Number of utterances."""
        return len(self.utts)

    def of_utt(self, row: int) -> np.ndarray:
        """Frames [T, D] of utterance ``row``."""
        return self.feats[self.offsets[row] : self.offsets[row + 1]]

    def shortest(self, number: int) -> np.ndarray:
        """Rows of the ``number`` utterances with the fewest frames (all if 0), in the order of the corpus."""
        rows = np.argsort(np.diff(self.offsets), kind="stable")
        return np.sort(rows[: number or None])


def scratch_array(shape: tuple[int, ...], folder: Path) -> np.ndarray:
    """An empty float32 array: in memory, or if it is big in a mapped temporary file under ``folder``."""
    if 4 * np.prod(shape, dtype=np.int64) <= IN_MEMORY:
        return np.empty(shape, np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, np.float32, "w+", shape=shape)
