"""A recipe's stack fits the network that starts from it."""

from pathlib import Path

import pytest

from asr_parallel import cli

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("recipe", ["fotaq", "mini_librispeech", "librispeech"])
@pytest.mark.parametrize("quick", [False, True])
def test_stack_and_network_agree(recipe, quick, monkeypatch):
    monkeypatch.chdir(ROOT)
    conf = f"recipes/{recipe}/conf"
    stack, network = [f"{conf}/pretrain.toml"], [f"{conf}/dnn.toml", f"{conf}/dnn_dbn.toml"]
    if quick:
        stack, network = [*stack, f"{conf}/quick_pretrain.toml"], [*network, f"{conf}/quick_dnn.toml"]
    dbn = cli.parse("pretrain", [a for f in stack for a in ("--config", f)])
    dnn = cli.parse("train", [a for f in network for a in ("--config", f)])
    assert (dnn.model.init, dnn.model.activation) == ("dbn", "sigmoid")
    for name in ("layers", "width", "context"):
        assert getattr(dbn, name) == getattr(dnn.model, name), name
    assert dbn.features == dnn.features
