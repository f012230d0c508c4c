"""The faults of `tools/mutation_list.py` still apply to the code, and `tools/mutations.py` judges rightly."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import mutations
import pytest
from mutation_list import FAULTS, Fault

ROOT = Path(__file__).parents[2]
SUITES = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "longalign/testing").glob("*.py")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_one_place_and_its_tests_exist(fault):
    text = (ROOT / fault.file).read_text()
    after = mutations.changed(fault, text)
    assert after != text
    compile(after, fault.file, "exec")
    for test in fault.tests[: fault.tests.index("-k") if "-k" in fault.tests else None]:
        file, *names = test.split("::")
        assert (ROOT / file).is_file()
        for name in names:
            assert any(re.search(rf"(def|class) {name}\b", suite.read_text()) for suite in SUITES), name


def test_names_are_unique_and_those_of_the_report():
    names = {fault.name for fault in FAULTS}
    assert len(names) == len(FAULTS)
    report = json.loads((ROOT / "experiments/results/mutations.json").read_text())
    assert {fault["name"] for fault in report["faults"]} == names


@pytest.mark.parametrize("before", ["no such text", "from"])
def test_a_text_that_does_not_occur_exactly_once_is_refused(before):
    fault = Fault("stale", "x.py", before, "", ("tests/system/test_sizes.py",))
    with pytest.raises(mutations.StaleFault, match=f"stale: x.py has the text '{before}' [02] times"):
        mutations.changed(fault, "from a import b\nfrom c import d\n")


SMALL = """import os

def double(x):
    # twice
    return 2 * x
"""
TEST_OF_SMALL = """from small import double

def test_of_one():
    assert double(1) == 2
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Replaces this checkout by one of a single module and its test. Returns a folder for copies."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "small.py").write_text(SMALL)
    (checkout / "test_small.py").write_text(TEST_OF_SMALL)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(checkout), *command], check=True)
    monkeypatch.setattr(mutations, "ROOT", checkout)
    return tmp_path / "copies"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "by"),
    [
        ("2 * x", "3 * x", "noticed", "test_small.py::test_of_one"),
        pytest.param("2 * x", "os.abort()", "noticed", "signal 6 ended the tests", marks=pytest.mark.slow),
        pytest.param(
            *("    return", "    while True: pass\n    return", "timed out", "the time limit"),
            marks=pytest.mark.slow,
        ),
        pytest.param("# twice", "# thrice", "UNNOTICED", "1 passed", marks=pytest.mark.slow),
        pytest.param("import os", "import no_such_module", "NOT RUN", "1 error", marks=pytest.mark.slow),
    ],
)
def test_the_verdict_on_a_fault(small, before, after, verdict, by):
    fault = Fault("small fault", "small.py", before, after, ("test_small.py",))
    limit = 3 if verdict == "timed out" else 60
    outcome = mutations.run(fault, small, limit, sound=False)
    assert (outcome.name, outcome.verdict) == ("small fault", verdict)
    assert by in outcome.by
    assert not any(small.glob("small*"))


@pytest.mark.slow
def test_tests_that_do_not_exist_notice_nothing(small):
    for tests in (("test_other.py",), ("test_small.py", "-k", "other")):
        fault = Fault("small fault", "small.py", "2 * x", "3 * x", tests)
        assert mutations.run(fault, small, 60, sound=False).verdict == "NOT RUN"


@pytest.mark.slow
def test_without_the_fault_tests_should_pass(small):
    fault = Fault("small fault", "small.py", "2 * x", "3 * x", ("test_small.py",))
    assert mutations.run(fault, small, 60, sound=True).verdict == "passed"
    (mutations.ROOT / "small.py").write_text(SMALL.replace("2 * x", "4 * x"))
    assert mutations.run(fault, small, 60, sound=True).verdict == "FAILED"
