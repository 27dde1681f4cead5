"""The verb, with lattices that are a table."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from asr_parallel.config import ScoreConfig
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.log import UserError
from asr_parallel.score import run as verb
from asr_parallel.score.run import parse_pairs, run

TEXTS = {
    "dev": {"joe-1": "A B C D", "joe-2": "E F"},
    "test": {"bud-1": "A B", "joe-3": "C D E", "joe-4": "F"},
}


class FakeLattices:
    """More LM weight turns the last word into X, less turns the first; the penalty drops nothing."""

    def __init__(self, name):
        self.utts = list(TEXTS[name])
        self.flags = ["ok"] * len(self.utts)
        self.texts = TEXTS[name]
        self.asked = []
        if name == "test":
            self.flags[-1] = "failed"

    def best_grid(self, lmwts, wips):
        self.asked.append((lmwts, wips))
        return {(n, w): {u: self._hyp(t.split(), n) for u, t in self.texts.items()} for n in lmwts for w in wips}

    def _hyp(self, words, lmwt):
        if lmwt < 8:
            return ["X", *words[1:]]
        return [*words[:-1], "X"] if lmwt > 9 else words


@pytest.fixture
def lattices(monkeypatch):
    fakes = {name: FakeLattices(name) for name in TEXTS}
    monkeypatch.setattr(verb, "load_lattices", lambda path: fakes[path.parent.name.removeprefix("decode_")])
    return fakes


@pytest.fixture
def config(tmp_path, lattices):
    for name, texts in TEXTS.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        with gzip.open(tmp_path / "data" / name / "cuts.jsonl.gz", "wt") as f:
            for utt, text in texts.items():
                f.write(json.dumps({"id": utt, "supervisions": [{"text": text, "speaker": utt[:3]}]}) + "\n")
        (tmp_path / "exp" / f"decode_{name}").mkdir(parents=True)
        (tmp_path / "exp" / f"decode_{name}" / "lattices.npz").touch()
    return ScoreConfig(
        model=tmp_path / "exp", data=tmp_path / "data", pairs=["dev:test"], lmwt=[7, 8, 9, 10], wip=[0.0, 0.5]
    )


def test_dev_chooses_and_test_is_scored_there_only(config, lattices, capsys):
    run(config)
    dev, test = config.model / "decode_dev", config.model / "decode_test"
    assert len(list(dev.glob("wer_*"))) == 8
    assert (dev / "wer_8_0.0").read_text().splitlines()[0] == "%WER 0.00 [ 0 / 6, 0 ins, 0 del, 0 sub ]"
    assert (dev / "wer_10_0.5").read_text().splitlines()[:2] == [
        "%WER 33.33 [ 2 / 6, 0 ins, 0 del, 2 sub ]",
        "%SER 100.00 [ 2 / 2 ]",
    ]
    assert (dev / "best_wer").read_text() == f"%WER 0.00 [ 0 / 6, 0 ins, 0 del, 0 sub ] {dev / 'wer_8_0.0'}\n"
    assert lattices["test"].asked == [([8], [0.0])]
    assert [p.name for p in test.glob("wer_*")] == ["wer_8_0.0"]
    assert (test / "wer_8_0.0").read_text().splitlines() == [
        "%WER 16.67 [ 1 / 6, 0 ins, 1 del, 0 sub ] [PARTIAL]",
        "%SER 33.33 [ 1 / 3 ]",
        "Scored 3 sentences, 1 not present in hyp.",
    ]
    summary = json.loads((test / "score.json").read_text())
    assert summary["missing"] == ["joe-4"]
    assert (summary["tuned_on"], summary["lmwt"], summary["wip"]) == ("dev", 8, 0.0)
    assert (summary["errors"], summary["words"], summary["del"], summary["utts"]) == (1, 6, 1, 3)
    assert summary["ci95"][0] <= summary["wer"] <= summary["ci95"][1]
    assert summary["spk_wer"] == {"bud": 0.0, "joe": 25.0}
    for name in ("per_spk.tsv", "per_utt.tsv", "per_utt.txt", "confusions.txt"):
        assert (test / name).stat().st_size
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:5] == ["set", "tuned", "on", "lmwt", "wip"]
    assert table[2].split()[:7] == ["test", "dev", "8", "0.0", "3", "6", "16.67"]


def test_points_of_an_earlier_run_do_not_stay(config):
    run(config)
    stale = config.model / "decode_dev" / "wer_3_1.0"
    stale.write_text("%WER 0.00")
    kept = config.model / "decode_dev" / "wer_notes.txt"
    kept.write_text("mine")
    run(config)
    assert not stale.exists()
    assert kept.exists()


def test_modes_for_what_the_decoder_gave_up_on(config):
    with pytest.raises(UserError, match=r"decode_test: 1 of 3 utterances have no hypothesis, e\.g\. joe-4"):
        run(replace(config, mode="strict"))
    run(replace(config, mode="present"))
    summary = json.loads((config.model / "decode_test" / "score.json").read_text())
    assert (summary["missing"], summary["utts"], summary["words"], summary["wer"]) == (["joe-4"], 2, 5, 0.0)


def test_filters_and_case_count_in_tuning_too(config, tmp_path):
    (tmp_path / "f.glm").write_text("[X] => [d]\n")
    run(replace(config, filter=[tmp_path / "f.glm"], fold_case=True))
    dev = config.model / "decode_dev"
    assert (dev / "wer_10_0.0").read_text().startswith("%WER 16.67 [ 1 / 6")  # D is right, F is not


def test_best_value_at_the_edge_is_a_warning(config, monkeypatch):
    said = []
    monkeypatch.setattr(verb.log, "warning", lambda message, *values: said.append(message % values))
    run(replace(config, lmwt=[9, 10]))
    assert [s for s in said if "edge" in s] == [
        "dev: the best lmwt, 9, is at the edge of the values tried (9 to 10): a wider range may do better"
    ]


def test_options_for_files_are_refused(config, tmp_path):
    with pytest.raises(UserError, match="--utt2spk is for --ref and --hyp"):
        run(replace(config, utt2spk=tmp_path))


def test_files_for_sclite(config):
    run(config)
    test = config.model / "decode_test"
    assert (test / "hyp.trn").read_text() == "A B (bud-1)\nC D E (joe-3)\n(joe-4)\n"
    assert not (test / "ref.stm").exists()  # these cuts do not say how long they are
    with gzip.open(config.data / "test" / "cuts.jsonl.gz", "wt") as f:
        for utt, text in TEXTS["test"].items():
            f.write(json.dumps({"id": utt, "duration": 2.25, "supervisions": [{"text": text}]}) + "\n")
    run(config)
    assert (test / "ref.stm").read_text().splitlines()[1] == "joe-3 1 unknown 0.00 2.25 C D E"


def test_json_instead_of_a_table(config, capsys):
    run(replace(config, json=True))
    rows = json.loads(capsys.readouterr().out)
    assert [(r["set"], r["errors"]) for r in rows] == [("dev", 0), ("test", 1)]


def test_result_is_reproducible(config):
    run(config)
    path = config.model / "decode_test" / "score.json"
    first = path.read_bytes()
    run(config)
    assert path.read_bytes() == first


def test_missing_lattices_are_named(config):
    (config.model / "decode_test" / "lattices.npz").unlink()
    with pytest.raises(UserError, match=r"decode_test/lattices\.npz: no such file; run stage `decode`"):
        run(config)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["dev"], "want DEV:TEST"),
        (["dev:"], "want DEV:TEST"),
        (["a:b:c"], "want DEV:TEST"),
        (["dev:dev"], "dev is a dev and a test set"),
        (["a:b", "b:c"], "b is a dev and a test set"),
    ],
)
def test_pairs_that_would_tune_on_test_are_refused(pairs, message):
    with pytest.raises(UserError, match=message):
        parse_pairs(pairs)


def test_one_dev_set_may_serve_two_test_sets():
    assert parse_pairs(["d:x", "e:z", "d:y"]) == {"d": ["x", "y"], "e": ["z"]}


def test_empty_range_is_refused(config):
    with pytest.raises(UserError, match="at least one value"):
        run(ScoreConfig(model=config.model, data=config.data, pairs=["dev:test"], lmwt=[]))
    with pytest.raises(UserError, match="must be positive"):
        run(ScoreConfig(model=config.model, data=config.data, pairs=["dev:test"], lmwt=[0, 1]))


def two_words(acoustic):
    """One word: 1 costs 1 by the graph and ``acoustic``, 2 costs 2 by the graph alone."""
    arcs = [np.array(a, np.int32) for a in ([0, 1], [0, 0], [1, 1], [1, 2])]
    return WordLattice(*arcs, np.array([1, 2], np.float32), np.array([acoustic, 0], np.float32))


def test_real_lattices(config, monkeypatch):
    # word A wins where 1 + 10 / lmwt < 2, that is above 10; both sets say A
    monkeypatch.undo()
    for name, flag in (("dev", "ok"), ("test", "failed")):
        where = config.model / f"decode_{name}"
        with gzip.open(config.data / name / "cuts.jsonl.gz", "wt") as f:
            for utt in ("u1", "u2"):
                f.write(json.dumps({"id": utt, "supervisions": [{"text": "A", "speaker": "u"}]}) + "\n")
        lattices = Lattices.join(["u1", "u2"], ["ok", flag], [two_words(10.0), two_words(10.0)], {1: "A", 2: "B"})
        lattices.save(where / "lattices.npz")
    run(ScoreConfig(model=config.model, data=config.data, pairs=["dev:test"], lmwt=[8, 9, 11, 12, 13], wip=[0.0]))
    dev, test = (json.loads((config.model / f"decode_{name}" / "score.json").read_text()) for name in ("dev", "test"))
    assert (
        (config.model / "decode_dev" / "wer_9_0.0").read_text().startswith("%WER 100.00 [ 2 / 2, 0 ins, 0 del, 2 sub ]")
    )
    assert (dev["lmwt"], dev["wer"], dev["missing"]) == (12, 0.0, [])
    assert (test["lmwt"], test["wer"], test["missing"]) == (12, 50.0, ["u2"])


def test_words_that_training_never_had(config, tmp_path, capsys):
    (tmp_path / "known").write_text("A\nB\nC\nE\nF\nX\n")
    run(replace(config, vocabulary=tmp_path / "known"))
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].endswith("OOV right")
    assert rows[1].endswith("1/1 100.0 %")  # D of "A B C D"
    summary = json.loads((config.model / "decode_test" / "score.json").read_text())
    assert (summary["oov_words"], summary["oov_right"], summary["oov_heard"]) == (1, 1, 1)
    assert (config.model / "decode_test" / "oov.tsv").read_text() == "word\tsaid\tright\nD\t1\t1\n"
