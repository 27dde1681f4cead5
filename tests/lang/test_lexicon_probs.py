"""Probabilities of pronunciations and silence: the table, and L with them against all of its paths."""

import itertools
import math

import kaldifst
import numpy as np
import pytest

from asr_parallel.lang.fst import lexicon_fst, pairs_of
from asr_parallel.lang.lexicon import Lexicon, disambiguate, phone_table, word_table
from asr_parallel.lang.lexicon_probs import COLUMNS, EVEN, OTHER, EntryProbs, LexiconProbs
from asr_parallel.log import UserError

PRONS = {
    "!SIL": (("SIL",),),
    "<unk>": (("SPN",),),
    "A": (("a",),),
    "AB": (("a", "b"), ("a", "b", "c"), ("b",)),
}
KEYS = [("<s>", ()), ("</s>", ()), (OTHER, ()), *pairs_of(PRONS)]


def some_probs(seed=0, **fixed):
    rng = np.random.default_rng(seed)
    drawn = {"pron": (0.1, 1), "silence_after": (0.1, 0.9), "after_silence": (0.3, 3), "after_word": (0.3, 3)}
    return LexiconProbs(
        {key: EntryProbs(**{name: float(rng.uniform(*r)) for name, r in drawn.items()} | fixed) for key in KEYS}
    )


def lexicon(probs, mark):
    """L of PRONS, and its words and phones by number."""
    pairs, highest = disambiguate(Lexicon(PRONS))
    tables = phone_table(Lexicon(PRONS).phones, highest), word_table(PRONS)
    phones, words = ({symbol: number for number, symbol in enumerate(table)} for table in tables)
    pairs = pairs if mark else pairs_of(PRONS)
    return lexicon_fst(pairs, phones, words, f"#{highest + 1}" if mark else None, probs), *tables


def all_paths(probs, mark, length):
    """{(phones, words): probability} of all paths of L with ``length`` words, one by one; two of a kind are added."""
    fst, phones, words = lexicon(probs, mark)
    found, waiting = {}, [(fst.start, (), (), 0.0)]
    while waiting:
        state, said, sentence, cost = waiting.pop()
        if len(sentence) == length and math.isfinite(fst.final(state).value):
            key = (tuple(p for p in said if p[0] != "#"), sentence)
            found[key] = found.get(key, 0.0) + math.exp(-cost - fst.final(state).value)
        for arc in kaldifst.ArcIterator(fst, state):
            if arc.olabel == words.index("#0") or (arc.olabel and len(sentence) == length):
                continue
            more = (phones[arc.ilabel],) if arc.ilabel else ()
            word = (words[arc.olabel],) if arc.olabel else ()
            waiting.append((arc.nextstate, said + more, sentence + word, cost + arc.weight.value))
    return found


def by_formula(probs, length):
    """The same: equation by equation of Chen et al., for each sentence, pronunciation and choice of silences."""
    found = {}
    for entries in itertools.product(pairs_of(PRONS), repeat=length):
        for silences in itertools.product((False, True), repeat=length + 1):
            p, phones = 1.0, ()
            for i, (word, pron) in enumerate([("<s>", ()), *entries, ("</s>", ())]):
                e = probs.entries[word, pron]
                if i > 0:
                    p *= e.pron * (e.after_silence if phones[-1:] == ("SIL",) else e.after_word)
                phones += pron
                if i <= length:
                    p *= e.silence_after if silences[i] else 1 - e.silence_after
                    phones += ("SIL",) if silences[i] else ()
            key = (phones, tuple(word for word, _ in entries))
            found[key] = found.get(key, 0.0) + p
    return found


@pytest.mark.parametrize("mark", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2])
def test_paths_weigh_what_the_formula_says(mark, length):
    probs = some_probs()
    paths, expected = all_paths(probs, mark, length), by_formula(probs, length)
    assert set(paths) == set(expected)
    for key, p in expected.items():
        assert paths[key] == pytest.approx(p, rel=1e-4), key


def test_silence_or_none_follows_each_word_for_sure():
    """Without factors, all paths of one sentence in one pronunciation have probability 1 in sum."""
    probs = some_probs(1, pron=1.0, after_silence=1.0, after_word=1.0)
    mass: dict = {}
    for (phones, sentence), p in all_paths(probs, True, 2).items():
        key = (tuple(phone for phone in phones if phone != "SIL"), sentence)
        mass[key] = mass.get(key, 0.0) + p
    assert len(mass) == len(pairs_of(PRONS)) ** 2
    assert all(p == pytest.approx(1.0, rel=1e-5) for p in mass.values())


def test_even_is_a_half_for_each_silence():
    paths = all_paths(EVEN, True, 1)
    assert paths[("a",), ("A",)] == pytest.approx(1 / 4)
    assert paths[("SIL", "a", "SIL"), ("A",)] == pytest.approx(1 / 4)


def test_words_that_were_not_seen_are_as_other():
    probs = LexiconProbs({(OTHER, ()): EntryProbs(silence_after=0.125), ("A", ("a",)): EntryProbs(silence_after=0.75)})
    assert probs.of("A", ("a",)).silence_after == 0.75
    assert probs.of("A", ("b",)).silence_after == probs.of("NEW", ("a",)).silence_after == 0.125


def test_round_trip(tmp_path):
    probs = some_probs(2, count=17)
    probs.write(tmp_path / "probs.txt")
    again = LexiconProbs.read(tmp_path / "probs.txt")
    assert list(again.entries) == KEYS
    for key in KEYS:
        assert again.entries[key].costs == pytest.approx(probs.entries[key].costs, abs=1e-4)
        assert again.entries[key].count == 17
    again.write(tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_text() == (tmp_path / "probs.txt").read_text()


HEAD = "\t".join(COLUMNS) + "\n"
SPECIAL = "".join(f"{word}\t\t1\t0.5\t1\t1\t3\n" for word in ("<s>", "</s>", OTHER))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\ta\t1\t0.5\t1\t1\t3\n", r"txt:1: want the columns word pron"),
        (HEAD + SPECIAL + "A\ta\t1\t0.5\t1\t1\n", r"txt:5: .*6 fields, want 7"),
        (HEAD + SPECIAL + "A\ta\t1\tx\t1\t1\t3\n", r"txt:5: .*float"),
        (HEAD + SPECIAL + "A\ta\t1\t1\t1\t1\t3\n", r"txt:5: .*not between 0 and 1"),
        (HEAD + SPECIAL + "A\ta\t1.5\t0.5\t1\t1\t3\n", r"txt:5: .*not between 0 and 1"),
        (HEAD + SPECIAL + "A\ta\t0\t0.5\t1\t1\t3\n", r"txt:5: .*not between 0 and 1"),
        (HEAD + SPECIAL + "A\ta\tnan\t0.5\t1\t1\t3\n", r"txt:5: .*not between 0 and 1"),
        (HEAD + SPECIAL + "A\ta\t1\t0.5\t0\t1\t3\n", r"txt:5: .*not above 0"),
        (HEAD + SPECIAL + "A\ta\t1\t0.5\t1\tinf\t3\n", r"txt:5: .*not above 0"),
        (HEAD + SPECIAL + "A\ta\t1\t0.5\t1\t1\t3\n" * 2, r"txt:6: .*there twice"),
        (HEAD + SPECIAL.replace("</s>", "B"), r"no line for </s>"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    (tmp_path / "probs.txt").write_text(text)
    with pytest.raises(UserError, match=message):
        LexiconProbs.read(tmp_path / "probs.txt")
