"""Verb ``realign``: any trained model labels frames."""

import dataclasses

import numpy as np
import pytest

from asr_parallel.align import realign
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.config import ModelConfig, RealignConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.files import read_json, write_json
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor, make_model, save_model


def config(world, model, out) -> RealignConfig:
    return RealignConfig(jobs=1, data=world.data, lang=world.lang, dev=["dev"], model=model, out=out)


@pytest.fixture
def network(adapted_world, tmp_path):
    """A directory with the tree of the triphones and a random network for it."""
    hmm = HmmModel.load(adapted_world.out / "tri" / "hmm.json")
    hmm.save(tmp_path / "dnn" / "hmm.json")
    model = make_model(ModelConfig(layers=1, width=8, context=1), 3 * 4, hmm.tree.num_pdfs, 0)
    save_model(tmp_path / "dnn" / "final.pt", model, "mfcc", np.arange(1, hmm.tree.num_pdfs + 1))
    write_json(tmp_path / "dnn" / "config.json", {"features": "mfcc"})
    return tmp_path / "dnn"


def test_a_gmm_gives_the_labels_that_align_left(adapted_world, tmp_path):
    """The same model by the other route: through a scorer of whole frames instead of the GMM's own columns."""
    made = config(adapted_world, adapted_world.out / "tri", tmp_path)
    realign.run(made)
    assert [p for p in made.outputs() + made.inputs() if not p.exists()] == []
    for name in ("train", "dev"):
        ours, theirs = (Labels.load(d / f"ali_{name}.npz") for d in (tmp_path, adapted_world.out / "tri"))
        assert ours.utts == theirs.utts
        np.testing.assert_array_equal(ours.pdfs, theirs.pdfs)
    with np.load(tmp_path / "priors.npz") as ours, np.load(adapted_world.out / "tri" / "priors.npz") as theirs:
        np.testing.assert_array_equal(ours["counts"], theirs["counts"])


def test_a_network_is_scored_by_posteriors_over_priors(adapted_world, network):
    feats = FeatureSet.open(adapted_world.data, "dev", "mfcc")
    x = feats[feats.utts[0]]
    predictor, pdfs = load_predictor(network), np.array([3, 0, 7])
    expected = predictor.log_posteriors(x)[:, pdfs] - np.log(np.array([4, 1, 8]) / np.arange(1, 29).sum())
    np.testing.assert_allclose(
        realign.Scored(load_scorer(network)).log_likelihoods(x, pdfs), expected, rtol=1e-5, atol=1e-5
    )


def test_a_network_labels_all_frames(adapted_world, network, tmp_path):
    realign.run(config(adapted_world, network, tmp_path))
    assert {n: f["failed"] for n, f in read_json(tmp_path / "realign.json").items()} == {"train": 0, "dev": 0}
    feats = FeatureSet.open(adapted_world.data, "train", "mfcc")
    labels = Labels.load(tmp_path / "ali_train.npz")
    assert (labels.utts, labels.offsets.tolist()) == (feats.utts, feats.offsets.tolist())


def test_inputs_follow_the_features_of_the_network(adapted_world, network, tmp_path):
    made = config(adapted_world, network, tmp_path)
    assert adapted_world.data / "train" / "cuts_mfcc.jsonl.gz" in made.inputs()
    write_json(network / "config.json", {"features": "fbank"})
    assert adapted_world.data / "train" / "cuts_fbank.jsonl.gz" in made.inputs()
    with pytest.raises(UserError, match=r"final.pt \(verb `train`\) nor gmm.npz"):
        realign.run(dataclasses.replace(made, model=tmp_path / "none"))
