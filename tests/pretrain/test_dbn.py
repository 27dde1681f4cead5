"""A DBN as the start of a network: what is copied, what is refused."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from asr_parallel.config import ModelConfig, OptimConfig, ScheduleConfig
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor, make_model
from asr_parallel.pretrain import run as pretrain
from asr_parallel.pretrain.dbn import load_dbn, save_dbn
from asr_parallel.pretrain.rbm import Rbm
from asr_parallel.pretrain.stack import propagate
from asr_parallel.train.run import run

NETWORK = ModelConfig(layers=2, width=7, activation="sigmoid", init="dbn", context=2)


def random_stack(*sizes: int) -> list[Rbm]:
    g = torch.Generator().manual_seed(3)
    stack = []
    for i, (v, h) in enumerate(itertools.pairwise(sizes)):
        stack.append(Rbm("bernoulli" if i else "gaussian", v, h))
        stack[-1].flat.normal_(0.0, 0.5, generator=g)
    return stack


@pytest.fixture
def config(tmp_path):
    """A network's options, and the stack in the ``dbn.pt`` that they name."""
    save_dbn(tmp_path / "dbn.pt", random_stack(10, 7, 7), "fbank", 2)
    return replace(NETWORK, dbn=str(tmp_path))


def test_hidden_activations_are_those_of_the_stack(config):
    model, stack = make_model(config, 10, 5, seed=0), random_stack(10, 7, 7)
    seen = []
    model.layers[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    x = torch.randn(20, 10, generator=torch.Generator().manual_seed(1))
    logits = model(x)
    torch.testing.assert_close(seen[0], propagate(stack, x))
    softmax = make_model(replace(config, init="nnet1"), 10, 5, seed=0).layers[-1]
    torch.testing.assert_close(logits, softmax(propagate(stack, x)))  # fresh, as nnet1 starts it


@pytest.mark.parametrize(
    ("changes", "dim", "said"),
    [
        ({"layers": 3}, 10, r"--layers 2, the network has 3: give `train` --model.layers 2, or run `pretrain`"),
        ({"width": 8}, 10, r"--width 7, the network has 8: give `train` --model.width 7"),
        ({"context": 3}, 14, r"--context 2, the network has 3: give `train` --model.context 2"),
        ({}, 20, r"layer 0 of .*dbn.pt takes 10 values, the network's takes 20: run `pretrain` again"),
        ({"activation": "relu"}, 10, r"init dbn is made for sigmoids: give --model.activation sigmoid"),
        ({"dbn": "nowhere"}, 10, r"nowhere/dbn.pt is missing: run `pretrain` first, or .*--model.dbn"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_way_out(config, changes, dim, said):
    with pytest.raises(UserError, match=said):
        make_model(replace(config, **changes), dim, 5, seed=0)


def test_a_damaged_file_is_refused(config, tmp_path):
    path = tmp_path / "dbn.pt"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(UserError, match=r"dbn.pt is damaged .*run `pretrain` again"):
        load_dbn(tmp_path)
    torch.save({"format": 99}, path)
    with pytest.raises(UserError, match="not of format"):
        load_dbn(tmp_path)


def test_the_file_depends_on_its_content_alone(tmp_path):
    for name in ("a", "other"):
        save_dbn(tmp_path / f"{name}.pt", random_stack(10, 7, 7), "fbank", 2)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "other.pt").read_bytes()


def test_a_training_starts_from_it(toy, network):
    """With a rate of 0 the trained network still is the DBN; with a usual one it learns."""
    pretrain.run(toy())
    config = network(optim=OptimConfig("sgd", lr=0.0), schedule=ScheduleConfig(epochs=1))
    assert Path(config.model.dbn) / "dbn.pt" in config.inputs()
    assert run(config) == 0
    hidden = load_predictor(config.out).model.layers[:-1]
    for layer, (weight, bias) in zip(hidden, load_dbn(config.model.dbn).layers, strict=True):
        assert torch.equal(layer.weight, weight)
        assert torch.equal(layer.bias, bias)


def test_inputs_must_be_such_as_it_was_trained_on(toy, network, toy_root):
    pretrain.run(toy())
    config = network()
    stack = random_stack(12, 8, 8, 8)
    save_dbn(Path(config.model.dbn) / "dbn.pt", stack, "mfcc", 1)
    with pytest.raises(
        UserError, match=r"made of mfcc features, the network takes fbank: give `train` --features mfcc"
    ):
        run(config)
    dbn = load_dbn(config.model.dbn)

    class Loud:
        def epoch(self, epoch):
            yield type("Batch", (), {"x": 5 * torch.randn(200, 12)})

    with pytest.raises(UserError, match=r"starts from .*dbn.pt have variance 2\d"):
        dbn.check_inputs("mfcc", Loud())
