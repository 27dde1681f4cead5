"""Pieces: joining gives the very words, every piece can be spelt, any word can be pronounced."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr_parallel.lang.graphemes import graphemes, spelt
from asr_parallel.lang.lexicon import EOS, Lexicon
from asr_parallel.lang.ngram import kneser_ney
from asr_parallel.lang.pieces import MARK, PieceLexicon, Pieces, going_on, join, joined
from asr_parallel.log import UserError

SAID = "THE CAT'S MATS SAT ON THE CAT IN THE HATS 'EM ÉTÉ BEIJING-LIKE ROCK-'N'-ROLL - RUNNING SITTING"
TEXT = 4 * SAID.split()


@pytest.fixture(scope="module")
def pieces():
    return Pieces.train(TEXT, 50)


def a_word(text):
    return len(text.split()) == 1 and text == text.split()[0] and MARK not in text


WORDS = st.lists(st.one_of(st.text(min_size=1).filter(a_word), st.text("'-CATSHE<unk>", min_size=1), st.just("!SIL")))


@given(WORDS)
def test_joined_pieces_are_the_words(pieces, words):
    assert join(pieces.encode(words)) == words


@given(WORDS)
def test_every_piece_of_a_word_with_letters_has_letters(pieces, words):
    for word in words:
        if graphemes(word):
            assert all(graphemes(piece) for piece in pieces.encode([word]))
        else:
            assert len(pieces.encode([word])) == 1


def test_words_are_left_as_they_are():
    assert join(["THE", "CAT", "<unk>", ""]) == ["THE", "CAT", "<unk>", ""]
    assert join([]) == []


def test_words_of_pieces_are_as_sure_as_their_least_piece():
    symbols = ["▁A", "B", "<unk>", "▁C", "!SIL", "▁D", "E", "F"]
    assert joined(symbols, [0.9, 0.8, 0.1, 0.7, 1.0, 0.2, 0.6, 0.3]) == [
        ("AB", 0.8), ("<unk>", 0.1), ("C", 0.7), ("!SIL", 1.0), ("DEF", 0.2),
    ]  # fmt: skip


def test_which_pieces_go_on():
    assert going_on(["!SIL", "<unk>", "▁A", "B", "▁B"]) == {"B"}
    assert going_on(["!SIL", "<unk>", "A", "B"]) == set()


def test_training_is_repeatable_and_has_frequent_words_whole(pieces):
    again = Pieces.train(TEXT, 50)
    assert again.model == pieces.model
    assert pieces.encode(["CAT"]) == ["▁CAT"]
    assert "▁CAT" in pieces.vocabulary


def test_vocabulary_can_spell_every_word_of_its_letters(pieces):
    known = set(pieces.vocabulary)
    letters = {letter for word in TEXT for letter in word if graphemes(letter)}
    assert letters | {MARK + letter for letter in letters} <= known
    assert all(graphemes(piece) for piece in known)
    assert MARK not in known


def test_no_language_model_lacks_a_piece(pieces):
    """A piece that the texts do not have is as likely as the uniform part of the unigrams makes it."""
    lines = [pieces.encode(["CAT", "SAT"]), pieces.encode(["CAT", "MATS"])] * 3
    model = kneser_ney(lines, 2, pieces.vocabulary)
    assert set(model.words) == {"<s>", EOS, *pieces.vocabulary, *(p for line in lines for p in line)}
    p = dict(zip(model.words, np.exp(model.logp[0])))
    unseen = set(pieces.vocabulary) - {p for line in lines for p in line}
    assert len({round(p[w], 12) for w in unseen}) == 1
    assert 0 < p[min(unseen)] < p["▁CAT"]
    assert sum(p.values()) == pytest.approx(1)


def test_pronunciations_of_words_never_seen(pieces):
    prons = PieceLexicon(pieces, spelt(pieces.vocabulary))
    assert prons["STATION"] == (tuple("station"),)
    assert prons["<unk>"] == (("SPN",),)
    assert "STATION" in prons
    assert "ΨΧΗ" not in prons  # letters that training never had


def test_mark_in_a_text_is_refused():
    with pytest.raises(UserError, match="word 'A▁B' has SentencePiece's mark"):
        Pieces.train(["A▁B", "C"], 10)


def test_too_few_pieces_are_refused():
    with pytest.raises(UserError, match="--pieces 3: SentencePiece refuses"):
        Pieces.train(TEXT, 3)


def test_damaged_and_missing_models(tmp_path):
    with pytest.raises(UserError, match=r"pieces\.model is missing or damaged"):
        Pieces.read(tmp_path)
    (tmp_path / "pieces.model").write_bytes(b"\xff\xff no model")
    with pytest.raises(UserError, match=r"pieces\.model is missing or damaged"):
        Pieces.read(tmp_path)


def test_write_and_read(tmp_path, pieces):
    pieces.write(tmp_path)
    assert Pieces.read(tmp_path).encode(TEXT) == pieces.encode(TEXT)


def test_lexicon_of_pieces_is_a_lexicon(tmp_path, pieces):
    spelt(pieces.vocabulary).write(tmp_path / "lexicon.txt")
    assert set(Lexicon.read(tmp_path / "lexicon.txt").prons) == {"!SIL", "<unk>", *pieces.vocabulary}
