"""Shows the events of a run as `--progress` and `--quiet` ask."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from longalign.cli.progress import progress
from longalign.events import Emit, Event, PhaseStarted


@contextmanager
def reporting(options: Namespace) -> Iterator[Emit]:
    """An `Emit` that shows a run on stderr.

    It also raises KeyboardInterrupt at the start of a phase if a library swallowed an earlier one.
    """
    with progress(options.progress, sys.stderr, options.quiet) as show:

        def emit(event: Event) -> None:
            if isinstance(event, PhaseStarted):  # the back ends are imported by now
                options.interrupts.check()
            show(event)

        yield emit
