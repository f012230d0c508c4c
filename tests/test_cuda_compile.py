"""Every CUDA kernel compiles to machine code and stays in registers: no GPU needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "cuda_kernels.py"
NO_TOOLKIT = 2


@pytest.mark.slow
def test_every_kernel_stays_in_registers(tmp_path):
    table = tmp_path / "kernels.json"
    done = subprocess.run([sys.executable, TOOL, "--json", table], capture_output=True, text=True)
    if done.returncode == NO_TOOLKIT:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    kernels = json.loads(table.read_text())
    registers = {kernel["kernel"]: kernel["registers"] for kernel in kernels}
    assert len(kernels) == len(registers) > 1
    # Blocks of 128 threads share the 65,536 registers of a multiprocessor: as many as `planning` counts on.
    for columns, most in ((24, 255), (16, 168), (8, 128)):
        assert max(count for name, count in registers.items() if f"_{columns}_" in name) <= most
    # As many blocks of a warp as a multiprocessor runs.
    assert max(registers["trace"], registers["trace_matrix"]) <= 64
    # Sixteen warps, which hide one another's latency.
    assert max(count for name, count in registers.items() if name.startswith("starts_")) <= 128
