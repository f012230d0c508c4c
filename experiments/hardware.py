"""The circumstances that every report states: hardware, versions, date and commit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import threading
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from longalign.system.processor_name import processor_name
from longalign.system.threads import processors

_PACKAGES = ("longalign", "numpy", "numba", "llvmlite", "numba-cuda", "h5py", "parasail", "biopython")


def describe_machine() -> dict[str, object]:
    """JSON-ready facts about this machine and checkout."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        # LONGALIGN_COMMIT names the commit of a copy that lacks the history of its checkout.
        "commit": os.environ.get("LONGALIGN_COMMIT") or _commit(Path(__file__).parent),
        "cpu": processor_name(),
        "processors": processors(),
        "gpu": _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def save_report(file: Path | None, **measured: object) -> None:
    """Write measurements as JSON, with the facts about this machine, unless `file` is None."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**describe_machine(), **measured}, indent=2) + "\n")


class DeviceMemory:
    """Samples the memory in use on the first GPU with `nvidia-smi`.

    Use it as a context manager around a run. `peak` is then the largest increase in bytes; it is None without
    `nvidia-smi`.
    """

    def __init__(self, every_seconds: float = 0.1) -> None:
        self.peak: int | None = None
        self._every, self._over = every_seconds, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> DeviceMemory:
        self._before = device_memory_used()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while self._before is not None and not self._over.wait(self._every):
            self.peak = max(self.peak or 0, (device_memory_used() or 0) - self._before)


def device_memory_used() -> int | None:
    """Bytes of the first GPU's memory that are in use, or None without `nvidia-smi`."""
    found = _output("nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
    return int(found) << 20 if found else None


def _commit(experiments: Path) -> str | None:
    """The commit of the checkout that contains a folder of experiments; "-dirty" if tracked files differ.

    Changes in `results` are ignored, as scripts write their reports there.
    """
    git = ("git", "-C", str(experiments))
    commit = _output(*git, "describe", "--always", "--exclude=*")
    changed = _output(*git, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":!results")
    return f"{commit}-dirty" if commit and changed else commit


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


#: Variables by which git names a repository to its hooks; it may be another one than ours.
_OF_HOOKS = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}


def _output(*command: str) -> str | None:
    where = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, env=where).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
