"""Speaker-adaptive training: triphones on frames that fMLLR has fitted to each speaker (Anastasakos et al. 1996).

A model trained so cannot score a speaker who is not adapted yet.  ``gmm_si.npz`` can: it has the same Gaussians, but
moments of the frames before adaptation (Kaldi's ``final.alimdl``).
"""

from __future__ import annotations

import numpy as np

from asr_parallel.align import em, fmllr
from asr_parallel.align.aligner import Aligner
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.fmllr import SpeakerTransforms
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.progress import Figures
from asr_parallel.align.space import Space
from asr_parallel.align.work import Work, speech

ROUNDS = 2  # EM steps of a speaker's transform where it is not refined from iteration to iteration


def train_sat(work: Work) -> Figures:
    """Leave both models, ``space.npz`` and the transforms of the training speakers."""
    c, folder, before = work.config, work.folder("sat"), work.folder("lda_mllt")
    space = Space.load(before / "space.npz")
    space.save(folder / "space.npz")
    corpus = work.open(c.train, space)
    pdfs = speech(HmmModel.load(before / "hmm.json"), work.pdfs_of("lda_mllt", corpus))
    adaptation = Adaptation(corpus, work)
    adaptation.estimate(DiagGmm.load(before / "gmm.npz"), pdfs, ROUNDS)
    adapted = adaptation.transforms(corpus)
    trained, figures = work.train_tied("sat", "lda_mllt", adapted, c.sat, adaptation.step)
    adaptation.transforms.save(folder / f"fmllr_{c.train}.npz")
    independent(trained.gmm, trained.corpus, corpus, trained.pdfs, c.num_jobs()).save(folder / "gmm_si.npz")
    return {"speakers": len(adaptation.transforms.speakers), **figures}


def label_sat(work: Work) -> Figures:
    """All sets; speakers of other sets than the training set are adapted to their transcripts."""
    c, folder = work.config, work.folder("sat")
    space, gmm = Space.load(folder / "space.npz"), DiagGmm.load(folder / "gmm.npz")
    first = DiagGmm.load(folder / "gmm_si.npz")

    def adapted(name: str, aligner: Aligner) -> Corpus:
        corpus = work.open(name, space)
        if name == c.train:
            return SpeakerTransforms.load(folder / f"fmllr_{name}.npz")(corpus)
        return fit(aligner, first, gmm, corpus, c.sat.min_frames)(corpus)

    return work.label("sat", adapted)


class Adaptation:
    """The transforms of the training speakers: new ones at the iterations ``sat.fmllr``."""

    def __init__(self, corpus: Corpus, work: Work):
        self.corpus, self.work = corpus, work
        self.transforms = SpeakerTransforms.identity(corpus)

    def step(
        self, iteration: int, hmm: HmmModel, gmm: DiagGmm, corpus: Corpus, pdfs: np.ndarray
    ) -> tuple[DiagGmm, Corpus]:
        """Model and frames as ``train`` goes on with them."""
        if iteration not in self.work.config.sat.fmllr:
            return gmm, corpus
        self.estimate(gmm, speech(hmm, pdfs), 1)
        return gmm, self.transforms(self.corpus)

    def estimate(self, gmm: DiagGmm, pdfs: np.ndarray, rounds: int) -> None:
        """Refine the transforms by the model and labels, -1 where a frame has no say."""
        c = self.work.config
        self.transforms = fmllr.estimate(
            gmm, self.corpus, pdfs, c.num_jobs(), self.transforms, rounds, c.sat.min_frames
        )


def independent(gmm: DiagGmm, adapted: Corpus, corpus: Corpus, pdfs: np.ndarray, jobs: int) -> DiagGmm:
    """The Gaussians of ``gmm`` with moments of frames that are not adapted; posteriors are those of ``adapted``."""
    own, others = (em.SortedFrames.of(c, pdfs, gmm.num_pdfs) for c in (adapted, corpus))
    return em.update(gmm, em.accumulate(gmm, own, jobs, others), em.variance_floor(corpus.feats))


def fit(
    aligner: Aligner,
    first: DiagGmm,
    gmm: DiagGmm,
    corpus: Corpus,
    min_frames: int,
    before: SpeakerTransforms | None = None,
) -> SpeakerTransforms:
    """Transforms of the speakers of ``corpus``, whose words are transcripts or what was recognised, for ``gmm``.

    Frames are aligned by ``first``, the model of frames that are not adapted, or as adapted by ``before``.
    """
    model, frames = (gmm, before(corpus)) if before else (first, corpus)
    aligned = aligner.align(model, frames, range(len(corpus)), f"align {corpus.name} for fMLLR")
    pdfs = speech(aligner.graphs.hmm, aligned.pdfs)
    return fmllr.estimate(gmm, corpus, pdfs, aligner.jobs, before, ROUNDS, min_frames)
