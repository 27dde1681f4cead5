"""Triphones on spliced frames, projected by LDA and rotated by MLLT at some iterations."""

from __future__ import annotations

import numpy as np

from asr_parallel.align import em, mllt
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.lda import lda
from asr_parallel.align.progress import Figures
from asr_parallel.align.space import Space, spliced
from asr_parallel.align.work import Work, speech


def train_lda_mllt(work: Work) -> Figures:
    """Leave the model and ``space.npz``.  Silence has no say in LDA and MLLT."""
    c = work.config
    static_dim = work.corpus.feats.shape[1] // 3
    work.forget()  # of frames with deltas
    space, eigenvalues = _discriminant(work, static_dim)
    rotation = Rotation(space, work)
    _, figures = work.train_tied("lda_mllt", "tri", work.open(c.train, space), c.lda_mllt, rotation.step)
    rotation.space.save(work.folder("lda_mllt") / "space.npz")
    return {"eigenvalues": [round(float(v), 3) for v in eigenvalues[: c.lda_mllt.dim]], **figures}


def label_lda_mllt(work: Work) -> Figures:
    """All sets."""
    space = Space.load(work.folder("lda_mllt") / "space.npz")
    return work.label("lda_mllt", lambda name, _: work.open(name, space))


def _discriminant(work: Work, static_dim: int) -> tuple[Space, np.ndarray]:
    """The space of LDA for the labels of the triphones, and its eigenvalues."""
    options = work.config.lda_mllt
    corpus = work.open(work.config.train, spliced(options.context, static_dim))
    hmm = HmmModel.load(work.folder("tri") / "hmm.json")
    pdfs = speech(hmm, work.pdfs_of("tri", corpus))
    matrix, eigenvalues = lda(em.SortedFrames.of(corpus, pdfs, hmm.tree.num_pdfs), options.dim)
    return Space(options.context, matrix.astype(np.float32)), eigenvalues


class Rotation:
    """The space while a model is trained: a new rotation at the iterations ``lda_mllt.mllt``."""

    def __init__(self, space: Space, work: Work):
        self.space, self.work = space, work

    def step(
        self, iteration: int, hmm: HmmModel, gmm: DiagGmm, corpus: Corpus, pdfs: np.ndarray
    ) -> tuple[DiagGmm, Corpus]:
        """Model and frames as ``train`` goes on with them."""
        if iteration not in self.work.config.lda_mllt.mllt:
            return gmm, corpus
        frames = em.SortedFrames.of(corpus, speech(hmm, pdfs), gmm.num_pdfs)
        a = mllt.estimate(gmm, frames, self.work.config.num_jobs())
        self.space = self.space.then(a)
        return mllt.rotated(gmm, a), corpus.transformed(np.pad(a, ((0, 0), (0, 1)))[None])
