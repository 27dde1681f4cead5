"""A recipe that runs in a folder of its own, and may be killed on the way."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Recipe:
    """``recipes/NAME/run.sh`` with ``options``, whose data and experiments go to ``folder``."""

    def __init__(self, name, folder, *options):
        self.data, self.exp = folder / "data", folder / "exp"
        self.command = [f"recipes/{name}/run.sh", "--data", str(self.data), "--exp", str(self.exp), *options]

    def run(self, *arguments, check=True):
        command = [*self.command, *arguments]
        limit = 3600  # seconds: it ends what hangs, not what is slow
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
        if check:
            assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-6000:]
        return result

    def kill_when(self, ready, *arguments):
        """Start the recipe, and kill -9 all of it once ``ready()``."""
        process = subprocess.Popen(
            [*self.command, *arguments], cwd=ROOT, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + 1800
        while process.poll() is None and time.monotonic() < end and not ready():
            time.sleep(0.1)
        assert process.poll() is None, "it ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def score(self, system, name):
        return json.loads((self.exp / system / f"decode_{name}" / "score.json").read_text())


def assert_fresh(result, verbs):
    """A run that had nothing to do, and said so of at least so many ``verbs``."""
    lines = result.stderr.splitlines()
    assert sum("fresh" in line for line in lines) >= verbs, lines
    assert not [line for line in lines if "not done yet" in line or " -> " in line]
