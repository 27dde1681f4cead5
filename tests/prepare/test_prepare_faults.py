"""Faults that people's corpora have had (docs/faults.md): survived, listed with file and line, counted.

Ids are those of the table there.
"""

from __future__ import annotations

import csv
import errno
import json
import logging
import os
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import lhotse
import numpy as np
import pytest
import soundfile
from real_speech import RATE, write

from asr_parallel import cli, files, stages
from asr_parallel.config import FeaturesConfig, PrepareConfig, found_sets
from asr_parallel.data import validate
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.features import run as features
from asr_parallel.log import UserError
from asr_parallel.prepare.run import run

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # in Lhotse

COLUMNS = ("id", "path", "speaker", "channel", "start", "end", "text")


class Corpus:
    """A folder with a table, whose rows a test may change, and audio of real speech for each row."""

    def __init__(self, folder: Path, speech):
        self.folder, self.speech, self.rows = folder / "mine", speech, []
        for said in speech:
            path = write(self.folder / f"{said.utt}.wav", said.samples)
            self.rows.append({"id": said.utt, "path": path.name, "speaker": said.speaker, "text": said.text})

    def write(self):
        with open(self.folder / "all.csv", "w", encoding="utf-8", newline="") as f:
            table = csv.DictWriter(f, COLUMNS, restval="")
            table.writeheader()
            table.writerows(self.rows)

    def prepare(self, jobs=1, **options):
        self.write()
        config = PrepareConfig(source=self.folder, out=self.folder.parent / "data", jobs=jobs, **options)
        run(config)
        return self.report(), self.cuts()

    def report(self):
        return json.loads((self.folder.parent / "data/prepare.json").read_text())

    def cuts(self):
        data = self.folder.parent / "data"
        return {c.id: c for s in found_sets(data) for c in lhotse.load_manifest(data / s / "cuts.jsonl.gz")}

    def found(self):
        """Rows of the list of faults."""
        with open(self.folder.parent / "data/prepare_found.tsv", encoding="utf-8", newline="") as f:
            return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def corpus(tmp_path, speech):
    return Corpus(tmp_path, speech)


def test_d1_id_that_does_not_begin_with_its_speaker(corpus, speech):
    """D1 (kaldi#3816): the speaker is put before the id, so that both sort alike."""
    for row in corpus.rows:
        row["id"] = f"u{row['id']}"
    _, cuts = corpus.prepare()
    assert sorted(cuts) == sorted(f"{s.speaker}-u{s.utt}" for s in speech)
    by_id = [cuts[utt].supervisions[0].speaker for utt in sorted(cuts)]
    assert by_id == sorted(by_id)


def test_d4_full_disk_is_an_error(corpus, monkeypatch):
    """D4 (kaldi#1454): a write that fails never passes for an empty corpus, and leaves no half manifest."""
    real = files.os.replace

    def full(source, target):
        if str(target).endswith("cuts.jsonl.gz"):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        real(source, target)

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        corpus.prepare()
    data = corpus.folder.parent / "data"
    assert not list(data.rglob("cuts.jsonl.gz"))
    assert not list(data.rglob(".tmp*"))


def test_d5_same_survivors_for_any_number_of_jobs(corpus):
    """D5 (kaldi#4871, #4650; espnet#3688): bad files take nobody with them."""
    (corpus.folder / corpus.rows[1]["path"]).write_bytes(b"RIFF\0\0\0\0WAVE")
    (corpus.folder / corpus.rows[6]["path"]).write_bytes(b"junk" * 1000)
    kept = []
    for jobs in (1, 2, 4):
        report, cuts = corpus.prepare(jobs=jobs, max_bad=0.2)
        assert report["dropped"] == {"unusable audio": 2}
        assert (report["read"], report["kept"]) == (12, 10)
        kept.append((sorted(cuts), (corpus.folder.parent / "data/prepare_found.tsv").read_bytes()))
    assert kept[0] == kept[1] == kept[2]
    assert {f["utt"] for f in corpus.found()} == {corpus.rows[1]["id"], corpus.rows[6]["id"]}
    assert [f["where"].endswith(f"all.csv:{line}") for f, line in zip(corpus.found(), (3, 8))] == [True, True]
    with pytest.raises(UserError, match=r"2 of 12 utterances .*2 unusable audio.*all\.csv:3: .*--max_bad"):
        corpus.prepare(max_bad=0.16)


@pytest.mark.parametrize(
    ("start", "end", "kind"),
    [
        ("1.0", "0.5", "impossible times"), ("0.5", "0.5", "impossible times"), ("-0.5", "1.0", "impossible times"),
        ("0.5", "9.0", "impossible times"), ("7.0", "9.0", "impossible times"), ("nan", "1.0", "impossible times"),
        ("0.5", "0.51", "too short"), ("0.5", "soon", "not a row"),
    ],
)  # fmt: skip
def test_d6_d12_impossible_times(corpus, start, end, kind):
    """D6 (kaldi#3275), D12 (lhotse#1567): negative, empty and foreign spans are left out, and validation agrees."""
    corpus.rows[4] |= {"start": start, "end": end}
    report, cuts = corpus.prepare(max_bad=0.1)
    assert report["dropped"] == {kind: 1}
    assert len(cuts) == 11
    (fault,) = corpus.found()
    assert fault["where"].endswith("all.csv:6")
    assert validate.check(corpus.folder.parent / "data", ["train", "dev", "test"])[1] == []


def test_d7_d9_ends_of_segments(corpus, speech):
    """D7 (kaldi#3001): -1 is the end of the file.  D9 (lhotse#1107): an end that was rounded beyond it is cut."""
    corpus.rows[0] |= {"start": "0.5", "end": "-1"}
    corpus.rows[1] |= {"start": "0.25", "end": f"{speech[1].seconds + 0.005:.3f}"}
    report, cuts = corpus.prepare()
    assert report["mended"] == {"end cut": 1}
    for i, start in ((0, 8000), (1, 4000)):
        wave = cuts[speech[i].utt].load_audio()[0]
        np.testing.assert_array_equal(np.round(wave * 32768), speech[i].samples[start:])
    assert validate.check(corpus.folder.parent / "data", ["train", "dev", "test"])[1] == []


def test_d11_overlapping_segments(corpus, speech):
    """D11 (lhotse#1466): segments of a file may overlap; each is an utterance of its own, of its own words."""
    name = corpus.rows[0]["path"]
    corpus.rows[0] |= {"start": "0", "end": "1.0"}
    corpus.rows[1] |= {"path": name, "start": "0.5", "end": "1.25", "text": "SECOND"}
    report, cuts = corpus.prepare()
    assert report["dropped"] == {}
    assert [s.text for s in cuts[speech[1].utt].supervisions] == ["SECOND"]
    wave = cuts[speech[1].utt].load_audio()[0]
    np.testing.assert_array_equal(np.round(wave * 32768), speech[0].samples[8000:20000])


@pytest.mark.parametrize("samples", [0, 160])
def test_d13_d27_empty_and_tiny_files(corpus, samples):
    """D13 (lhotse#1541), D27 (kaldi#3463): a file of no samples, or of less than a window, costs itself only."""
    write(corpus.folder / corpus.rows[3]["path"], np.zeros(samples, np.int16))
    report, _ = corpus.prepare(max_bad=0.1)
    assert sum(report["dropped"].values()) == 1
    assert corpus.found()[0]["utt"] == corpus.rows[3]["id"]


@pytest.mark.parametrize("text", ["keep", "upper", "english"])
def test_d14_odd_blanks(corpus, text):
    """D14 (kaldi#3702): CR, BOM, U+00A0, U+3000, U+0085 become blanks or vanish; lines are named, words stay whole."""
    odd = {"two\u00a0words": "00A0", "two\u3000words": "3000", "\ufefftwo words": "FEFF", "two\u0085words": "0085"}
    for row, said in zip(corpus.rows, odd):
        row["text"] = said
    corpus.rows[4]["text"] = "two words\r\n"
    report, cuts = corpus.prepare(text=text)
    for row in corpus.rows[:5]:
        assert cuts[row["id"]].supervisions[0].text.upper() == "TWO WORDS"
    assert report["mended"] == {"odd blanks": 4}
    for fault, (line, code) in zip(corpus.found(), enumerate(odd.values(), 2)):
        assert fault["where"].endswith(f"all.csv:{line}")
        assert f"U+{code}" in fault["detail"]
    assert validate.check(corpus.folder.parent / "data", ["train", "dev", "test"])[1] == []


def test_d14_byte_order_mark_at_the_head_of_a_table(corpus):
    corpus.prepare()
    table = corpus.folder / "all.csv"
    table.write_bytes(b"\xef\xbb\xbf" + table.read_bytes())
    run(PrepareConfig(source=corpus.folder, out=corpus.folder.parent / "data", jobs=1))
    assert corpus.report()["dropped"] == {}


def test_d15_other_scripts_and_wrong_bytes(corpus):
    """D15 (kaldi#4157): no locale decides what is text; bytes that are no UTF-8 are named with their line."""
    words = ["ሰላም ለዓለም", "привет, мир!", "c'est peut-être «ça»", "नमस्ते दुनिया"]
    for row, text in zip(corpus.rows, words):
        row["text"] = text
    corpus.write()
    command = [sys.executable, "-m", "asr_parallel", "prepare", "--from", "mine", "--out", "data", "--text", "upper"]
    ascii_only = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(command, cwd=corpus.folder.parent, env=ascii_only, check=True, timeout=300)
    found = [corpus.cuts()[row["id"]].supervisions[0].text for row in corpus.rows[:4]]
    assert found == ["ሰላም ለዓለም", "ПРИВЕТ МИР", "C'EST PEUT-ÊTRE ÇA", "नमस्ते दुनिया"]
    table = corpus.folder / "all.csv"
    table.write_bytes(table.read_bytes().replace("привет".encode(), "привет".encode("cp1251")))
    with pytest.raises(UserError, match=r"all\.csv:3: not UTF-8 .*iconv"):
        run(PrepareConfig(source=corpus.folder, out=corpus.folder.parent / "data"))


def test_d17_empty_texts_and_blank_lines(corpus):
    """D17 (icefall#1367, lhotse#725): an id without words is listed, a blank line is nothing."""
    corpus.rows[2]["text"] = ""
    corpus.rows[3]["text"] = " \u00a0 "
    corpus.rows[5]["text"] = "..."
    report, cuts = corpus.prepare(max_bad=0.3)
    assert report["dropped"] == {"no words": 3}
    assert len(cuts) == 9
    table = corpus.folder / "all.csv"
    table.write_text(table.read_text().replace("\n", "\n\n  \n"))
    run(PrepareConfig(source=corpus.folder, out=corpus.folder.parent / "data", jobs=1, max_bad=0.3))
    assert (corpus.report()["read"], corpus.report()["kept"]) == (12, 9)


def test_d17_words_that_the_normaliser_does_not_know_are_told(corpus):
    for row in corpus.rows:
        row["text"] = "привет"
    with pytest.raises(UserError, match=r"12 of 12 .*no words .*--text english"):
        corpus.prepare()


def test_d18_stereo_without_a_channel(corpus, speech):
    """D18 (kaldi#4833): an error that names the file and the ways out; a channel may be given for all or for each."""
    a, b = (s.samples[:20000] for s in speech[:2])
    write(corpus.folder / corpus.rows[0]["path"], np.stack([a, b], 1))
    report, _ = corpus.prepare(max_bad=0.1)
    assert report["dropped"] == {"several channels": 1}
    assert "--channel" in corpus.found()[0]["detail"]
    for options, cell, expected in (({"channel": 1}, "", b), ({}, "B", b), ({"channel": 1}, "0", a)):
        corpus.rows[0]["channel"] = cell
        _, cuts = corpus.prepare(**options)
        np.testing.assert_array_equal(np.round(cuts[speech[0].utt].load_audio()[0] * 32768), expected)
    corpus.rows[0]["channel"] = "2"
    report, _ = corpus.prepare(max_bad=0.1)
    assert report["dropped"] == {"no such channel": 1}


def test_d25_blanks_brackets_and_accents_in_paths(tmp_path, speech):
    """D25 (kaldi-tuda-de#18, MFA#333): any name of folder and file; ids lose what would split lines."""
    corpus = Corpus(tmp_path / "dir (é) $HOME;", speech)
    for row in corpus.rows:
        old = corpus.folder / row["path"]
        row["path"] = f"a b ({row['id']}) 'é'.wav"
        row["id"] = f"{row['speaker']} a b/{row['id']}"
        old.rename(corpus.folder / row["path"])
    report, cuts = corpus.prepare()
    assert report["kept"] == 12
    assert all(utt == "_".join(utt.split()) and "/" not in utt for utt in cuts)
    features(FeaturesConfig(data=corpus.folder.parent / "data", kinds=["mfcc"], jobs=1))
    assert len(FeatureSet.open(corpus.folder.parent / "data", "train", "mfcc")) == report["sets"]["train"]["utts"]


def test_d26_an_id_twice_names_both(corpus):
    """D26 (lhotse#1265): the first stays, the other is listed with the place of the first, whatever its set."""
    corpus.rows[7] |= {"id": corpus.rows[2]["id"], "speaker": corpus.rows[2]["speaker"]}
    report, cuts = corpus.prepare(max_bad=0.1)
    assert report["dropped"] == {"id twice": 1}
    (fault,) = corpus.found()
    assert fault["where"].endswith("all.csv:9")
    assert "all.csv:4 has the same id" in fault["detail"]
    assert cuts[corpus.rows[2]["id"]].supervisions[0].text == corpus.rows[2]["text"]


@pytest.mark.parametrize("jobs", [4, 8])
def test_d31_fewer_speakers_than_jobs(tmp_path, speech, jobs):
    """D31 (kaldi#3419): one speaker and many jobs."""
    corpus = Corpus(tmp_path, speech)
    for row in corpus.rows:
        row |= {"speaker": "", "id": row["id"]}
    report, cuts = corpus.prepare(jobs=jobs, speaker="one")
    assert "drawn by utterance, for speakers are too few" in report["split"]
    assert {c.supervisions[0].speaker for c in cuts.values()} == {"speaker"}
    features(FeaturesConfig(data=tmp_path / "data", kinds=["mfcc"], jobs=jobs))
    assert sum(len(FeatureSet.open(tmp_path / "data", s, "mfcc")) for s in ("train", "dev", "test")) == 12


def test_d31_fewer_utterances_than_jobs(tmp_path, speech):
    """D31 (kaldi#3716): two utterances and eight jobs."""
    corpus = Corpus(tmp_path, speech[:2])
    corpus.prepare(jobs=8, dev=0.0, test=0.0)
    features(FeaturesConfig(data=tmp_path / "data", kinds=["mfcc"], jobs=8))
    assert len(FeatureSet.open(tmp_path / "data", "train", "mfcc")) == 2


def test_d33_again_with_other_data(corpus, monkeypatch):
    """D33 (kaldi#778, #4650): the same again does nothing; with a file less or other options nothing old is left."""
    corpus.prepare()
    monkeypatch.chdir(corpus.folder.parent)

    def config(**options):
        return PrepareConfig(source=Path("mine"), out=Path("data"), jobs=1, **options)

    def left():
        return {p: p.read_bytes() for p in Path("data").rglob("*.jsonl.gz")}

    assert cli.run("prepare", config()) == 0
    first = left()
    assert stages.stale("prepare", config()) == []
    run(config())
    assert left() == first
    assert stages.stale("prepare", config(dev=0.0))
    cli.run("prepare", config(dev=0.0))
    assert found_sets(Path("data")) == ["test", "train"]
    cli.run("prepare", config())
    assert left() == first
    gone = Path("mine", corpus.rows[0]["path"])
    gone.unlink()
    assert any(reason.startswith("option files: ") for reason in stages.stale("prepare", config(max_bad=0.1)))
    cli.run("prepare", config(max_bad=0.1))
    assert corpus.rows[0]["id"] not in corpus.cuts()
    assert len(corpus.cuts()) == 11


def test_d34_half_of_a_corpus_is_missing(tmp_path, speech):
    """D34 (lhotse#719, #402): audio without text and text without audio are told, never half a corpus in silence."""
    root = tmp_path / "mine"
    for said in speech:
        write(root / f"{said.utt}.wav", said.samples)
        (root / f"{said.utt}.txt").write_text(said.text)
    (root / f"{speech[0].utt}.txt").unlink()
    (root / f"{speech[1].utt}.wav").unlink()
    run(PrepareConfig(source=root, out=tmp_path / "data", jobs=1, max_bad=0.2))
    report = json.loads((tmp_path / "data/prepare.json").read_text())
    assert report["dropped"] == {"no audio": 1, "no text file": 1}
    for text in root.glob("*.txt"):
        text.unlink()
    with pytest.raises(UserError, match=r"12 of 12|11 of 11"):
        run(PrepareConfig(source=root, out=tmp_path / "data", form="files", jobs=1, max_bad=0.2))


def test_d34_lhotse_recordings_without_supervisions(tmp_path, speech):
    root = tmp_path / "mine"
    recordings, supervisions = [], []
    for said in speech:
        path = write(root / f"{said.utt}.wav", said.samples)
        recordings.append(lhotse.Recording.from_file(path, recording_id=said.utt))
        supervisions.append(
            lhotse.SupervisionSegment(said.utt, said.utt, 0, said.seconds, text=said.text, speaker=said.speaker)
        )
    lhotse.RecordingSet.from_recordings(recordings).to_file(root / "recordings.jsonl.gz")
    lhotse.SupervisionSet.from_segments(supervisions[1:]).to_file(root / "supervisions.jsonl.gz")
    run(PrepareConfig(source=root, out=tmp_path / "data", jobs=1, max_bad=0.1))
    assert json.loads((tmp_path / "data/prepare.json").read_text())["dropped"] == {"no text": 1}
    (root / "supervisions.jsonl.gz").unlink()
    with pytest.raises(UserError, match="has no utterances"):
        run(PrepareConfig(source=root, out=tmp_path / "data", form="lhotse"))


def test_headers_that_lie(corpus, speech):
    """Streamed, cut and oddly padded files (D23 has those that soundfile reads): mended or refused, never short."""

    def header(data: bytes, size: int, chunk: bytes = b"") -> bytes:
        fmt = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
        head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<I", 16) + fmt
        return head + chunk + b"data" + struct.pack("<I", size) + data

    data = [s.samples.tobytes() for s in speech]
    odd = b"LIST" + struct.pack("<I", 5) + b"INFOx"  # without the padding byte
    files = [header(data[0], 0), header(data[1], 0xFFFFFFFF - 36), header(data[2][:-9000], len(data[2]))]
    files.append(header(data[3], len(data[3]), odd))
    for row, content in zip(corpus.rows, files):
        (corpus.folder / row["path"]).write_bytes(content)
    report, cuts = corpus.prepare(max_bad=0.1)
    assert report["dropped"] == {"unusable audio": 1}
    assert "is cut short" in corpus.found()[0]["detail"]
    for i in (0, 1, 3):
        np.testing.assert_array_equal(np.round(cuts[speech[i].utt].load_audio()[0] * 32768), speech[i].samples)
    corpus.rows[2] |= {
        "start": "0",
        "end": "1.0",
    }  # what is there of a file that was cut is of use where times are given
    report, cuts = corpus.prepare()
    assert report["dropped"] == {}


def test_digital_silence_among_speech(corpus, tmp_path):
    write(corpus.folder / corpus.rows[0]["path"], np.zeros(RATE, np.int16))
    corpus.prepare(test=0.0, dev=0.0)
    features(FeaturesConfig(data=tmp_path / "data", jobs=1))
    for kind in ("mfcc", "fbank"):
        opened = FeatureSet.open(tmp_path / "data", "train", kind)
        assert len(opened) == 12
        assert all(np.isfinite(opened[utt]).all() for utt in opened)


def test_too_long_and_unknown_speakers_are_told(corpus, caplog, monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    for row in corpus.rows:
        row["speaker"] = ""
    report, cuts = corpus.prepare(max_seconds=1.7, max_bad=0.9)
    assert report["dropped"]["too long"] == sum(s.seconds > 1.7 for s in corpus.speech) > 0
    assert "nothing says who speaks" in caplog.text
    assert all(c.supervisions[0].speaker == utt for utt, c in cuts.items())
    assert f"dropped: {report['dropped']['too long']} of 12 utterances" in capsys.readouterr().out


def test_texts_of_test_that_are_in_train_are_told(corpus, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    for row in corpus.rows:
        row["text"] = "ALL THE SAME"
    report, _ = corpus.prepare()
    for name in ("dev", "test"):
        n = report["sets"][name]["utts"]
        assert f"{n} of {n} texts of {name} are in train, too" in caplog.text


def test_counts_add_up(corpus):
    """Whatever happens: read = kept + dropped, and the list has a row for each."""
    corpus.rows[1]["text"] = ""
    corpus.rows[2] |= {"start": "5", "end": "4"}
    (corpus.folder / corpus.rows[3]["path"]).unlink()
    report, cuts = corpus.prepare(max_bad=0.5)
    assert report["read"] == 12 == report["kept"] + sum(report["dropped"].values())
    assert len(cuts) == report["kept"] == sum(s["utts"] for s in report["sets"].values())
    assert Counter(f["kind"] for f in corpus.found() if f["what"] == "dropped") == report["dropped"]
    assert soundfile.info(corpus.folder / corpus.rows[0]["path"]).frames == cuts[corpus.rows[0]["id"]].num_samples


@pytest.mark.parametrize("options", [{"dev": 0.6}, {"test": -0.1}, {"rate": -1}, {"max_bad": 2.0}])
def test_numbers_that_make_no_sense(corpus, options):
    with pytest.raises(UserError, match=next(iter(options))):
        corpus.prepare(**options)
