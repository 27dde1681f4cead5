"""Speaker-adaptive training on speakers who distort what they say by a known affine map."""

import numpy as np
import pytest

from asr_parallel.align import em, sat
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.fmllr import SpeakerTransforms
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labelling import make_aligner
from asr_parallel.align.labels import Labels
from asr_parallel.align.space import Space
from asr_parallel.align.work import Work
from asr_parallel.config import AlignConfig
from asr_parallel.files import read_json


def labels_of(config: AlignConfig, corpus: Corpus) -> np.ndarray:
    labels = Labels.load(config.out / "sat" / f"ali_{corpus.name}.npz")
    return np.concatenate([labels[utt] for utt in corpus.utts])


@pytest.mark.parametrize("name", ["train", "dev"])
def test_adaptation_raises_the_likelihood(adapted_world, name):
    """log |det A| counts, so that the model of adapted frames can be compared with the one before it."""
    figures = read_json(adapted_world.out / "align.json")
    before, after = (figures[f"{s}_ali"][name]["log_likelihood_per_frame"] for s in ("lda_mllt", "sat"))
    assert after > before + 0.3


def test_model_of_frames_before_adaptation(adapted_world):
    """With one Gaussian a pdf its means and variances are those of the pdf's frames."""
    work = Work(adapted_world)
    space = Space.load(adapted_world.out / "sat" / "space.npz")
    frames = work.open("train", space)
    pdfs, num_pdfs = (
        labels_of(adapted_world, frames),
        HmmModel.load(adapted_world.out / "sat" / "hmm.json").tree.num_pdfs,
    )
    adapted = SpeakerTransforms.load(adapted_world.out / "sat" / "fmllr_train.npz")(frames)
    floor = em.variance_floor(adapted.feats)
    gmm = em.single_gaussians(em.SortedFrames.of(adapted, pdfs, num_pdfs), floor)
    found = sat.independent(gmm, adapted, frames, pdfs, 1)
    assert len(found) == num_pdfs
    for pdf in np.flatnonzero(np.bincount(pdfs, minlength=num_pdfs) >= em.MIN_OCCUPANCY):
        mine = frames.feats[pdfs == pdf].astype(np.float64)
        np.testing.assert_allclose(found.means[pdf], mine.mean(0), rtol=1e-3, atol=1e-4)
        variance = np.maximum(mine.var(0), em.variance_floor(frames.feats))
        np.testing.assert_allclose(found.variances[pdf], variance, rtol=1e-2, atol=1e-4)


def test_training_and_test_speakers_get_like_transforms(adapted_world):
    """Speakers of ``dev`` do to frames what their namesakes in ``train`` do."""
    aligner = make_aligner(adapted_world, HmmModel.load(adapted_world.out / "sat" / "hmm.json"))
    frames = Work(adapted_world).open("dev", Space.load(adapted_world.out / "sat" / "space.npz"))
    first, gmm = (DiagGmm.load(adapted_world.out / "sat" / n) for n in ("gmm_si.npz", "gmm.npz"))
    found = sat.fit(aligner, first, gmm, frames, 100)
    again = sat.fit(aligner, first, gmm, frames, 100, found)
    trained = SpeakerTransforms.load(adapted_world.out / "sat" / "fmllr_train.npz")
    own = np.eye(6, 7)
    for a, b, c in zip(found.matrices, again.matrices, trained.matrices):
        assert np.linalg.norm(a - c) < 0.5 * np.linalg.norm(own - c)
        assert np.linalg.norm(b - c) < 0.5 * np.linalg.norm(own - c)
