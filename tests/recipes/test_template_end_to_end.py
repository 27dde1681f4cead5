"""The template, copied out of the repository, on a table of real speech: recordings to WER, as a user would do it."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import assert_fresh

ROOT = Path(__file__).parents[2]
EXCERPT = ROOT.parent / "shared/data/librispeech_excerpt"
SYSTEMS = ("mono", "tri", "dnn_1", "dnn_2")


def run(folder, *arguments, check=True, **env):
    """``run.sh`` of the copy, started from elsewhere, with this Python's programs on the PATH and no other help."""
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    command = [str(folder / "run.sh"), *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "ASR_PARALLEL_ROOT"} | {"PATH": path, **env}
    result = subprocess.run(
        command, cwd=folder.parent, env=environment, capture_output=True, text=True, timeout=3600
    )  # fmt: skip
    if check:
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-6000:]
    return result


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home of é") / "mein Korpus"
    shutil.copytree(ROOT / "recipes/template", folder, ignore=shutil.ignore_patterns("data", "exp"))
    return folder


@pytest.fixture(scope="module")
def finished(copy):
    if not EXCERPT.is_dir():
        pytest.skip("needs ../shared/data/librispeech_excerpt")
    recordings = copy.parent / "recordings"
    recordings.mkdir()
    rows = ["file,speaker,text"]
    for chapter in sorted(EXCERPT.rglob("*.trans.txt")):
        for line in chapter.read_text().splitlines():
            utt, _, text = line.partition(" ")
            (recordings / f"{utt} take 1.flac").symlink_to(chapter.parent / f"{utt}.flac")
            rows.append(f'{utt} take 1.flac,{utt.partition("-")[0]},"{text.capitalize()}."')
    rows.append("gone.flac,nobody,This file was lost.")
    (recordings / "all.csv").write_text("\n".join(rows))
    with gzip.open(EXCERPT / "lm_text.train-clean-100.txt.gz", "rt") as lines:
        (copy.parent / "text").write_text("".join(line for line, _ in zip(lines, range(6000))))
    run(copy, "--from", "recordings", "--lm-text", "text", "--quick", "true")
    return copy


def score(folder, system, name="test"):
    return json.loads((folder / f"exp/{system}/decode_{name}/score.json").read_text())


def test_what_was_lost_is_listed_and_the_rest_is_there(finished):
    report = json.loads((finished / "data/prepare.json").read_text())
    assert report["dropped"] == {"unusable audio": 1}
    assert report["read"] - 1 == report["kept"] == sum(s["utts"] for s in report["sets"].values()) > 290
    assert report["split"] == "test and dev drawn by speaker"
    assert "all.csv:" in (finished / "data/prepare_found.tsv").read_text()


def test_wer_is_what_a_whole_chain_gives(finished):
    """Of dev and test together: a set alone is too small to rank systems by."""
    wer = {system: [score(finished, system, name)["wer"] for name in ("dev", "test")] for system in SYSTEMS}
    mean = {system: sum(rates) / 2 for system, rates in wer.items()}
    assert max(mean.values()) < 80, wer
    assert min(mean["dnn_1"], mean["dnn_2"]) < mean["tri"] < mean["mono"], wer
    counted = score(finished, "dnn_1")
    sets = json.loads((finished / "data/prepare.json").read_text())["sets"]
    assert (counted["utts"], counted["words"]) == (sets["test"]["utts"], sets["test"]["words"])
    assert "mein Korpus" in (finished / "exp/RESULTS.md").read_text()


def test_second_run_does_nothing_and_says_so(finished):
    assert_fresh(run(finished, "--from", "recordings", "--lm-text", "text", "--quick", "true"), 15)


def test_way_out_without_the_package(copy, tmp_path):
    (tmp_path / "bash").symlink_to("/bin/bash")
    (tmp_path / "dirname").symlink_to(shutil.which("dirname"))
    (tmp_path / "env").symlink_to(shutil.which("env"))
    lost = run(copy, "--plan", "true", check=False, PATH=str(tmp_path))
    assert lost.returncode == 1
    assert "set ASR_PARALLEL_ROOT to its checkout" in lost.stderr
    assert "train" in run(copy, "--plan", "true", "--stage", "train", ASR_PARALLEL_ROOT=str(ROOT)).stdout


def test_corpus_must_be_named(copy):
    nothing = run(copy, "--stop-stage", "0", check=False)
    assert nothing.returncode == 2
    assert "--from says where your audio and transcripts are" in nothing.stderr
