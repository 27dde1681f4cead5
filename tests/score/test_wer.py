import gzip
import json
import math

import pytest

from asr_parallel.log import UserError
from asr_parallel.score.references import Reference, load_references, split_words
from asr_parallel.score.report import confusions, per_spk, per_utt, per_utt_table
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


def test_only_ascii_blanks_split_words():
    assert split_words("  A\tB \n C\r\n") == ["A", "B", "C"]
    assert split_words("A\u00a0B C\u3000D") == ["A\u00a0B", "C\u3000D"]
    assert split_words("") == []


def write_cuts(path, cuts):
    with gzip.open(path, "wt", encoding="utf-8") as f:
        f.writelines(json.dumps(c) + "\n" if isinstance(c, dict) else c + "\n" for c in cuts)
    return path


def cut(utt, text, spk="s"):
    return {"id": utt, "type": "MonoCut", "supervisions": [{"id": utt, "text": text, "speaker": spk}]}


def test_references_come_from_the_cuts(tmp_path):
    path = write_cuts(tmp_path / "cuts.jsonl.gz", [cut("s-1", "A B"), cut("s-2", "")])
    assert load_references(path) == {"s-1": Reference("s", ["A", "B"]), "s-2": Reference("s", [])}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (cut("s-1", "C"), "2: s-1 is there twice"),
        ({"id": "s-2", "supervisions": []}, "2: want a cut with one supervision"),
        (cut("s-2", None), "2: want a cut with one supervision"),
        ("{no json", "2: want a cut with one supervision"),
    ],
)
def test_bad_references_are_named(tmp_path, second, message):
    path = write_cuts(tmp_path / "cuts.jsonl.gz", [cut("s-1", "A B"), second])
    with pytest.raises(UserError, match=message):
        load_references(path)


def test_damaged_or_absent_manifest(tmp_path):
    path = write_cuts(tmp_path / "cuts.jsonl.gz", [cut(f"s-{i}", "A B") for i in range(50)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged"):
        load_references(path)
    with pytest.raises(UserError, match="no such file"):
        load_references(tmp_path / "none.jsonl.gz")
    with pytest.raises(UserError, match="no cuts"):
        load_references(write_cuts(path, []))
