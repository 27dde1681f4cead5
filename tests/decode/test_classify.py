"""Classes that a network tells whose weights are known."""

import json

import numpy as np
import pytest
import torch
from class_world import DIM, write_set

from asr_parallel.align import classes
from asr_parallel.config import ClassesConfig, ClassifyConfig, CompareConfig, ModelConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.classify import run
from asr_parallel.log import UserError
from asr_parallel.model import Dnn, save_model
from asr_parallel.score import compare

SAID = ["STOP", "GO", "GO ON"] * 8


@pytest.fixture
def world(tmp_path):
    """A corpus, and a network that tells each word from its value."""
    write_set(tmp_path, "train", SAID)
    write_set(tmp_path, "dev", SAID)
    write_set(tmp_path, "test", SAID)
    make_model(tmp_path, "model")
    return tmp_path


def make_model(folder, name):
    """GO, GO_ON and STOP are pdfs 0, 1 and 2, and values 1, 2 and 0."""
    classes.run(ClassesConfig(data=folder, out=folder / name))
    model = Dnn(ModelConfig(layers=1, width=DIM, context=0, activation="relu"), DIM, 3)
    with torch.no_grad():
        for layer in model.layers:
            layer.bias.zero_()
        model.layers[0].weight.copy_(torch.eye(DIM))
        model.layers[1].weight.copy_(torch.eye(DIM)[[1, 2, 0]])
    save_model(folder / name / "final.pt", model, "image", np.array([8, 8, 8]))
    (folder / name / "config.json").write_text(json.dumps({"features": "image", "dev": ["dev"]}))


def classify(world, name="test", model="model"):
    run(ClassifyConfig(model=world / model, data=world, sets=[name], jobs=1))
    return json.loads((world / model / f"decode_{name}" / "score.json").read_text())


def test_what_the_network_says_is_counted(world, capsys):
    rows = np.eye(DIM, dtype=np.float32)[[["STOP", "GO", "GO ON"].index(word) for word in SAID]]
    rows[:4] = rows[1:5]  # four of them look like what comes next
    write_set(world, "test", SAID, rows)
    found = classify(world)
    assert (found["accuracy"], found["wer"]) == (pytest.approx(2000 / 24), pytest.approx(400 / 24, abs=1e-3))
    assert "accuracy 83.33 %, 20 of 24 right" in capsys.readouterr().out
    table = (world / "model/decode_test/classes.tsv").read_text().splitlines()
    assert [line.split("\t")[:3] for line in table[1:]] == [["GO", "8", "7"], ["GO_ON", "8", "7"], ["STOP", "8", "6"]]
    assert table[3].split("\t")[-1] == "GO 2"


def test_what_is_right_is_all_right_and_tuned_on_is_told(world):
    found = classify(world)
    assert (found["accuracy"], found["missing"], found["tuned_on"]) == (100, [], None)
    assert classify(world, "dev")["tuned_on"] == "dev"


def test_an_utterance_without_features_or_of_another_class_is_wrong(world, caplog):
    write_set(world, "test", [*SAID[:-1], "LEFT"], without=["s0-003", "s0-004"])
    found = classify(world)
    assert found["missing"] == ["s0-003", "s0-004"]
    assert found["accuracy"] == pytest.approx(2100 / 24)
    assert "2 utterances have no hypothesis" in caplog.text


def test_two_classifiers_can_be_compared(world, capsys):
    make_model(world, "other")
    classify(world)
    write_set(world, "test", SAID, np.ones((24, DIM)))
    classify(world, model="other")
    capsys.readouterr()
    compare.run(CompareConfig(old=world / "other", new=world / "model", json=True))
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["set"], row["wer_new"], row["p_new_better"]) == ("test", 0, 1)
    assert row["wer_old"] == pytest.approx(200 / 3)


def test_a_model_of_frames_is_refused(world, monkeypatch):
    whole = FeatureSet.open(world, "test", "image")
    object.__setattr__(whole, "offsets", whole.offsets * 2)
    monkeypatch.setattr(FeatureSet, "open", lambda *_: whole)
    with pytest.raises(UserError, match="more than one frame of image"):
        classify(world)
