"""Speech Commands in its layout: who is in which set, what is left out, and how the corpus gets here."""

import gzip
import hashlib
import json
import shutil
import tarfile

import numpy as np
import prepare_speech_commands as prepare
import pytest
import soundfile

from asr_parallel.data.manifests import load_cuts

# speakers of the official lists of v0.02, and one who is in neither
DEV = ("8b775397", "2643992f", "060cd039", "f5e5e8b0", "dbb40d24", "d57febf0", "16db1582", "171b56dc", "66cff190")
TEST = ("2aa787cf", "ffa76c4a", "24ad3ebe", "d7467392", "5828dfa2", "91223b83", "f0ae7203", "95ba4996", "94de6a6a")
TRAIN = ("0a7c2a8d",)


def write_clip(path, seconds=1.0, rate=16000, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(len(str(path))).normal(size=(round(seconds * rate), channels))
    soundfile.write(path, 0.1 * noise, rate, format="WAV", subtype="PCM_16")


@pytest.fixture
def words(tmp_path):
    """Two words by four speakers, once each, and by the one who is in train a second time; and the noise."""
    folder = tmp_path / "words"
    for word in ("yes", "no"):
        for speaker in (*DEV[:2], TEST[0], *TRAIN):
            write_clip(folder / word / f"{speaker}_nohash_0.wav")
        write_clip(folder / word / f"{TRAIN[0]}_nohash_1.wav", 0.7)
    write_clip(folder / "_background_noise_" / "running_tap.wav", 3)
    return folder


def run(words, *options):
    return prepare.main(["--source", str(words), "--out", str(words.parent / "data"), "--jobs", "1", *options])


def utts(words, name):
    return [cut.id for cut in load_cuts(words.parent / "data", name)]


def report(words):
    return json.loads((words.parent / "data" / "prepare.json").read_text())


@pytest.mark.parametrize(("speakers", "name"), [(DEV, "dev"), (TEST, "test"), (TRAIN, "train")])
def test_the_hash_is_that_of_the_official_lists(speakers, name):
    assert {speaker: prepare.set_by_hash(speaker) for speaker in speakers} == dict.fromkeys(speakers, name)


def test_shares_of_the_sets_are_those_that_were_published():
    names = [prepare.set_by_hash(f"{i:08x}") for i in range(20000)]
    assert names.count("dev") / 20000 == pytest.approx(0.1, abs=0.01)
    assert names.count("test") / 20000 == pytest.approx(0.1, abs=0.01)


def test_without_lists_the_hash_tells_the_sets(words):
    assert run(words) == 0
    assert utts(words, "train") == [f"{TRAIN[0]}-{word}-{i}" for word in ("no", "yes") for i in (0, 1)]
    assert utts(words, "dev") == sorted(f"{speaker}-{word}-0" for word in ("no", "yes") for speaker in DEV[:2])
    assert utts(words, "test") == [f"{TEST[0]}-{word}-0" for word in ("no", "yes")]
    cut = next(iter(load_cuts(words.parent / "data", "train")))
    assert (cut.supervisions[0].text, cut.supervisions[0].speaker) == ("NO", TRAIN[0])
    assert report(words)["classes"] == {"no": 5, "yes": 5}
    assert report(words)["sets"]["train"] == {"utts": 4, "speakers": 1, "minutes": 0.06, "words": 4}


def test_lists_have_the_last_word_and_differences_are_counted(words, capsys):
    (words / "validation_list.txt").write_text(f"yes/{TRAIN[0]}_nohash_1.wav\n")
    (words / "testing_list.txt").write_text(f"\ufeffno/{DEV[0]}_nohash_0.wav\r\nno/gone_nohash_0.wav\n", "utf-8")
    assert run(words) == 0
    assert utts(words, "dev") == [f"{TRAIN[0]}-yes-1"]
    assert utts(words, "test") == [f"{DEV[0]}-no-0"]
    assert len(utts(words, "train")) == 8
    said = capsys.readouterr().err
    assert "the hash puts 7 of 10 clips elsewhere" in said
    assert "1 listed clips are not there or not wanted, such as no/gone_nohash_0.wav" in said


def test_lists_that_contradict_are_refused_by_line(words, capsys):
    (words / "validation_list.txt").write_text(f"yes/{DEV[0]}_nohash_0.wav\n")
    assert run(words) == 1
    assert "validation_list.txt alone" in capsys.readouterr().err
    (words / "testing_list.txt").write_text(f"no/{DEV[0]}_nohash_0.wav\nyes/{DEV[0]}_nohash_0.wav\n")
    assert run(words) == 1
    assert f"testing_list.txt:2: yes/{DEV[0]}_nohash_0.wav is in validation_list.txt, too" in capsys.readouterr().err


def test_clips_that_are_no_second_may_be_left_out(words):
    assert run(words, "--only-whole") == 0
    assert utts(words, "train") == [f"{TRAIN[0]}-{word}-0" for word in ("no", "yes")]
    assert report(words)["dropped"]["train"] == {"unreadable": 0, "not of one second": 2}


def test_words_may_be_chosen(words, capsys):
    assert run(words, "--words", "yes") == 0
    assert report(words)["classes"] == {"yes": 5}
    assert run(words, "--words", "yes", "marvin") == 1
    assert "--words marvin" in capsys.readouterr().err


def test_bad_clips_are_listed_counted_and_too_many_refused(words, capsys, monkeypatch):
    bad = words / "yes" / f"{TRAIN[0]}_nohash_2.wav"
    write_clip(bad)
    bad.write_bytes(bad.read_bytes()[:9000])
    (words / "yes" / f"{TRAIN[0]}_nohash_3.wav").write_bytes(b"")
    write_clip(words / "yes" / f"{TRAIN[0]}_nohash_4.wav", rate=8000)
    write_clip(words / "yes" / f"{TRAIN[0]}_nohash_5.wav", channels=2)
    write_clip(words / "yes" / "hello.wav")
    assert run(words) == 1
    assert "4 of 14 clips cannot be used" in capsys.readouterr().err
    monkeypatch.setattr(prepare, "MAX_BAD", 0.5)
    assert run(words) == 0
    assert report(words)["dropped"]["train"]["unreadable"] == 4
    failed = "\n".join(report(words)["failed"])
    for why in (
        "_2.wav: is cut short",
        "_3.wav: is empty",
        "1 channels of 8000 Hz",
        "2 channels of 16000",
        "hello.wav",
    ):
        assert why in failed
    assert utts(words, "train") == [f"{TRAIN[0]}-{word}-{i}" for word in ("no", "yes") for i in (0, 1)]


def test_a_second_run_does_nothing_and_new_clips_are_noticed(words, capsys):
    assert run(words) == 0
    capsys.readouterr()
    assert run(words) == 0
    assert "fresh, nothing to do" in capsys.readouterr().err
    write_clip(words / "yes" / f"{TRAIN[0]}_nohash_7.wav")
    assert run(words) == 0
    assert f"{TRAIN[0]}-yes-7" in utts(words, "train")


def test_same_corpus_same_manifests_by_any_number_of_jobs(words):
    assert run(words) == 0
    path = words.parent / "data" / "train" / "cuts.jsonl.gz"
    before = gzip.decompress(path.read_bytes())
    path.unlink()
    assert run(words, "--jobs", "2") == 0
    assert gzip.decompress(path.read_bytes()) == before


@pytest.mark.parametrize("given", ["archive", "folder"])
def test_an_archive_is_unpacked_once(words, given, monkeypatch):
    downloads = words.parent / "downloads"
    downloads.mkdir()
    archive = downloads / "speech_commands_v0.02.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(words.rglob("*.wav")):
            tar.add(path, f"./{path.relative_to(words)}")
    monkeypatch.setattr(prepare, "SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    shutil.rmtree(words)
    source = archive if given == "archive" else downloads
    assert prepare.main(["--source", str(source), "--out", str(words.parent / "data")]) == 0
    assert len(utts(words, "train")) == 4
    assert sorted(p.name for p in downloads.iterdir()) == ["speech_commands_v0.02", archive.name]
    archive.write_bytes(b"")
    assert prepare.main(["--source", str(source), "--out", str(words.parent / "data")]) == 0


def test_a_corpus_that_can_not_be_had_names_the_ways_out(tmp_path, capsys, monkeypatch):
    def unreachable(*_):
        raise prepare.Unreachable("no server answers")

    monkeypatch.setattr(prepare, "download", unreachable)
    assert prepare.main(["--source", str(tmp_path), "--out", str(tmp_path / "data")]) == 3
    message = capsys.readouterr().err
    for word in ("no server answers", "Ways out", prepare.URL, "--source FOLDER"):
        assert word in message
    assert prepare.main(["--source", str(tmp_path / "x.tar.gz"), "--out", str(tmp_path / "data")]) == 3
    assert "no such file" in capsys.readouterr().err
    broken = tmp_path / "y.tar.gz"
    broken.write_bytes(b"\x1f\x8b nothing")
    assert prepare.main(["--source", str(broken), "--out", str(tmp_path / "data")]) == 3
    assert not (tmp_path / "y").exists()
