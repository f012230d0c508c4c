"""A GPU test that cannot run where a GPU is promised is a failure. Tests that take minutes run first."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def without_gpu(pytester, monkeypatch):
    """A directory with these tests' conftest and one GPU test, and no GPU."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    pytester.makeini("[pytest]\nmarkers = gpu")
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile("import pytest\n\n@pytest.mark.gpu\ndef test_on_gpu():\n    pass")
    return pytester


def test_a_gpu_test_is_skipped_with_a_reason(without_gpu, monkeypatch):
    monkeypatch.delenv("LONGALIGN_REQUIRE_GPU", raising=False)
    result = without_gpu.runpytest("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines("*SKIPPED*simulator stands in for the GPU*")


def test_a_gpu_test_fails_where_a_gpu_is_promised(without_gpu, monkeypatch):
    monkeypatch.setenv("LONGALIGN_REQUIRE_GPU", "1")
    result = without_gpu.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*LONGALIGN_REQUIRE_GPU=1, but*")


def test_what_takes_minutes_runs_first(pytester):
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(
        "import pytest\n\n"
        "def test_fast():\n    pass\n\n"
        "@pytest.mark.slow\ndef test_slow():\n    pass\n\n"
        "@pytest.mark.slow(minutes=1)\ndef test_of_a_minute():\n    pass\n\n"
        "@pytest.mark.slow(minutes=5)\ndef test_of_five():\n    pass\n"
    )
    result = pytester.runpytest("-v")
    order = [line for line in result.outlines if "PASSED" in line]
    assert [line.split("::")[1].split()[0] for line in order] == [
        "test_of_five", "test_of_a_minute", "test_fast", "test_slow"
    ]  # fmt: skip
