"""The whole verb on speech drawn from known Gaussians."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from gmm_world import PRONS, corpus, monophones, write_features, write_lang

from asr_parallel.align import run as align_run
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.align.lexicon_counts import learn
from asr_parallel.config import AlignConfig, GraphConfig, LdaMlltConfig, MonoConfig, SatConfig, TriConfig
from asr_parallel.decode.make_graph import run as make_graph
from asr_parallel.files import read_json
from asr_parallel.lang.lexicon_probs import LexiconProbs
from asr_parallel.log import UserError

TIED = ("tri", "lda_mllt", "sat")


def with_bad_utterance(made: Corpus) -> Corpus:
    """One more utterance, which is far too short for its words."""
    offsets = np.append(made.offsets, made.offsets[-1] + 6)
    feats = np.concatenate([made.feats, made.feats[:6]])
    return Corpus(made.name, [*made.utts, "spk0-short"], [*made.words, ["ABBA", "ABBA"]], offsets, feats)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> tuple[AlignConfig, np.ndarray]:
    """A corpus on disk, and the true (phone, state) of the training frames."""
    data = tmp_path_factory.mktemp("data")
    train, truth = corpus(36)
    write_features(data, "train", with_bad_utterance(train))
    write_features(data, "dev", corpus(4, seed=1, name="dev")[0])
    config = AlignConfig(
        jobs=1,
        data=data,
        lang=write_lang(data / "lang"),
        out=data / "exp",
        dev=["dev"],
        mono=MonoConfig(iterations=4, gaussians=40, utterances=24),
        tri=TriConfig(iterations=4, leaves=28, gaussians=60),
        lda_mllt=LdaMlltConfig(iterations=3, leaves=28, gaussians=60, context=1, dim=6, mllt=[2, 3]),
        sat=SatConfig(iterations=3, leaves=28, gaussians=60, fmllr=[2], min_frames=100),
    )
    align_run.run(config)
    return config, truth


def outcome(config: AlignConfig) -> list[np.ndarray]:
    gmms = [DiagGmm.load(config.out / s / "gmm.npz") for s in config.systems()]
    gmms.append(DiagGmm.load(config.out / "sat" / "gmm_si.npz"))
    labels = [Labels.load(config.out / s / f"ali_{n}.npz").pdfs for s in TIED for n in ("train", "dev")]
    transitions = [HmmModel.load(config.out / s / "hmm.json").log_probs for s in config.systems()]
    return [*(a for g in gmms for a in (g.means, g.variances, g.weights)), *labels, *transitions]


def assert_same(a: AlignConfig, b: AlignConfig) -> None:
    for x, y in zip(outcome(a), outcome(b)):
        np.testing.assert_array_equal(x, y)


def test_leaves_what_the_configuration_promises(world):
    config, _ = world
    assert [p for p in config.outputs() if not p.exists()] == []
    figures = read_json(config.out / "align.json")
    for system in TIED:
        folder = config.out / system
        hmm, gmm = HmmModel.load(folder / "hmm.json"), DiagGmm.load(folder / "gmm.npz")
        labels = Labels.load(folder / "ali_train.npz")
        assert hmm.tree.context_width == 3
        assert hmm.tree.num_pdfs == gmm.num_pdfs == 28
        assert 40 < len(gmm) <= 60
        with np.load(folder / "priors.npz") as npz:
            np.testing.assert_array_equal(npz["counts"], labels.counts(28))
        assert figures[f"{system}_ali"]["train"]["failed"] == 1
    assert not (config.out / "align_progress.json").exists()


@pytest.mark.parametrize("system", TIED)
def test_finds_the_true_phones(world, system):
    config, truth = world
    tree = HmmModel.load(config.out / system / "hmm.json").tree
    labels = Labels.load(config.out / system / "ali_train.npz")
    assert len(labels) == 36
    assert (tree.pdf_phone[labels.pdfs] == truth[:, 0]).mean() > 0.9


@pytest.mark.parametrize("system", ["mono", *TIED])
def test_learns_pronunciations_and_silences(world, system):
    """As the true labels would tell them."""
    config, truth = world
    made, hmm = corpus(36)[0], monophones()
    pdfs = np.array([hmm.tree.pdf(0, phone, 0, state) for phone, state in truth.tolist()], np.int32)
    true = learn(hmm, Labels(made.utts, made.offsets, pdfs), dict(zip(made.utts, made.words)), PRONS)
    learnt = LexiconProbs.read(config.out / system / "lexicon_probs.txt")
    assert learnt.entries.keys() == true.entries.keys()
    for key, entry in true.entries.items():
        assert learnt.entries[key].count == entry.count or key[0] == "CAB"
        assert learnt.entries[key].pron == pytest.approx(entry.pron, abs=0.15)
        assert learnt.entries[key].silence_after == pytest.approx(entry.silence_after, abs=0.1)


def test_likelihood_rises(world):
    config = world[0]
    figures = read_json(config.out / "align.json")
    for stage in config.systems():
        values = [i["log_likelihood_per_frame"] for i in figures[stage]["iterations"]]
        assert values[-1] > values[0] + (0.1 if stage in ("mono", "tri") else 0)  # later ones begin near the end
    mono, tri = (figures[s]["iterations"][-1]["log_likelihood_per_frame"] for s in ("mono", "tri"))
    assert tri > mono


def test_unaligned_utterances_are_listed_with_a_reason(world):
    rows = [line.split("\t") for line in (world[0].out / "tri" / "unaligned.tsv").read_text().splitlines()]
    assert rows[0] == ["set", "utt", "frames", "why"]
    assert [r[:3] for r in rows[1:]] == [["train", "spk0-short", "6"]]
    assert "too few frames: its words need 24" in rows[1][3]


def test_too_many_unaligned_utterances_are_an_error(world, tmp_path):
    config = dataclasses.replace(world[0], out=tmp_path, max_bad=0.01, mono=MonoConfig(2, 20, 5))
    with pytest.raises(UserError, match=r"1 of 37 utterances .*spk0-short.*max_bad"):
        align_run.run(config)


def test_missing_features_are_an_error(world, tmp_path):
    with pytest.raises(UserError, match=r"none/cuts_mfcc.jsonl.gz: not there"):
        align_run.run(dataclasses.replace(world[0], out=tmp_path, dev=["none"]))


def test_ends_with_the_last_system_asked_for(world, tmp_path):
    config = dataclasses.replace(world[0], out=tmp_path, last="tri")
    align_run.run(config)
    assert {p.name for p in tmp_path.iterdir()} == {"mono", "tri", "align.json"}
    np.testing.assert_array_equal(
        Labels.load(tmp_path / "tri" / "ali_dev.npz").pdfs, Labels.load(world[0].out / "tri" / "ali_dev.npz").pdfs
    )


def test_result_does_not_depend_on_jobs(world, tmp_path):
    config = dataclasses.replace(world[0], out=tmp_path, jobs=2)
    align_run.run(config)
    assert_same(config, world[0])


def with_killed(system: str, phase: int):
    """The phases of a system, one of which (0 trains, 1 labels) is killed."""

    def killed(work):
        raise KeyboardInterrupt

    phases = list(align_run.SYSTEMS[system])
    phases[phase] = killed
    return tuple(phases)


def test_goes_on_after_the_last_finished_phase(world, tmp_path, monkeypatch):
    """Killed in one phase after the other, it leaves what it leaves in one go, and does nothing twice."""
    config = dataclasses.replace(world[0], out=tmp_path)

    times = set()
    for system, phase in (("mono", 1), ("tri", 0), ("lda_mllt", 1), ("sat", 0), ("sat", 1)):
        with monkeypatch.context() as patch:
            patch.setitem(align_run.SYSTEMS, system, with_killed(system, phase))
            with pytest.raises(KeyboardInterrupt):
                align_run.run(config)
        times.add((tmp_path / "mono" / "gmm.npz").stat().st_mtime_ns)
    align_run.run(config)
    assert times == {(tmp_path / "mono" / "gmm.npz").stat().st_mtime_ns}
    assert_same(config, world[0])


def test_other_options_begin_anew(world, tmp_path, monkeypatch):
    config = dataclasses.replace(world[0], out=tmp_path, mono=MonoConfig(1, 20, 5))

    monkeypatch.setitem(align_run.SYSTEMS, "mono", with_killed("mono", 1))
    for changed in (config, dataclasses.replace(config, seed=1)):
        before = (tmp_path / "mono" / "gmm.npz").stat().st_mtime_ns if changed is not config else 0
        with pytest.raises(KeyboardInterrupt):
            align_run.run(changed)
    assert (tmp_path / "mono" / "gmm.npz").stat().st_mtime_ns != before


def test_shortest_utterances(tmp_path):
    made = with_bad_utterance(corpus(10)[0])
    rows = made.shortest(3)
    assert 10 in rows
    assert sorted(rows) == list(rows)
    assert np.diff(made.offsets)[rows].max() <= np.delete(np.diff(made.offsets), rows).min()
    assert len(made.shortest(0)) == 11


def test_big_corpora_are_mapped(monkeypatch, world):
    config: AlignConfig = world[0]
    small = Corpus.open(config.data, "train", config.out)
    monkeypatch.setattr("asr_parallel.align.corpus.IN_MEMORY", 1000)
    big = Corpus.open(config.data, "train", config.out)
    assert isinstance(big.feats, np.memmap)
    np.testing.assert_array_equal(big.feats, small.feats)
    assert {p.name for p in Path(config.out).iterdir()} == {*config.systems(), "align.json"}


def test_graphs_with_what_alignments_tell_of_the_lexicon(world, tmp_path):
    """``graph --lexicon_probs`` makes the graph that ``align`` leaves, and without it that of ``even``."""
    config, _ = world
    tri, folder = config.out / "tri", tmp_path / "exp"
    shutil.copytree(config.out, folder)
    align_run._compile_graphs(align_run.Work(dataclasses.replace(config, out=folder, lexicon_probs="even")))
    made = []
    for table in (tri / "lexicon_probs.txt", None):
        make_graph(GraphConfig(model=tri, lang=config.lang, out=tmp_path / "graph", lexicon_probs=table))
        made.append((tmp_path / "graph/HCLG.fst").read_bytes())
    learnt, even = ((place / "tri/graph/HCLG.fst").read_bytes() for place in (config.out, folder))
    assert made == [learnt, even]
    assert learnt != even
