"""Scoring by times in the calls: where words go, what the filters of `swbd` let pass, and what sclite says."""

import json
from pathlib import Path

import pytest
import score_stm

from asr_parallel.data.manifests import Utt, write
from asr_parallel.score.filters import load_filter
from asr_parallel.score.wording import Wording

ROOT = Path(__file__).parents[2]
FILTERS = [
    ROOT / name for name in ("recipes/swbd/conf/marks.glm", "recipes/swbd/conf/words.glm", "local/filters/english.glm")
]
STM = """;; LABEL "F" "Female" "women"
;; LABEL "M" "Male" "men"
sw_1 A inter_segment_gap 0.00 1.00 <O,M> IGNORE_TIME_SEGMENT_IN_SCORING
sw_1 A sw_1_A 1.00 2.00 <O,M> I (TH-) SAW T. V.
sw_1 A sw_1_A 5.00 6.00 <O,M> (%HESITATION) NO (WAY)
sw_1 B sw_1_B 1.00 2.00 <O,F> %BCACK
"""
HYPS = {"sw_1-A_100-200": "I SAW T V", "sw_1-A_500-600": "NO UH [NOISE]", "sw_1-B_100-200": "MHM"}


@pytest.fixture(autouse=True)
def logging_as_it_is(monkeypatch):
    """``setup`` would take the log away from pytest."""
    monkeypatch.setattr(score_stm, "setup", lambda: None)


@pytest.fixture
def scored(tmp_path):
    """Three utterances of two sides with their words, of which the CTM has one every 0.1 s."""
    utts = []
    for name, start in zip(HYPS, (0.9, 4.9, 0.9)):
        side = name[5]
        place = {"recording": "sw_1", "start": start, "length": 1.2, "channel": "AB".index(side), "channels": 2}
        utts.append(Utt(name, f"sw_1-{side}", "A", "sw_1.sph", 8000, 80000, **place))
    write(tmp_path / "data/test", utts)
    (tmp_path / "data/test/ref.stm").write_text(STM)
    (tmp_path / "model/decode_test").mkdir(parents=True)
    return tmp_path


def ctm(hyps):
    lines = [f"{u} 1 {0.1 + i / 10:.2f} 0.10 {w} 0.9\n" for u, text in hyps.items() for i, w in enumerate(text.split())]
    return "".join(lines)


def score(folder, hyps, filters=FILTERS):
    (folder / "model/decode_test/ctm").write_text(ctm(hyps))
    options = ["--model", str(folder / "model"), "--data", str(folder / "data"), "--sets", "test"]
    assert score_stm.main([*options, "--filter", *map(str, filters)]) == 0
    return json.loads((folder / "model/decode_test/stm/score.json").read_text())


def test_words_have_times_in_the_call(scored):
    score(scored, HYPS)
    lines = (scored / "model/decode_test/hyp.ctm").read_text().splitlines()
    assert lines[0] == "sw_1 A 1.00 0.10 I 0.9"
    assert lines[-1] == "sw_1 B 1.00 0.10 MHM 0.9"
    assert lines[4] == "sw_1 A 5.00 0.10 NO 0.9"


def test_rates(scored, capsys):
    found = score(scored, HYPS)
    assert (found["errors"], found["words"]) == (0, 6)  # optional words that were not said do not count
    assert found["subset_wer"] == {"O": 0, "M": 0, "F": 0}
    swapped = score(scored, dict(zip(HYPS, [HYPS["sw_1-B_100-200"], *list(HYPS.values())[1:2], "I SAW T V"])))
    assert swapped["errors"] == 4 + 4  # of A, and of B
    assert swapped["subset_wer"]["F"] == 400
    assert score(scored, {**HYPS, "sw_1-A_500-600": "NO WAY"})["errors"] == 0
    assert score(scored, {**HYPS, "sw_1-A_500-600": "NO PAY"})["errors"] == 1
    assert score(scored, HYPS, [])["errors"] > 4
    capsys.readouterr()
    score(scored, {**HYPS, "sw_1-A_100-200": "A SAW T"})
    said = capsys.readouterr().out
    assert "%WER 33.33 [ 2 / 6, 0 ins, 1 del, 1 sub ]" in said
    if "not installed" not in said:
        assert "sclite %WER 33.33 [ 2 / 6, 0 ins, 1 del, 1 sub ]" in said


def test_what_is_missing_is_named(scored, capsys):
    options = ["--model", str(scored / "model"), "--data", str(scored / "data"), "--sets", "test"]
    assert score_stm.main(options) == 1
    assert "hypotheses" in capsys.readouterr().err
    (scored / "model/decode_test/ctm").write_text("other 1 0.1 0.1 A 0.5\n")
    assert score_stm.main(options) == 1
    assert "utterance other is not in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("(%HESITATION) I (TH-) went", "I went"),
        ("%BCACK um-hum MHM", "UH-HUH UH-HUH UH-HUH"),
        ("t. v. (SO)", "t v { SO / @ }"),
        ("th- [laughter] <unk> HUH UH duh", "duh"),
    ],
)
def test_filters(text, want):
    wording = Wording(filters=[load_filter(path) for path in FILTERS])
    assert wording.text(text, "ref") == wording.text(text, "hyp") == want
