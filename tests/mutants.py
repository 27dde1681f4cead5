"""Break the package on purpose and see its tests fail: ``make mutants``, or ``python tests/mutants.py [NAME ...]``.

``mutants.toml`` holds the faults: in ``file`` the text ``old``, which is there once, becomes ``new``, and then each of
``tests`` must fail; ``why`` says what is wrong.  Each fault is made in a copy of the package in a temporary folder, so
the working tree stays as it is.  A fault that survives shows a hole in the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".toml")
COPIED = ("asr_parallel", "local", "recipes", "tests", "docs/examples", "pyproject.toml")
LOADED = ("hypothesis", "pytest", "torch.distributed", "torch.utils.tensorboard")  # once, before there is any copy
LIMIT_S = 300  # for the tests of one fault
RUNNING: set[int] = set()  # children, each of whom leads a group of processes
PASSED, FAILED, ELSEWHERE = 0, 1, 99  # exit codes: two of pytest; the last if a copy was not what the tests imported


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str
    new: str
    tests: list[str]
    why: str

    def make(self, tree: Path) -> None:
        """Break the package in ``tree``.  Raises ``ValueError`` if it is not what the fault was written for."""
        path = tree / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name} is stale: its `old` is {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new))


def load() -> list[Fault]:
    return [Fault(name, **fault) for name, fault in tomllib.loads(TABLE.read_text()).items()]


class Tree:
    """A copy of the package and its tests in a folder of its own, until ``with`` ends."""

    def __init__(self, source: Path):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name).resolve()
        (self.path / "docs").mkdir()
        for name in COPIED:
            make = shutil.copytree if (source / name).is_dir() else shutil.copy2
            make(source / name, self.path / name)

    def start(self, tests: list[str], limit_s: int = LIMIT_S) -> int:
        """Run ``tests`` as a child of this process, which has loaded all but the package; give its number.

        It is ended after ``limit_s`` seconds (0: never).
        """
        pid = os.fork()
        if pid == 0:
            code = ELSEWHERE
            try:
                os.setpgid(0, 0)
                signal.alarm(limit_s)
                code = self._run(tests)
            finally:
                os._exit(code)
        RUNNING.add(pid)
        return pid

    def _run(self, tests: list[str]) -> int:
        os.chdir(self.path)
        sys.path[0] = os.environ["PYTHONPATH"] = str(self.path)
        output = os.open("output", os.O_CREAT | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        import pytest

        import asr_parallel

        if not Path(str(asr_parallel.__file__)).is_relative_to(self.path):
            return ELSEWHERE
        return int(pytest.main(["-q", "--tb=line", "-p", "no:cacheprovider", *tests]))

    def output(self) -> str:
        return (self.path / "output").read_text(errors="replace")


def wait() -> tuple[int, int]:
    """Wait until a child ends; give its number and exit code.  What its tests have left running ends too."""
    pid, status = os.wait()
    end(pid)
    return pid, os.waitstatus_to_exitcode(status)


def end(pid: int) -> None:
    RUNNING.discard(pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def verdict(fault: Fault, code: int, output: str) -> str:
    """``killed``, or what else became of a fault, from the exit code and the output of its tests."""
    if code not in (PASSED, FAILED):
        return f"NOT RUN, exit code {code}:\n{output[-2000:]}"
    failed = {line.split("[")[0].split()[1] for line in output.splitlines() if line.startswith("FAILED ")}
    passed = [test for test in fault.tests if test not in failed]
    return f"SURVIVED {' '.join(passed)} ({fault.why})" if passed else "killed"


def verdicts(faults: list[Fault], intact: Tree, at_once: int) -> Iterator[tuple[Fault, str]]:
    """What becomes of each fault, as it is known."""
    running: dict[int, tuple[Fault, Tree]] = {}
    waiting = list(reversed(faults))
    while waiting or running:
        while waiting and len(running) < at_once:
            fault, tree = waiting.pop(), Tree(intact.path)
            fault.make(tree.path)
            running[tree.start(fault.tests)] = fault, tree
        pid, code = wait()
        fault, tree = running.pop(pid)
        with tree.folder:
            yield fault, verdict(fault, code, tree.output())


def check(faults: list[Fault], at_once: int) -> int:
    """See the tests pass, then make each fault; give 1 if one is not noticed."""
    intact = Tree(ROOT)
    with intact.folder:
        intact.start(sorted({test for fault in faults for test in fault.tests}), limit_s=0)
        _, code = wait()
        if code != PASSED:
            print(f"exit code {code} of the tests without a fault:\n{intact.output()[-4000:]}")
            return 1
        survived = 0
        for fault, found in verdicts(faults, intact, at_once):
            survived += found != "killed"
            print(f"{fault.name:26} {found}", flush=True)
    print(f"{len(faults) - survived} of {len(faults)} faults are noticed")
    return int(survived > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description="Break the package on purpose and see its tests fail.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults, or what they begin with; all by default")
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="so many faults at a time")
    given = parser.parse_args()
    faults = [fault for fault in load() if not given.names or fault.name.startswith(tuple(given.names))]
    if not faults:
        parser.error(f"no fault in {TABLE.name} has such a name")
    os.environ["OMP_NUM_THREADS"] = "1"
    for module in LOADED:
        importlib.import_module(module)
    try:
        return check(faults, given.j)
    finally:
        for pid in list(RUNNING):
            end(pid)


if __name__ == "__main__":
    sys.exit(main())
