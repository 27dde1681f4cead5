"""Benchmarks run, on next to nothing, and give the figures that `make bench` shows; none of them is judged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNS = [
    (["features", "--minutes", "1", "--jobs", "1"], {"features_xrt"}),
    (["frames", "--hours", "3", "--seconds", "0.05"], {"rss_3h_gb", "speed_3h_vs_1h"}),
    (["step", "--rounds", "1", "--seconds", "0.01", "--batch", "16", "--only", "512x4_1threads"],
     {"step_vs_gemm_fp32", "step_vs_gemm_bf16", "ngsgd_vs_sgd", "dataloader_vs_ours", "step_part_count_ms"}),
    (["workers", "--minutes", "0.5", "--rounds", "1", "--no-projection"],
     {"two_workers_vs_two_alone", "two_workers_vs_one"}),
]  # fmt: skip


@pytest.mark.parametrize(("options", "wanted"), RUNS, ids=[options[0] for options, _ in RUNS])
def test_a_benchmark_gives_its_figures(options: list[str], wanted: set[str]) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / f"{options[0]}.py"), *options[1:]]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    figures = {f["name"]: f["value"] for f in map(json.loads, done.stdout.splitlines())}
    assert wanted <= set(figures)
    assert all(0 < value < float("inf") for value in figures.values()), figures
