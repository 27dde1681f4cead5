"""A lexicon and a language model that the user brings."""

from __future__ import annotations

import logging

import pytest
from test_lang_run import config, corpus  # noqa: F401 (a fixture)

from asr_parallel.lang.dictionary import read_dictionary
from asr_parallel.lang.lexicon import Lexicon, read_symbols
from asr_parallel.lang.run import run
from asr_parallel.log import UserError

GOOD = "A\ta\nTHE  dh a\nTHE dh i\nCAT k a t\nDOG d o g\nSAT s a t\nRAN r a n\nTO t u\n<NOISE> SPN\n"


def read(tmp_path, text, **lists):
    for name, content in {"lexicon": text, **lists}.items():
        (tmp_path / f"{name}.txt").write_text(content)
    return read_dictionary(tmp_path / "lexicon.txt")


def test_what_is_read(tmp_path):
    found = read(tmp_path, GOOD, silence_phones="SIL\nSPN\n", nonsilence_phones="a i o u\ndh k t d g s r n\n")
    assert found["THE"] == (("dh", "a"), ("dh", "i"))
    assert found["!SIL"] == (("SIL",),)
    assert found["<unk>"] == found["<NOISE>"] == (("SPN",),)
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("B 0.5 b", ":10: '0.5' of word 'B' is a pronunciation probability"),
        ("B 1.0 b", ":10: '1.0' of word 'B' is a pronunciation probability"),
        ("B 1. b", ":10: '1.' of word 'B' is a pronunciation probability"),
        ("B .5 b", ":10: '.5' of word 'B' is a pronunciation probability"),
        ("B 1e-3 b", ":10: '1e-3' of word 'B' is a pronunciation probability"),
        ("B", ":10: word 'B' has an empty pronunciation"),
        ("B SIL", ":10: word 'B' is pronounced as silence"),
        ("B b SIL", ":10: 'B' has a silence phone inside"),
        ("<s> b", ":10: '<s>' is reserved"),
        ("#1 b", ":10: '#1' is reserved"),
        ("B #1", ":10: '#1' is reserved"),
        ("CAT k a t", ":10: 'CAT k a t' stands twice"),
        ("<unk> b", ":10: '<unk>' is pronounced 'SPN'"),
        ("!SIL SPN", ":10: '!SIL' is pronounced 'SIL'"),
        ("B b\r", ":10: .*blanks other than spaces and tabs"),
        ("B\u00a0b", ":10: .*blanks other than spaces and tabs"),
        ("\ufeffB b", ":10: .*blanks other than spaces and tabs"),
        ("  ", ":10: .*is empty"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    with pytest.raises(UserError, match=r"lexicon\.txt" + message):
        read(tmp_path, GOOD + line + "\nZ z\n")


def test_numbers_may_be_phones_but_not_everywhere(tmp_path):
    assert read(tmp_path, "EUX 2\nYOU j u\n")["EUX"] == (("2",),)
    with pytest.raises(UserError, match=r"lexicon\.txt:1: '1' before all pronunciations is a probability"):
        read(tmp_path, "A 1 a\nB 1 b i\n")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"silence_phones": "SIL\nSPN\na\n", "nonsilence_phones": "t\na k\n"},
         r"nonsilence_phones\.txt:2: phone 'a' is in silence_phones\.txt:3 too"),
        ({"silence_phones": "SIL\nNSN\n"}, r"silence_phones\.txt:2: 'NSN'"),
        ({"nonsilence_phones": "a\nSPN\n"}, r"nonsilence_phones\.txt:2: 'SPN' is a silence phone"),
        ({"nonsilence_phones": "a\n"}, r"lexicon\.txt:2: phone 'dh' is not in nonsilence_phones\.txt"),
    ],
)  # fmt: skip
def test_phone_lists(tmp_path, lists, message):
    """L11 (kaldi_tutorial#1): a phone is silence or it is not."""
    with pytest.raises(UserError, match=message):
        read(tmp_path, GOOD, **lists)


def test_lexicon_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"--lexicon .* is not there"):
        read_dictionary(tmp_path / "lexicon.txt")


LM = """\\data\\
ngram 1=6
ngram 2=2

\\1-grams:
-99 <s> -0.3
-0.5 </s>
-0.7 THE -0.2
-0.9 CAT
-1 <unk>
-1.1 DACHSHUND

\\2-grams:
-0.1 <s> THE
-0.2 THE CAT

\\end\\
"""


def test_lang_from_the_users_files(corpus, tmp_path, monkeypatch, caplog):  # noqa: F811
    """L3 (kaldi-for-russian#6): words of the LM that the lexicon lacks go with their n-grams, counted."""
    (tmp_path / "lexicon.txt").write_text(GOOD)
    (tmp_path / "lm.arpa").write_text(LM)
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    c = config(corpus, lexicon=tmp_path / "lexicon.txt", lm=tmp_path / "lm.arpa")
    run(c)
    assert Lexicon.read(c.out / "lexicon.txt").prons == read_dictionary(tmp_path / "lexicon.txt")
    assert {"CAT", "DOG", "<NOISE>"} < set(read_symbols(c.out / "words.txt"))
    assert "1 words have no pronunciation and are left out with their 1 n-grams: DACHSHUND" in caplog.text
    assert c.lexicon in c.inputs()
    assert c.lm in c.inputs()


def test_lexicon_of_the_user_with_a_model_of_texts(corpus, tmp_path):  # noqa: F811
    (tmp_path / "lexicon.txt").write_text(GOOD)
    c = config(corpus, lexicon=tmp_path / "lexicon.txt")
    run(c)
    assert "FLORBLE" not in read_symbols(c.out / "words.txt")


@pytest.mark.parametrize("with_lexicon", [True, False])
def test_model_in_another_case_is_refused(corpus, tmp_path, with_lexicon):  # noqa: F811
    (tmp_path / "lexicon.txt").write_text(GOOD)
    (tmp_path / "lm.arpa").write_text(LM.lower())
    lexicon = tmp_path / "lexicon.txt" if with_lexicon else None
    with pytest.raises(UserError, match=r"lm\.arpa: only 0 of 3 words are in the lexicon, but most are in upper case"):
        run(config(corpus, lexicon=lexicon, lm=tmp_path / "lm.arpa"))
