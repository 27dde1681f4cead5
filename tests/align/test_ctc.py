"""CTC's labels, and its best path against all paths."""

import itertools

import numpy as np
import pytest

from asr_parallel.align.ctc import best_labels, ctc_hmm, is_ctc, save_ctc, targets
from asr_parallel.align.hmm import HmmModel
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import FeatureSet, Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import FrameFile
from asr_parallel.lang.graphemes import spelt
from asr_parallel.lang.run import write_lang
from asr_parallel.log import UserError


@pytest.fixture
def lang(tmp_path):
    write_lang(spelt(["AB", "BAA", "C"]), tmp_path / "lang")
    return tmp_path / "lang"


def a_set(folder, texts, frames):
    """Utterances with these texts and numbers of frames."""
    with FrameFile(store_path(folder, "x", "fbank")) as file:
        for n in frames:
            file.append(np.zeros((n, 2), np.float32))
    Cmvn(["s"], np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)).save(cmvn_path(folder, "x", "fbank"))
    names = [f"s-{i}" for i in range(len(texts))]
    offsets = np.concatenate([[0], np.cumsum(frames)])
    Index(names, ["s"] * len(names), texts, offsets, np.ones(len(names)), "").save(index_path(folder, "x", "fbank"))
    return FeatureSet.open(folder, "x", "fbank")


def test_outputs_are_phones_and_silence_is_the_blank(lang, tmp_path):
    hmm = ctc_hmm(lang)
    assert hmm.phones == ["<eps>", "SIL", "SPN", "a", "b", "c"]
    assert [hmm.phones[p] for p in hmm.tree.pdf_phone] == ["SIL", "SPN", "a", "b", "c"]
    assert not is_ctc(tmp_path)
    save_ctc(hmm, tmp_path)
    assert is_ctc(tmp_path)
    assert HmmModel.load(tmp_path / "hmm.json").phones == hmm.phones


def test_labels_of_words(lang, tmp_path):
    features = a_set(tmp_path, ["AB BAA", "", "C <unk>", "BAA"], [7, 1, 9, 4])
    found = targets(lang, ctc_hmm(lang), features)
    assert {utt: labels.tolist() for utt, labels in found.items()} == {
        "s-0": [2, 3, 3, 2, 2], "s-1": [], "s-2": [4, 1], "s-3": [3, 2, 2],
    }  # fmt: skip


def test_what_cannot_be_said_is_left_out_up_to_a_share(lang, tmp_path):
    """AB BAA has five labels and two that come twice: seven frames are the least."""
    features = a_set(tmp_path, ["AB BAA", "AB ZEBRA", "C", "C"], [6, 50, 1, 1])
    assert list(targets(lang, ctc_hmm(lang), features, max_bad=0.5)) == ["s-2", "s-3"]
    with pytest.raises(UserError, match=r"2 of 4 utterances of x cannot be used \(first: s-0: 6 frames for 7 labels\)"):
        targets(lang, ctc_hmm(lang), features, max_bad=0.4)


def said(path):
    return [k for k, group in itertools.groupby(path) if k]


@pytest.mark.parametrize("labels", [[1], [1, 2], [2, 2], [1, 2, 1]])
def test_best_path_is_the_best_of_all(labels):
    logp = np.log(np.random.default_rng(len(labels)).dirichlet(np.ones(3), 5))
    paths = [p for p in itertools.product(range(3), repeat=5) if said(p) == labels]
    best = max(paths, key=lambda path: sum(logp[t, k] for t, k in enumerate(path)))
    assert best_labels(logp, labels).tolist() == list(best)
