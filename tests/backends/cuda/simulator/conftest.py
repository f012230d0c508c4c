"""Patches the CUDA simulator before any test in this folder imports the back end.

Numba decides at its first import whether it simulates. These tests therefore need a process of their own,
with NUMBA_ENABLE_CUDASIM=1. `tests/backends/cuda/test_cuda_simulator.py` starts it.
"""

from __future__ import annotations

import os

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    import cuda_simulator

    cuda_simulator.install()
else:
    collect_ignore_glob = ["test_*.py"]
