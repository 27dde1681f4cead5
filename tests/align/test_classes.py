"""Labels of utterances of one frame."""

import numpy as np
import pytest
from class_world import WORDS, write_set
from gmm_world import monophones

from asr_parallel.align.classes import class_names, class_of, run, whole_words
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.config import ClassesConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.log import UserError


@pytest.fixture
def config(tmp_path):
    write_set(tmp_path, "train", ["STOP", "GO", "GO ON", "GO", "STOP", "GO"])
    write_set(tmp_path, "dev", ["GO ON", "GO"])
    return ClassesConfig(data=tmp_path, out=tmp_path / "exp")


def test_each_utterance_has_the_number_of_its_text(config):
    run(config)
    assert class_names(config.out) == ["GO", "GO_ON", "STOP"]
    train, dev = (Labels.load(config.out / f"ali_{name}.npz") for name in ("train", "dev"))
    assert [train[utt].tolist() for utt in train.utts] == [[2], [0], [1], [0], [2], [0]]
    assert [dev[utt].tolist() for utt in dev.utts] == [[1], [0]]
    with np.load(config.out / "priors.npz") as priors:
        assert priors["counts"].tolist() == [3, 1, 2]


def test_a_class_is_a_word_of_one_state():
    hmm = whole_words(["A", "B"])
    assert hmm.tree.num_pdfs == 2
    assert [hmm.transitions(pdf) for pdf in (0, 1)] == [((0, 0.5), (1, 0.5))] * 2
    assert hmm.phone_starts(np.array([0, 0, 1, 0])).tolist() == [True, False, True, True]


def test_words_of_a_text_are_joined():
    assert [class_of(word) for word in WORDS] == ["STOP", "GO", "GO_ON"]


def test_what_has_no_class_is_named(config, tmp_path):
    write_set(tmp_path, "dev", ["GO", "LEFT"])
    with pytest.raises(UserError, match=r"1 utterances are of no class that train has, s0-001 \(LEFT\)"):
        run(config)
    write_set(tmp_path, "dev", ["GO", ""])
    with pytest.raises(UserError, match="s0-001 has no text"):
        run(config)
    write_set(tmp_path, "dev", ["GO"])
    write_set(tmp_path, "train", ["GO", "GO"])
    with pytest.raises(UserError, match="nothing to tell apart"):
        run(config)


def test_frames_are_refused(config, tmp_path, monkeypatch):
    whole = FeatureSet.open(tmp_path, "train", "image")
    object.__setattr__(whole, "offsets", whole.offsets * 2)
    monkeypatch.setattr(FeatureSet, "open", lambda *_: whole)
    with pytest.raises(UserError, match="s0-000 has 2 frames of image"):
        run(config)


def test_pdfs_of_a_recogniser_are_no_classes(tmp_path):
    monophones().save(tmp_path / "hmm.json")
    with pytest.raises(UserError, match="pdfs are no classes"):
        class_names(tmp_path)
    assert HmmModel.load(tmp_path / "hmm.json").tree.num_pdfs > 10
