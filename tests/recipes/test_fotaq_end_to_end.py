"""The FOTAQ recipe on a few minutes of its real speech: audio to WER, killed on the way, run again."""

import pytest
from running import Recipe, assert_fresh

NO_CORPUS = 3  # exit code of prepare_fotaq.py when the package can't be had


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The recipe after a run: to the end of alignment, then killed while training, then to its end."""
    recipe = Recipe("fotaq", tmp_path_factory.mktemp("fotaq"), "--quick", "true", "--steps", "true")
    first = recipe.run("--stop-stage", "0", check=False)
    if first.returncode == NO_CORPUS:
        pytest.skip("the FOTAQ package can't be downloaded here and no copy was given")
    assert first.returncode == 0, first.stderr[-6000:]
    recipe.run("--stage", "features", "--stop-stage", "align")
    recipe.kill_when(lambda: len(history(recipe)) >= 2, "--stage", "5", "--stop-stage", "5")  # head and an epoch
    assert not (recipe.exp / "dnn_1" / "train.json").exists()
    recipe.run()
    return recipe


def history(recipe):
    """Lines of a training's history; none before it has any."""
    path = recipe.exp / "dnn_1" / "history.tsv"
    return path.read_text().splitlines() if path.exists() else []


def test_wer_is_what_a_whole_chain_gives(finished):
    """Systems are ranked by all sets together: one has some 500 words, on which neighbours differ by chance."""
    systems, sets = ("mono", "tri", "lda_mllt", "sat", "dnn_1", "dnn_2"), ("dev_joe", "dev_new", "test_joe", "test_new")
    wer = {(s, t): finished.score(s, t)["wer"] for s in systems for t in sets}
    mean = {s: sum(wer[s, t] for t in sets) / len(sets) for s in systems}
    assert max(mean[s] for s in systems[1:]) < mean["mono"], wer
    assert min(mean["lda_mllt"], mean["sat"]) < mean["tri"], wer
    assert max(mean["dnn_1"], mean["dnn_2"]) < mean["tri"], wer
    assert wer["tri", "test_joe"] < 64, wer
    assert wer["dnn_1", "test_joe"] < 55, wer
    assert wer["dnn_2", "test_joe"] < 55, wer
    assert wer["dnn_1", "test_new"] < 92, wer


def test_every_reference_word_is_scored(finished):
    for name in ("test_joe", "test_new"):
        counted = finished.score("dnn_1", name)
        from lhotse import CutSet

        cuts = CutSet.from_file(finished.data / name / "cuts.jsonl.gz")
        assert counted["words"] == sum(len(s.text.split()) for c in cuts for s in c.supervisions)
        assert counted["utts"] == len(list(cuts))


def test_killed_training_went_on(finished):
    epochs = [int(line.split("\t")[0]) for line in history(finished)[1:]]
    assert epochs == list(range(1, len(epochs) + 1))


def test_second_run_does_nothing_and_says_so(finished):
    assert_fresh(finished.run(), 21)


def test_results_table_has_all_systems(finished):
    page = (finished.exp / "RESULTS.md").read_text()
    for word in ("mono", "tri", "lda_mllt", "sat", "1 worker", "2 workers", "test_joe", "test_new", "95 %"):
        assert word in page
    assert list(finished.exp.glob("*.png"))
