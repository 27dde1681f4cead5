"""Training by CTC on speech of two letters: it learns to spell, alone and together, and its graph finds the words."""

import json

import numpy as np
import pytest
import torch
from test_run import assert_same_history, assert_same_model, stop_at, table

from asr_parallel.align.labels import Labels
from asr_parallel.align.realign import run as realign
from asr_parallel.config import (
    DecodeConfig,
    FramesConfig,
    GraphConfig,
    ModelConfig,
    OptimConfig,
    RealignConfig,
    ScheduleConfig,
    StrategyConfig,
    TrainConfig,
    cuts_path,
)
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import FrameFile
from asr_parallel.decode.decode import run as decode
from asr_parallel.decode.make_graph import run as make_graph
from asr_parallel.lang.graphemes import spelt
from asr_parallel.lang.ngram import kneser_ney
from asr_parallel.lang.run import write_grammar, write_lang
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.train.run import run

WORDS = ["AB", "AAB", "BB"]  # no two sentences are spelt alike
MEANS = {"": (0.0, 0.0, 3.0), "a": (3.0, 0.0, 0.0), "b": (0.0, 3.0, 0.0)}


def speak(data, name, utts, seed):
    """Texts of one to three words; letters last 3 to 6 frames, with pauses of 2 to 4 before and after each."""
    random, texts, offsets = np.random.default_rng(seed), [], [0]
    with FrameFile(store_path(data, name, "fbank")) as file:
        for _ in range(utts):
            texts.append(" ".join(random.choice(WORDS, random.integers(1, 4))))
            frames = [MEANS[""]] * 2
            for letter in texts[-1].replace(" ", "").lower():
                frames += [MEANS[letter]] * random.integers(3, 7) + [MEANS[""]] * random.integers(2, 5)
            x = np.array(frames) + random.normal(size=(len(frames), 3))
            file.append(x.astype(np.float32))
            offsets.append(offsets[-1] + len(x))
    names = [f"s-{name}{i:02d}" for i in range(utts)]
    Cmvn(["s"], np.ones((1, 3), np.float32), np.ones((1, 3), np.float32)).save(cmvn_path(data, name, "fbank"))
    Index(names, ["s"] * utts, texts, np.array(offsets), np.ones(utts), name).save(index_path(data, name, "fbank"))
    cuts_path(data, name, "fbank").touch()  # `decode` notes what it was like
    return dict(zip(names, texts))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A function that makes configurations for this corpus, with a language directory beside it."""
    root = tmp_path_factory.mktemp("ctc")
    texts = {name: speak(root / "data", name, utts, i) for i, (name, utts) in enumerate((("train", 80), ("dev", 20)))}
    write_lang(spelt(WORDS), root / "lang")
    write_grammar(kneser_ney([t.split() for t in texts["train"].values()], 2), root / "lang")
    made = []

    def config(**changes):
        made.append(1)
        values = {
            "criterion": "ctc",
            "data": root / "data",
            "lang": root / "lang",
            "ali": root / "nowhere",
            "out": root / f"exp{len(made)}",
            "dev": ["dev"],
            "batch": 250,
            "threads": 1,
            "timeout": 30.0,
            "model": ModelConfig(1, 24, "relu", "glorot", context=2),
            "optim": OptimConfig("sgd", lr=0.3, momentum=0.8, clip=2.0),
            "schedule": ScheduleConfig(epochs=2),
        }
        return TrainConfig(**(values | changes))

    config.texts = texts
    return config


def label_errors(config, texts):
    """Share of the labels of ``dev`` that the best paths get wrong, by the decoder's door."""
    from asr_parallel.data.feature_set import FeatureSet
    from asr_parallel.score.align import align
    from asr_parallel.score.wer import count, total

    predictor, features = load_predictor(config.out), FeatureSet.open(config.data, "dev", "fbank")
    counts = []
    for utt, text in texts.items():
        best = torch.unique_consecutive(torch.from_numpy(predictor.log_posteriors(features[utt]).argmax(1))).tolist()
        counts.append(count(align(list(text.replace(" ", "").lower()), ["?~ab"[k] for k in best if k])))
    return total(counts).wer / 100


def test_it_learns_to_spell_and_its_graph_finds_the_words(world):
    config = world(schedule=ScheduleConfig(epochs=12))
    assert run(config) == 0
    history = table(config)
    assert float(history[-1]["dev_loss"]) < 0.5 * float(history[0]["dev_loss"])
    assert label_errors(config, world.texts["dev"]) < 0.05
    assert float(history[-1]["dev_acc"]) > 0.93
    graph = config.out / "graph"
    make_graph(GraphConfig(model=config.out, lang=config.lang, out=graph))
    decode(DecodeConfig(model=config.out, graph=graph, data=config.data, sets=["dev"], acwt=1.0, jobs=1))
    lines = (config.out / "decode_dev" / "hyp.txt").read_text().splitlines()
    right = sum(world.texts["dev"][utt] == words for utt, _, words in (line.partition(" ") for line in lines))
    assert right >= 17


@pytest.mark.parametrize("name", ["gradient_average", "model_average", "block_momentum", "elastic_average"])
def test_one_worker_is_serial_training(world, name):
    single, other = (world(strategy=StrategyConfig(n, "2 minibatches")) for n in ("single", name))
    run(single)
    run(other)
    assert_same_model(single, other)
    assert_same_history(single, other)


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("gradient_average", "1 minibatch"),
        ("model_average", "2 minibatches"),
        ("model_average", "400 frames"),
        ("block_momentum", "2 minibatches"),
        ("elastic_average", "2 minibatches"),
    ],
)
def test_several_workers_learn_too(world, name, every):
    """Cadences in frames count whole minibatches, whose frames differ: no worker may wait for another in vain."""
    config = world(
        workers=3, backend="simulated", batch=150, strategy=StrategyConfig(name, every, lr_scale="none"),
        schedule=ScheduleConfig(epochs=5),
    )  # fmt: skip
    assert run(config) == 0
    history = table(config)
    assert float(history[-1]["dev_loss"]) < 0.8 * float(history[0]["dev_loss"])


def test_subnets_of_one_worker_learn(world):
    config = world(strategy=StrategyConfig("independent_subnets", "2 minibatches"))
    assert run(config) == 0


def test_a_stopped_training_goes_on_to_the_same_result(world, monkeypatch):
    whole, cut = world(), world()
    run(whole)
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        assert run(cut) == STOPPED
    assert run(cut) == 0
    assert_same_model(whole, cut)
    assert_same_history(whole, cut)


def test_labels_of_frames_by_its_best_paths(world):
    config = world(schedule=ScheduleConfig(epochs=12))
    run(config)
    out = config.out / "ali"
    realign(RealignConfig(data=config.data, lang=config.lang, dev=["dev"], model=config.out, out=out, jobs=1))
    labels = Labels.load(out / "ali_train.npz")
    for utt, text in world.texts["train"].items():
        said = [k for k in torch.unique_consecutive(torch.from_numpy(labels[utt])).tolist() if k]
        assert "".join("?~ab"[k] for k in said) == text.replace(" ", "").lower(), utt
    again = world(criterion="ce", ali=out)
    assert run(again) == 0
    assert json.loads((again.out / "ctc.json").read_text())["blank"] == "SIL"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_smoothing": 0.1}, "--label_smoothing is for labels of frames"),
        ({"strategy": StrategyConfig("model_average", probe=100)}, "--strategy.probe is for labels of frames"),
        ({"strategy": StrategyConfig("ensemble")}, "--strategy.name is for labels of frames"),
        ({"frames": FramesConfig(shuffle="blocks")}, "--frames.shuffle is for labels of frames"),
        ({"batch": 30}, "utterance s-train.* frames and --batch is 30: CTC takes utterances whole"),
    ],
)
def test_what_does_not_go_with_it(world, options, message):
    with pytest.raises(UserError, match=message):
        run(world(**options))
