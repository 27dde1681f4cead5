"""Utterances without hypothesis, and hypotheses without reference."""

import pytest

from asr_parallel.log import UserError
from asr_parallel.score.pairing import pair
from asr_parallel.score.references import Reference
from asr_parallel.score.wer import score_set

HYPS = {"a": ["A"], "c": []}


def test_a_missing_hypothesis_is_refused_or_empty_or_left_out():
    with pytest.raises(UserError, match=r"h: 1 of 3 utterances have no hypothesis, e\.g\. b\. --mode all"):
        pair("abc", HYPS, "strict", "h")
    everything, present = pair("abc", HYPS, "all"), pair("abc", HYPS, "present")
    assert (everything.scored, everything.missing) == (["a", "b", "c"], ["b"])
    assert (present.scored, present.missing) == (["a", "c"], ["b"])
    assert pair("ac", HYPS, "strict").scored == ["a", "c"]


def test_a_hypothesis_without_reference_passes_in_no_mode_but_present():
    for mode in ("strict", "all"):
        with pytest.raises(UserError, match=r"1 of 2 utterances have no reference, e\.g\. c"):
            pair("ab", HYPS, mode)
    found = pair("ab", HYPS, "present")
    assert (found.scored, found.missing, found.extra) == (["a"], ["b"], ["c"])


@pytest.mark.parametrize("mode", ["strict", "all", "present"])
def test_nothing_in_common_is_never_a_rate(mode):
    with pytest.raises(UserError, match=r"none of the 2 .* references look like x, of hypotheses like a"):
        pair("xy", HYPS, mode)
    with pytest.raises(UserError, match="there are no hypotheses at all"):
        pair("xy", {}, mode)


def test_rates_of_the_modes():
    refs = {utt: Reference("s", ["A", "B"]) for utt in "abc"}
    hyps = {"a": ["A", "B"], "b": []}
    assert score_set(refs, hyps, mode="all").counts.wer == pytest.approx(100 * 4 / 6)
    score = score_set(refs, hyps, mode="present")
    assert (score.counts.wer, score.missing, [u.utt for u in score.utts]) == (50, ["c"], ["a", "b"])
