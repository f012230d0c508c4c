"""Hypothesis profiles, the rule for GPU tests on machines without a GPU, and fixtures that many tests use."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import Phase, settings

from longalign.backends.cuda import why_unavailable
from longalign.cli import main

pytest.register_assert_rewrite(
    "longalign.testing.conformance",
    "longalign.testing.sweeps",
    "longalign.testing.start_states",
    "longalign.testing.traces",
    "runs",
)
pytest_plugins = ["pytester"]

# Sweeps compile on first use, so a deadline would fail on the first example and pass on the second.
# "fast" has the same examples every time: what passed once passes again. "quick", for a run without slow
# tests, has a third of them. "thorough" looks for others.
settings.register_profile("fast", deadline=None, max_examples=30, derandomize=True, print_blob=True)
settings.register_profile("quick", parent=settings.get_profile("fast"), max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=3000)
# For `tools/mutations.py`, which needs to know which test fails, not the smallest example.
settings.register_profile(
    "unshrunk",
    parent=settings.get_profile("fast"),
    database=None,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# A shell makes its background jobs ignore SIGINT, and their children inherit that; some tests send SIGINT.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """A run without slow tests is to be short."""
    if config.option.markexpr == "not slow" and "HYPOTHESIS_PROFILE" not in os.environ:
        settings.load_profile("quick")


def missing_gpu() -> str | None:
    """Why no GPU can be used here; None if one can."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return "the simulator stands in for the GPU"
    return why_unavailable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take minutes come first. Otherwise the last of them would run while other cores are idle."""
    items.sort(key=minutes, reverse=True)


def minutes(item: pytest.Item) -> float:
    """The duration of a test according to its mark `slow`; 0 if the mark names none."""
    slow = item.get_closest_marker("slow")
    return 0.0 if slow is None else slow.kwargs.get("minutes", 0.0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without a GPU skip a test marked `gpu`, or fail it if LONGALIGN_REQUIRE_GPU=1, before its fixtures."""
    if item.get_closest_marker("gpu") is None or (reason := missing_gpu()) is None:
        return
    if os.environ.get("LONGALIGN_REQUIRE_GPU") == "1":
        pytest.fail(f"LONGALIGN_REQUIRE_GPU=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def run(capsys):
    """Runs a longalign command in this process: exit code, stdout, stderr. Fails on a traceback."""

    def run(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            code = stop.code
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run


@pytest.fixture
def first_failure_only():
    """Hypothesis settings for tests that expect a failure: stop at the first one and do not shrink it."""
    usual = settings.get_current_profile_name()
    settings.register_profile(
        "first failure",
        max_examples=300,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        deadline=None,
    )
    settings.load_profile("first failure")
    yield
    settings.load_profile(usual)
