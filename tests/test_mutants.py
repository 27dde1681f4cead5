"""The table of faults is up to date; ``make mutants`` makes them."""

import ast
import functools

import pytest
from mutants import FAILED, PASSED, ROOT, load, verdict

FAULTS = load()


@functools.cache
def defined(file):
    """Names of the tests in a file."""
    return {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_can_be_made_and_its_tests_are_there(fault):
    assert (ROOT / fault.file).read_text().count(fault.old) == 1
    assert fault.old != fault.new
    assert fault.tests
    for test in fault.tests:
        file, name = test.split("::")
        assert name in defined(file)


def test_a_fault_is_killed_only_if_each_of_its_tests_fails():
    fault, output = FAULTS[0], "".join(f"FAILED {test}[one] - assert 1 == 2\n" for test in FAULTS[0].tests)
    assert verdict(fault, FAILED, output) == "killed"
    assert verdict(fault, PASSED, "1 passed").startswith("SURVIVED")
    assert verdict(fault, FAILED, f"FAILED {fault.tests[0]}_of_another - assert 1 == 2").startswith("SURVIVED")
    assert verdict(fault, 2, "ImportError").startswith("NOT RUN")
