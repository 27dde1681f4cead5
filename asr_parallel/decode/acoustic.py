"""Acoustic scores of a model directory: a GMM's log-likelihoods, or a DNN's log posterior minus log prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.config import FeatureKind
from asr_parallel.log import UserError


@dataclass(frozen=True)
class Scorer:
    """``loglikes`` maps normalised features [T, dim] of ``kind`` to natural log-likelihoods float32 [T, num_pdfs].

    They are not scaled, and up to a constant of each frame.
    """

    kind: FeatureKind
    dim: int
    num_pdfs: int
    loglikes: Callable[[np.ndarray], np.ndarray]


def load_scorer(model_dir: Path) -> Scorer:
    """The model in ``model_dir``: ``final.pt`` if it is there, else ``gmm.npz``.  Raises UserError without one."""
    model_dir = Path(model_dir)
    if (model_dir / "final.pt").exists():
        return _dnn(model_dir)
    if (model_dir / "gmm.npz").exists():
        return _gmm(model_dir)
    raise UserError(f"{model_dir} has neither final.pt (verb `train`) nor gmm.npz (verb `align`)")


def _dnn(model_dir: Path) -> Scorer:
    from asr_parallel.model import load_predictor

    predictor = load_predictor(model_dir)

    def loglikes(feats: np.ndarray) -> np.ndarray:
        return predictor.log_posteriors(feats) - predictor.log_priors

    return Scorer(
        predictor.features,
        predictor.model.input_dim // (2 * predictor.context + 1),
        len(predictor.log_priors),
        loglikes,
    )


def _gmm(model_dir: Path) -> Scorer:
    """A GMM; one that was trained speaker-adaptively takes adapted features as they are."""
    from asr_parallel.align.gmm import DiagGmm

    if (model_dir / "gmm_si.npz").exists():
        gmm = DiagGmm.load(model_dir / "gmm.npz")
        return Scorer("fmllr", gmm.dim, gmm.num_pdfs, gmm.log_likelihoods)
    return _of_mfcc(model_dir, "gmm.npz")


def first_pass_scorer(model_dir: Path) -> Scorer:
    """The model for speakers who are not adapted yet, beside one that was trained speaker-adaptively."""
    return _of_mfcc(model_dir, "gmm_si.npz")


def _of_mfcc(model_dir: Path, name: str) -> Scorer:
    from asr_parallel.align.gmm import DiagGmm
    from asr_parallel.align.space import Space

    gmm, space = DiagGmm.load(model_dir / name), Space.load(model_dir / "space.npz")
    if not (dim := space.static_dim(gmm.dim)):
        raise UserError(
            f"{model_dir / name} takes {gmm.dim} values, which are neither static features with two orders of deltas "
            "nor what space.npz gives: run `align` again"
        )

    def loglikes(feats: np.ndarray) -> np.ndarray:
        return gmm.log_likelihoods(space(feats))

    return Scorer("mfcc", dim, gmm.num_pdfs, loglikes)
