"""Runs the tests of tests/simulator in a process whose numba simulates CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason="the simulator comes with numba-cuda")

SIMULATOR_TESTS = Path(__file__).with_name("simulator")


@pytest.mark.slow
def test_the_kernel_conforms_in_the_simulator():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SIMULATOR_TESTS)],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
