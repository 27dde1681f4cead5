"""Every kind of bad utterance is found and named; a good corpus passes."""

import dataclasses
import json
import re

import numpy as np
import pytest
import soundfile

from asr_parallel.config import ValidateConfig
from asr_parallel.data import manifests, validate
from asr_parallel.log import UserError


def corpus(folder, edit=None):
    """Two sets of three utterances; ``edit`` gets the rows by set and may change them."""
    rows = {}
    for name, speaker in (("train", "al"), ("test_new", "bo")):
        rows[name] = []
        for i in range(3):
            path = folder / "audio" / f"{speaker}-{i}.flac"
            path.parent.mkdir(exist_ok=True)
            soundfile.write(path, np.zeros(8000 + i), 8000)
            rows[name].append(manifests.Utt(f"{speaker}-{i}", speaker, "SOME WORDS", str(path), 8000, 8000 + i))
    if edit:
        edit(rows)
    for name, utts in rows.items():
        manifests.write(folder / name, utts)
    return folder


def change(set_name, index, **fields):
    def edit(rows):
        rows[set_name][index] = dataclasses.replace(rows[set_name][index], **fields)

    return edit


def problems(folder):
    return [str(p) for p in validate.check(folder, ["train", "test_new"])[1]]


def edit_rows(path, edit):
    """Change the rows of a manifest behind the back of ``manifests.write``."""
    rows = manifests.read_jsonl(path)
    edit(rows)
    manifests.write_jsonl(path, rows)


def test_good_corpus(tmp_path, capsys):
    corpus(tmp_path)
    validate.run(ValidateConfig(data=tmp_path, jobs=2))
    report = json.loads((tmp_path / "validated.json").read_text())
    assert report["problems"] == []
    assert report["shared_speakers"] == {}
    assert report["sets"]["train"] == {
        "utts": 3, "speakers": 1, "minutes": 0.05, "words": 6, "sampling_rate": 8000,
    }  # fmt: skip
    assert "test_new" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("edit", "utt", "what"),
    [
        (change("train", 1, text=""), "al-1", "no text"),
        (change("train", 1, text=" "), "al-1", "no text"),
        (change("train", 1, text="A\u00a0B"), "al-1", "U\\+00A0"),
        (change("train", 1, text="A\u3000B"), "al-1", "U\\+3000"),
        (change("train", 1, text="\ufeffA"), "al-1", "U\\+FEFF"),
        (change("train", 1, text="A\r"), "al-1", "U\\+000D"),
        (change("train", 1, text="A  B"), "al-1", "two in a row"),
        (change("test_new", 2, num_samples=9000), "bo-2", "8002 samples at 8000 Hz, the manifest says 9000"),
        (change("test_new", 2, sampling_rate=8001), "bo-2", "at 8000 Hz, the manifest says 8002 at 8001"),
        (change("test_new", 0, audio="no/such.flac"), "bo-0", r"no/such\.flac is not there"),
        (change("train", 0, speaker=""), "al-0", "no speaker"),
    ],
)
def test_bad_utterance_is_named(tmp_path, edit, utt, what):
    found = problems(corpus(tmp_path, edit))
    assert any(re.search(f": {utt}: .*{what}", p) for p in found), found


def test_damaged_audio_is_named(tmp_path):
    corpus(tmp_path)
    (tmp_path / "audio" / "al-1.flac").write_bytes(b"fLaC but not really")
    (found,) = problems(tmp_path)
    assert "train: al-1: audio file" in found
    assert "cannot be read" in found


def test_id_in_two_sets_names_both(tmp_path):
    corpus(tmp_path, lambda rows: rows["test_new"].append(rows["train"][1]))
    assert problems(tmp_path) == ["test_new: al-1: is in the set train, too"]


def test_id_twice_in_a_set(tmp_path):
    corpus(tmp_path)
    edit_rows(tmp_path / "train" / "cuts.jsonl.gz", lambda rows: rows.append(rows[0]))
    assert "train: al-0: the id comes twice in the set" in problems(tmp_path)


@pytest.mark.parametrize(
    ("where", "value", "what"),
    [
        ("duration", 1.5, "cut is 0.0-1.5 s of a recording of 1.0 s"),
        ("start", -0.5, "cut is -0.5"),
        ("supervision", 2.0, "supervision is 0.0-2.0 s"),
        ("recording", 3.0, "8000 samples at 8000 Hz are not 3.0 s"),
        ("id", "bo-x", "id does not begin with the speaker al"),
        ("supervision id", "al-x", "its supervision has another id, al-x"),
    ],
)
def test_times_and_ids(tmp_path, where, value, what):
    corpus(tmp_path)

    def edit(rows):
        if where == "supervision":
            rows[0]["supervisions"][0]["duration"] = value
        elif where == "supervision id":
            rows[0]["supervisions"][0]["id"] = value
        elif where == "recording":
            rows[0]["recording"]["duration"] = value
        else:
            rows[0][where] = value

    edit_rows(tmp_path / "train" / "cuts.jsonl.gz", edit)
    found = problems(tmp_path)
    assert any(what in p for p in found), found


def test_cut_without_supervision(tmp_path):
    corpus(tmp_path)
    edit_rows(tmp_path / "train" / "cuts.jsonl.gz", lambda rows: rows[0].update(supervisions=[]))
    assert any("al-0: 0 supervisions" in p for p in problems(tmp_path))


def test_manifests_that_disagree(tmp_path):
    corpus(tmp_path)
    edit_rows(tmp_path / "train" / "recordings.jsonl.gz", lambda rows: rows.pop())
    edit_rows(tmp_path / "train" / "supervisions.jsonl.gz", lambda rows: rows[0].update(text="OTHER"))
    assert problems(tmp_path) == [
        "train: al-2: is in cuts, but not in recordings.jsonl.gz",
        "train: al-0: supervisions.jsonl.gz has another text or speaker than cuts",
    ]


def test_sampling_rates_of_sets_differ(tmp_path):
    def edit(rows):
        for i, utt in enumerate(rows["test_new"]):
            soundfile.write(utt.audio, np.zeros(8000), 16000)
            rows["test_new"][i] = dataclasses.replace(utt, sampling_rate=16000, num_samples=8000)

    (found,) = problems(corpus(tmp_path, edit))
    assert "sampling rates differ" in found
    assert "16000" in found
    with pytest.raises(UserError, match="sampling rates differ"):
        validate.run(ValidateConfig(data=tmp_path, max_bad=1.0, jobs=1))


def test_empty_set(tmp_path):
    corpus(tmp_path, lambda rows: rows["train"].clear())
    assert problems(tmp_path) == ["train: has no utterances"]


def test_threshold(tmp_path):
    corpus(tmp_path, change("train", 1, text=""))
    with pytest.raises(UserError, match=r"1 of 6 utterances are bad.*\n.*train: al-1: no text"):
        validate.run(ValidateConfig(data=tmp_path, max_bad=0.16, jobs=1))
    assert not (tmp_path / "validated.json").exists()
    validate.run(ValidateConfig(data=tmp_path, max_bad=0.17, jobs=1))
    assert json.loads((tmp_path / "validated.json").read_text())["problems"] == ["train: al-1: no text"]


def test_shared_speakers_are_only_told(tmp_path, capsys):
    def edit(rows):
        utt = rows["test_new"][0]
        rows["test_new"][0] = dataclasses.replace(utt, id="al-9", speaker="al")

    corpus(tmp_path, edit)
    validate.run(ValidateConfig(data=tmp_path, jobs=1))
    assert json.loads((tmp_path / "validated.json").read_text())["shared_speakers"] == {"test_new train": ["al"]}
    assert "speakers in both of test_new train: al" in capsys.readouterr().out


def test_no_sets(tmp_path):
    with pytest.raises(UserError, match="prepare"):
        validate.run(ValidateConfig(data=tmp_path))
    corpus(tmp_path)
    with pytest.raises(UserError, match=r"dev/cuts\.jsonl\.gz"):
        validate.run(ValidateConfig(data=tmp_path, sets=["dev"], jobs=1))
