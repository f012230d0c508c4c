"""How long a command takes to begin: a fresh process, with no kernel on disk (cold) and with them all (warm).

    python experiments/startup.py [--backend cpu cuda] [--repeats 3] [--out FILE]

Runs `longalign score` and `longalign align` on two mitochondria. Seconds since the process was started, the
median of the repeats: until the command line is imported, until the back end is open (its packages imported,
a device found), until the first sweep begins (its kernel compiled or loaded), and until the command is
done. Cold runs have an empty cache directory each, for the kernels and for the driver.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hardware import save_report
from scripts import script_parser

ROOT = Path(__file__).resolve().parents[1]
PAIR = [
    str(ROOT / "tests" / "data" / f"{name}.fa.gz")
    for name in ("human_mito.NC_012920.1", "chimp_mito.NC_001643.1X")
]

#: Runs in the process that is timed. The clock is the same in all processes.
WATCH = """
import sys, time
started, marks = float(sys.argv[1]), {}

def mark(name):
    marks.setdefault(name, time.monotonic() - started)

from longalign.cli import main
mark("imported")
from longalign import api

open_backends = api.open_backends
def opening(*arguments):
    backends = open_backends(*arguments)
    mark("ready")
    if backends[0].name == "cpu":
        from longalign.backends.cpu.backend import _Worker
        _Worker.run = marking(_Worker.run)
    else:
        from longalign.backends.cuda.launch import sweep_launch
        sweep_launch.run = marking(sweep_launch.run)
    return backends

def marking(run):
    def first(*arguments):
        mark("sweeping")
        return run(*arguments)
    return first

api.open_backends = opening
code = main(sys.argv[2:])
mark("finished")
print(*marks.values())
sys.exit(code)
"""
MARKS = ("imported", "ready", "sweeping", "finished")


def run(command: str, backend: str, cache: Path) -> dict[str, float]:
    """Seconds until each mark, in a process that keeps its kernels in `cache`."""
    places = {"XDG_CACHE_HOME": str(cache), "CUDA_CACHE_PATH": str(cache / "driver")}
    arguments = [command, *PAIR, "--backend", backend, "-o", os.devnull, "--quiet"]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(started), *arguments],
        env={**os.environ, **places},
        cwd=ROOT,  # where a program given by -c looks for its modules first
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        sys.exit(f"longalign {command} ended with exit code {done.returncode}")
    return dict(zip(MARKS, map(float, done.stdout.split()), strict=True))


def measure_both(backend: str, repeats: int) -> list[dict[str, object]]:
    """The medians of both commands, cold and warm."""
    return [row for command in ("score", "align") for row in measure(command, backend, repeats)]


def measure(command: str, backend: str, repeats: int) -> list[dict[str, object]]:
    """The medians, cold and warm."""
    seconds: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for state in seconds:
                seconds[state].append(run(command, backend, Path(cache)))
    rows = []
    for state, runs in seconds.items():
        medians = {mark: round(statistics.median(run[mark] for run in runs), 3) for mark in MARKS}
        shown = ", ".join(f"{mark} {value:.2f} s" for mark, value in medians.items())
        print(f"{command} {backend} {state}: {shown}", flush=True)
        rows.append({"command": command, "backend": backend, "state": state, "seconds": medians})
    return rows


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("--backend", nargs="+", choices=("cpu", "cuda"), default=["cpu"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [row for backend in options.backend for row in measure_both(backend, options.repeats)]
    save_report(options.out, runs=rows)


if __name__ == "__main__":
    main()
