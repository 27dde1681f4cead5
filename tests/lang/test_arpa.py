"""ARPA files: read back as written, and every kind of damage named with its line."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from test_ngram import make_lines, slow_log_prob

from asr_parallel.lang.arpa import read_arpa
from asr_parallel.lang.ngram import kneser_ney, write_arpa
from asr_parallel.lang.vocabulary import check_vocabulary
from asr_parallel.log import UserError

GOOD = """made by hand

\\data\\
ngram 1=4
ngram 2=3

\\1-grams:
-99 <s> -0.30103
-0.5\t</s>
-0.4\tA\t-0.2
-0.6 B

\\2-grams:
-0.1 <s> A
-0.2 A B
-0.3 A </s>

\\end\\
"""


def read(tmp_path, text):
    path = tmp_path / "lm.arpa"
    path.write_text(text)
    return read_arpa(path)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_what_was_written_is_read(tmp_path, order):
    model = kneser_ney(make_lines(7), order)
    write_arpa(model, tmp_path / "lm.arpa.gz")
    again = read_arpa(tmp_path / "lm.arpa.gz")
    assert again.words == model.words
    for k in range(order):
        assert np.array_equal(again.grams[k], model.grams[k])
        finite = np.isfinite(model.logp[k])
        assert again.logp[k][finite] == pytest.approx(model.logp[k][finite], abs=1e-5)
        assert again.backoff[k] == pytest.approx(model.backoff[k], abs=1e-5)


def test_by_hand(tmp_path):
    """L14 (sphinxbase#14): a back-off weight that is not there is 0, in logarithms."""
    model = read(tmp_path, GOOD)
    number = model.words.index
    for gram, expected in (
        ("<s> A", -0.1),
        ("A B", -0.2),
        ("<s> B", -0.30103 - 0.6),
        ("A A", -0.2 - 0.4),
        ("B </s>", -0.5),
    ):
        row = [number(w) for w in gram.split()]
        assert slow_log_prob(model, row) == pytest.approx(expected * np.log(10))
        assert model.log_prob(np.array([row]))[0] == pytest.approx(expected * np.log(10))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", r":18: no \\data\\ line"),
        ("ngram 1=4\n", "", r":4: 'ngram 2=3': the count of order 1 is missing"),
        ("ngram 1=4\nngram 2=3\n", "", r":5: no `ngram 1=...` line"),
        ("ngram 2=3", "ngram 2=4", r":18: there are 3 2-grams, \\data\\ says 4"),
        ("-0.6 B\n", "", r":12: there are 3 1-grams, \\data\\ says 4"),
        ("\\2-grams:", "\\3-grams:", r":13: '\\3-grams:' where \\2-grams: should stand: order 2 is missing"),
        ("ngram 2=3\n", "ngram 2=3\nngram 3=1\n", r":19: '\\end\\' where \\3-grams: should stand: order 3 is missing"),
        ("\n\\end\\\n", "", r":16: '' where \\end\\ should stand: the file is cut"),
        ("</s>\n\n\\end\\", "</s>\n\\end\\", r":17: no empty line before \\end\\"),
        ("B\n\n\\2", "B\n\\2", r":12: no empty line before \\2-grams:"),
        ("A\t-0.2", "A", r":10: 'A' begins longer n-grams but has no back-off weight"),
        ("<s> -0.30103", "<s>", r":8: '<s>' begins longer n-grams but has no back-off weight"),
        ("-0.2 A B", "-0.2 A C", r":15: '-0.2 A C': word 'C' is not among the 1-grams"),
        ("-0.2 A B", "-0.2 A", r":15: .*want a log-probability, 2 words"),
        ("-0.2 A B", "x A B", r":15: .*want a log-probability"),
        ("-0.2 A B", "0.2 A B", r":15: .*0.2 is no logarithm"),
        ("-0.2 A B", "nan A B", r":15: .*nan is no logarithm"),
        ("-0.2 A B", "-0.2 A B -0.1", r":15: .*highest order has no back-off"),
        ("A\t-0.2", "A\t-inf", r":10: .*-inf is no back-off weight"),
        ("-0.3 A </s>", "-0.3 A B", r":16: 'A B' stands twice"),
        ("-0.6 B", "-0.6 A", r":11: word 'A' stands twice"),
        ("-0.6 B", "-0.6 #0", r":11: word '#0' is reserved"),
        ("-0.6 B", "-0.6 <eps>", r":11: word '<eps>' is reserved"),
        ("</s>", "E", r": no </s> among the 1-grams"),
        ("<s>", "S", r": no <s> among the 1-grams"),
    ],
)
def test_damage_is_named(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(UserError, match=r"lm\.arpa" + message):
        read(tmp_path, GOOD.replace(old, new))


def test_history_that_is_missing_is_named(tmp_path):
    text = GOOD.replace("2=3\n", "2=3\nngram 3=1\n").replace("\n\\end", "\n\\3-grams:\n-0.1 B A B\n\n\\end")
    with pytest.raises(UserError, match=r":20: 'B A B' is there, but not what comes before its last word"):
        read(tmp_path, text)


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "lm.arpa.gz"
    with pytest.raises(UserError, match="is not there"):
        read_arpa(path)
    path.write_bytes(GOOD.encode())
    with pytest.raises(UserError, match="damaged"):
        read_arpa(path)
    path.write_bytes(gzip.compress(GOOD.encode())[:-20])
    with pytest.raises(UserError, match="damaged"):
        read_arpa(path)


@pytest.mark.parametrize(
    ("words", "lexicon", "message"),
    [
        (["A", "B"], ["a", "b", "c"], "0 of 2 words are in the lexicon, but most are in lower case, as 'a' for 'A'"),
        (["a", "b", "i'm"], ["A", "B", "I'M"], "0 of 3 words .* upper case"),
        (["A", "<UNK>"], ["A", "<unk>"], "unknown word is '<UNK>' there and '<unk>' in the lexicon"),
        (["A"], ["B"], "none of its 1 words"),
    ],
)
def test_words_that_are_not_the_lexicons(tmp_path, words, lexicon, message):
    """L10 (kaldi#632): the unknown word has one name."""
    with pytest.raises(UserError, match=message):
        check_vocabulary(["<s>", "</s>", *words], lexicon, tmp_path / "lm.arpa")


def test_words_that_are():
    assert check_vocabulary(["B", "<s>", "<unk>", "X", "</s>"], ["<unk>", "A", "B"], "lm") == [
        "<s>", "</s>", "<unk>", "B",
    ]  # fmt: skip
