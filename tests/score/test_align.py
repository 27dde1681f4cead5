"""The alignment engine against exhaustive search, Kaldi's recursion, jiwer and kaldialign."""

import itertools
from functools import cache

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr_parallel.score.align import align
from asr_parallel.score.wer import count, total

WORDS = st.lists(st.sampled_from(["a", "b", "c", "ÉTÉ", "日本", "don’t", "a" * 9]), max_size=9)


def minimum(ref, hyp):
    """Least number of edits by plain recursion over all first steps."""

    @cache
    def cost(i, j):
        if i == len(ref) or j == len(hyp):
            return len(ref) - i + len(hyp) - j
        return min(cost(i + 1, j) + 1, cost(i, j + 1) + 1, cost(i + 1, j + 1) + (ref[i] != hyp[j]))

    return cost(0, 0)


def forward_counts(ref, hyp):
    """(ins, del, sub) as compute-wer finds them: the counts themselves travel forward, nothing is traced back."""
    table = {(i, 0): (0, i, 0) for i in range(len(ref) + 1)}
    for j in range(1, len(hyp) + 1):
        table[0, j] = (j, 0, 0)
        for i in range(1, len(ref) + 1):
            ins, dele, sub = table[i, j - 1], table[i - 1, j], table[i - 1, j - 1]
            differs = int(ref[i - 1] != hyp[j - 1])
            if sum(sub) + differs < min(sum(ins), sum(dele)) + 1:
                table[i, j] = (sub[0], sub[1], sub[2] + differs)
            elif sum(dele) < sum(ins):
                table[i, j] = (dele[0], dele[1] + 1, dele[2])
            else:
                table[i, j] = (ins[0] + 1, ins[1], ins[2])
    return table[len(ref), len(hyp)]


@settings(max_examples=300, deadline=None)
@given(WORDS, WORDS)
def test_alignment_is_whole_and_minimal_and_split_as_kaldi_splits(ref, hyp):
    pairs = align(ref, hyp)
    assert [r for r, _ in pairs if r is not None] == ref
    assert [h for _, h in pairs if h is not None] == hyp
    c = count(pairs)
    assert c.words == len(ref)
    assert c.errors == minimum(tuple(ref), tuple(hyp))
    assert (c.ins, c.dels, c.subs) == forward_counts(ref, hyp)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_totals_equal_jiwer(pairs):
    ours = total(count(align(ref, hyp)) for ref, hyp in pairs)
    theirs = jiwer.process_words([" ".join(r) for r, _ in pairs], [" ".join(h) for _, h in pairs])
    assert ours.errors == theirs.insertions + theirs.deletions + theirs.substitutions
    assert ours.ins - ours.dels == theirs.insertions - theirs.deletions
    assert ours.words == theirs.hits + theirs.substitutions + theirs.deletions
    if ours.words:
        assert ours.wer == pytest.approx(100 * theirs.wer)


def test_totals_equal_kaldialign():
    kaldialign = pytest.importorskip("kaldialign")
    for ref in itertools.product("ab", repeat=4):
        for hyp in itertools.product("abc", repeat=3):
            assert count(align(ref, hyp)).errors == kaldialign.edit_distance(ref, hyp)["total"]


def test_tie_is_deletion_and_insertion_when_that_keeps_a_word():
    assert align(["A", "B", "C"], ["B", "X", "C"]) == [("A", None), ("B", "B"), (None, "X"), ("C", "C")]


def test_empty_sides():
    assert align([], []) == []
    assert align([], ["A"]) == [(None, "A")]
    assert align(["A", "B"], []) == [("A", None), ("B", None)]
