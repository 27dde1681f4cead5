"""One EM step of all mixtures on labelled frames, and the growth of mixtures.

Frames are sorted by pdf, so that the statistics of a pdf are matrix products over its own frames and
Gaussians alone.  Each pdf is summed up by one process in one order: results do not depend on ``jobs``.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np
import torch

from asr_parallel.align.corpus import Corpus, scratch_array
from asr_parallel.align.gmm import DiagGmm, expand
from asr_parallel.pool import parallel_map

CHUNK = 4096  # frames in one matrix product; sums over chunks are in double precision
BLOCKS = 32  # parts that pdfs are dealt out in; not the number of jobs, on which no sum may depend
MIN_OCCUPANCY = 5.0  # frames below which a Gaussian is dropped, if its pdf has others
MIN_SPLIT = 20.0  # frames that each Gaussian should have after a split (as in Kaldi)
OCCUPANCY_POWER = 0.25  # Gaussians of a pdf ~ frames ** power (as in Kaldi)
PERTURB = 0.03  # standard deviations by which the halves of a split Gaussian are moved apart (Kaldi: 0.01)


@dataclass(frozen=True)
class SortedFrames:
    """Frames in the order of their pdf: pdf p owns ``feats[offsets[p]:offsets[p + 1]]``."""

    feats: np.ndarray  # float32 [frames, D]
    offsets: np.ndarray  # int64 [num_pdfs + 1]

    @classmethod
    def of(cls, corpus: Corpus, pdfs: np.ndarray, num_pdfs: int) -> SortedFrames:
        """Sort the frames of ``corpus`` by ``pdfs`` [frames]; those whose pdf is -1 are left out."""
        counts = np.bincount(pdfs + 1, minlength=num_pdfs + 1)
        order = np.argsort(pdfs, kind="stable")[counts[0] :]
        feats = scratch_array((len(order), corpus.feats.shape[1]), corpus.scratch)
        for t in range(0, len(order), 1 << 16):
            feats[t : t + (1 << 16)] = corpus.feats[order[t : t + (1 << 16)]]
        return cls(feats, np.concatenate([[0], np.cumsum(counts[1:])]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.feats)

    @property
    def num_pdfs(self) -> int:
        return len(self.offsets) - 1

    def of_pdf(self, pdf: int) -> np.ndarray:
        return self.feats[self.offsets[pdf] : self.offsets[pdf + 1]]


@dataclass(frozen=True)
class Stats:
    """Sufficient statistics of all Gaussians, float64."""

    occupancy: np.ndarray  # [G]
    moments: np.ndarray  # [G, 2 D]: sums of x and x^2
    log_likelihood: float  # of all frames
    frames: int


def accumulate(gmm: DiagGmm, frames: SortedFrames, jobs: int = 1, moments_of: SortedFrames | None = None) -> Stats:
    """Statistics of each Gaussian over the frames of its pdf (the E-step).

    With ``moments_of``, the same frames in another space, the moments are of those, for a model of that space.
    """

    def block(pdfs: range) -> list[tuple[np.ndarray, float]]:
        others = [moments_of.of_pdf(pdf) if moments_of else None for pdf in pdfs]
        return [_accumulate_pdf(gmm, pdf, frames.of_pdf(pdf), other) for pdf, other in zip(pdfs, others)]

    gmm.prepare()
    results = [r for rs in parallel_map(block, blocks(frames), jobs) for r in rs]
    moments = np.concatenate([m for m, _ in results])
    return Stats(moments[:, 0], moments[:, 1:], sum(ll for _, ll in results), len(frames))


def _accumulate_pdf(gmm: DiagGmm, pdf: int, feats: np.ndarray, others: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Occupancy and moments [Gaussians of the pdf, 1 + 2 D], of ``others`` if given; log-likelihood of ``feats``."""
    mine = gmm.of_pdf(pdf)
    sums = torch.zeros(mine.stop - mine.start, 1 + 2 * gmm.dim, dtype=torch.float64)
    log_likelihood = 0.0
    for t in range(0, len(feats), CHUNK):
        x = expand(feats[t : t + CHUNK])
        posteriors, total = gmm.posteriors(pdf, x)
        sums[:, 0] += posteriors.sum(1, dtype=torch.float64)
        sums[:, 1:] += posteriors @ (x if others is None else expand(others[t : t + CHUNK]))
        log_likelihood += float(total.sum(dtype=torch.float64))
    return sums.numpy(), log_likelihood


def blocks(frames: SortedFrames) -> list[range]:
    """Consecutive pdfs in about ``BLOCKS`` blocks of about as many frames."""
    pdfs = np.arange(frames.num_pdfs)
    share = (frames.offsets[:-1] * BLOCKS) // max(1, len(frames))
    edges = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(pdfs)]
    return [range(a, b) for a, b in itertools.pairwise(edges)]


def update(gmm: DiagGmm, stats: Stats, floor: np.ndarray) -> DiagGmm:
    """The mixtures that the statistics ask for (the M-step).

    Variances are floored at ``floor`` [D].  Gaussians with fewer than ``MIN_OCCUPANCY`` frames are dropped,
    except the fullest of each pdf; if that has too few, it keeps its mean and variance.
    """
    occupancy, dim = stats.occupancy, gmm.dim
    enough = occupancy >= MIN_OCCUPANCY
    safe = np.where(enough, occupancy, 1.0)[:, None]
    mean = stats.moments[:, :dim] / safe
    variance = np.maximum(stats.moments[:, dim:] / safe - mean**2, floor)
    means = np.where(enough[:, None], mean, gmm.means)
    variances = np.where(enough[:, None], variance, gmm.variances)

    fullest = np.lexsort((-occupancy, gmm.pdf))[gmm.offsets[:-1]]
    keep = enough.copy()
    keep[fullest] = True
    weights = np.where(keep, occupancy, 0.0) + 1e-10
    weights /= np.add.reduceat(weights * keep, gmm.offsets[:-1])[gmm.pdf]
    return DiagGmm(means[keep], variances[keep], weights[keep], gmm.pdf[keep])


def single_gaussians(frames: SortedFrames, floor: np.ndarray, jobs: int = 1) -> DiagGmm:
    """One Gaussian for each pdf, of its frames; of all frames where a pdf has too few."""
    num_pdfs, dim = frames.num_pdfs, frames.feats.shape[1]
    overall = _overall(frames.feats)
    means = np.tile(overall[:dim], (num_pdfs, 1))
    variances = np.tile(np.maximum(overall[dim:], floor), (num_pdfs, 1))
    start = DiagGmm(means, variances, np.ones(num_pdfs), np.arange(num_pdfs))
    return update(start, accumulate(start, frames, jobs), floor)


def variance_floor(feats: np.ndarray, share: float = 0.01) -> np.ndarray:
    """``share`` of the variance of all ``feats`` [N, D]: float64 [D]."""
    return share * _overall(feats)[feats.shape[1] :]


def _overall(feats: np.ndarray) -> np.ndarray:
    """Mean and variance of all frames: float64 [2 D]."""
    sums = np.zeros(2 * feats.shape[1])
    for t in range(0, len(feats), CHUNK):
        sums += expand(feats[t : t + CHUNK]).sum(0, dtype=torch.float64).numpy()
    mean, square = np.split(sums / max(1, len(feats)), 2)
    return np.concatenate([mean, square - mean**2])


def grow(gmm: DiagGmm, occupancy: np.ndarray, target: int, rng: np.random.Generator) -> DiagGmm:
    """Split Gaussians until there are ``target``; ``occupancy`` [num_pdfs] are the frames of the pdfs.

    The pdf with the highest occupancy ** 0.25 a Gaussian is next to get one, while each of its Gaussians keeps
    ``MIN_SPLIT`` frames; its heaviest Gaussian is split into two that are moved apart in a random direction.
    """
    wanted = _allocate(gmm, occupancy, target)
    means, variances, weights, pdfs = [], [], [], []
    for pdf, goal in enumerate(wanted.tolist()):
        mine = slice(int(gmm.offsets[pdf]), int(gmm.offsets[pdf + 1]))
        m, v, w = list(gmm.means[mine]), list(gmm.variances[mine]), gmm.weights[mine].tolist()
        while len(w) < goal:
            i = int(np.argmax(w))
            shift = PERTURB * np.sqrt(v[i]) * rng.standard_normal(gmm.dim)
            w[i] /= 2
            w.append(w[i])
            m.append(m[i] + shift)
            v.append(v[i])
            m[i] = m[i] - shift
        means += m
        variances += v
        weights += w
        pdfs += [pdf] * len(w)
    return DiagGmm(np.array(means), np.array(variances), np.array(weights), np.array(pdfs))


def _allocate(gmm: DiagGmm, occupancy: np.ndarray, target: int) -> np.ndarray:
    """Gaussians that each pdf should have, at least as many as it has: int64 [num_pdfs]."""
    sizes = np.diff(gmm.offsets)
    powers = np.maximum(occupancy, 1e-10) ** OCCUPANCY_POWER
    heap = [(-powers[p] / sizes[p], p) for p in range(gmm.num_pdfs)]
    heapq.heapify(heap)
    missing = target - len(gmm)
    while missing > 0 and heap:
        _, p = heapq.heappop(heap)
        if occupancy[p] >= MIN_SPLIT * (sizes[p] + 1):
            sizes[p] += 1
            missing -= 1
            heapq.heappush(heap, (-powers[p] / sizes[p], p))
    return sizes
