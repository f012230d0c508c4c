"""What every result is measured on: hardware, versions, date, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("longalign", "numpy", "numba", "llvmlite", "numba-cuda", "h5py", "parasail")


def describe_machine() -> dict[str, object]:
    """JSON-ready facts about this machine and checkout."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "cpu": _cpu(),
        "processors": len(os.sched_getaffinity(0)),
        "gpu": _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _output(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
