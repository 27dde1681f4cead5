"""Pronunciations and silences counted in alignments: by hand, by brute force, and on speech whose phones are known."""

import itertools

import numpy as np
import pytest
from gmm_world import PHONES, PRONS, corpus, monophones

from asr_parallel.align.labels import Labels
from asr_parallel.align.lexicon_counts import FIRST, LAST, LexiconCounts, entries_said, learn
from asr_parallel.lang.lexicon_probs import OTHER

AMBIGUOUS = {
    "<unk>": (("SPN",),),
    "X": (("a",), ("a", "b")),
    "Y": (("b", "c"), ("c",)),
    "Z": (("a",), ("SIL",)),
}


def all_ways(words, phones, prons):
    """Every choice of pronunciations and silences that makes ``phones`` of ``words``."""
    names = [w if w in prons else "<unk>" for w in words]
    for choice in itertools.product(*(prons[w] for w in names)):
        for silences in itertools.product((False, True), repeat=len(words) + 1):
            parts = zip(((), *choice), silences)
            if phones == tuple(p for pron, silence in parts for p in (*pron, *(["SIL"] if silence else []))):
                yield list(zip([FIRST, *zip(names, choice)], silences))


def test_what_was_said_is_one_of_all_ways():
    rng = np.random.default_rng(0)
    several = none = 0
    for _ in range(500):
        words = list(rng.choice(["X", "Y", "Z", "UNHEARD"], rng.integers(0, 4)))
        phones = tuple(rng.choice(["a", "b", "c", "SIL", "SPN"], rng.integers(0, 5)).tolist())
        if rng.random() < 0.7:  # mostly something that can be said
            prons = [AMBIGUOUS.get(w, AMBIGUOUS["<unk>"]) for w in words]
            pieces = [(*p[rng.integers(len(p))], *["SIL"] * rng.integers(0, 2)) for p in prons]
            phones = (*["SIL"] * rng.integers(0, 2), *itertools.chain(*pieces))
        ways = list(all_ways(words, phones, AMBIGUOUS))
        said = entries_said(words, phones, AMBIGUOUS)
        assert said in ways if ways else said is None, (words, phones)
        several += len(ways) > 1
        none += not ways
    assert several > 20
    assert none > 20


def test_probabilities_by_hand():
    """``<s> SIL X Y SIL </s>``, ``<s> X(2) SIL Y </s>`` and ``<s> SIL X SIL Y SIL </s>``; Y is always ``c``."""
    counts = LexiconCounts()
    for phones in ("SIL a c SIL", "a b SIL c", "SIL a SIL c SIL"):
        counts.add(entries_said(["X", "Y"], tuple(phones.split()), AMBIGUOUS))
    probs = counts.probs(AMBIGUOUS)
    share = (6 + 1) / (9 + 2)  # of 9 places 6 are silent
    assert probs.of("NEW", ("d",)).silence_after == share
    x1, x2, y1, y2 = (probs.entries[k] for k in (("X", ("a",)), ("X", ("a", "b")), ("Y", ("b", "c")), ("Y", ("c",))))
    assert [e.pron for e in (x1, x2, y1, y2)] == pytest.approx([1, 2 / 3, 1 / 4, 1])
    begin, end = probs.entries[FIRST], probs.entries[LAST]
    silent = [(2 + 2 * share) / 5, (1 + 2 * share) / 4, (1 + 2 * share) / 3, share, (2 + 2 * share) / 5]
    assert [e.silence_after for e in (begin, x1, x2, y1, y2)] == pytest.approx(silent)
    expected = [2 * silent[0], silent[0], 0, 2 * silent[1] + silent[2], 3 * silent[4]]
    seen = [(2, 2), (0, 1), (0, 0), (2, 3), (2, 3)]  # with silence before, and all
    for entry, (before, n), e in zip((x1, x2, y1, y2, end), seen, expected):
        assert entry.after_silence == pytest.approx((before + 2) / (e + 2))
        assert entry.after_word == pytest.approx((n - before + 2) / (n - e + 2))
    assert [e.count for e in (begin, x1, x2, y1, y2, end)] == [3, 2, 1, 0, 3, 3]
    assert set(probs.entries) == {FIRST, LAST, (OTHER, ()), *((w, p) for w in "XY" for p in AMBIGUOUS[w])}


def test_labels_that_fit_no_pronunciation_are_left_out_and_named(caplog):
    hmm = monophones()
    made, truth = corpus(6)
    pdfs = np.array([hmm.tree.pdf(0, p, 0, s) for p, s in truth.tolist()], np.int32)
    labels = Labels(made.utts, made.offsets, pdfs)
    words = dict(zip(made.utts, made.words))
    good = learn(hmm, labels, words, PRONS)
    assert "not fit" not in caplog.text
    worse = learn(hmm, labels, words | {made.utts[2]: ["DA"] * 30}, PRONS)
    assert f"1 utterances have labels that do not fit their words, {made.utts[2]} first" in caplog.text
    assert worse.entries[LAST].count == good.entries[LAST].count - 1 == 5


def test_true_labels_give_back_how_the_speech_was_made():
    """Silence at both ends, after 3 of 10 words within; pronunciations of CAB half and half."""
    hmm = monophones()
    made, truth = corpus(300)
    pdfs = np.array([hmm.tree.pdf(0, p, 0, s) for p, s in truth.tolist()], np.int32)
    probs = learn(hmm, Labels(made.utts, made.offsets, pdfs), dict(zip(made.utts, made.words)), PRONS)
    assert probs.entries[FIRST].silence_after > 0.99
    assert probs.entries[LAST].after_silence > 1.5 > 0.05 > probs.entries[LAST].after_word
    one, two = (probs.entries["CAB", pron] for pron in PRONS["CAB"])
    assert one.count + two.count == sum(words.count("CAB") for words in made.words)
    assert min(one.pron, two.pron) > 0.75
    starts = np.append(True, (np.diff(truth, axis=0) != 0).any(1)) & (truth == (PHONES.index("SIL"), 0)).all(1)
    places = sum(map(len, made.words)) + len(made)
    assert probs.of(OTHER).silence_after == pytest.approx((starts.sum() + 1) / (places + 2))
