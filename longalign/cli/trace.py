"""`longalign trace`: the best alignment that ends in a given cell."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from longalign import api
from longalign.cli.align import check_outputs, sources_of, write_outcome
from longalign.cli.reporting import reporting
from longalign.run.trace_cell import trace_cell
from longalign.store import DirectoryStore


def run_trace(options: Namespace) -> int:
    """Write the alignment. The store is only read; a run may be using it."""
    store = Path(options.store)
    sources = sources_of(DirectoryStore.attach(store).manifest)
    check_outputs("align", options.output, options.json, sources, options.store, options.format)
    with reporting(options) as emit:
        using = api.resources(options.backend, options.threads, options.device, options.mem)
        outcome = trace_cell(store, options.end, using, emit=emit)
    write_outcome(outcome, options.output, options.json, options)
    return 0
