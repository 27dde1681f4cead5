"""Faults that lexicons and language models have had (docs/faults.md), as far as no other test here has them."""

from __future__ import annotations

import gzip
import json

import pytest
from test_arpa import GOOD, read
from test_lang_run import config, corpus  # noqa: F401 (a fixture)

from asr_parallel.data.text import normalise, single_blanks, upper
from asr_parallel.lang.dictionary import read_dictionary
from asr_parallel.lang.lexicon import Lexicon, read_symbols, write_symbols
from asr_parallel.lang.run import run
from asr_parallel.log import UserError


def with_text(folder, text):
    rows = [{"id": "s-0", "supervisions": [{"id": "s-0", "text": "THE CAT"}]}]
    rows.append({"id": "s-1", "supervisions": [{"id": "s-1", "text": text}]})
    with gzip.open(folder / "train" / "cuts.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("blank", ["\u000b", "\u0085", "\u3000", "\u00a0", "\u200b"])
def test_l2_a_word_of_exotic_blanks(tmp_path, blank):
    """L2 (kenlm#247): toolkits disagree about what a blank is, so the line is named instead of guessed at."""
    with pytest.raises(UserError, match=r"lm\.arpa:11: .*blanks other than spaces and tabs"):
        read(tmp_path, GOOD.replace("-0.6 B", f"-0.6 {blank} -0.1"))


@pytest.mark.parametrize("word", ["#0", "<eps>", "<s>", "</s>", "#1"])
def test_l4_reserved_symbols_in_texts(corpus, word):  # noqa: F811
    """L4 (kaldi#1806): the lexicon's and the LM's are in their tests; a transcript with one is named, too."""
    with_text(corpus, f"THE {word} CAT")
    with pytest.raises(UserError, match=rf"train.cuts\.jsonl\.gz: cut 's-1': '{word}' is reserved"):
        run(config(corpus))


def test_l7_several_pronunciations_are_one_word(corpus):  # noqa: F811
    """L7 (wenet#1445): words.txt has each word once."""
    (corpus / "lexicon.txt").write_text("THE dh a\nTHE dh i\nTHE dh e\nCAT k a t\nDOG d o g\n")
    c = config(corpus, lexicon=corpus / "lexicon.txt")
    run(c)
    words = read_symbols(c.out / "words.txt")
    assert words.count("THE") == 1
    assert len(set(words)) == len(words)
    assert len(Lexicon.read(c.out / "lexicon.txt").prons["THE"]) == 3


@pytest.mark.parametrize("write", [normalise, upper])
def test_l8_punctuation_is_not_part_of_words(write):
    """L8 (kaldi#4395): apostrophes within words stay; what is unknown afterwards is counted and shown by ``lang``."""
    assert write('hello, "world"') == "HELLO WORLD"
    assert write("don't - 'quoted' (it's) [so]!") == "DON'T QUOTED IT'S SO"


def test_l8_unknown_words_are_shown(corpus):  # noqa: F811
    (corpus / "lexicon.txt").write_text("THE dh a\nCAT k a t\nDOG d o g\n")
    c = config(corpus, lexicon=corpus / "lexicon.txt")
    run(c)
    dev = json.loads((c.out / "lang.json").read_text())["sets"]["dev"]
    assert dev["oov"] == 4
    assert dev["top_oov"]["SAT"] == 1
    assert dev["oov_rate"] == pytest.approx(4 / 6)


def test_l9_no_word_is_without_a_pronunciation(corpus):  # noqa: F811
    """L9 (vosk-api#855): coverage is checked before any graph; no stale lexiconp.txt is read, an empty file is told."""
    (corpus / "lexicon.txt").write_text("THE dh a\nCAT k a t\nDOG d o g\n")
    (corpus / "lexiconp.txt").write_text("")
    c = config(corpus, lexicon=corpus / "lexicon.txt")
    run(c)
    assert set(read_symbols(c.out / "words.txt")[1:-3]) == set(Lexicon.read(c.out / "lexicon.txt").prons)
    with pytest.raises(UserError, match=r"lexiconp\.txt is empty"):
        read_dictionary(corpus / "lexiconp.txt")


def test_l12_one_table_of_words(tmp_path):
    """L12 (icefall#1032): a table whose numbers are not those of its lines is refused, wherever one is read."""
    write_symbols(tmp_path / "words.txt", ["<eps>", "A", "B", "#0"])
    lines = (tmp_path / "words.txt").read_text().splitlines()
    (tmp_path / "words.txt").write_text("\n".join([lines[0], lines[2], lines[1], lines[3]]) + "\n")
    with pytest.raises(UserError, match=r"words\.txt:2: expected number 1 in 'B 2'"):
        read_symbols(tmp_path / "words.txt")


def test_l16_text_is_not_changed_in_silence():
    """L16 (sentencepiece#329): no compatibility forms where text is kept; ``test_pieces.py`` has the pieces."""
    for text in ("\ufe30", "\ufb01", "\u212b", "A\u030a", "\u0149", "한국어"):
        assert single_blanks(text) == text
