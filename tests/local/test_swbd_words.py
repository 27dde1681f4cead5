"""What the marks of Switchboard's transcripts and dictionary become."""

import pytest
import swbd_words as swbd

from asr_parallel.lang.dictionary import read_dictionary
from asr_parallel.log import UserError


# what a human reads in the manual's examples, and in both letter cases
@pytest.mark.parametrize(
    ("token", "word"),
    [
        ("story", "STORY"),
        ("[laughter-story]", "STORY"),
        ("[laughter-th[e]-]", "TH-"),
        ("[it'n/isn't]", "IT'N"),
        ("[lem[guini]-/linguini]", "LEM-"),
        ("[laughter-[lem[guini]-/linguini]]", "LEM-"),
        ("ex[specially]-/especially]", "EX-"),
        ("{yuppiedom}", "YUPPIEDOM"),
        ("ab[solute]-", "AB-"),
        ("ab[solute]", "AB-"),
        ("-[an]y", "-Y"),
        ("[an]y", "-Y"),
        ("-[a]b[out]-", "-B-"),
        ("ammu[n]it-", "AMMU-IT-"),
        ("them_1", "THEM"),
        ("them_1's", "THEM'S"),
        ("uh-huh", "UH-HUH"),
        ("[laughter]", "[LAUGHTER]"),
        ("[vocalized-noise]", "[VOCALIZED-NOISE]"),
        ("[silence]", ""),
        ("<b_aside>", ""),
    ],
)
def test_tokens(token, word):
    assert swbd.word(token) == word
    assert swbd.word(token.upper()) == word


def test_words_of_a_text():
    text = "[silence] oh IBM's <b_aside> [laughter] th[e]- {foo} NASA"
    words = swbd.words(text, {"IBM's": ["I", "B", "M'S"]})
    assert words == ["OH", "I", "B", "M'S", "[LAUGHTER]", "TH-", "FOO", "NASA"]


DICTIONARY = """# comment
the dh ax
the_1 dh iy
th[e]- dh
[silence] sil
IBM ay b iy eh m
TVs t iy v iy z
NASA n ae s ax
US ah s
[laughter-so] s ow
so s ow
"""


@pytest.fixture
def dictionary(tmp_path):
    path = tmp_path / "sw-ms98-dict.text"
    path.write_text(DICTIONARY)
    return swbd.read_dictionary(path)


def test_dictionary(dictionary):
    assert {w: list(p) for w, p in dictionary.prons.items()} == {
        "THE": [("DH", "AX"), ("DH", "IY")],
        "TH-": [("DH",)],
        "NASA": [("N", "AE", "S", "AX")],
        "US": [("AH", "S")],
        "SO": [("S", "OW")],
    }
    assert dictionary.spelt == {"IBM": ["I", "B", "M"], "TVs": ["T", "V'S"]}


def test_word_without_phones_is_named(tmp_path):
    path = tmp_path / "sw-ms98-dict.text"
    path.write_text("the dh ax\nso\n")
    with pytest.raises(UserError, match=r"sw-ms98-dict\.text:2: 'so' has no phones"):
        swbd.read_dictionary(path)


def test_lexicon_is_one_that_kaldi_and_the_package_read(dictionary, tmp_path):
    texts = [["THE", "CAT", "SA-", "I", "&"], ["[NOISE]", "TH-"]]
    text, guessed = swbd.lexicon(dictionary, texts)
    (tmp_path / "lexicon.txt").write_text(text)
    prons = read_dictionary(tmp_path / "lexicon.txt")
    assert prons["THE"] == (("DH", "AX"), ("DH", "IY"))
    assert prons["CAT"] == (("K", "AE", "T"),)
    assert prons["[NOISE]"] == prons["[LAUGHTER]"] == prons["<unk>"] == (("SPN",),)
    assert prons.keys() & {"SA-", "&"} == set()  # a cut word that nobody pronounced: unknown
    assert prons["TH-"] == (("DH",),)
    assert guessed == {"CAT": "dictionary", "I": "dictionary"}
