"""The FOTAQ recipe on a few minutes of its real speech: audio to WER, killed on the way, run again."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_CORPUS = 3  # exit code of prepare_fotaq.py when the package can't be had


def command(folder, *arguments):
    options = ["--quick", "true", "--labels", "sat"]
    return ["recipes/fotaq/run.sh", *options, "--data", f"{folder}/data", "--exp", f"{folder}/exp", *arguments]


def run(folder, *arguments, check=True):
    result = subprocess.run(command(folder, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=1200)
    if check:
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-6000:]
    return result


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which the recipe has run: to the end of alignment, then killed while training, then to its end."""
    folder = tmp_path_factory.mktemp("fotaq")
    first = run(folder, "--stop-stage", "0", check=False)
    if first.returncode == NO_CORPUS:
        pytest.skip("the FOTAQ package can't be downloaded here and no copy was given")
    assert first.returncode == 0, first.stderr[-6000:]
    run(folder, "--stage", "features", "--stop-stage", "align")
    kill_while_training(folder)
    run(folder)
    return folder


def kill_while_training(folder):
    """Start stage 5 and kill -9 all of it once the first epoch is in the history."""
    process = subprocess.Popen(
        command(folder, "--stage", "5", "--stop-stage", "5"), cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    history = folder / "exp" / "dnn_1" / "history.tsv"
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end:
        if history.exists() and len(history.read_text().splitlines()) >= 2:
            break
        time.sleep(0.1)
    assert process.poll() is None, "training ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "exp" / "dnn_1" / "train.json").exists()


def score(folder, system, name):
    return json.loads((folder / "exp" / system / f"decode_{name}" / "score.json").read_text())


def test_wer_is_what_a_whole_chain_gives(finished):
    wer = {
        (s, t): score(finished, s, t)["wer"]
        for s in ("mono", "tri", "lda_mllt", "sat", "dnn_1", "dnn_2")
        for t in ("test_joe", "test_new")
    }
    assert wer["tri", "test_joe"] < wer["mono", "test_joe"]
    assert wer["tri", "test_joe"] < 64, wer
    assert wer["lda_mllt", "test_new"] < wer["mono", "test_new"], wer
    assert wer["sat", "test_new"] < wer["lda_mllt", "test_new"], wer
    assert wer["dnn_1", "test_joe"] < 55, wer
    assert wer["dnn_2", "test_joe"] < 55, wer
    assert wer["dnn_1", "test_new"] < 92, wer


def test_every_reference_word_is_scored(finished):
    for name in ("test_joe", "test_new"):
        counted = score(finished, "dnn_1", name)
        from lhotse import CutSet

        cuts = CutSet.from_file(finished / "data" / name / "cuts.jsonl.gz")
        assert counted["words"] == sum(len(s.text.split()) for c in cuts for s in c.supervisions)
        assert counted["utts"] == len(list(cuts))


def test_killed_training_went_on(finished):
    lines = (finished / "exp" / "dnn_1" / "history.tsv").read_text().splitlines()
    epochs = [int(line.split("\t")[0]) for line in lines[1:]]
    assert epochs == list(range(1, len(epochs) + 1))


def test_second_run_does_nothing_and_says_so(finished):
    lines = run(finished).stderr.splitlines()
    assert sum("fresh" in line for line in lines) >= 21, lines
    assert not [line for line in lines if "not done yet" in line or " -> " in line]


def test_results_table_has_all_systems(finished):
    page = (finished / "exp" / "RESULTS.md").read_text()
    for word in ("mono", "tri", "lda_mllt", "sat", "1 worker", "2 workers", "test_joe", "test_new", "95 %"):
        assert word in page
    assert list((finished / "exp").glob("*.png"))
