"""fMLLR, also called constrained MLLR: an affine transform of a speaker's frames (Gales 1998).

x becomes A x + b, so that a model of all speakers fits this one; log |det A| counts in the likelihood.
"""

from __future__ import annotations

import itertools
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from asr_parallel.align.corpus import Corpus
from asr_parallel.align.em import CHUNK
from asr_parallel.align.gmm import DiagGmm, expand
from asr_parallel.align.rows import RowStats, maximise
from asr_parallel.files import atomic
from asr_parallel.log import UserError
from asr_parallel.pool import parallel_map

MIN_FRAMES = 500  # labelled frames of speech below which a speaker is left as he is (as in Kaldi)
MAX_FRAMES = 50_000  # of a speaker that are looked at, spread evenly: more hardly change a transform of 40 x 41 numbers


@dataclass(frozen=True)
class SpeakerTransforms:
    """``matrices[i]`` is [A b] of ``speakers[i]``: float32 [S, D, D + 1]."""

    speakers: list[str]
    matrices: np.ndarray

    @classmethod
    def identity(cls, corpus: Corpus) -> SpeakerTransforms:
        """Transforms of the speakers of ``corpus``, sorted, that change nothing."""
        speakers = sorted(set(corpus.speakers))
        dim = corpus.feats.shape[1]
        return cls(speakers, np.tile(np.eye(dim, dim + 1, dtype=np.float32), (len(speakers), 1, 1)))

    def __call__(self, corpus: Corpus) -> Corpus:
        """``corpus`` with the frames of each speaker transformed.  Raises ``UserError`` for an unknown speaker."""
        return corpus.transformed(self.matrices, self.rows(corpus))

    def rows(self, corpus: Corpus) -> np.ndarray:
        """Whose transform each utterance has: int [U]."""
        number = {s: i for i, s in enumerate(self.speakers)}
        if missing := set(corpus.speakers) - set(number):
            raise UserError(f"set {corpus.name}: speaker {min(missing)} has no fMLLR transform; run `align` again")
        return np.array([number[s] for s in corpus.speakers])

    def save(self, path: Path) -> None:
        """Write ``path`` (npz) atomically."""
        with atomic(path) as temporary:
            np.savez(temporary, speakers=np.array(self.speakers, dtype=np.str_), matrices=self.matrices)

    @classmethod
    def load(cls, path: Path) -> SpeakerTransforms:
        """Read what ``save`` wrote.  Raises ``UserError`` if the file is missing or damaged."""
        try:
            with np.load(path, allow_pickle=False) as npz:
                found = cls([str(s) for s in npz["speakers"]], npz["matrices"])
            shape = found.matrices.shape
            if len(shape) != 3 or shape[0] != len(found.speakers) or shape[2] != shape[1] + 1:
                raise ValueError(f"{len(found.speakers)} speakers, matrices {shape}")
        except FileNotFoundError:
            raise UserError(f"no fMLLR transforms at {path}: run `align` or `adapt` first") from None
        except (ValueError, KeyError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as e:
            raise UserError(f"{path} is damaged ({e}): make it again") from None
        return found


def estimate(
    gmm: DiagGmm,
    corpus: Corpus,
    pdfs: np.ndarray,
    jobs: int = 1,
    start: SpeakerTransforms | None = None,
    rounds: int = 1,
    min_frames: int = MIN_FRAMES,
) -> SpeakerTransforms:
    """The transform of each speaker of ``corpus``, by ``rounds`` EM steps from ``start`` (by default the identity).

    ``corpus`` is not adapted; ``pdfs`` [frames] are its labels, -1 where a frame is not to count.
    """
    start = start or SpeakerTransforms.identity(corpus)
    of_speaker = start.rows(corpus)
    frames = np.bincount(of_speaker, np.diff(corpus.offsets), len(start.speakers))
    longest_first = np.argsort(-frames, kind="stable")

    def of(speaker: int) -> np.ndarray:
        rows = np.flatnonzero(of_speaker == speaker)
        mine = np.concatenate([np.arange(*corpus.offsets[r : r + 2]) for r in rows] or [np.zeros(0, np.int64)])
        mine = mine[pdfs[mine] >= 0]
        w = start.matrices[speaker].astype(np.float64)
        if len(mine) < max(1, min_frames):
            return w
        mine = mine[:: -(-len(mine) // MAX_FRAMES)]
        feats, labels = corpus.feats[mine], pdfs[mine]
        for _ in range(rounds):
            w = maximise(accumulate(gmm, feats, labels, w), w)
        return w

    gmm.prepare()
    matrices = start.matrices.copy()
    for speaker, w in zip(longest_first, parallel_map(of, longest_first.tolist(), jobs)):
        matrices[speaker] = w
    return SpeakerTransforms(start.speakers, matrices)


def accumulate(gmm: DiagGmm, feats: np.ndarray, pdfs: np.ndarray, w: np.ndarray) -> RowStats:
    """Statistics of ``feats`` [T, D], not adapted, with labels ``pdfs`` [T]; posteriors are those after ``w``.

    With x~ = (x 1), sums over frames and Gaussians: k_i = sum gamma mean_i / var_i x~, G_i = sum gamma / var_i x~ x~'.
    """
    order = np.argsort(pdfs, kind="stable")
    feats, pdfs = feats[order], pdfs[order]
    precision, target = _wanted(gmm, (feats @ w[:, :-1].T + w[:, -1]).astype(np.float32), pdfs)
    dim = gmm.dim
    k, g = np.zeros((dim, dim + 1)), np.zeros((dim, dim + 1, dim + 1))
    for t in range(0, len(feats), CHUNK):
        x = torch.from_numpy(np.pad(feats[t : t + CHUNK], ((0, 0), (0, 1)), constant_values=1.0))
        weighed = precision[t : t + CHUNK].T[:, :, None] * x  # [D, frames, D + 1]
        k += (target[t : t + CHUNK].T @ x).numpy()
        g += (weighed.transpose(1, 2) @ x).numpy()
    return RowStats(float(len(feats)), k, g)


def _wanted(gmm: DiagGmm, adapted: np.ndarray, pdfs: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums over Gaussians of gamma / variance and gamma mean / variance for each frame, [T, D]; ``pdfs`` are sorted."""
    inverse = 1 / torch.from_numpy(gmm.variances)
    aims = torch.from_numpy(gmm.means) * inverse
    precision, target = torch.empty(adapted.shape), torch.empty(adapted.shape)
    edges = [0, *(np.flatnonzero(np.diff(pdfs)) + 1).tolist(), len(pdfs)]
    for a, b in itertools.pairwise(edges):
        mine = gmm.of_pdf(int(pdfs[a]))
        for t in range(a, b, CHUNK):
            rows = slice(t, min(b, t + CHUNK))
            posteriors, _ = gmm.posteriors(int(pdfs[a]), expand(adapted[rows]))
            precision[rows] = posteriors.T @ inverse[mine]
            target[rows] = posteriors.T @ aims[mine]
    return precision, target
