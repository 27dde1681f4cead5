"""A set as the GMM sees it: transcripts, speakers, and all frames in the space of the GMM."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from asr_parallel.align.space import Space
from asr_parallel.data.feature_set import FeatureSet

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
    speakers: list[str] = field(default_factory=list)  # of each utterance
    log_det: float = 0.0  # what transforms of the space add to the mean log-likelihood of a frame: log |det A|

    @classmethod
    def open(cls, data: Path, name: str, scratch: Path, space: Space | None = None, kind: str = "mfcc") -> Corpus:
        """Features ``kind`` of set ``name``, normalised, in ``space`` if given; big ones are kept under ``scratch``."""
        found = FeatureSet.open(data, name, kind)
        speakers = [found.speakers[s] for s in found.speaker_of]
        words = [text.split() for text in found.texts]
        log_det = space.log_det if space else 0.0
        raw = cls(name, found.utts, words, found.offsets, found.frames, scratch, speakers, log_det)
        return raw.changed(lambda row: space(found[found.utts[row]]) if space else found[found.utts[row]])

    def changed(self, frames: Callable[[int], np.ndarray]) -> Corpus:
        """The same utterances with ``frames(row)`` [T, D'] for those of utterance ``row``."""
        first = frames(0)
        feats = scratch_array((len(self.feats), first.shape[1]), self.scratch)
        for row in range(len(self)):
            feats[self.offsets[row] : self.offsets[row + 1]] = frames(row) if row else first
        return replace(self, feats=feats)

    def transformed(self, w: np.ndarray, which: np.ndarray | None = None) -> Corpus:
        """Frames x become A x + b: ``w`` [S, D, D + 1] are matrices [A b], ``which`` int [U] says whose is whose.

        Without ``which`` all have the first.
        """
        which = np.zeros(len(self), np.int64) if which is None else which
        w = w.astype(np.float32)

        def frames(row: int) -> np.ndarray:
            a, b = w[which[row], :, :-1], w[which[row], :, -1]
            return self.of_utt(row) @ a.T + b

        gained = np.linalg.slogdet(w[:, :, :-1].astype(np.float64))[1][which] @ np.diff(self.offsets)
        return replace(self.changed(frames), log_det=self.log_det + float(gained) / max(1, len(self.feats)))

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
