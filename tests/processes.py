"""The command line as a process of its own, in the forms in which it is started."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

#: `python -m longalign`, and what the console script does.
FORMS = {
    "module": [sys.executable, "-m", "longalign"],
    "script": [sys.executable, "-c", "import sys; from longalign.__main__ import main; sys.exit(main())"],
}
QUERY = "ACGGTCATTGCAGGATCCATCAGTTAGCACGGTCATTGCAGGATC"
TARGET = "TTACGGTCATTGCAGGATCATCAGTTAGCACGGTCTTGCAGGATCAA"
PAIR = ["q.fa", "t.fa", "--backend", "cpu"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with two sequences."""
    monkeypatch.chdir(tmp_path)
    Path("q.fa").write_text(f">query\n{QUERY}\n")
    Path("t.fa").write_text(f">target\n{TARGET}\n")
    return tmp_path


def longalign(
    *arguments: object, form: str = "module", **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [*FORMS[form], *map(str, arguments)]
    return subprocess.run(command, text=True, check=False, timeout=120, **streams)


def limited(limit: int, value: int) -> Callable[[], None]:
    """Makes `preexec_fn`, which sets the soft limit of a resource."""

    def limit_process() -> None:
        resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))

    return limit_process
