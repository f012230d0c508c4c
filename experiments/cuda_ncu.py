"""Read the hardware counters of the GPU sweep with Nsight Compute: pipes, issue slots and causes of stalls.

    python experiments/cuda_ncu.py [--rows 1000000] [--columns 24] [--strips 1056] [--out FILE]

Sweeps one rectangle of random letters that is STRIPS full strips wide (by default one per resident warp of an
H200) under `ncu`, which replays the kernel several times to read all counters. The clock is not fixed. Exits
with 2 if `ncu` is not installed.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from cuda_sweep import whole
from hardware import save_report

from longalign.backends.cuda.backend import CudaBackend

SECTIONS = (
    "SpeedOfLight", "ComputeWorkloadAnalysis", "SchedulerStats", "WarpStateStats", "InstructionStats",
    "Occupancy", "LaunchStats",
)  # fmt: skip
NO_PROFILER = 2


def main() -> int:
    options = _parse()
    if options.sweep:
        sweep(options.rows, options.columns, options.strips)
        return 0
    profiler = shutil.which("ncu")
    if profiler is None:
        print("ncu is not installed", file=sys.stderr)
        return NO_PROFILER
    command = [
        profiler, "--csv", "--page", "details", "--clock-control", "none", "--kernel-name", "regex:sweep",
        *(word for section in SECTIONS for word in ("--section", section)),
        sys.executable, __file__, "--sweep", "--rows", str(options.rows), "--columns", str(options.columns),
        "--strips", str(options.strips),
    ]  # fmt: skip
    watched = subprocess.run(command, capture_output=True, text=True)
    counters = read(watched.stdout)
    if watched.returncode != 0 or not counters:
        print(watched.stdout, watched.stderr, sep="\n", file=sys.stderr)
        return 1
    for section, values in counters.items():
        for name, value in values.items():
            print(f"{section:34} {name:46} {value}")
    shape = {"rows": options.rows, "columns": options.columns, "strips": options.strips}
    save_report(options.out, **shape, counters=counters)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=24)
    parser.add_argument("--strips", type=int, default=1056)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sweep", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def sweep(rows: int, columns: int, strips: int) -> None:
    """The profiled work, which runs in a child process."""
    backend = CudaBackend(columns=columns)
    rng = np.random.default_rng(0)
    query, few = rng.integers(0, 4, (2, rows), np.uint8)
    [choice] = backend.choices([whole(query, few)])
    target = rng.integers(0, 4, strips * choice.config.strip_width, np.uint8)
    backend.sweep([whole(query, target)])


def read(printed: str) -> dict[str, dict[str, str]]:
    """Counters with units, by section and name, from the output of `ncu --csv --page details`."""
    table = printed[max(printed.find('"ID"'), 0) :]
    counters: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(io.StringIO(table)):
        if row.get("Metric Name"):
            value = f"{row['Metric Value']} {row['Metric Unit']}".strip()
            counters.setdefault(row["Section Name"], {})[row["Metric Name"]] = value
    return counters


if __name__ == "__main__":
    sys.exit(main())
