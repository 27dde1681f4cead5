"""A recipe's stack fits the network that starts from it."""

from pathlib import Path

import pytest

from asr_parallel import cli

ROOT = Path(__file__).parents[2]


def conf(recipe, *names):
    """Files of a recipe, or of FOTAQ's where it lacks them (base_conf in run.sh)."""
    places = [[f"recipes/{r}/conf/{name}.toml" for r in (recipe, "fotaq")] for name in names]
    return [next(path for path in paths if (ROOT / path).exists()) for paths in places]


@pytest.mark.parametrize("recipe", ["fotaq", "mini_librispeech", "librispeech"])
@pytest.mark.parametrize("quick", [False, True])
def test_stack_and_network_agree(recipe, quick, monkeypatch):
    monkeypatch.chdir(ROOT)
    stack, network = conf(recipe, "pretrain"), conf(recipe, "dnn", "dnn_dbn")
    if quick:
        stack, network = stack + conf(recipe, "quick_pretrain"), network + conf(recipe, "quick_dnn")
    dbn = cli.parse("pretrain", [a for f in stack for a in ("--config", f)])
    dnn = cli.parse("train", [a for f in network for a in ("--config", f)])
    assert (dnn.model.init, dnn.model.activation) == ("dbn", "sigmoid")
    for name in ("layers", "width", "context"):
        assert getattr(dbn, name) == getattr(dnn.model, name), name
    assert dbn.features == dnn.features
