"""Viterbi training of a GMM: align, EM steps, grow, and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from asr_parallel import log
from asr_parallel.align import em
from asr_parallel.align.aligner import Aligner, Alignment
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel

LOG = log.logger(__name__)
# (iteration, HMM, model, corpus, labels) -> model and corpus, with frames in another space or the same ones
Adapt = Callable[[int, HmmModel, DiagGmm, Corpus, np.ndarray], tuple[DiagGmm, Corpus]]


@dataclass(frozen=True)
class Schedule:
    """When to do what; iterations count from 1."""

    iterations: int
    gaussians: int  # to reach
    realign: frozenset[int]  # iterations that begin with an alignment
    grow_until: int  # last iteration after which Gaussians are split

    @classmethod
    def mono(cls, iterations: int, gaussians: int) -> Schedule:
        """Realign often at first, then ever more rarely (Kaldi's ``train_mono.sh``, shortened); grow for 3/4."""
        realign, gap = [1], 1
        while realign[-1] + gap <= iterations:
            realign.append(realign[-1] + gap)
            gap = max(1, realign[-1] // 4)
        return cls(iterations, gaussians, frozenset(realign), max(1, 3 * iterations // 4))

    @classmethod
    def tri(cls, iterations: int, gaussians: int) -> Schedule:
        """Realign at 0.3 and 0.6, grow until 0.7 (Kaldi's ``train_deltas.sh``: 10, 20, 30 and 25 of 35)."""
        realign = frozenset(iterations * k // 10 for k in (3, 6)) - {0}
        return cls(iterations, gaussians, realign, max(1, 7 * iterations // 10))

    def target(self, iteration: int, start: int) -> int:
        """Gaussians after ``iteration``, having begun with ``start``."""
        share = min(1.0, iteration / self.grow_until)
        return round(start + share * max(0, self.gaussians - start))


@dataclass(frozen=True)
class Trained:
    gmm: DiagGmm
    corpus: Corpus  # in the last space
    pdfs: np.ndarray  # int32 [frames of the corpus]: the last labels, -1 where there is none
    history: list[dict[str, float]]  # one entry an iteration


def train(
    corpus: Corpus,
    rows: np.ndarray,
    pdfs: np.ndarray,
    aligner: Aligner,
    schedule: Schedule,
    num_pdfs: int,
    seed: int,
    name: str,
    adapt: Adapt | None = None,
) -> Trained:
    """Train on the utterances ``rows`` of ``corpus``, beginning with labels ``pdfs`` [frames of the corpus].

    It begins with one Gaussian a pdf, made from the labels.  ``adapt`` may change the space at any iteration.
    """
    rng = np.random.default_rng(seed)
    frames = em.SortedFrames.of(corpus, pdfs, num_pdfs)
    floor = em.variance_floor(frames.feats)
    gmm = em.single_gaussians(frames, floor, aligner.jobs)
    start, history = len(gmm), []
    for iteration in range(1, schedule.iterations + 1):
        aligned, before = None, corpus
        if iteration in schedule.realign:
            aligned = aligner.align(gmm, corpus, rows, f"{name} {iteration}: align")
            pdfs = aligned.pdfs
        if adapt:
            gmm, corpus = adapt(iteration, aligner.graphs.hmm, gmm, corpus, pdfs)
        if aligned or corpus is not before:
            frames = em.SortedFrames.of(corpus, pdfs, num_pdfs)
        stats = em.accumulate(gmm, frames, aligner.jobs)
        gmm = em.update(gmm, stats, floor)
        target = schedule.target(iteration, start)
        if target > len(gmm) and iteration <= schedule.grow_until:
            gmm = em.grow(gmm, np.diff(frames.offsets).astype(np.float64), target, rng)
        history.append(_entry(name, iteration, stats, gmm, aligned, corpus.log_det))
    return Trained(gmm, corpus, pdfs, history)


def _entry(
    name: str, iteration: int, stats: em.Stats, gmm: DiagGmm, aligned: Alignment | None, log_det: float
) -> dict[str, float]:
    """Figures of an iteration, which are logged too."""
    entry: dict[str, float] = {
        "iteration": iteration,
        "log_likelihood_per_frame": stats.log_likelihood / max(1, stats.frames) + log_det,
        "frames": stats.frames,
        "gaussians": len(gmm),
    }
    text = f"{name} {iteration}: {entry['log_likelihood_per_frame']:.3f} a frame, {len(gmm)} Gaussians"
    if aligned:
        entry |= {
            "score_per_frame": aligned.score / max(1, aligned.frames),
            "retried": len(aligned.retried),
            "failed": len(aligned.failed),
        }
        text += f", aligned {len(aligned.rows) - len(aligned.failed)}"
        text += f" ({len(aligned.retried)} at the wider beam), failed {len(aligned.failed)}"
    LOG.info(text)
    return entry
