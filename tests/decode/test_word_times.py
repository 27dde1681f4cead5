"""Times of words whose phones were laid down by hand."""

from __future__ import annotations

import numpy as np
import pytest
from test_graph import lang_dir, make_hmm  # noqa: F401 (a fixture)

from asr_parallel.decode.word_times import WordTimer


def utterance(hmm, phones, lengths):
    """Scores that leave no doubt: each HMM state of each phone in context for so many frames."""
    ids = [hmm.phones.index(p) for p in phones]
    pdfs: list[int] = []
    for left, phone, right, frames in zip((0, *ids), ids, (*ids[1:], 0), lengths):
        states = range(hmm.topology.num_states(phone))
        each = [hmm.tree.pdf(left, phone, right, s) for s in states]
        pdfs += [*np.repeat(each, frames // len(each)), *[each[-1]] * (frames % len(each))]
    scores = np.full((len(pdfs), hmm.tree.num_pdfs), -300.0, np.float32)
    scores[np.arange(len(pdfs)), pdfs] = -1.0
    return scores


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("silences", [(0, 0, 0, 0), (6, 0, 9, 0), (3, 4, 0, 8), (9, 9, 9, 9)])
def test_times_are_those_of_the_phones(lang_dir, width, silences):  # noqa: F811
    hmm = make_hmm(width)
    words = [("A", ("b", "a"), (4, 6)), ("BEE", ("b",), (5,)), ("AB", ("a", "b"), (7, 2))]
    phones, lengths, expected = [], [], []
    for silence, word in zip(silences, (*words, None)):
        phones += ["SIL"] if silence else []
        lengths += [silence] if silence else []
        if word:
            begin = sum(lengths)
            phones += word[1]
            lengths += word[2]
            expected.append((begin, sum(lengths)))
    timer = WordTimer(lang_dir, hmm, 0.1)
    assert timer.spans([w for w, _, _ in words], utterance(hmm, phones, lengths)) == expected


def test_word_that_is_silence_has_its_frames(lang_dir):  # noqa: F811
    hmm = make_hmm(1)
    timer = WordTimer(lang_dir, hmm, 0.1)
    scores = utterance(hmm, ["b", "SIL", "a"], [4, 6, 5])
    (b, silence, a) = timer.spans(["B", "!SIL", "A"], scores)
    assert (b, a) == ((0, 4), (10, 15))
    assert silence[0] >= 4
    assert silence[1] <= 10


def test_more_words_than_frames_have_no_times(lang_dir):  # noqa: F811
    hmm = make_hmm(1)
    timer = WordTimer(lang_dir, hmm, 0.1)
    scores = utterance(hmm, ["a"], [5])
    assert timer.spans(["AB", "AB"], scores) is None
    assert timer.spans([], scores) == []
