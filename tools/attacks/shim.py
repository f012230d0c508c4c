"""A library that makes chosen calls of the C library fail; see `shim.c`.

It is compiled into a temporary folder. The dynamic linker can load it only when a process starts, so the
campaign restarts itself with it. The library does nothing until `arm` is called.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_VARIABLE = "LONGALIGN_CAMPAIGN_SHIM"
_SOURCE = Path(__file__).with_name("shim.c")

#: The faults, by name, in the order of the numbers in `shim.c`.
FAULTS = (
    "no space", "input/output error", "short write", "fsync fails", "rename fails", "no thread", "no memory",
    "too many open files",
)  # fmt: skip


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def preload(arguments: Sequence[str]) -> None:
    """Restart this process with the library, unless it is loaded or there is no C compiler."""
    if os.environ.get(_VARIABLE) or not sys.platform.startswith("linux") or (cc := compiler()) is None:
        return
    library = Path(tempfile.mkdtemp(prefix="campaign-shim-")) / "shim.so"
    command = [cc, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lpthread"]
    if subprocess.run(command, check=False).returncode != 0:
        shutil.rmtree(library.parent)
        return
    loaded = ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))
    sys.stdout.flush()
    environment = {**os.environ, "LD_PRELOAD": loaded, _VARIABLE: str(library)}
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def is_loaded() -> bool:
    return bool(os.environ.get(_VARIABLE))


def remove() -> None:
    """Remove the temporary folder of the library, if it is loaded."""
    if library := os.environ.pop(_VARIABLE, None):
        shutil.rmtree(Path(library).parent, ignore_errors=True)


def arm(fault: str, first: int, every: int, prefix: Path) -> None:
    """Make call number `first`, counted from 0 from now on, and every `every`-th call after it fail.

    With `every` 0 all later calls fail. Calls on files count if the path of the file begins with `prefix`.
    """
    library = ctypes.CDLL(os.environ[_VARIABLE])
    library.campaign_arm(FAULTS.index(fault), first, every, os.fsencode(prefix))
