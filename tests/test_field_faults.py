"""Every fault that docs/faults.md tells of has a test that carries its id."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/faults.md").read_text()
IDS = [fault for row in re.findall(r"^\| ([DKL]\d[^|]*) \|", PAGE, re.MULTILINE) for fault in row.split(", ")]
TESTS = "\n".join(path.read_text() for path in ROOT.glob("tests/*/test_*.py"))


def test_ids_are_there():
    assert len(IDS) == len(set(IDS)) > 40


@pytest.mark.parametrize("fault", IDS)
def test_fault_has_a_test(fault):
    assert re.search(rf"\b{fault}\b", TESTS)
