"""The name of the machine's processor."""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path


def processor_name() -> str:
    """The model. On Linux `platform.processor` is empty or names only the architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
