"""Manifests: Lhotse reads what we write, we read what Lhotse writes, damage is named."""

import gzip

import lhotse
import numpy as np
import pytest
import soundfile

from asr_parallel.data import manifests
from asr_parallel.log import UserError


def utts(folder, count=3):
    rows = []
    for i in range(count):
        path, samples = folder / f"{i}.flac", 8000 + 81 * i
        soundfile.write(path, np.full(samples, 0.01 * (i + 1)), 8000)
        speaker = "bob" if i % 2 else "al"
        rows.append(manifests.Utt(f"{speaker}-{i}", speaker, f"WORD {'X' * (i + 1)} É", str(path), 8000, samples))
    return rows


def test_lhotse_reads_what_we_write(tmp_path):
    rows = utts(tmp_path)
    manifests.write(tmp_path / "train", reversed(rows))
    cuts = lhotse.load_manifest(tmp_path / "train" / "cuts.jsonl.gz")
    recordings = lhotse.load_manifest(tmp_path / "train" / "recordings.jsonl.gz")
    supervisions = lhotse.load_manifest(tmp_path / "train" / "supervisions.jsonl.gz")
    lhotse.validate(cuts, read_data=True)
    assert [c.id for c in cuts] == ["al-0", "al-2", "bob-1"] == [r.id for r in recordings]
    for cut, row in zip(cuts, sorted(rows, key=lambda u: u.id)):
        assert (cut.supervisions[0].text, cut.supervisions[0].speaker) == (row.text, row.speaker)
        assert cut.supervisions[0].id == cut.recording_id == row.id
        assert cut.load_audio().shape == (1, row.num_samples)
        assert cut.num_samples == row.num_samples
    assert list(supervisions) == [c.supervisions[0] for c in cuts]


def test_loaders_agree_with_lhotse(tmp_path):
    manifests.write(tmp_path / "train", utts(tmp_path))
    folder = tmp_path / "train"
    assert list(manifests.load_cuts(tmp_path, "train")) == list(lhotse.load_manifest(folder / "cuts.jsonl.gz"))
    path = folder / "recordings.jsonl.gz"
    assert list(manifests.load_recordings(path)) == list(lhotse.load_manifest(path))
    path = folder / "supervisions.jsonl.gz"
    assert list(manifests.load_supervisions(path)) == list(lhotse.load_manifest(path))


def test_same_rows_same_bytes(tmp_path, monkeypatch):
    rows = utts(tmp_path)
    manifests.write(tmp_path / "a", rows)
    monkeypatch.setattr("time.time", lambda: 1.0)
    manifests.write(tmp_path / "b", rows[::-1])
    for kind in manifests.KINDS:
        assert (tmp_path / "a" / f"{kind}.jsonl.gz").read_bytes() == (tmp_path / "b" / f"{kind}.jsonl.gz").read_bytes()


def test_double_id_and_foreign_speaker_are_refused(tmp_path):
    rows = utts(tmp_path)
    with pytest.raises(UserError, match=r"two utterances have the id al-0"):
        manifests.write(tmp_path / "x", [*rows, rows[0]])
    odd = manifests.Utt("x-1", "al", "A", "a.flac", 8000, 10)
    with pytest.raises(UserError, match=r"x-1 does not begin with its speaker al"):
        manifests.write(tmp_path / "x", [odd])
    assert not (tmp_path / "x").exists()


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    manifests.write_jsonl(path, [{"id": "old"}])

    def rows():
        yield {"id": "new"}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        manifests.write_jsonl(path, rows())
    assert manifests.read_jsonl(path) == [{"id": "old"}]
    assert [p.name for p in tmp_path.iterdir()] == ["x.jsonl.gz"]


def test_missing_manifest_tells_the_way_out(tmp_path):
    with pytest.raises(UserError, match=r"cuts_fbank\.jsonl\.gz.*prepare"):
        manifests.load_cuts(tmp_path, "train", "fbank")


def test_damaged_manifest_names_the_last_good_id(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    plain = "".join(f'{{"id": "utt{i}", "n": {i * 7919}}}\n' for i in range(2000)).encode()
    packed = gzip.compress(plain)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UserError, match=r"x\.jsonl\.gz: line \d+, after 'utt\d+'"):
        manifests.read_jsonl(path)
    path.write_bytes(gzip.compress(b'{"id": "a"}\n{"id": \n'))
    with pytest.raises(UserError, match=r"line 2, after 'a'"):
        manifests.read_jsonl(path)
    path.write_bytes(b"not gzip")
    with pytest.raises(UserError, match=r"line 1, at its beginning"):
        manifests.read_jsonl(path)
    path.write_bytes(b"\x1f\x8b\x08\x00" + b"\xff" * 30)
    with pytest.raises(UserError, match=r"line 1"):
        manifests.read_jsonl(path)
