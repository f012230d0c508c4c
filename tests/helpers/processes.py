"""Run the command line in a child process, through either of its entry points."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
    Path("q.fa").write_text(f">query first\n{QUERY}\n")
    Path("t.fa").write_text(f">target\n{TARGET}\n")
    return tmp_path


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run the block without the rights of root, who may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def longalign(
    *arguments: object, form: str = "module", **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [*FORMS[form], *map(str, arguments)]
    return subprocess.run(command, text=True, check=False, timeout=120, **streams)


def limited(limit: int, value: int) -> Callable[[], None]:
    """A `preexec_fn` that sets the soft limit of a resource, such as RLIMIT_NOFILE."""

    def limit_process() -> None:
        resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))

    return limit_process


def handles_signals(process: subprocess.Popen[Any]) -> bool:
    """Whether a longalign process has installed its signal handlers, or has ended. Linux only.

    An earlier signal meets the bare interpreter, which handles SIGINT only.
    """
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:") and int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
                return True
    return process.poll() is not None


def wait_for_handlers(process: subprocess.Popen[Any]) -> None:
    """Wait until a process `handles_signals`."""
    while not handles_signals(process):
        time.sleep(0.001)
