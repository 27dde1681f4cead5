"""A browser in which pages are looked at."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, fetched once without root.  Skips where there is none to be had."""
    playwright = pytest.importorskip("playwright.sync_api")
    got = subprocess.run([ROOT / "local" / "tools" / "get_chromium.sh"], capture_output=True, text=True)
    if got.returncode:
        pytest.skip(f"Chromium can't be had: {got.stderr.strip()}")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=got.stdout.strip(), args=as_root)
        yield running
        running.close()
