"""`longalign devices`: which back ends work on this machine, and why others do not."""

from __future__ import annotations

import json
from argparse import Namespace

from longalign.backends import cuda
from longalign.backends.cpu import CpuBackend
from longalign.backends.select import open_backends, processors

SCHEMA = "longalign.devices/1"


def run_devices(options: Namespace) -> int:
    """Print a line for each device, the one that `--backend auto` takes first."""
    found = [device.index for device in cuda.available()]
    reason = cuda.why_unavailable()
    usable = [*(open_backends("cuda", devices=found) if found else []), CpuBackend(processors())]
    backends = [backend.describe() for backend in usable]
    if options.json:
        print(json.dumps({"schema": SCHEMA, "backends": backends, "cuda_unusable": reason}, indent=2))
        return 0
    for backend in backends:
        words = [f"{word} {value}" for word, value in backend.items() if word != "name"]
        print(f"{backend['name']}: {', '.join(words)}")
    if reason:
        print(f"cuda: not usable: {reason}")
    return 0
