"""LibriSpeech in miniature, unpacked: which utterance is in which set, with every kind of damage."""

from pathlib import Path

import librispeech_sets as sets
import numpy as np
import pytest
import soundfile
from tiny_librispeech import flac, ids, report, run

from asr_parallel.data import validate
from asr_parallel.data.frontend import read_audio
from asr_parallel.data.manifests import Utt, load_cuts
from asr_parallel.data.manifests import write as write_set

EXCERPT = Path(__file__).parents[3] / "shared/data/librispeech_excerpt"
pytestmark = pytest.mark.usefixtures("small_parts")


def test_sets(librispeech, tmp_path):
    out = tmp_path / "out"
    assert run(out, librispeech) == 0
    assert report(out)["sets"] == {
        "train": {"utts": 18, "speakers": 6, "minutes": round(18 * 16001 / 16000 / 60, 2), "words": 72},
        "dev_clean_2": {"utts": 6, "speakers": 2, "minutes": round(6 * 16001 / 16000 / 60, 2), "words": 24},
    }
    assert ids(out, "dev_clean_2") == ["84-40-0000", "84-7-0000", "84-7-0001", "9-40-0000", "9-7-0000", "9-7-0001"]
    cut = load_cuts(out, "train")["112-7-0001"]
    assert (cut.supervisions[0].speaker, cut.supervisions[0].text) == ("112", "BOOK AA PAGE BB")
    assert cut.recording.sources[0].source == str(librispeech / "LibriSpeech/train-clean-5/112/7/112-7-0001.flac")
    assert tone(read_audio(cut), 16000) == pytest.approx(400, abs=2)
    assert validate.check(out, ["train", "dev_clean_2"])[1] == []


def tone(samples, rate):
    """Its loudest frequency."""
    return np.argmax(np.abs(np.fft.rfft(samples * np.hanning(len(samples))))) * rate / len(samples)


def test_held_out_speakers_are_whole_and_always_the_same(librispeech, tmp_path):
    held = []
    for out in (tmp_path / "a", tmp_path / "b"):
        assert run(out, librispeech, "--hold-out", "0.2") == 0
        dev, train = ({cut.supervisions[0].speaker for cut in load_cuts(out, name)} for name in ("dev", "train"))
        assert len(dev) == 2  # 0.2 of 6, rounded up
        assert not dev & train
        assert len(ids(out, "dev")) + len(ids(out, "train")) == 18
        held.append(dev)
    assert held[0] == held[1]


def test_none_left_to_train_on(librispeech, tmp_path, capsys):
    assert run(tmp_path / "out", librispeech, "--hold-out", "1") == 1
    assert "leaves none to train on" in capsys.readouterr().err


def test_subset_is_drawn_by_ids(librispeech, tmp_path):
    small, larger = tmp_path / "small", tmp_path / "larger"
    assert run(small, librispeech, "--max-train-minutes", "0.1", "--max-test-minutes", "0.04") == 0
    assert run(larger, librispeech, "--max-train-minutes", "0.2") == 0
    assert (len(ids(small, "train")), len(ids(small, "dev_clean_2"))) == (5, 2)
    assert set(ids(small, "train")) < set(ids(larger, "train"))
    assert ids(small, "train") == sorted(ids(small, "train"))


def test_another_rate_is_resampled_when_read(librispeech, tmp_path):
    out = tmp_path / "out"
    assert run(out, librispeech, "--rate", "8000") == 0
    cut = load_cuts(out, "train")["112-7-0001"]
    assert (cut.sampling_rate, cut.num_samples) == (8000, 8001)
    assert cut.supervisions[0].duration == cut.duration
    assert tone(read_audio(cut), 8000) == pytest.approx(400, abs=2)
    assert validate.check(out, ["train", "dev_clean_2"])[1] == []
    path = librispeech / "LibriSpeech/train-clean-5/112/7/112-7-0001.flac"
    path.write_bytes(flac(400, 12000))
    (problem,) = validate.check(out, ["train"])[1]
    assert "112-7-0001" in str(problem)
    assert "12000 samples" in str(problem)


def other_set(folder, rate=8000, utt="joe-1"):
    path = folder / f"{utt}.flac"
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(4000), rate)
    write_set(folder / "train", [Utt(utt, utt.split("-")[0], "HELLO", str(path), rate, 4000)])
    return folder / "train"


def test_with_another_corpus(librispeech, tmp_path):
    out, other = tmp_path / "out", other_set(tmp_path / "other")
    assert run(out, librispeech, "--rate", "8000", "--with", str(other), "--hold-out", "0.2") == 0
    assert "joe-1" in ids(out, "train")
    assert "joe-1" not in ids(out, "dev")
    assert report(out)["sets"]["train"] == {"utts": 13, "speakers": 5, "minutes": 0.21, "words": 49}
    assert validate.check(out, ["train", "dev", "dev_clean_2"])[1] == []


def test_with_another_corpus_of_another_rate_or_none(librispeech, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(out, librispeech, "--with", str(other_set(tmp_path / "other"))) == 1
    assert "has 8000 Hz; give --rate of that" in capsys.readouterr().err
    assert run(out, librispeech, "--with", str(tmp_path / "nowhere")) == 1
    assert "nowhere/cuts.jsonl.gz" in capsys.readouterr().err
    assert run(out, librispeech, "--with", str(other_set(tmp_path / "twin", 16000, "11-7-0000"))) == 1
    assert "utterance 11-7-0000, too" in capsys.readouterr().err


def damage(librispeech):
    folder = librispeech / "LibriSpeech/train-clean-5"
    (folder / "11/7/11-7-0000.flac").write_bytes(b"fLaC, but no more")
    (folder / "12/7/12-7-0001.flac").unlink()
    (folder / "13/40/13-40-0000.flac").rename(folder / "13/40/13-40-0009.flac")
    text = folder / "2/7/2-7.trans.txt"
    text.write_text(f"\ufeff{text.read_text().splitlines()[0]}\n\n2-7-0001 \n")


def test_damaged_utterances_are_listed_and_counted(librispeech, tmp_path, monkeypatch):
    damage(librispeech)
    monkeypatch.setattr(sets, "MAX_BAD", 0.5)
    assert run(tmp_path / "out", librispeech) == 0
    assert run(tmp_path / "more_jobs", librispeech, "--jobs", "3") == 0
    found = report(tmp_path / "out")
    assert found["dropped"]["train"] == {
        "audio can't be read": 1, "no audio file": 2, "no transcript": 1, "no text": 1,
    }  # fmt: skip
    where = {why.split(": ")[0].rpartition("/")[2] for why in found["failed"]}
    assert where == {"11-7.trans.txt:1", "12-7.trans.txt:2", "13-40.trans.txt:1", "13-40-0009.flac", "2-7.trans.txt:3"}
    assert len(ids(tmp_path / "out", "train")) == 14
    assert ids(tmp_path / "out", "train") == ids(tmp_path / "more_jobs", "train")
    assert report(tmp_path / "more_jobs")["failed"] == found["failed"]


def test_too_many_damaged_utterances(librispeech, tmp_path, capsys):
    damage(librispeech)
    assert run(tmp_path / "out", librispeech) == 1
    assert "5 of 18 utterances are bad" in capsys.readouterr().err


def test_fresh_stale_and_planned(librispeech, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    assert run(out, librispeech, "--hold-out", "0.1") == 0
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    capsys.readouterr()
    assert run(out, librispeech, "--hold-out", "0.1") == 0
    assert "fresh" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == before
    text = next(librispeech.rglob("112-7.trans.txt"))
    text.write_text(text.read_text().replace("BOOK", "ROOM"))
    monkeypatch.setenv("ASR_PARALLEL_PLAN", "1")
    assert run(out, librispeech, "--hold-out", "0.1") == 0
    assert "run: train-clean-5" in capsys.readouterr().out
    monkeypatch.delenv("ASR_PARALLEL_PLAN")
    assert run(out, librispeech) == 0
    assert "hold_out 0.1 -> 0" in capsys.readouterr().err
    assert not (out / "dev" / "cuts.jsonl.gz").exists()  # else its speakers would be in two sets
    assert load_cuts(out, "train")["112-7-0000"].supervisions[0].text.startswith("ROOM")


def test_an_excerpt_is_noticed(librispeech, tmp_path, caplog):
    next(librispeech.rglob("84-40.trans.txt")).unlink()
    next(librispeech.rglob("84-40-0000.flac")).unlink()
    assert run(tmp_path / "out", librispeech) == 0
    assert "dev-clean-2: 5 of the 6 utterances at openslr.org" in caplog.text


@pytest.mark.parametrize(
    ("names", "what"), [(["train-clean-6"], "train-clean-6: LibriSpeech has train-clean-5"), (["dev-clean"], "none of")]
)
def test_wrong_parts(tmp_path, names, what, capsys):
    assert run(tmp_path / "out", tmp_path, "--parts", *names) == 1
    assert what in capsys.readouterr().err


def test_real_excerpt(tmp_path):
    if not EXCERPT.is_dir():
        pytest.skip("needs ../shared/data/librispeech_excerpt")
    out = tmp_path / "out"
    assert run(out, EXCERPT, "--parts", "train-clean-100", "test-other", "--hold-out", "0.1") == 0
    found = report(out)["sets"]
    assert (found["train"]["utts"], found["dev"]["utts"], found["test_other"]["utts"]) == (225, 26, 50)
    assert found["test_other"]["speakers"] == 5
    assert sum(row["minutes"] for row in found.values()) == pytest.approx((3140.74 + 381.53) / 60, abs=0.02)
    assert "".join(sorted({c for cut in load_cuts(out, "train") for c in cut.supervisions[0].text})) == (
        " 'ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    )
