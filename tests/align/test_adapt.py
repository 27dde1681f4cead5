"""Verb ``adapt`` on speakers who distort what they say: recognised, adapted, and decoded like any features."""

import dataclasses

import numpy as np
import pytest

from asr_parallel.align import adapt
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.fmllr import SpeakerTransforms
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.space import Space
from asr_parallel.config import AdaptConfig, cuts_path
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.features import load_rows
from asr_parallel.decode.acoustic import first_pass_scorer, load_scorer
from asr_parallel.log import UserError


@pytest.fixture(scope="module")
def config(adapted_world) -> AdaptConfig:
    world = adapted_world
    config = AdaptConfig(
        jobs=1, model=world.out / "sat", data=world.data, lang=world.lang, sets=["dev"], min_frames=100, acwt=0.2
    )
    adapt.run(config)
    return config


def test_leaves_what_the_configuration_promises(config):
    assert [p for p in config.outputs() + config.inputs() if not p.exists()] == []


@pytest.mark.parametrize("name", ["train", "dev"])
def test_features_are_transformed_frames(config, name):
    found = FeatureSet.open(config.data, name, "fmllr")
    mfcc = FeatureSet.open(config.data, name, "mfcc")
    space = Space.load(config.model / "space.npz")
    transforms = SpeakerTransforms.load(config.model / f"fmllr_{name}.npz")
    assert (found.utts, found.texts, found.dim) == (mfcc.utts, mfcc.texts, 6)
    for utt in found.utts[:7]:
        w = transforms.matrices[transforms.speakers.index(utt[:4])]
        expected = space(mfcc[utt]) @ w[:, :-1].T + w[:, -1]
        np.testing.assert_allclose(found[utt], expected, rtol=1e-5, atol=1e-5)
    rows = load_rows(cuts_path(config.data, name, "fmllr"))
    assert [r["features"]["num_frames"] for r in rows] == np.diff(found.offsets).tolist()
    assert {(r["features"]["num_features"], r["features"]["storage_type"]) for r in rows} == {(6, "flat_frames")}


def test_recognised_words_do_nearly_as_well_as_transcripts(config):
    """The likelihood of what was said, log |det A| counted, rises nearly as much as for transforms of transcripts."""
    work = adapt.Adapting(config)
    frames = work.open("dev")
    by_words = SpeakerTransforms.load(config.model / "fmllr_dev.npz")
    by_text = adapt.fit(work.aligner, work.first, work.gmm, frames, 100)

    def value(corpus: Corpus) -> float:
        aligned = work.aligner.align(work.gmm, corpus, range(len(corpus)))
        return aligned.acoustic / aligned.frames + corpus.log_det

    before, words, text = value(frames), value(by_words(frames)), value(by_text(frames))
    assert text > before + 0.3
    assert words > before + 0.7 * (text - before)


def test_utterances_without_recognised_words_have_no_say(config):
    work = adapt.Adapting(config)
    frames = work.open("dev")
    some = [words if i % 3 else [] for i, words in enumerate(frames.words)]
    kept = np.repeat([bool(words) for words in some], np.diff(frames.offsets))
    silent = work.aligner.align(work.first, dataclasses.replace(frames, words=some), range(len(frames)))
    assert silent.failed == []
    tree = work.aligner.graphs.hmm.tree
    assert set(tree.pdf_phone[silent.pdfs[~kept]].tolist()) == {work.aligner.graphs.silence}


def test_later_passes_decode_adapted_frames(config, monkeypatch):
    kinds = []

    class Counting(adapt.Adapting):
        def recognise(self, name, scorer):
            kinds.append(scorer.kind)
            return super().recognise(name, scorer)

    monkeypatch.setattr(adapt, "Adapting", Counting)
    before = SpeakerTransforms.load(config.model / "fmllr_dev.npz")
    adapt.run(dataclasses.replace(config, passes=2))
    assert kinds == ["mfcc", "fmllr"]
    after = SpeakerTransforms.load(config.model / "fmllr_dev.npz")
    assert after.speakers == before.speakers
    assert 0 < np.abs(after.matrices - before.matrices).max() < np.abs(before.matrices - np.eye(6, 7)).max()


def test_models_beside_each_other_take_their_own_features(config):
    feats = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    adapted, first = load_scorer(config.model), first_pass_scorer(config.model)
    assert (adapted.kind, adapted.dim, first.kind, first.dim) == ("fmllr", 6, "mfcc", 4)
    projected = Space.load(config.model / "space.npz")(feats)
    for scorer, name, x in ((adapted, "gmm.npz", projected), (first, "gmm_si.npz", feats)):
        expected = DiagGmm.load(config.model / name).log_likelihoods(projected)
        np.testing.assert_array_equal(scorer.loglikes(x), expected)


def test_other_models_are_refused(config, adapted_world):
    with pytest.raises(UserError, match="give the directory that `align` calls sat"):
        adapt.run(dataclasses.replace(config, model=adapted_world.out / "lda_mllt"))
    with pytest.raises(UserError, match="there must be a first"):
        adapt.run(dataclasses.replace(config, passes=0))
