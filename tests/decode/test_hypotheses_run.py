"""Verb ``hypotheses`` from lattices to files."""

from __future__ import annotations

import dataclasses
import gzip
import json

import numpy as np
import pytest
from test_hypotheses_of_lattices import best_paths, random_lattice

from asr_parallel.config import HypothesesConfig, cuts_path
from asr_parallel.decode import hypotheses
from asr_parallel.decode.calibration import Curve
from asr_parallel.decode.kaldi_text import read_kaldi
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.files import read_json, write_json
from asr_parallel.log import UserError

WORDS = dict(enumerate(["<eps>", "A", "B", "C"]))


@pytest.fixture
def lattices():
    several = [*(random_lattice(seed) for seed in (1, 2, 4)), WordLattice.empty()]
    return Lattices.join(["s-0", "s-1", "s-2", "s-3"], ["ok", "retried", "partial", "failed"], several, WORDS)


@pytest.fixture
def config(tmp_path, lattices, monkeypatch):
    where = tmp_path / "tri" / "decode_test"
    lattices.save(where / "lattices.npz")
    write_json(where / "score.json", {"lmwt": 9, "wip": 0.5, "tuned_on": "test"})
    texts = {"s-0": "A B", "s-1": "C", "s-2": "B A", "s-3": "A"}
    cuts = [{"id": u, "supervisions": [{"id": u, "speaker": "s", "text": t}]} for u, t in texts.items()]
    cuts_path(tmp_path, "test").parent.mkdir()
    with gzip.open(cuts_path(tmp_path, "test"), "wt") as file:
        file.writelines(json.dumps(c) + "\n" for c in cuts)
    spans = {"s-0": [(10 * i + 2, 10 * i + 9) for i in range(9)]}
    monkeypatch.setattr(
        hypotheses,
        "_timer",
        lambda config: lambda name: lambda utt, words: spans[utt][: len(words)] if utt in spans else None,
    )
    return HypothesesConfig(jobs=1, model=tmp_path / "tri", data=tmp_path, sets=["test"], nbest=4, beam=50.0)


def files(config):
    where = config.model / "decode_test"
    return {p.name: p.read_text() for p in where.iterdir() if p.suffix != ".npz"}


def test_files_and_figures(config, lattices):
    hypotheses.run(dataclasses.replace(config, kaldi="words"))
    found = files(config)
    rows = [line.split("\t") for line in found["nbest.tsv"].splitlines()[1:]]
    for row, utt in enumerate(lattices.utts[:3]):
        price = {w: g + a / 9 + 0.5 * len(w) for w, (g, a) in best_paths(lattices.one(row), 9.0).items()}
        mine = [r for r in rows if r[0] == utt]
        assert [float(r[2]) for r in mine] == pytest.approx(sorted(price.values())[:4], abs=1e-3)
        assert [int(r[1]) for r in mine] == list(range(1, len(mine) + 1))
    assert not [r for r in rows if r[0] == "s-3"]
    lines = found["mbr.txt"].splitlines()
    assert [line.split()[0] for line in lines] == lattices.utts
    assert lines[3] == "s-3"
    summary = read_json(config.model / "decode_test" / "hypotheses.json")
    assert (summary["lmwt"], summary["wip"], summary["utts"]) == (9.0, 0.5, 4)
    assert summary["without_hypothesis"] == {"s-3": "failed"}
    assert summary["untimed"] == ["s-1", "s-2"]
    assert summary["words"] == sum(len(line.split()) - 1 for line in lines)
    again = read_kaldi(config.model / "decode_test" / "lat.txt")
    assert again.utts == lattices.utts[:3]
    assert again.best_all(9, 0.5) == {u: w for u, w in lattices.best_all(9, 0.5).items() if u in again.utts}


def test_lattices_with_the_numbers_that_kaldi_reads(config, lattices, tmp_path):
    (tmp_path / "words.txt").write_text("<eps> 0\nC 1\nB 2\nA 3\n")
    hypotheses.run(dataclasses.replace(config, kaldi="numbers", lang=tmp_path))
    path = config.model / "decode_test" / "lat.txt"
    arcs = [line.split() for line in path.read_text().splitlines() if line.count("\t") == 3]
    assert {a[2] for a in arcs} <= {"0", "1", "2", "3"}
    again = read_kaldi(path, {0: "<eps>", 1: "C", 2: "B", 3: "A"})
    assert again.best_all(9, 0.5) == {u: w for u, w in lattices.best_all(9, 0.5).items() if u in again.utts}


def test_ctm(config, lattices):
    hypotheses.run(dataclasses.replace(config, mbr=False))
    found = files(config)
    assert "mbr.txt" not in found
    rows = [line.split() for line in found["ctm"].splitlines()]
    for utt, words in lattices.best_all(9, 0.5).items():
        assert [r[4] for r in rows if r[0] == utt] == words
    first = [r for r in rows if r[0] == "s-0"]
    assert [(r[1], r[2], r[3]) for r in first] == [("1", f"{0.1 * i + 0.02:.2f}", "0.07") for i in range(len(first))]
    assert all(r[2:4] == ["0.00", "0.00"] for r in rows if r[0] != "s-0")
    assert all(0 < float(r[5]) <= 1 for r in rows)


def test_jobs_do_not_matter(config):
    hypotheses.run(config)
    one = files(config)
    hypotheses.run(dataclasses.replace(config, jobs=2))
    assert files(config) == one


def test_confidences_are_calibrated_where_words_are_known(config, lattices):
    """The same words, whose confidences the curve of the summary has bent; better on the set that it was fitted on."""
    found = {}
    for on in ("none", ""):
        hypotheses.run(dataclasses.replace(config, calibrate=on))
        sure = [float(line.split()[5]) for line in files(config)["ctm"].splitlines()]
        found[on] = sure, read_json(config.model / "decode_test" / "hypotheses.json")
    (plain, before), (bent, after) = found["none"], found[""]
    assert (before["calibrated_on"], before["offset"], before["slope"]) == ("", 0.0, 1.0)
    assert after["calibrated_on"] == "test"
    assert bent == pytest.approx(Curve(after["offset"], after["slope"])(np.array(plain)).tolist(), abs=2e-3)
    assert max(abs(a - b) for a, b in zip(plain, bent)) > 0.01
    assert after["nce"] > before["nce"]
    cuts_path(config.data, "test").unlink()
    with pytest.raises(UserError, match=r"cuts\.jsonl\.gz"):
        hypotheses.run(config)
    hypotheses.run(dataclasses.replace(config, calibrate="none"))
    assert read_json(config.model / "decode_test" / "hypotheses.json")["nce"] is None


def test_utterance_that_the_references_lack(config):
    with gzip.open(cuts_path(config.data, "test"), "rt") as file:
        kept = file.readlines()[:-1]
    with gzip.open(cuts_path(config.data, "test"), "wt") as file:
        file.writelines(kept)
    with pytest.raises(UserError, match="lacks 1 utterances of the lattices, s-3 first"):
        hypotheses.run(config)


def test_weights_are_given_or_chosen_by_score(config):
    assert hypotheses.weights(config, "test") == ((9.0, 0.5), "test")
    given = dataclasses.replace(config, lmwt=11.0, wip=1.0)
    assert hypotheses.weights(given, "test") == ((11.0, 1.0), "")
    assert hypotheses.weights(dataclasses.replace(given, calibrate="dev"), "test") == ((11.0, 1.0), "dev")
    assert hypotheses.weights(dataclasses.replace(config, calibrate="none"), "test") == ((9.0, 0.5), "")
    (config.model / "decode_test" / "score.json").write_text("{}")
    with pytest.raises(UserError, match=r"score\.json does not say"):
        hypotheses.run(config)


@pytest.mark.parametrize("wrong", [{"lmwt": -1.0}, {"beam": 0.0}, {"nbest": 0}])
def test_impossible_options(config, wrong):
    with pytest.raises(UserError, match=f"--{next(iter(wrong))}"):
        hypotheses.run(dataclasses.replace(config, **wrong))


def test_lattices_that_are_missing(config):
    (config.model / "decode_test" / "lattices.npz").unlink()
    with pytest.raises(UserError, match="run `decode` first"):
        hypotheses.run(config)
