"""A verb is fresh exactly when options, inputs and outputs are what they were."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from asr_parallel import cli, stages
from asr_parallel.config import OptimConfig, VerbConfig
from asr_parallel.log import UserError


@dataclass(frozen=True)
class CopyConfig(VerbConfig):
    """Copy a file."""

    source: Path = Path("in")
    out: Path = Path("out")
    optim: OptimConfig = field(default_factory=OptimConfig)

    def inputs(self) -> list[Path]:
        return [self.source]

    def outputs(self) -> list[Path]:
        return [self.out / "a", self.out / "sub" / "b"]


calls: list[CopyConfig] = []


def run(config: CopyConfig) -> None:
    calls.append(config)
    for path in config.outputs():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config.source.read_text())


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setitem(cli.VERBS, "copy", (CopyConfig, __name__))
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("sys").modules[__name__])
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: __import__("sys").modules[name])
    calls.clear()
    (tmp_path / "in").write_text("text")
    return CopyConfig(source=tmp_path / "in", out=tmp_path / "out")


def with_changes(config, **changes):
    from dataclasses import replace

    return replace(config, **changes)


def test_second_run_does_nothing(config, capsys):
    assert cli.run("copy", config) == 0
    assert cli.run("copy", config) == 0
    assert len(calls) == 1
    assert "fresh" in capsys.readouterr().err


def test_jobs_do_not_make_a_result_stale_but_options_do(config):
    cli.run("copy", config)
    assert stages.stale("copy", with_changes(config, jobs=7)) == []
    assert stages.stale("copy", with_changes(config, optim=OptimConfig(lr=0.25))) == ["option optim.lr: 1.0 -> 0.25"]


def test_an_option_that_is_new_counts_as_one_that_had_its_default(config):
    cli.run("copy", config)
    path = stages.stamp_path("copy", config)
    stamp = json.loads(path.read_text())
    del stamp["options"]["optim.momentum"]
    path.write_text(json.dumps(stamp))
    assert stages.stale("copy", config) == []
    other = with_changes(config, optim=OptimConfig(momentum=0.5))
    assert stages.stale("copy", other) == ["option optim.momentum: absent -> 0.5"]
    stamp["options"]["optim.gone"] = 1
    path.write_text(json.dumps(stamp))
    assert stages.stale("copy", config) == ["option optim.gone: 1 -> absent"]


def test_changed_input_is_named_and_a_touched_one_is_not(config):
    cli.run("copy", config)
    os.utime(config.source, (1, 1))
    assert stages.stale("copy", config) == []
    config.source.write_text("other")
    assert stages.stale("copy", config) == [f"changed {config.source}"]
    config.source.write_text("tex2")  # same size as at first
    assert stages.stale("copy", config) == [f"changed {config.source}"]


def test_missing_or_cut_output_is_made_again(config):
    cli.run("copy", config)
    (config.out / "sub" / "b").write_text("t")
    assert stages.stale("copy", config) == [f"missing or damaged {config.out / 'sub' / 'b'}"]
    (config.out / "a").unlink()
    cli.run("copy", config)
    assert len(calls) == 2
    assert stages.stale("copy", config) == []


def test_damaged_stamp_is_stale(config):
    cli.run("copy", config)
    stages.stamp_path("copy", config).write_text("{")
    assert "damaged" in stages.stale("copy", config)[0]


def test_missing_input_says_what_to_run(config):
    config.source.unlink()
    with pytest.raises(UserError, match="earlier stages"):
        cli.run("copy", config)
    assert not calls


def test_failed_run_leaves_no_stamp_and_the_log_says_why(config, monkeypatch):
    def fail(config):
        raise UserError("disk is full")

    monkeypatch.setattr(__import__("sys").modules[__name__], "run", fail)
    with pytest.raises(UserError):
        cli.run("copy", config)
    assert stages.stale("copy", config) == ["not done yet"]
    log = (config.out / "log" / "copy.log").read_text()
    assert "disk is full" in log
    assert "# code 1" in log


def test_run_that_leaves_nothing_is_not_success(config, monkeypatch):
    monkeypatch.setattr(__import__("sys").modules[__name__], "run", lambda config: None)
    with pytest.raises(UserError, match="did not leave"):
        cli.run("copy", config)


def test_plan_runs_nothing(config, monkeypatch, capsys):
    monkeypatch.setenv("ASR_PARALLEL_PLAN", "1")
    cli.run("copy", config)
    assert not calls
    assert "not done yet" in capsys.readouterr().out


def test_log_has_command_versions_and_duration(config):
    cli.run("copy", config)
    log = (config.out / "log" / "copy.log").read_text()
    assert "torch" in log
    assert "commit" in log
    assert "# code 0" in log


def test_what_a_configuration_tells_of_the_world_counts_as_an_option(config, monkeypatch):
    monkeypatch.setattr(CopyConfig, "state", lambda self: {"files": "3 (abc)"})
    cli.run("copy", config)
    assert stages.stale("copy", config) == []
    monkeypatch.setattr(CopyConfig, "state", lambda self: {"files": "4 (def)"})
    assert stages.stale("copy", config) == ["option files: 3 (abc) -> 4 (def)"]
