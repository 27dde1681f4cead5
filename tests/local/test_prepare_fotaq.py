"""The whole preparation on a synthetic game: sets, audio, freshness, resumption, damage."""

import gzip
import json
import os

import numpy as np
import prepare_fotaq as prepare
import pytest
import queen_builder as build
import soundfile

from asr_parallel.data.manifests import load_cuts

SECONDS = 0.6
WORDS = ["ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE", "TEN", "ELEVEN", "TWELVE"]
PEOPLE = {"TAM1.DOG": "Tam", "FAYE2.DOG": "Faye", "BUD1.DOG": "Bud"}


def game(broken=()):
    """A game with three dialogues; each line of both sides has a clip, JOE's a higher tone than the others'."""
    jas, jas2 = build.jas([], [], [])
    entries, clips = [("QUEEN.JAS", jas), ("QUEEN2.JAS", jas2)], {}
    for key, (name, person) in enumerate(PEOPLE.items(), start=1):
        joe = [(0, "")] + [(i, f"{person} {word}?") for i, word in enumerate(WORDS, start=1)]
        other = [(i, f"Yes {word} {person}") for i, word in enumerate(WORDS[:4], start=1)]
        entries.append((name, build.dog(key, joe, other, ["", ""])))
        clips |= {f"{key:02d}{i:04X}J1.SB": 500.0 for i, _ in joe[1:]}
        clips |= {f"{key:02d}{i:04X}P1.SB": 250.0 for i, _ in other}
    sounds = {hertz: build.mp3(SECONDS, hertz) for hertz in (250.0, 500.0)}
    return build.container(
        entries + [(n, b"no sound at all" if n in broken else sounds[hertz]) for n, hertz in clips.items()]
    )


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "queen.1c"
    path.write_bytes(game())
    return path


@pytest.fixture(autouse=True)
def logging_as_it_is(monkeypatch):
    """``setup`` would take the log away from pytest."""
    monkeypatch.setattr(prepare.preparing, "setup", lambda: None)


def run(source, out, *options):
    arguments = ["--source", str(source), "--out", str(out), "--downloads", str(out / "downloads"), "--jobs", "1"]
    return prepare.main([*arguments, *options])


def contents(out):
    """All manifests, unpacked, and the report."""
    files = {str(p.relative_to(out)): gzip.decompress(p.read_bytes()) for p in sorted(out.glob("*/*.jsonl.gz"))}
    return files, json.loads((out / "prepare.json").read_text())


def test_sets_and_audio(source, tmp_path):
    out = tmp_path / "out"
    assert run(source, out, "--jobs", "2") == 0
    cuts = {name: list(load_cuts(out, name)) for name in prepare.SETS}
    report = contents(out)[1]
    assert {n: len(c) for n, c in cuts.items()} == {n: row["utts"] for n, row in report["sets"].items()}
    assert sum(map(len, cuts.values())) == 3 * 12 + 3 * 4
    assert {c.id for c in cuts["test_new"]} == {f"faye-02{i:04x}p1" for i in range(1, 5)}
    assert {c.supervisions[0].speaker for c in cuts["train"]} == {"joe", "tam"}
    assert cuts["dev_new"][0].supervisions[0].text == "YES ONE BUD"
    for cut in cuts["train"]:
        samples, rate = soundfile.read(cut.recording.sources[0].source)
        assert rate == cut.recording.sampling_rate == 8000
        assert len(samples) == cut.recording.num_samples
        assert SECONDS <= cut.duration < SECONDS + 0.3  # MP3 has a delay and whole frames
        spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
        tone = np.argmax(spectrum) * rate / len(samples)
        assert abs(tone - (500 if cut.supervisions[0].speaker == "joe" else 250)) < 4  # resampled, not relabelled


def test_jobs_do_not_matter(source, tmp_path, monkeypatch):
    first, second = tmp_path / "a", tmp_path / "b"
    for folder, jobs in ((first, "1"), (second, "3")):
        folder.mkdir()
        monkeypatch.chdir(folder)
        assert prepare.main(["--source", str(source), "--out", "out", "--jobs", jobs]) == 0
    assert contents(first / "out") == contents(second / "out")
    for path in (first / "out").glob("*/*.jsonl.gz"):
        assert path.read_bytes() == (second / "out" / path.relative_to(first / "out")).read_bytes()


def test_second_run_is_fresh_and_says_so(source, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(source, out) == 0
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    capsys.readouterr()
    assert run(source, out) == 0
    assert "fresh" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == before


def test_interrupted_run_goes_on(source, tmp_path):
    out = tmp_path / "out"
    assert run(source, out) == 0
    want = contents(out)
    # as after kill -9: no report, some audio missing, one file half-written under its temporary name, one empty
    (out / "prepare.json").unlink()
    audio = sorted((out / "audio").glob("*.flac"))
    audio[0].unlink()
    (out / "audio" / f".tmp1-{audio[0].name}").write_bytes(b"fLaC")
    audio[1].write_bytes(b"")
    kept = audio[2].stat().st_mtime_ns
    assert run(source, out) == 0
    assert contents(out) == want
    assert audio[2].stat().st_mtime_ns == kept
    assert soundfile.info(audio[1]).frames == soundfile.info(audio[2]).frames
    assert not list((out / "audio").glob(".tmp*"))


def test_what_is_stale_is_said(source, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(source, out) == 0
    next((out / "audio").glob("*.flac")).unlink()
    (out / "train" / "cuts.jsonl.gz").unlink()
    capsys.readouterr()
    assert run(source, out, "--rate", "11025") == 0
    said = capsys.readouterr().err
    assert "rate 8000 -> 11025" in said
    assert "missing audio files" in said
    assert "train/cuts.jsonl.gz" in said
    cut = next(iter(load_cuts(out, "train")))
    assert cut.recording.sampling_rate == soundfile.info(cut.recording.sources[0].source).samplerate == 11025
    source.write_bytes(game() + b" ")
    assert run(source, out, "--rate", "11025") == 0
    assert "source" in capsys.readouterr().err


def test_plan_does_nothing(source, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ASR_PARALLEL_PLAN", "1")
    assert run(source, tmp_path / "out") == 0
    assert "run: not done yet" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_subset(source, tmp_path):
    out = tmp_path / "out"
    assert run(source, out, "--max-train-minutes", "0.2", "--max-test-minutes", "0.02") == 0
    sets = contents(out)[1]["sets"]
    assert 0 < sets["train"]["utts"] < 20
    assert sets["test_new"]["utts"] == 1
    assert len(list((out / "audio").glob("*.flac"))) == sum(row["utts"] for row in sets.values())


def test_broken_clip_is_named(tmp_path, capsys):
    path, out = tmp_path / "queen.1c", tmp_path / "out"
    path.write_bytes(game(broken=["010001P1.SB"]))
    assert run(path, out) == 1
    assert "1 of 48 clips" in (said := capsys.readouterr().err)
    assert "010001P1.SB" in said
    assert not (out / "prepare.json").exists()


def test_few_broken_clips_are_survived_and_listed(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(prepare, "MAX_BAD", 0.1)
    path, out = tmp_path / "queen.1c", tmp_path / "out"
    path.write_bytes(game(broken=["010001P1.SB"]))
    assert run(path, out) == 0
    assert contents(out)[1]["failed"] == ["010001P1"]
    assert "010001P1.SB" in caplog.text
    assert "tam-010001p1" not in {c.id for c in load_cuts(out, "train")}


def test_missing_package_has_its_own_exit_code(tmp_path, capsys):
    assert run(tmp_path / "none.deb", tmp_path / "out") == 3
    assert "--source" in capsys.readouterr().err


def test_cut_source_is_an_error(source, tmp_path, capsys):
    source.write_bytes(game()[:-1])
    assert run(source, tmp_path / "out") == 1
    assert "queen.1c" in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "out" / "train")


def test_unwritable_place_is_an_error_not_a_traceback(source, tmp_path, capsys):
    (tmp_path / "out").write_text("a file is in the way")
    assert run(source, tmp_path / "out") == 1
    assert str(tmp_path / "out") in capsys.readouterr().err
