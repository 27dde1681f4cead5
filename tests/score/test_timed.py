"""STM and CTM by hand; ``test_sclite.py`` has them at random."""

import pytest

from asr_parallel.log import UserError
from asr_parallel.score.timed import by_file, into_segments, read_ctm, read_stm, segments_as_utterances, stm_line

STM = """;; a comment
;; LABEL "f" "Female" "women"
f 1 bob 0.00 1.50 <o,f> A B
f 1 ann 1.50 3.00 <unk> C

f 1 ann 3.00 4.00 IGNORE_TIME_SEGMENT_IN_SCORING
f 1 bob 4.00 6.00 <f> D
f 2 ann 0.00 1.00
"""
CTM = """;; a comment
f 1 2.80 0.20 C 0.9
f 1 0.10 0.20 A
f 1 1.40 0.10 B
f 1 1.41 0.30 <unk>
f 1 3.50 0.20 X
f 1 9.00 0.20 D
"""


@pytest.fixture
def file(tmp_path):
    def make(text, name):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return make


def test_segments(file):
    utterances = segments_as_utterances(file(STM, "r.stm"), read_stm(file(STM, "r.stm")))
    assert {utt: (u.spk, u.text.split(), u.labels) for utt, u in utterances.items()} == {
        "bob-f-1-00000000-00001500": ("bob", ["A", "B"], ("o", "f")),
        "ann-f-1-00001500-00003000": ("ann", ["<unk>", "C"], ()),  # sclite takes this for a label
        "bob-f-1-00004000-00006000": ("bob", ["D"], ("f",)),
        "ann-f-2-00000000-00001000": ("ann", [], ()),
    }


def test_words_by_the_middle_of_their_times_and_ignored_ones_not_at_all(file):
    hyps = into_segments(read_stm(file(STM, "r.stm")), read_ctm(file(CTM, "h.ctm")))
    assert {utt: u.text for utt, u in hyps.items()} == {
        "bob-f-1-00000000-00001500": "A B",
        "ann-f-1-00001500-00003000": "<unk> C",
        "bob-f-1-00004000-00006000": "D",
    }  # channel 2 has no words at all: a missing hypothesis, not an empty one


def test_a_channel_without_segments_keeps_its_words(file):
    hyps = into_segments(read_stm(file(STM, "r.stm")), read_ctm(file(CTM + "g 1 0.0 0.1 A\n", "h.ctm")))
    assert hyps["g-1"].text == "A"


def test_alternates_are_one_choice_and_stay_together(file):
    words = ["* * <ALT_BEGIN>", "1.0 0.2 C", "* * <ALT>", "1.0 0.2 K", "1.6 0.2 L", "* * <ALT>", "* * <ALT_END>"]
    path = file("f 1 0.5 0.1 A\n" + "".join(f"f 1 {w}\n" for w in words), "h.ctm")
    tokens = read_ctm(path)["f", "1"]
    assert [(t.text, t.begin) for t in tokens] == [("A", 0.5), ("{ C / K L / }", 1.0)]
    assert tokens[1].middle == pytest.approx(1.7)


def test_words_by_file(file):
    path = file("v 1 0.2 0.1 B\nu 1 0.0 0.1 C\nv 1 0.0 0.1 A\n", "ctm")
    assert {utt: u.text for utt, u in by_file(path, read_ctm(path)).items()} == {"v": "A B", "u": "C"}
    two = file("v 1 0.2 0.1 B\nv 2 0.0 0.1 C\n", "ctm")
    with pytest.raises(UserError, match="ctm: v has several channels"):
        by_file(two, read_ctm(two))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("f 1 s 0.0", "want `FILE CHANNEL SPK BEGIN END"),
        ("f 1 s 0.0 one A", "could not convert"),
        ("f 1 s 2.0 1.0 A", "times 2.0 1.0"),
        ("f 1 s nan 1.0 A", "times nan"),
    ],
)
def test_bad_segments_are_named(file, line, message):
    with pytest.raises(UserError, match=rf"r\.stm:9: .*{message}"):
        read_stm(file(STM + line + "\n", "r.stm"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("f 1 0.0 0.1", ":8: want `FILE CHANNEL BEGIN"),
        ("f 1 0.0 x A", ":8: .*could not convert"),
        ("f 1 nan 0.1 A", ":8: .*times nan 0.1"),
        ("f 1 * * <ALT>", ":8: <ALT> outside of"),
        ("f 1 * * <ALT_BEGIN>\nf 1 * * <ALT_BEGIN>", ":9: <ALT_BEGIN> within"),
        ("f 1 * * <ALT_BEGIN>\nf 1 0 0.1 A", "<ALT_BEGIN> without <ALT_END>"),
    ],
)
def test_bad_words_are_named(file, lines, message):
    with pytest.raises(UserError, match=rf"h\.ctm.*{message}"):
        read_ctm(file(CTM + lines + "\n", "h.ctm"))


def test_segments_that_cannot_be_told_apart(file):
    path = file("f 1 s 0 1 A\nf 1 s 0 1 B\n", "r.stm")
    with pytest.raises(UserError, match=r"r\.stm:2: s-f-1-00000000-00001000 is there twice"):
        segments_as_utterances(path, read_stm(path))


def test_written_segments_are_read(file):
    path = file(stm_line("u1", "s", 2.194375, "A B") + stm_line("u2", "", 1.0, ""), "r.stm")
    (one, two) = read_stm(path)
    assert (one.channel, one.spk, one.begin, one.end, one.text.split()) == (("u1", "1"), "s", 0, 2.19, ["A", "B"])
    assert (two.spk, two.text) == ("unknown", "")
