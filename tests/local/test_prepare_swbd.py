"""A Switchboard in the LDC's layout, of tones: which side of which call, from when to when, is what utterance."""

import gzip
import json
import random
import re
import shutil
import sys

import hub5
import numpy as np
import prepare_swbd as prepare
import pytest
import swbd_builder as build
import swbd_train
from lhotse import Recording
from lhotse.recipes import switchboard

from asr_parallel.data import audio, validate
from asr_parallel.data.frontend import read_audio
from asr_parallel.data.manifests import Utt, load_cuts

TEXTS = ["yeah", "[laughter-so] i_1 th[e]- {foo}", "uh-huh [noise]", "AT&T is BIG"]
NUMBERS = (2001, 2005, 3110)


def tone(hertz, seconds=0.4):
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * build.RATE)) / build.RATE)


def side(hertz, texts, seed):
    """Utterances whose tones rise by 50 Hz from one to the next."""
    return build.placed([(tone(hertz + 50 * i), text) for i, text in enumerate(texts)], random.Random(seed))


@pytest.fixture(autouse=True)
def logging_as_it_is(monkeypatch):
    """``setup`` would take the log away from pytest."""
    monkeypatch.setattr("preparing.setup", lambda: None)


@pytest.fixture
def corpus(tmp_path):
    """Three calls, A at 500 Hz and B at 1,500 Hz; two calls of Hub5'00."""
    root = tmp_path / "corpora"
    for disc, number in enumerate(NUMBERS, 1):
        build.write_train(root, number, [side(500, TEXTS, number), side(1500, TEXTS[::-1], number + 1)], disc)
    build.write_dictionary(root, [("yeah", "y ae"), ("so", "s ow"), ("uh-huh", "ah hh ah"), ("i_1", "ay")])
    build.write_callers(root, {(n, s): 1000 + i for i, (n, s) in enumerate((n, s) for n in NUMBERS for s in "AB")})
    said = ["(%HESITATION) I SEE", "((YEAH)) (TH-)", "<B_ASIDE> no"]
    calls = {name: [side(700, said, 1), side(1700, said[:2], 2)] for name in ("sw_4390", "en_4156")}
    build.write_eval2000(root, calls)
    build.write_fisher(root, ["so (( i see )) [laughter]", "the t._v. is -- on.", "[noise]"])
    return root


def run(root, *options):
    out = root.parent / "out"
    return prepare.main(["--source", str(root), "--out", str(out), "--jobs", "1", "--max-bad", "0", *options]), out


def hertz_of(cut):
    samples = read_audio(cut)
    return np.argmax(np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 8 * len(samples)))) * 1000 / len(samples)


def test_each_utterance_has_its_side_its_time_and_its_words(corpus):
    code, out = run(corpus, "--dev-share", "0.1")
    assert code == 0
    cuts = {c.id: c for name in ("train", "dev") for c in load_cuts(out, name)}
    assert len(cuts) == 3 * 2 * 4
    words = ["YEAH", "SO I TH- FOO", "UH-HUH [NOISE]", "AT&T IS BIG"]
    for number in NUMBERS:
        for who, hertz, order in (("A", 500, words), ("B", 1500, words[::-1])):
            name = f"sw0{number}-{who}"
            own = sorted((c for c in cuts.values() if c.supervisions[0].speaker == name), key=lambda c: c.start)
            assert [c.supervisions[0].text for c in own] == order
            wanted = side(hertz, TEXTS, number + (who == "B"))
            for i, (cut, said) in enumerate(zip(own, wanted, strict=True)):
                assert abs(hertz_of(cut) - hertz - 50 * i) < 3  # the other side, or a shift, would be another tone
                assert (cut.start, cut.end) == pytest.approx((said.begin, said.end), abs=1e-6)
                times = re.fullmatch(rf"{name}_(\d{{6}})-(\d{{6}})", cut.id).groups()
                assert [int(t) / 100 for t in times] == pytest.approx([said.begin, said.end], abs=0.006)
    reports, problems = validate.check(out, ["train", "dev", "eval2000_ch", "eval2000_swb"])
    assert problems == []
    assert [len(r.utts) for r in reports[2:]] == [5, 5]


def test_lhotse_reads_the_same_segments(corpus):
    """Its reader is an independent route to sides and times (not to speakers: it knows one for both sides)."""
    _, out = run(corpus)
    cuts = [c for name in ("train", "dev") for c in load_cuts(out, name)]
    ours = {(c.recording.id, c.channel, round(c.start, 3)): c for c in cuts}
    found = 0
    for number in NUMBERS:
        recording = Recording(f"sw0{number}", [], build.RATE, 80000, 10.0)
        for channel, who in enumerate("AB"):
            path = next(corpus.rglob(f"sw{number}{who}-ms98-a-trans.text"))
            for theirs in switchboard.make_segments(path, recording, channel):
                cut = ours[recording.id, theirs.channel, round(theirs.start, 3)]
                assert cut.duration == pytest.approx(theirs.duration)
                assert len(cut.supervisions[0].text.split()) == len(theirs.text.split())
                found += 1
    assert found == len(cuts)


def test_hub5_segments_and_references(corpus):
    _, out = run(corpus)
    for name, call in (("eval2000_swb", "sw_4390"), ("eval2000_ch", "en_4156")):
        cuts = sorted(load_cuts(out, name), key=lambda c: (c.channel, c.start))
        assert [c.supervisions[0].text for c in cuts[:3]] == ["(%HESITATION) I SEE", "(YEAH) (TH-)", "NO"]
        assert [c.supervisions[0].speaker for c in cuts] == 3 * [f"{call}-A"] + 2 * [f"{call}-B"]
        for i, (cut, said) in enumerate(zip(cuts, side(700, TEXTS[:3], 1) + side(1700, TEXTS[:2], 2), strict=True)):
            assert abs(hertz_of(cut) - (700 + 50 * i if i < 3 else 1700 + 50 * (i - 3))) < 3
            assert cut.start == pytest.approx(said.begin - hub5.PAD, abs=0.006)  # an STM has two digits
        stm = (out / name / "ref.stm").read_text()
        assert [line.split()[0] for line in stm.splitlines()] == 3 * [";;"] + 10 * [call]
        assert "((" not in stm
        assert "ASIDE" not in stm
        assert ';; LABEL "F"' in stm


def test_padding_does_not_reach_into_neighbours(tmp_path):
    (tmp_path / "ref.stm").write_text(
        "".join(f"en_1 A en_1_A {b} {e} <O,en> a\n" for b, e in ((0.05, 1), (1.1, 2), (2, 3), (3.5, 4)))
    )
    call = swbd_train.Call("en_1", tmp_path / "en_1.sph", 8000, 32400)
    utts = hub5.read_set(tmp_path / "ref.stm", {"en_1": call})
    spans = [(round(u.start, 3), round(u.start + u.duration, 3)) for u in utts]
    assert spans == [(0, 1.05), (1.05, 2), (2, 3.1), (3.4, 4.05)]


def test_rt03_has_numbers_for_sides_and_other_speech_beside_it(corpus):
    folder = corpus / "LDC2007S10/data/references/eval03/english"
    for path, line in (
        ("cts/rt03.stm", "fsh_60262 2 fsh_60262_2 0.50 0.80 <O,FSH> hello\n"),
        ("bn/bn.stm", "20010206_1830_1900_ABC_WNT 1 Elizabeth_Vargas 0.50 0.80 <O,F> good evening\n"),
    ):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(line)
    build.write_call(corpus / "LDC2007S10/data/audio/fsh_60262.sph", [side(500, TEXTS, 1), side(900, TEXTS, 2)])
    code, out = run(corpus)
    assert code == 0
    (cut,) = load_cuts(out, "rt03_fsh")
    assert (cut.channel, cut.supervisions[0].text) == (1, "HELLO")
    assert not (out / "rt03_swb").exists()


def test_hub5_01_is_a_set_of_its_own_and_keeps_the_names_of_its_parts(corpus):
    label = ';; LABEL "P3" "SWB2P3" "Switchboard-2 phase 3"\n'
    line = "sw_45586 B sw_45586_B 0.50 0.80 <O,P3,F> hello\n"
    (corpus / "LDC2002S13").mkdir()
    (corpus / "LDC2002S13/hub5e01.stm").write_text(label + line)
    build.write_call(corpus / "LDC2002S13/sw_45586.sph", [side(500, TEXTS, 1), side(900, TEXTS, 2)])
    code, out = run(corpus)
    assert code == 0
    (cut,) = load_cuts(out, "hub5_01_swb")
    assert (cut.channel, cut.supervisions[0].text) == (1, "HELLO")
    assert (out / "hub5_01_swb/ref.stm").read_text() == label + line.replace("hello", "HELLO")
    assert len(list(load_cuts(out, "eval2000_swb"))) == 5


def utterances(callers):
    """Ten utterances of each side of calls 2001, 2002 ...; {side: caller}."""
    return [swbd_train.utterance(swbd_train.Call(f"sw0{2001 + i // 2}", "x", 8000, 80000), "AB"[i % 2], t, t + 1, "A")
            for i in range(len(callers)) for t in range(10)]  # fmt: skip


def test_callers_are_held_out_whole():
    sides = [f"sw0{2001 + i // 2}-{'AB'[i % 2]}" for i in range(40)]
    callers = {s: f"{i % 8}" for i, s in enumerate(sides)}  # eight callers, five calls each
    train, dev = swbd_train.hold_out(utterances(sides), 0.2, "speakers", callers)
    who = [{callers[u.speaker] for u in part} for part in (train, dev)]
    assert who[0] & who[1] == set()
    assert (len(who[1]), len(dev), len(train)) == (2, 100, 300)
    assert dev == swbd_train.hold_out(utterances(sides)[::-1], 0.2, "speakers", callers)[1]


def test_without_a_table_both_sides_of_a_call_are_held_out():
    train, dev = swbd_train.hold_out(utterances(range(20)), 0.2, "speakers", {})
    assert {u.recording for u in train} & {u.recording for u in dev} == set()
    assert len(dev) == 40


def test_the_papers_way_is_the_last_tenth():
    train, dev = swbd_train.hold_out(utterances(range(20)), 0.1, "utterances", {})
    assert [u.id for u in train + dev] == sorted(u.id for u in train + dev)
    assert len(dev) == 20
    assert {u.recording for u in dev} == {"sw02010"}


def test_repeats_are_limited():
    utts = [Utt(f"s-{i}", "s", text, "x", 8000, 8000) for i, text in enumerate(["A", "B", "A", "A", "C"])]
    assert [u.id for u in swbd_train.without_repeats(utts, 2)] == ["s-0", "s-1", "s-2", "s-4"]
    assert swbd_train.without_repeats(utts, 0) == utts


def test_fisher_and_lexicon_are_left(corpus):
    _, out = run(corpus)
    assert (out / "local/fisher.txt").read_text() == "SO I SEE\nTHE T V IS ON\n"
    lexicon = (out / "local/lexicon.txt").read_text().splitlines()
    assert "UH-HUH AH HH AH" in lexicon
    assert "IS IH Z" in lexicon
    shutil.rmtree(corpus / "LDC2004T19")
    run(corpus)
    assert not (out / "local/fisher.txt").exists()


def test_second_run_is_fresh_and_a_new_file_is_not(corpus, capsys):
    run(corpus)
    run(corpus)
    assert "fresh, nothing to do" in capsys.readouterr().err
    build.write_train(corpus, 3111, [side(500, TEXTS, 1), side(900, TEXTS, 2)])
    _, out = run(corpus)
    assert "train " in capsys.readouterr().err
    assert sum(row["utts"] for row in json.loads((out / "prepare.json").read_text())["sets"].values()) == 42


def test_same_bytes_for_any_number_of_jobs(corpus):
    contents = []
    for jobs in ("1", "3"):
        _, out = run(corpus, "--jobs", jobs)
        contents.append({p.name: gzip.decompress(p.read_bytes()) for p in sorted(out.glob("*/cuts.jsonl.gz"))})
        shutil.rmtree(out)
    assert contents[0] == contents[1]


def test_damage_is_listed_counted_and_too_much_of_it_refused(corpus, capsys):
    path = next(corpus.rglob("sw2005A-ms98-a-trans.text"))
    lines = path.read_text().splitlines()
    lines[1] = "sw2005A-ms98-a-0002 9.5 9.1 backwards"
    lines[3] = "sw2005A-ms98-a-0004 900.0 901.0 late"
    lines[5] = "sw2005A-ms98-a-0006 no times"
    lines += ["", "sw2005A-ms98-a-0011 1.0 1.5"]  # no text: nothing is said
    path.write_text("\n".join(lines))
    next(corpus.rglob("sw03110.sph")).unlink()
    code, out = run(corpus)
    assert code == 1
    assert "train: 11 left out" in (said := capsys.readouterr().err)
    assert "sw2005A-ms98-a-trans.text:2" in said
    code, out = run(corpus, "--max-bad", "0.6")
    assert code == 0
    report = json.loads((out / "prepare.json").read_text())
    dropped = report["dropped"]["train"]
    assert dropped["no audio"] == 8
    assert dropped["times that are no stretch"] == dropped["no times"] == 1
    assert dropped["after the end of the audio, or too short"] == 1
    assert any("sw03110.sph is not there" in line for line in report["bad"]["train"])
    assert sum(report["sets"][s]["utts"] for s in ("train", "dev")) == 24 - 11


def test_end_after_the_audio_is_moved_there(corpus):
    path = next(corpus.rglob("sw2001B-ms98-a-trans.text"))
    call = swbd_train.Call("sw02001", "x", 8000, 8000 * 3)
    path.write_text("sw2001B-ms98-a-0001 2.5 3.004 hello\n")
    (utt,) = swbd_train.read_transcript(path, call, "B", lambda text: text.split())
    assert utt.duration == pytest.approx(0.5)


SHORTEN = "ulaw,embedded-shorten-v2.00"


def shortened(corpus):
    """A file whose header says shorten, before bytes that would be noise if they were taken for samples."""
    path = next(corpus.rglob("sw02001.sph"))
    samples = (path.stat().st_size - 1024) // 2
    whole = path.read_bytes()
    path.write_bytes(build.sphere(b"ajkg" + whole[1028:][::-1], samples, coding=SHORTEN))
    return path, build.sphere(whole[1024:], samples)


def test_shorten_without_a_decoder_names_file_and_tools(corpus, monkeypatch, capsys):
    path, _ = shortened(corpus)
    monkeypatch.setattr(audio.shutil, "which", lambda name, path=None: None)
    code, out = run(corpus)
    assert code == 1
    said = capsys.readouterr().err
    for word in (str(path), "shorten", "sph2pipe", "ffmpeg"):
        assert word in said
    assert not (out / "prepare.json").exists()


def test_shorten_with_a_decoder_becomes_flac(corpus, monkeypatch, tmp_path):
    _, whole = shortened(corpus)
    (tmp_path / "whole.sph").write_bytes(whole)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sph2pipe").write_text(
        f"#!{sys.executable}\nimport soundfile, sys\n"
        f"soundfile.write(sys.argv[-1], *soundfile.read({str(tmp_path / 'whole.sph')!r}), subtype='PCM_16')\n"
    )
    (tools / "sph2pipe").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    code, out = run(corpus, "--dev-share", "0.01")
    assert code == 0
    cuts = [c for name in ("train", "dev") for c in load_cuts(out, name) if c.recording.id == "sw02001"]
    assert {c.recording.sources[0].source for c in cuts} == {str(out / "audio/sw02001.flac")}
    for cut in cuts:
        assert hertz_of(cut) > 1400 if cut.channel else hertz_of(cut) < 800
    written = (out / "audio/sw02001.flac").stat().st_mtime_ns
    (out / "prepare.json").unlink()
    assert run(corpus, "--dev-share", "0.01")[0] == 0
    assert (out / "audio/sw02001.flac").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda b: b[:-2000], "cut short"),
        (lambda b: b.replace(b"channel_count -i 2", b"channel_count -i 1"), "has 1 channels"),
        (lambda b: b.replace(b"sample_rate -i 8000", b"sample_rate -i 9000"), "at 9000 Hz"),
        (lambda b: b[:500], "bad header"),
    ],
)
def test_audio_that_is_not_a_call_is_named(corpus, capsys, fault, said):
    path = next(corpus.rglob("sw02005.sph"))
    path.write_bytes(fault(path.read_bytes()))
    assert run(corpus)[0] == 1
    assert f"{path} " in (err := capsys.readouterr().err)
    assert said in err


def test_two_files_of_one_call(corpus, capsys):
    path = next(corpus.rglob("sw02005.sph"))
    (path.parent / "copy").mkdir()
    shutil.copy(path, path.parent / "copy")
    assert run(corpus)[0] == 0
    (path.parent / "copy/sw02005.sph").write_bytes(path.read_bytes() + b"x")
    assert run(corpus)[0] == 1
    assert "are one call" in capsys.readouterr().err


def test_missing_corpus_tells_what_is_needed(tmp_path, capsys):
    assert prepare.main(["--source", str(tmp_path), "--out", str(tmp_path / "out")]) == 3
    said = capsys.readouterr().err
    for word in ("LDC97S62 and none swb_ms98_transcriptions", "openslr.org/5"):
        assert word in said


def test_limits(corpus):
    _, out = run(corpus, "--max-train-minutes", "0.05", "--max-test-minutes", "0.02")
    assert 2 < sum(c.duration for c in load_cuts(out, "train")) <= 3
    cuts = list(load_cuts(out, "eval2000_swb"))
    assert 0 < len(cuts) < 5
    assert len((out / "eval2000_swb/ref.stm").read_text().splitlines()) == 3 + len(cuts)  # and the labels
