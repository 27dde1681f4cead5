import math

import pytest

from asr_parallel.log import UserError
from asr_parallel.score.references import Reference
from asr_parallel.score.report import confusions, per_spk, per_subset, per_utt, per_utt_table, trn
from asr_parallel.score.scored import load_scored
from asr_parallel.score.wer import Counts, kaldi_line, kaldi_report, score_set


def refs(**texts):
    return {utt: Reference(utt[0], text.split()) for utt, text in texts.items()}


def test_line_has_kaldis_shape():
    c = Counts(words=4343, ins=120, dels=300, subs=814, sents=400, wrong=300)
    assert kaldi_line(c) == "%WER 28.41 [ 1234 / 4343, 120 ins, 300 del, 814 sub ]"
    assert kaldi_report(c, 2).splitlines() == [
        "%WER 28.41 [ 1234 / 4343, 120 ins, 300 del, 814 sub ] [PARTIAL]",
        "%SER 75.00 [ 300 / 400 ]",
        "Scored 400 sentences, 2 not present in hyp.",
    ]


def test_rate_is_sum_over_sum():
    score = score_set(refs(a1="A B C D E F G H I J", a2="K"), {"a1": list("ABCDEFGHIJ"), "a2": ["X"]})
    assert score.counts.wer == pytest.approx(100 / 11)  # the mean of the two rates would be 50
    assert score.counts.ser == 50


def test_missing_and_empty_hypotheses_are_deletions():
    score = score_set(refs(a1="A B", a2="C D E", a3="F", b1="G"), {"a1": ["A", "B"], "a2": [], "b1": ["G"]})
    assert score.missing == ["a3"]
    assert (score.counts.dels, score.counts.words, score.counts.sents, score.counts.wrong) == (4, 7, 4, 2)


def test_hypothesis_without_reference_is_refused():
    with pytest.raises(UserError, match=r"1 of 2 utterances have no reference, e\.g\. zz"):
        score_set(refs(a1="A"), {"a1": ["A"], "zz": ["B"]})


def test_no_hypothesis_at_all_is_refused():
    with pytest.raises(UserError, match="none of the 2"):
        score_set(refs(a1="A", a2="B"), {})


def test_empty_references_never_look_perfect():
    mixed = score_set(refs(a1="A B", a2=""), {"a1": ["A", "B"], "a2": ["X"]})
    assert mixed.counts.wer == 50
    silent = score_set(refs(a1="", a2=""), {"a1": ["X"], "a2": []}).counts
    assert math.isinf(silent.wer)
    assert kaldi_line(silent) == "%WER inf [ 1 / 0, 1 ins, 0 del, 0 sub ]"
    assert math.isnan(score_set(refs(a1=""), {"a1": []}).counts.wer)


def test_speakers_add_up_to_the_set():
    score = score_set(refs(a1="A B", b1="C D", a2="E"), {"a1": ["A"], "b1": ["C", "X", "Y"], "a2": ["E"]})
    by_spk = score.speakers()
    assert list(by_spk) == ["a", "b"]
    assert (by_spk["a"].words, by_spk["a"].dels, by_spk["a"].sents, by_spk["a"].wrong) == (3, 1, 2, 1)
    lines = [line.split("\t") for line in per_spk(score).splitlines()]
    assert lines[0][:9] == ["spk", "sents", "words", "corr", "sub", "del", "ins", "err", "s.err"]
    assert lines[-1] == ["SUM", "3", "5", "3", "1", "1", "1", "3", "2", "60.0", "20.0", "20.0", "20.0", "60.0", "66.7"]


def test_per_utt_is_aligned_as_kaldis():
    # the example of wer_per_utt_details.pl
    score = score_set(
        {"UTT-A": Reference("A", ["word-A", "word-B", "word-C", "word-D", "word-E"])},
        {"UTT-A": ["word-A", "word-A", "word-B", "word-D", "word-X"]},
    )
    assert per_utt(score.utts).splitlines() == [
        "UTT-A ref  word-A   <eps>  word-B  word-C  word-D  word-E",
        "UTT-A hyp  word-A  word-A  word-B   <eps>  word-D  word-X",
        "UTT-A op      C       I       C       D       C       S",
        "UTT-A #csid 3 1 1 1",
    ]


def test_per_utt_columns_hold_wide_and_combining_characters():
    score = score_set(refs(a1="日本 E\u0301 X"), {"a1": ["日本", "E\u0301"]})
    assert per_utt(score.utts).splitlines()[:3] == [
        "a1 ref  日本  E\u0301    X",
        "a1 hyp  日本  E\u0301  <eps>",
        "a1 op     C   C    D",
    ]


def test_per_utt_table_is_for_programs():
    score = score_set(refs(a1="A B", b1="C"), {"a1": ["A"], "b1": ["X", "C"]})
    assert per_utt_table(score) == "utt\tspk\twords\tins\tdel\tsub\na1\ta\t2\t0\t1\t0\nb1\tb\t1\t1\t0\t0\n"


def test_confusions_most_frequent_first():
    score = score_set(refs(a1="A B", a2="A B", a3="Q C"), {"a1": ["X", "B"], "a2": ["X"], "a3": ["Q", "D", "THE"]})
    assert confusions(score).splitlines() == [
        "# substitutions (reference > hypothesis): 3 in 2 kinds",
        "     2 A > X",
        "     1 C > D",
        "",
        "# deletions: 1 in 1 kinds",
        "     1 B",
        "",
        "# insertions: 1 in 1 kinds",
        "     1 THE",
    ]


def test_characters_are_counted_without_blanks():
    score = score_set(refs(a1="AB CD", a2="日本 X"), {"a1": ["ABC", "D"], "a2": ["日", "X"]})
    assert score.counts.errors == 3
    assert (score.chars.words, score.chars.errors, score.chars.dels, score.chars.wrong) == (7, 1, 1, 1)


def test_what_is_too_long_by_characters_has_no_rate_of_them(monkeypatch):
    monkeypatch.setattr("asr_parallel.score.align.MAX_CELLS", 20)
    score = score_set(refs(a1="LONGER WORDS", a2="A"), {"a1": ["LONG", "WORDS"], "a2": ["A"]})
    assert (score.counts.errors, score.chars) == (1, None)
    with pytest.raises(UserError, match="a1: 5 against 6 are too many for one alignment; cut it into segments"):
        score_set(refs(a1="A B C D"), {"a1": list("VWXYZ")})


def test_subsets_of_labelled_utterances():
    said = {
        "u1": Reference("a", ["A", "B"], ("all", "f")),
        "u2": Reference("a", ["C"], ("all",)),
        "u3": Reference("b", ["D"]),
    }
    score = score_set(said, {"u1": ["A", "X"], "u2": ["C"], "u3": []})
    assert {name: (c.words, c.errors) for name, c in score.subsets().items()} == {"all": (3, 1), "f": (2, 1)}
    rows = [line.split("\t")[:3] for line in per_subset(score).splitlines()]
    assert rows == [["subset", "sents", "words"], ["all", "2", "3"], ["f", "1", "2"], ["SUM", "3", "4"]]


def test_trn_ids_begin_with_the_speaker_as_sclite_sees_it():
    said = {"a-1": Reference("a", ["A"]), "u2": Reference("m-b", ["B", "C"]), "u3": Reference("b", [])}
    score = score_set(said, {"a-1": ["A"], "u2": [], "u3": ["X", "Y"]})
    assert trn(score, 0).splitlines() == ["A (a-1)", "B C (m_b-u2)", "(b-u3)"]
    assert trn(score, 1).splitlines() == ["A (a-1)", "(m_b-u2)", "X Y (b-u3)"]


@pytest.fixture
def written(tmp_path):
    score = score_set(refs(a1="A B", b1="", c1="D <eps>"), {"a1": ["X", "A"], "b1": [], "c1": ["<eps>"]})
    (tmp_path / "per_utt.txt").write_text(per_utt(score.utts), encoding="utf-8")
    (tmp_path / "per_utt.tsv").write_text(per_utt_table(score), encoding="utf-8")
    return tmp_path, score


def test_alignments_are_read_back(written):
    folder, score = written
    found = load_scored(folder)
    assert [(u.utt, u.spk, u.pairs, u.counts) for u in found.utts] == [
        (u.utt, u.spk, u.pairs, u.counts) for u in score.utts
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("per_utt.txt", "a1 op  ", "a1 opp ", r"per_utt\.txt:3: want"),
        ("per_utt.txt", "a1 ref  ", "zz ref  ", r"per_utt\.txt:1: want"),
        ("per_utt.txt", "a1 hyp    X    A", "a1 hyp    X", r"the lines of a1 are not whole"),
        ("per_utt.tsv", "utt\tspk", "spk\tutt", r"per_utt\.tsv: want columns"),
    ],
)
def test_damaged_alignments_are_named(written, file, old, new, message):
    folder, _ = written
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        load_scored(folder)


def test_what_was_not_scored_is_named(tmp_path):
    with pytest.raises(UserError, match=r"per_utt\.txt: no such file; score first"):
        load_scored(tmp_path)
