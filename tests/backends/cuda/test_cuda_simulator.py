"""Runs the tests of tests/backends/cuda/simulator in processes in which Numba simulates CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason="the simulator comes with numba-cuda")

SIMULATOR_TESTS = Path(__file__).with_name("simulator")


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("file", sorted(SIMULATOR_TESTS.glob("test_*.py")), ids=lambda file: file.stem)
def test_kernels_conform_in_the_simulator(file: Path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
