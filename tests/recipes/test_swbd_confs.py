"""The experiments of `swbd`: each is the paper's network with what its file is about changed, and nothing else."""

import dataclasses
import re
from pathlib import Path

import pytest

from asr_parallel import cli

ROOT = Path(__file__).parents[2]
CONF = ROOT / "recipes/swbd/conf"
PAPER = [f"--config={CONF / name}.toml" for name in ("dnn", "dnn_dbn")]
CHANGED = {  # by file: fields that differ from the paper's network with averaged models
    "scale": set(),
    "init_random": {"model.init"},
    "every_20": {"strategy.every"},
    "minibatch_256": {"batch", "optim.lr"},
    "newbob": {"schedule.name", "schedule.preset", "schedule.epochs"},
    "sgd": {"optim.name", "optim.lr"},
    "butterfly": {"strategy.topology"},
    "ec": {"strategy.name", "strategy.every"},
    "ist": {"model.activation", "model.init", "model.batch_norm", "model.bias", "model.output_norm", "optim.name",
            "optim.lr", "strategy.name", "strategy.every"},
}  # fmt: skip


def fields(config, prefix=""):
    found = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        inner = dataclasses.is_dataclass(value)
        found |= fields(value, f"{prefix}{f.name}.") if inner else {f"{prefix}{f.name}": value}
    return found


def experiment(*files):
    return fields(cli.parse("train", [a for f in files for a in f.split("=", 1)]))


def test_network_is_the_papers():
    config = experiment(*PAPER)
    assert (config["model.layers"], config["model.width"], config["model.activation"]) == (6, 2048, "sigmoid")
    assert (config["batch"], config["schedule.epochs"], config["schedule.final_ratio"]) == (1024, 15, 0.01)
    assert config["optim.lr"] * 16 / 1024 == pytest.approx(0.32)  # of the sum, at 16 workers
    stack = cli.parse("pretrain", ["--config", str(CONF / "pretrain.toml")])
    assert (stack.layers, stack.width, stack.context) == (6, 2048, config["model.context"])
    quick = experiment(*PAPER, f"--config={CONF / 'quick_dnn.toml'}")
    small = cli.parse(
        "pretrain", ["--config", str(CONF / "pretrain.toml"), "--config", str(CONF / "quick_pretrain.toml")]
    )
    assert (quick["model.layers"], quick["model.width"]) == (small.layers, small.width)


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_experiment_changes_what_it_is_about(name):
    base = experiment(*PAPER, f"--config={CONF / 'experiments/scale.toml'}")
    own = experiment(*PAPER, f"--config={CONF / f'experiments/{name}.toml'}")
    assert {key for key in base if base[key] != own[key]} == CHANGED[name]


def test_all_files_are_experiments_and_the_script_runs_each():
    files = {p.stem for p in (CONF / "experiments").glob("*.toml")}
    assert files == set(CHANGED)
    script = (ROOT / "recipes/swbd/experiments.sh").read_text()
    assert {name for name, _ in re.findall(r"\b(\w+):(\d+)\b", script)} == files
