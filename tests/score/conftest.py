"""NIST's scoring tools, with which ours is compared."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Sctk:
    """Runs the tools of Debian's package sctk in a folder of their own."""

    def __init__(self, tools, folder):
        self.tools, self.folder = tools, folder

    def run(self, tool, *arguments, stdin=""):
        """Standard output of a tool."""
        command = [self.tools / tool, *map(str, arguments)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, encoding="utf-8", errors="replace", cwd=self.folder
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def sclite(self, ref, hyp, *options):
        """(correct, substituted, deleted, inserted) of each utterance that sclite aligned, by its id."""
        self.run("sclite", "-r", *ref, "-h", *hyp, *options, "-s", "-e", "utf-8", "-o", "pralign", "-O", ".", "-n", "x")
        found = {}
        for line in (self.folder / "x.pra").read_text(encoding="utf-8").splitlines():
            if line.startswith("id: "):
                utt = re.fullmatch(r"id: \((.*)\)", line.strip())[1]
            if line.startswith("Scores:"):
                found[utt] = tuple(map(int, line.split()[-4:]))
        return found

    def trn(self, ref, hyp, *options):
        """As ``sclite``, of two trn files whose ids begin with the speaker."""
        return self.sclite((ref, "trn"), (hyp, "trn"), "-i", "spu_id", *options)


@pytest.fixture(scope="session")
def sctk_tools():
    """The folder of the tools; they are fetched once.  Skips where this can't be done."""
    got = subprocess.run([ROOT / "local" / "tools" / "get_sctk.sh"], capture_output=True, text=True)
    if got.returncode:
        pytest.skip(f"sclite can't be had: {got.stderr.strip()}")
    return Path(got.stdout.strip())


@pytest.fixture
def sctk(sctk_tools, tmp_path):
    """``Sctk`` in ``tmp_path``."""
    return Sctk(sctk_tools, tmp_path)
