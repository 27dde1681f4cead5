"""The verb with other units than phones, on a small corpus."""

import json

import kaldifst
import pytest
from test_lang_run import TEXTS, config, corpus  # noqa: F401 (a fixture)

from asr_parallel.lang.lexicon import Lexicon, read_symbols
from asr_parallel.lang.pieces import Pieces, join, pronunciations
from asr_parallel.lang.run import run
from asr_parallel.log import UserError


def test_graphemes(corpus):  # noqa: F811
    c = config(corpus, units="grapheme")
    run(c)
    assert all(path.exists() for path in c.outputs())
    assert not (c.out / "oov_g2p.txt").exists()
    assert Lexicon.read(c.out / "lexicon.txt").prons["FLORBLE"] == (tuple("florble"),)
    said = sorted({word for line in TEXTS["train"] for word in line.split()})
    assert (c.out / "vocabulary.txt").read_text().split() == said
    assert read_symbols(c.out / "phones.txt")[1:3] == ["SIL", "SPN"]


def test_grapheme_positions(corpus):  # noqa: F811
    c = config(corpus, units="grapheme", grapheme_positions=True)
    run(c)
    prons = Lexicon.read(c.out / "lexicon.txt").prons
    assert prons["A"] == (("a_S",),)
    assert prons["CAT"] == (("c_B", "a_I", "t_E"),)


@pytest.fixture
def subword(corpus):  # noqa: F811
    c = config(corpus, units="subword", pieces=40)
    run(c)
    return c


def test_subwords(subword):
    out = subword.out
    assert all(path.exists() for path in subword.outputs())
    pieces, words = Pieces.read(out), read_symbols(out / "words.txt")
    assert {*pieces.vocabulary, *pieces.encode(["THE", "FLORBLE", "RAN"])} <= set(words)
    assert "CAT" in (out / "vocabulary.txt").read_text().split()
    g, lexicon = (kaldifst.StdVectorFst.read(str(out / n)) for n in ("G.fst", "L_disambig.fst"))
    assert kaldifst.compose(lexicon, g).num_states > 0
    for line in (*TEXTS["train"], "A CAROLTHE"):  # and a word that was never seen
        if line:
            said = pieces.encode(line.split())
            fst = kaldifst.make_linear_acceptor([words.index(piece) for piece in said])
            kaldifst.add_self_loops(fst, [words.index("#0")], [words.index("#0")])
            kaldifst.arcsort(g, "ilabel")
            assert kaldifst.compose(fst, g).num_states > 0
            assert join(said) == line.split()
    report = json.loads((out / "lang.json").read_text())
    assert report["units"] == "subword"
    tested = [piece for line in TEXTS["test"] for piece in pieces.encode(line.split())]
    assert report["sets"]["test"]["oov"] == sum(piece not in words for piece in tested) > 0


def test_transcripts_are_spelt_whatever_their_words(subword):
    prons = pronunciations(subword.out)
    assert prons["ROBOT"] == (tuple("robot"),)
    assert "ZORGON" not in prons  # Z was never seen


def test_other_units_leave_no_pieces_behind(subword, corpus):  # noqa: F811
    run(config(corpus, units="grapheme"))
    assert not (subword.out / "pieces.model").exists()
    assert pronunciations(subword.out)["CAT"] == (tuple("cat"),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": "grapheme", "lexicon": "lexicon.txt"}, "--lexicon has pronunciations, --units grapheme spells"),
        ({"units": "subword", "lm": "lm.arpa"}, "--units subword makes its own language model"),
        ({"units": "subword", "grapheme_positions": True}, "--grapheme_positions is for --units grapheme"),
        ({"spelling": "whole"}, "--spelling whole is for --units subword"),
    ],
)
def test_contradictions(corpus, options, message):  # noqa: F811
    with pytest.raises(UserError, match=message):
        run(config(corpus, **options))


def test_same_pieces_again(subword, corpus):  # noqa: F811
    again = config(corpus, "again", units="subword", pieces=40)
    run(again)
    for name in ("pieces.model", "lexicon.txt", "G.fst", "L_disambig.fst"):
        assert (subword.out / name).read_bytes() == (again.out / name).read_bytes(), name


def test_whole_pieces_are_units(corpus):  # noqa: F811
    c = config(corpus, units="subword", pieces=40, spelling="whole")
    run(c)
    pieces, prons = Pieces.read(c.out), pronunciations(c.out)
    lexicon = Lexicon.read(c.out / "lexicon.txt").prons
    assert all(lexicon[piece] == ((piece,),) for piece in pieces.vocabulary)
    assert prons["CATTLE"] == (tuple(pieces.encode(["CATTLE"])),)
    assert prons["<unk>"] == (("SPN",),)
    assert set(pieces.vocabulary) <= set(read_symbols(c.out / "phones.txt"))
