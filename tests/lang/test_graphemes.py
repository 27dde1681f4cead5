"""Words spelt with letters: what counts as a letter, and where it stands."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr_parallel.lang.graphemes import graphemes, spell, spelt
from asr_parallel.lang.lexicon import Lexicon


@pytest.mark.parametrize(
    ("word", "letters"),
    [
        ("CAT'S", "c a t s"),
        ("É", "é"),
        ("E\u0301", "é"),  # the same, not composed
        ("ПРИВЕТ-КА", "п р и в е т к а"),
        ("हिन्दी", "ह ि न ् द ी"),  # vowel signs are sounds
        ("B2B", "b 2 b"),
        ("STRASSE", "s t r a s s e"),
        ("ß", "ß"),
        ("g\u0303o", "g \u0303 o"),  # no single character holds both
        ("İ", "i \u0307"),
        ("--", ""),
        ("▁THE", "t h e"),
    ],
)
def test_letters(word, letters):
    assert graphemes(word) == letters.split()


@given(st.text())
def test_any_text_gives_symbols_that_a_graph_can_have(word):
    for letter in graphemes(word):
        assert len(letter) == 1
        assert unicodedata.category(letter)[0] in "LMN"
        assert letter.isprintable()
        assert not letter.isspace()
    assert graphemes(word) == graphemes(unicodedata.normalize("NFD", word))


def test_positions():
    assert spell("CAT", positions=True) == ("c_B", "a_I", "t_E")
    assert spell("A", positions=True) == ("a_S",)
    assert spell("IS", positions=True) == ("i_B", "s_E")
    assert spell("'", positions=True) == spell("'") == ("SPN",)


def test_lexicon(tmp_path):
    lexicon = spelt(["TO", "2", "-", "<unk>"])
    lexicon.write(tmp_path / "lexicon.txt")
    assert Lexicon.read(tmp_path / "lexicon.txt") == lexicon
    assert lexicon.phones == ["SIL", "SPN", "2", "o", "t"]
    assert (tmp_path / "lexicon.txt").read_text() == "!SIL SIL\n- SPN\n2 2\n<unk> SPN\nTO t o\n"
