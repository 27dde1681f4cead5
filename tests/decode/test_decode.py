"""Verb ``decode`` from files to files, with a tiny model and corpus."""

from __future__ import annotations

import dataclasses
import json
import logging
import os

import numpy as np
import pytest

from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel, Topology
from asr_parallel.align.tree import monophone_tree
from asr_parallel.config import DecodeConfig, cuts_path
from asr_parallel.decode import decode
from asr_parallel.decode import sets as sets_module
from asr_parallel.decode.graph_identity import tree_hash
from asr_parallel.decode.lattice import Lattices
from asr_parallel.files import write_json
from asr_parallel.lang.arrays import ARC, FstArrays
from asr_parallel.log import UserError

WORDS = ["<eps>", "A", "B", "C"]
NUM_PDFS = 6  # two states a word


class Set:
    """Stands for ``FeatureSet``: what ``decode`` needs of it."""

    def __init__(self, name, feats):
        self.name, self.utts, self.feats = name, list(feats), feats
        lengths = [len(x) for x in feats.values()]
        self.offsets = np.cumsum([0, *lengths])
        self.dim = 3
        self.durations = np.array(lengths) * 0.01

    def __len__(self):
        return len(self.utts)

    def __getitem__(self, utt):
        return self.feats[utt]


def means():
    return np.random.default_rng(0).normal(0, 3, (NUM_PDFS, 3)).astype(np.float32)


def spoken(words, rng, frames=8):
    """Static features of a word sequence: each state for some frames."""
    pdfs = [p for w in words for p in (2 * (w - 1), 2 * (w - 1) + 1)]
    return np.repeat(means()[pdfs], frames, axis=0) + rng.normal(0, 0.3, (len(pdfs) * frames, 3)).astype(np.float32)


def word_loop():
    """Any sequence of the three words, each of two states with loops."""
    source, arcs = [], []
    for word in (1, 2, 3):
        first, pdf = 2 * word - 1, 2 * (word - 1)
        for src, ilabel, olabel, weight, dst in (
            (0, pdf + 1, word, 1.1, first),
            (first, pdf + 1, 0, 0.1, first),
            (first, pdf + 2, 0, 0.1, first + 1),
            (first + 1, pdf + 2, 0, 0.1, first + 1),
            (first + 1, 0, 0, 0.1, 0),
        ):
            source.append(src)
            arcs.append((ilabel, olabel, weight, dst))
    finals = np.array([0.0] + [np.inf] * 6)
    return FstArrays.build(0, finals, np.array(source), np.array(arcs, ARC))


@pytest.fixture
def sets():
    rng = np.random.default_rng(1)
    texts = {"spk-a": [1, 2], "spk-b": [3], "spk-c": [2, 2, 1, 3], "spk-d": [1, 3, 2]}
    one = {utt: spoken(words, rng) for utt, words in texts.items()}
    two = {"spk-z": spoken([3, 1], rng)}
    return {"dev": Set("dev", one), "test": Set("test", two)}


@pytest.fixture
def config(tmp_path, sets, monkeypatch):
    model, graph, data = tmp_path / "tri", tmp_path / "tri" / "graph", tmp_path / "data"
    graph.mkdir(parents=True)
    wide = np.concatenate([means(), np.zeros((NUM_PDFS, 6), np.float32)], axis=1)
    DiagGmm(wide, np.ones_like(wide), np.ones(NUM_PDFS), np.arange(NUM_PDFS)).save(model / "gmm.npz")
    (model / "hmm.json").write_text("{}")
    word_loop().write(graph / "HCLG.fst")
    (graph / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(WORDS)))
    for name in sets:
        cuts_path(data, name, "mfcc").parent.mkdir(parents=True)
        cuts_path(data, name, "mfcc").write_bytes(b"cuts")
    monkeypatch.setattr(decode.FeatureSet, "open", lambda data, name, kind: sets[name])
    return DecodeConfig(jobs=1, model=model, graph=graph, data=data, sets=list(sets), acwt=0.1, max_bad=0.3)


def test_hypotheses_and_figures(config, sets):
    decode.run(config)
    out = config.model / "decode_dev"
    assert (out / "hyp.txt").read_text() == "spk-a A B\nspk-b C\nspk-c B B A C\nspk-d A C B\n"
    lattices = Lattices.load(out / "lattices.npz")
    assert lattices.utts == sets["dev"].utts
    assert lattices.flags == ["ok"] * 4
    assert lattices.best("spk-c", 10.0, 0.0) == ["B", "B", "A", "C"]
    summary = json.loads((out / "decode.json").read_text())
    assert summary["utts"] == 4
    assert summary["audio_seconds"] == pytest.approx(20 * 8 * 0.01)
    assert summary["xrt"] == pytest.approx(summary["audio_seconds"] / summary["core_seconds"], rel=0.5)
    assert summary["failed"] == summary["retried"] == summary["partial"] == {}
    assert (config.model / "decode_test" / "hyp.txt").read_text() == "spk-z C A\n"


def test_same_lattices_with_any_number_of_jobs(config):
    decode.run(config)
    path = config.model / "decode_dev" / "lattices.npz"
    one = dict(np.load(path))
    decode.run(dataclasses.replace(config, jobs=2, force=True))
    two = dict(np.load(path))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_second_run_keeps_sets_that_are_done(config, monkeypatch):
    decode.run(config)
    with monkeypatch.context() as m:
        m.setattr(decode, "_decode_set", lambda *_: pytest.fail("decoded again"))
        decode.run(config)
    done = []
    monkeypatch.setattr(decode, "_decode_set", lambda config, decoder, words, feats: done.append(feats.name))
    (config.model / "decode_test" / "decode.json").unlink()  # as a kill leaves it
    decode.run(config)
    assert done == ["test"]
    decode.run(dataclasses.replace(config, beam=11.0))
    assert done == ["test", "dev", "test"]
    (config.graph / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate([*WORDS, "D"])))
    decode.run(config)
    assert done == ["test", "dev", "test", "dev", "test"]


def test_bad_utterance_is_listed_and_kept_without_words(config, sets):
    sets["dev"].feats["spk-b"][3] = np.nan
    decode.run(config)
    out = config.model / "decode_dev"
    lattices = Lattices.load(out / "lattices.npz")
    assert lattices.flags == ["ok", "failed", "ok", "ok"]
    assert lattices.best_all(10.0, 0.0)["spk-b"] == []
    assert "spk-b\n" in (out / "hyp.txt").read_text()
    assert "first frame 3" in json.loads((out / "decode.json").read_text())["failed"]["spk-b"]


def test_too_many_bad_utterances_are_an_error(config, sets):
    for utt in ("spk-a", "spk-b"):
        sets["dev"].feats[utt][:] = np.nan
    with pytest.raises(
        UserError, match=r"set dev: 2 of 4 utterances have no .*, spk-a first.*2 x its features are not finite"
    ):
        decode.run(config)
    assert not (config.model / "decode_dev" / "decode.json").exists()


def test_graph_of_another_tree_is_an_error(config):
    small = np.ones((NUM_PDFS - 1, 9), np.float32)
    DiagGmm(small, small, small[:, 0], np.arange(NUM_PDFS - 1)).save(config.model / "gmm.npz")
    with pytest.raises(UserError, match="pdfs up to 5, but the model scores 5"):
        decode.run(config)


def test_graph_of_a_smaller_tree_is_warned_of(config, monkeypatch, caplog):
    large = np.ones((NUM_PDFS + 1, 9), np.float32)
    DiagGmm(large, large, large[:, 0], np.arange(NUM_PDFS + 1)).save(config.model / "gmm.npz")
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    decode.run(config)
    assert any("pdfs up to 5, the model has 7" in r.getMessage() for r in caplog.records)


def monophones(states: list[int]) -> HmmModel:
    """``NUM_PDFS`` pdfs for phones with so many states."""
    left_to_right = tuple(tuple(((i, 0.5), (i + 1, 0.5)) for i in range(n)) for n in (0, *states))
    phones = ["<eps>", *"abcdef"[: len(states)]]
    return HmmModel.start(phones, [1], Topology(left_to_right), monophone_tree([0, *states]))


def test_graph_of_another_tree_with_as_many_pdfs_is_an_error(config, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    hmm = monophones([2, 2, 2])
    hmm.save(config.model / "hmm.json")
    with caplog.at_level("INFO"):
        decode.run(config)  # a graph of before graph.json
    assert caplog.text.count("graph.json is missing") == 1
    hmm.log_probs -= 1.0  # transition probabilities are the model's own affair
    write_json(config.graph / "graph.json", {"tree": tree_hash(hmm)})
    decode.run(dataclasses.replace(config, force=True))
    other = monophones([3, 3])
    assert other.tree.num_pdfs == hmm.tree.num_pdfs == NUM_PDFS
    other.save(config.model / "hmm.json")
    with pytest.raises(UserError, match=r"HCLG\.fst was made with another tree or other phones than .*hmm\.json"):
        decode.run(config)
    (config.graph / "graph.json").write_text("{")
    with pytest.raises(UserError, match=r"graph\.json is damaged"):
        decode.run(config)


def test_features_of_another_size_are_an_error(config, sets):
    sets["test"].dim = 4
    with pytest.raises(UserError, match="set test has mfcc features of 4 values, the model takes 3"):
        decode.run(config)


def test_graph_of_other_words_is_an_error(config):
    (config.graph / "words.txt").write_text("<eps> 0\nA 1\nB 2\n")
    with pytest.raises(UserError, match=r"words up to 3, but words.txt ends at 2"):
        decode.run(config)


@pytest.mark.parametrize("wrong", [{"acwt": 0.0}, {"beam": -1.0}, {"lattice_beam": 0.0}, {"sets": []}])
def test_impossible_options_are_an_error(config, wrong):
    with pytest.raises(UserError, match=f"--{next(iter(wrong))}"):
        decode.run(dataclasses.replace(config, **wrong))


def test_model_directory_without_a_model_is_an_error(config):
    (config.model / "gmm.npz").unlink()
    with pytest.raises(UserError, match=r"neither final\.pt"):
        decode.run(config)


def test_killed_process_is_an_error(config, monkeypatch):
    monkeypatch.setattr(decode.Decoder, "decode", lambda *_: os._exit(9))
    with pytest.raises(UserError, match="set dev: a decoding process was killed"):
        decode.run(dataclasses.replace(config, jobs=2))


def test_slow_decoding_is_said_once(config, monkeypatch, caplog):
    monkeypatch.setattr(sets_module, "SLOW_AFTER", 0.0)
    real = decode.Decoder.decode
    monkeypatch.setattr(decode.Decoder, "decode", lambda *a: dataclasses.replace(real(*a), seconds=50.0))
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    decode.run(dataclasses.replace(config, sets=["dev"]))
    assert sum("slower than real time" in r.getMessage() for r in caplog.records) == 1
