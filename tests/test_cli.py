"""The command line: help, TOML files, overrides, unknown words."""

from pathlib import Path

import pytest

from asr_parallel import cli
from asr_parallel.log import UserError


def exit_code(*arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    return stop.value.code


def test_help_lists_all_verbs(capsys):
    assert exit_code("--help") == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in cli.VERBS)


@pytest.mark.parametrize("verb", sorted(cli.VERBS))
def test_every_verb_has_help_with_defaults(verb, capsys):
    assert exit_code(verb, "--help") == 0
    out = capsys.readouterr().out
    assert "--jobs INT" in out
    assert "default: 0" in out


def test_unknown_verb_is_refused_with_the_nearest(capsys):
    assert exit_code("tarin") == 2
    assert "`train`" in capsys.readouterr().err


def test_unknown_option_is_refused_with_the_nearest(capsys):
    assert exit_code("train", "--wrokers", "3") == 2
    assert "--workers" in "".join(capsys.readouterr())


def test_command_line_has_the_last_word_over_toml(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('batch = 128\nforce = true\ndev = ["x", "y"]\n[optim]\nlr = 0.3\nmomentum = 0.9\n')
    config = cli.parse("train", ["--config", str(file), "--optim.lr", "0.7", "--workers=3"])
    assert (config.batch, config.force, config.dev) == (128, True, ["x", "y"])
    assert (config.optim.lr, config.optim.momentum, config.workers) == (0.7, 0.9, 3)


def test_dashes_and_underscores_mean_the_same():
    assert cli.parse("decode", ["--lattice-beam", "7"]) == cli.parse("decode", ["--lattice_beam=7"])


def test_unknown_key_in_toml_is_refused_and_the_file_named(tmp_path, capsys):
    file = tmp_path / "a.toml"
    file.write_text("[optim]\nlearning_rate = 0.3\n")
    assert exit_code("train", "--config", str(file)) == 2
    assert str(file) in capsys.readouterr().err


def test_wrong_type_is_refused(capsys):
    assert exit_code("train", "--workers", "two") == 2
    assert "two" in "".join(capsys.readouterr())


def test_bad_toml_is_named(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("a = = 1")
    with pytest.raises(UserError, match=r"a\.toml"):
        cli.parse("train", ["--config", str(file)])
    with pytest.raises(UserError, match="No such file"):
        cli.parse("train", ["--config", str(tmp_path / "none.toml")])


def test_user_error_has_no_traceback(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code("score") == 1
    err = capsys.readouterr().err
    assert "asr-parallel score:" in err
    assert "Traceback" not in err


def test_root_is_where_the_recipes_find_their_functions(capsys, monkeypatch, tmp_path):
    assert exit_code("--root") == 0
    assert (Path(capsys.readouterr().out.strip()) / "local/stages.sh").is_file()
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "site-packages/asr_parallel/cli.py"))
    assert exit_code("--root") == 1
    assert "ASR_PARALLEL_ROOT" in capsys.readouterr().err
