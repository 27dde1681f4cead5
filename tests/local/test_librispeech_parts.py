"""Archives, lexicon and language model of openslr.org: fetched, unpacked, or said to be missing."""

import pytest
from tiny_librispeech import SPEAKERS, ids, report, run, tar

from asr_parallel.lang.arpa import read_arpa
from asr_parallel.lang.dictionary import read_dictionary

pytestmark = pytest.mark.usefixtures("small_parts")


def test_source_may_be_the_folder_of_the_parts_itself(librispeech, tmp_path):
    assert run(tmp_path / "out", librispeech / "LibriSpeech") == 0


def test_archives_are_fetched_over_a_line_that_breaks_and_unpacked(openslr, librispeech, tmp_path):
    openslr.hang_up = [1000]
    downloads, out, same = tmp_path / "downloads", tmp_path / "out", tmp_path / "same"
    assert run(out, downloads, mirror=openslr.url) == 0
    assert openslr.asked == [None, "bytes=1000-", None]
    assert run(same, librispeech) == 0
    for name in ("train", "dev_clean_2"):
        assert ids(out, name) == ids(same, name)
    assert sorted(p.name for p in downloads.iterdir()) == ["LibriSpeech", "dev-clean-2.tar.gz", "train-clean-5.tar.gz"]
    assert sorted(p.name for p in (downloads / "LibriSpeech").iterdir()) == sorted(SPEAKERS)


def test_archives_that_lie_there_are_used(small_parts, tmp_path):
    (tmp_path / "downloads").mkdir()
    for part in SPEAKERS:
        (tmp_path / "downloads" / f"{part}.tar.gz").write_bytes(small_parts[f"/31/{part}.tar.gz"])
    assert run(tmp_path / "out", tmp_path / "downloads") == 0


def test_killed_while_unpacking(openslr, tmp_path):
    left = tmp_path / "downloads/LibriSpeech/.unpack-x/LibriSpeech/train-clean-5/11"
    left.mkdir(parents=True)
    assert run(tmp_path / "out", tmp_path / "downloads", mirror=openslr.url) == 0
    assert len(ids(tmp_path / "out", "train")) == 18


def test_what_cannot_be_had_is_said_with_the_ways_out(tmp_path, capsys):
    assert run(tmp_path / "out", tmp_path / "downloads") == 3
    said = capsys.readouterr().err
    for word in (
        "train-clean-5.tar.gz, dev-clean-2.tar.gz",
        "openslr.org/31",
        f"{tmp_path}/downloads",
        "--source",
    ):
        assert word in said
    assert not (tmp_path / "out" / "prepare.json").exists()


def test_wrong_archive_is_not_unpacked(openslr, tmp_path, capsys):
    openslr.files["/31/train-clean-5.tar.gz"] = tar({"LibriSpeech/train-clean-5/evil": b""})
    assert run(tmp_path / "out", tmp_path / "downloads", mirror=openslr.url) == 3
    assert "the one published is" in capsys.readouterr().err
    assert not (tmp_path / "downloads" / "LibriSpeech").exists()


def test_official_lexicon_and_language_model(openslr, librispeech, tmp_path, caplog):
    out = tmp_path / "out"
    with caplog.at_level("INFO"):
        assert run(out, librispeech, "--language", "auto", mirror=openslr.url) == 0
    assert "official (openslr.org/11)" in caplog.text
    assert report(out)["language"] == "official"
    prons = read_dictionary(out / "local" / "lexicon.txt")
    assert prons["WITH"] == (("W", "IH", "DH"), ("W", "IH", "TH"))
    assert prons["A"] == (("AH",),)
    assert sorted(read_arpa(out / "local" / "lm.arpa.gz").words) == ["</s>", "<s>", "<unk>", "A", "WITH"]
    assert run(out, librispeech) == 0  # now our own
    assert not (out / "local" / "lm.arpa.gz").exists()


def test_without_the_official_ones_our_own_and_that_is_said(librispeech, tmp_path, caplog, capsys):
    out = tmp_path / "out"
    assert run(out, librispeech, "--language", "auto") == 0
    assert "own, of dictionaries and training texts; the official ones: librispeech-lexicon.txt can't" in caplog.text
    assert report(out)["language"] == "own"
    assert run(out, librispeech, "--language", "official") == 1
    assert "librispeech-lexicon.txt can't be fetched" in capsys.readouterr().err
