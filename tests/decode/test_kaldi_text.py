"""Kaldi's text form of lattices: there and back, and by hand."""

from __future__ import annotations

import kaldifst
import numpy as np
import pytest
from test_hypotheses_of_lattices import best_paths, random_lattice

from asr_parallel.decode.kaldi_text import read_kaldi, write_kaldi
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.log import UserError

WORDS = dict(enumerate(["<eps>", "A", "B", "ÉTÉ"]))
BY_HAND = """utt-1
0 1 A 1.5,20,3_3_4
0 2 B 2,10,3_4
1 3 B 0.5,0.25,5
2 1 A 0,0,
3 0.25,1,9_9
2 1e1,0,

utt-2

utt-3
0
"""


def named(lattices, row):
    return {tuple(lattices.words[w] for w in words): p for words, p in best_paths(lattices.one(row), 7.0).items()}


@pytest.fixture
def lattices():
    several = [random_lattice(seed) for seed in range(8)] + [WordLattice.empty()]
    utts = [f"u{i}" for i in range(len(several))]
    return Lattices.join(utts, ["ok" if len(x.src) else "empty" for x in several], several, WORDS)


@pytest.mark.parametrize("numbers", [None, {"<eps>": 0, "A": 7, "B": 12, "ÉTÉ": 3}])
def test_there_and_back(tmp_path, lattices, numbers):
    path = tmp_path / "lat.txt"
    write_kaldi(lattices, path, numbers)
    again = read_kaldi(path, numbers and {n: w for w, n in numbers.items()})
    assert again.utts == [u for u, f in zip(lattices.utts, lattices.flags) if f == "ok"]
    for row, utt in enumerate(again.utts):
        expected, got = named(lattices, lattices.utts.index(utt)), named(again, row)
        assert got.keys() == expected.keys()
        for words, pair in expected.items():
            assert got[words] == pytest.approx(pair, rel=1e-4, abs=1e-3)


def test_openfst_reads_what_is_written(tmp_path, lattices):
    """The costs summed, the arcs are OpenFst's text form of an acceptor."""
    write_kaldi(lattices, tmp_path / "lat.txt", {w: i for i, w in WORDS.items()})
    for block in (tmp_path / "lat.txt").read_text().rstrip("\n").split("\n\n"):
        utt, *lines = block.split("\n")
        rows = []
        for line in lines:
            head, comma, weight = line.rpartition("\t")
            graph, acoustic = (float(x) for x in weight.split(",")[:2]) if comma else (0, 0)
            rows.append(f"{head} {graph + acoustic / 7:.6f}" if comma else line)
        fst = kaldifst.compile("\n".join(rows) + "\n", acceptor=True)
        _, _, _, cost = kaldifst.get_linear_symbol_sequence(kaldifst.shortest_path(fst))
        assert cost.value == pytest.approx(lattices.costs(7, 0)[lattices.utts.index(utt)], abs=1e-3)


def test_by_hand(tmp_path):
    path = tmp_path / "lat.txt"
    path.write_text(BY_HAND)
    lattices = read_kaldi(path)
    assert lattices.utts == ["utt-1", "utt-2", "utt-3"]
    assert named(lattices, 0) == {
        ("A", "B"): pytest.approx((2.25, 21.25)),
        ("B", "A", "B"): pytest.approx((2.75, 11.25)),
        ("B",): pytest.approx((12.0, 10.0)),
    }
    assert lattices.flags[:2] == ["ok", "empty"]
    assert lattices.best_all(7, 0)["utt-2"] == []


def test_first_line_tells_the_start(tmp_path):
    (tmp_path / "lat.txt").write_text("u\n7 2 A 1,2,\n2 0 B 3,4,\n0\n")
    assert named(read_kaldi(tmp_path / "lat.txt"), 0) == {("A", "B"): (4.0, 6.0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("utt-1\n0 1 A 1,x,\n1\n", r"lat\.txt:2: '0 1 A 1,x,' is no arc"),
        ("utt-1\n0 1 A nan,1,\n1\n", r"lat\.txt:2: .*not finite"),
        ("0 1 A 1,2,\n1\n", r"lat\.txt:1: .*utterance id alone"),
        ("u\n0 1 A 1,2,\n1 0 B 1,2,\n1\n", r"lat\.txt: utterance u: .*cycle"),
        ("u\n0 1 A 1,2,\n1\n\nu\n0 1 A 1,2,\n1\n", "utterance u stands twice"),
        ("", "has no lattices"),
        (None, "is not there"),
        (b"\0B\xff\xfe", "is not text"),
    ],
)
def test_what_is_no_lattice_is_named(tmp_path, text, message):
    path = tmp_path / "lat.txt"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=message):
        read_kaldi(path)


def test_numbers_need_their_names(tmp_path):
    path = tmp_path / "lat.txt"
    path.write_text("u\n0 1 5 1,2,\n1\n")
    assert named(read_kaldi(path, {5: "FIVE"}), 0) == {("FIVE",): (1.0, 2.0)}
    with pytest.raises(UserError, match=r"lat\.txt:2"):
        read_kaldi(path, {4: "FOUR"})
    lattices = read_kaldi(path, {5: "FIVE"})
    with pytest.raises(UserError, match="word 'FIVE'"):
        write_kaldi(lattices, tmp_path / "out.txt", {"<eps>": 0})
    assert np.array_equal(lattices.one(0).word, [1])
