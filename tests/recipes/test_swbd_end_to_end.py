"""The recipe of Switchboard on speech of FOTAQ in the LDC's layout: every stage, from SPHERE to NIST's scoring."""

import json
import random
import subprocess
import sys

import pytest
import soundfile
import swbd_builder as build
from lhotse import CutSet
from running import ROOT, Recipe, assert_fresh

from asr_parallel.lang.g2p import dictionary

NO_CORPUS = 3  # exit code of prepare_fotaq.py when the package can't be had
CALLS = 5
SYSTEMS = ("mono", "tri", "lda_mllt", "sat", "dnn_dbn_fmllr_1", "dnn_dbn_fmllr_2")


def speech(folder, *sets):
    """(samples, text as Mississippi State writes it) of FOTAQ's sets; every seventh utterance begins laughing."""
    cuts = [c for name in sets for c in CutSet.from_file(folder / name / "cuts.jsonl.gz")]
    found = []
    for i, cut in enumerate(cuts):
        first, *rest = cut.supervisions[0].text.lower().split()
        first = f"[laughter-{first}]" if i % 7 == 3 else first
        samples, rate = soundfile.read(cut.recording.sources[0].source, dtype="float32")
        assert rate == build.RATE
        found.append((samples, " ".join([first, *rest])))
    return found


def dealt(utts, count):
    return [build.placed(utts[i::count], random.Random(i)) for i in range(count)]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Five calls of JOE and others for training, one each of Switchboard and CallHome to test on."""
    folder = tmp_path_factory.mktemp("swbd")
    minutes = ["--max-train-minutes", "11", "--max-test-minutes", "1.5"]
    command = [sys.executable, "local/prepare_fotaq.py", "--out", str(folder / "fotaq"), *minutes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == NO_CORPUS:
        pytest.skip("the FOTAQ package can't be downloaded here and no copy was given")
    assert done.returncode == 0, done.stderr[-3000:]
    train = speech(folder / "fotaq", "train")
    joe, new = speech(folder / "fotaq", "test_joe", "dev_joe"), speech(folder / "fotaq", "test_new", "dev_new")
    root = folder / "corpora (ü)"
    sides = dealt(train, 2 * CALLS)
    for i in range(CALLS):
        build.write_train(root, 2001 + i, sides[2 * i : 2 * i + 2], disc=1 + i % 2)
    build.write_callers(root, {(2001 + i, s): 1000 + 2 * i + (s == "B") for i in range(CALLS) for s in "AB"})
    capital = [[(samples, f"(%HESITATION) {plain(text)}") for samples, text in part] for part in (joe, new)]
    (joe_sw, joe_en), (new_sw, new_en) = (dealt(part, 2) for part in capital)
    build.write_eval2000(root, {"sw_4390": [joe_sw, new_sw], "en_4156": [new_en, joe_en]})
    heard, read = ({w for _, text in part for w in plain(text).split()} for part in (train, joe + new))
    known = sorted((heard | read) & dictionary().keys() - set(sorted(heard - read)[::5]))  # a fifth has to be guessed
    build.write_dictionary(root, [(w.lower(), " ".join(p).lower()) for w in known for p in dictionary()[w]])
    build.write_fisher(root, [plain(text).lower() for _, text in [*joe, *new]])
    return root, len(train), len(joe) + len(new)


def plain(text):
    return text.replace("[laughter-", "").replace("]", "").upper()


@pytest.fixture(scope="module")
def finished(corpora):
    recipe = Recipe("swbd", corpora[0].parent, "--quick", "true", "--source", str(corpora[0]))
    recipe.run()
    return recipe


def cuts(recipe, name):
    return list(CutSet.from_file(recipe.data / name / "cuts.jsonl.gz"))


def test_every_utterance_is_in_one_set_and_no_caller_in_two(finished, corpora):
    sizes = {name: len(cuts(finished, name)) for name in ("train", "dev", "eval2000_swb", "eval2000_ch")}
    assert sizes["train"] + sizes["dev"] == corpora[1] > 200
    assert sizes["eval2000_swb"] + sizes["eval2000_ch"] == corpora[2] > 50
    speakers = [{s.speaker for c in cuts(finished, name) for s in c.supervisions} for name in ("train", "dev")]
    assert (len(speakers[0] | speakers[1]), speakers[0] & speakers[1]) == (2 * CALLS, set())


def test_wer_is_what_a_whole_chain_gives(finished):
    """The language model has the sentences of the tests, from Fisher: only what is heard can be misheard."""
    for name in ("eval2000_swb", "eval2000_ch"):
        wer = {system: finished.score(system, name)["wer"] for system in SYSTEMS}
        assert max(wer[s] for s in ("sat", "dnn_dbn_fmllr_1", "dnn_dbn_fmllr_2")) < 65, wer  # swapped sides: above 90


def test_scoring_by_times_is_scoring_by_utterances(finished):
    for name in ("eval2000_swb", "eval2000_ch"):
        by_utt = finished.score("dnn_dbn_fmllr_2", name)
        where = finished.exp / "dnn_dbn_fmllr_2" / f"decode_{name}"
        by_time = json.loads((where / "stm/score.json").read_text())
        words = sum(len(s.text.split()) - 1 for c in cuts(finished, name) for s in c.supervisions)
        assert by_utt["utts"] == by_time["utts"] == len(cuts(finished, name))
        assert by_utt["words"] == pytest.approx(words, rel=0.1)  # contractions may count as two
        assert by_time["wer"] == pytest.approx(by_utt["wer"], abs=6)  # MBR words, not the best path's
        assert set(by_time["subset_wer"]) >= {"M", "F"}
        assert max(by_time["subset_wer"].values()) < 75  # of either channel


def test_second_run_does_nothing_and_says_so(finished):
    assert_fresh(finished.run(), 24)


def test_results_have_all_systems(finished):
    page = (finished.exp / "RESULTS.md").read_text()
    for word in (*SYSTEMS, "1 worker", "2 workers", "WER eval2000_swb", "WER eval2000_ch", "95 %"):
        assert word in page


def test_an_experiment_on_four_workers(finished):
    script = [f"{ROOT}/recipes/swbd/experiments.sh", "--quick", "true", "--data", str(finished.data), "--exp",
              str(finished.exp), "--experiments", "butterfly:4", "--backend", "simulated"]  # fmt: skip
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert finished.score("dnn_butterfly_4", "eval2000_swb")["wer"] < 85
    assert "butterfly_4" in (finished.exp / "EXPERIMENTS.md").read_text()
