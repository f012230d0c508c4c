"""`longalign devices`: which back ends work on this machine, and why others do not."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from longalign.backends import cuda
from longalign.backends.base import Backend
from longalign.backends.cpu import CpuBackend
from longalign.backends.select import open_backends, processors
from longalign.cli.scoring import scoring_of
from longalign.problem import Problem
from longalign.sequence import read_sequence

SCHEMA = "longalign.devices/1"


def run_devices(options: Namespace) -> int:
    """Print a line for each device, the one that `--backend auto` takes first."""
    found = [device.index for device in cuda.available()]
    reason = cuda.why_unavailable()
    usable = [*(open_backends("cuda", devices=found) if found else []), CpuBackend(processors())]
    backends = [backend.describe() for backend in usable]
    plans = _plans(usable, options) if options.plan else {}
    if options.json:
        report = {"schema": SCHEMA, "backends": backends, "cuda_unusable": reason}
        print(json.dumps({**report, "plans": plans} if plans else report, indent=2))
        return 0
    for backend in backends:
        words = [f"{word} {value}" for word, value in backend.items() if word != "name"]
        print(f"{backend['name']}: {', '.join(words)}")
        for word, value in plans.get(backend["name"], {}).items():
            print(f"    {word}: {value}")
    if reason:
        print(f"cuda: not usable: {reason}")
    return 0


def _plans(backends: Sequence[Backend], options: Namespace) -> dict[str, dict[str, str]]:
    """How each back end would sweep the first tile of a matrix."""
    scoring = scoring_of(options)
    query, target = (read_sequence(name, scoring.alphabet) for name in options.plan)
    scoring.check_range(len(query), len(target))
    whole = Problem.of(query, target, scoring, options.mode).sweep_job((), ())
    plans = {}
    for backend in backends:
        rows, cols = backend.tile_shape(len(query), len(target))
        tile = replace(
            whole, query=whole.query[:rows], target=whole.target[:cols], rows=(rows,), cols=(cols,),
            top=whole.top.part(0, cols), left=whole.left.part(0, rows),
        )  # fmt: skip
        plans[backend.name] = {"tile": f"{rows} x {cols}", **backend.explain(tile)}
    return plans
