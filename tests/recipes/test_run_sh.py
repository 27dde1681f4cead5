"""Every recipe's run.sh takes options as a Kaldi user expects; its files are where the contract says."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = sorted(p.parent.name for p in ROOT.glob("recipes/*/run.sh"))


def run(recipe, *arguments):
    command = [f"recipes/{recipe}/run.sh", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("recipe", RECIPES)
def test_help_lists_options_with_defaults_and_stages(recipe):
    result = run(recipe, "--help")
    assert result.returncode == 0
    for word in ("--stage", "--stop-stage", "--workers", "default: 2", "5 train"):
        assert word in result.stdout


@pytest.mark.parametrize("recipe", RECIPES)
def test_unknown_option_is_refused_with_the_nearest(recipe):
    result = run(recipe, "--stop-stag", "3")
    assert result.returncode == 2
    assert "did you mean --stop-stage" in result.stderr
    assert run(recipe, "--PATH", "x").returncode == 2
    assert run(recipe, "train").returncode == 2
    assert run(recipe, "--stage").returncode == 2


@pytest.mark.parametrize("recipe", RECIPES)
def test_stages_by_number_and_by_name(recipe):
    by_number = run(recipe, "--plan", "true", "--stage", "5", "--stop-stage", "7")
    by_name = run(recipe, "--plan=true", "--stage=train", "--stop_stage=score")
    assert by_number.returncode == 0, by_number.stderr
    assert by_number.stdout == by_name.stdout
    assert "train" in by_number.stdout
    assert "features" not in by_number.stdout
    assert run(recipe, "--stage", "trian").returncode == 2


def test_fotaq_takes_features_and_a_second_round():
    plan = ("--plan", "true", "--stage", "5", "--stop-stage", "5")
    for features in ("fbank", "fmllr", "mfcc_hires"):
        text = run("fotaq", *plan, "--features", features, "--realign", "true")
        assert text.returncode == 0, text.stderr
        assert text.stdout.count("train ") == 3
        assert text.stdout.count("realign") == 1
    wrong = run("fotaq", *plan, "--features", "plp")
    assert wrong.returncode == 2
    assert "none of fbank, mfcc_hires and fmllr" in wrong.stderr


@pytest.mark.parametrize("recipe", RECIPES)
def test_run_sh_is_short_and_the_folder_is_whole(recipe):
    folder = ROOT / "recipes" / recipe
    assert len((folder / "run.sh").read_text().splitlines()) <= 100
    assert (folder / "README.md").exists()
    assert list((folder / "conf").glob("*.toml"))


def test_make_alone_prints_help():
    result = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    for target in ("setup", "demo", "test", "stage-%", "from-%", "to-%", "doctor", "plan", "bench", "results"):
        assert target in result.stdout
