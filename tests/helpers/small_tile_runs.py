"""Run the command line in child processes, with the small tiles of `small_tile_cli.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from inputs import DATA

HERE = Path(__file__).parent
MITOCHONDRIA = ["human_mito.NC_012920.1.fa.gz", "chimp_mito.NC_001643.1X.fa.gz"]


def command(*arguments: object, backend: str = "cpu") -> list[str]:
    return [sys.executable, str(HERE / "small_tile_cli.py"), *map(str, arguments), "--backend", backend]


def align(store: Path, backend: str = "cpu", extra: Sequence[str] = (), prune: str = "off") -> list[str]:
    """The command of `align` on two mitochondria. It starts a store or resumes it.

    It sweeps all tiles, or with `prune` "auto" only those that are needed.
    """
    how = "--progress", "json", "--threads", 2, "--prune", prune
    arguments = *MITOCHONDRIA, "--store", store, *how, *extra
    return command("align", *arguments, backend=backend)


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=DATA)


def finish(arguments: list[str]) -> tuple[str, list[dict[str, object]]]:
    """Run a command to its end. Returns its stdout and the JSON events of its stderr."""
    with start(arguments) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    return out, events
