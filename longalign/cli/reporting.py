"""How a run's events are shown, as the options of a command ask."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from longalign.cli.progress import progress
from longalign.events import Emit, Event, PhaseStarted


@contextmanager
def reporting(options: Namespace) -> Iterator[Emit]:
    """An `Emit` that shows a run on stderr, and ends it where a phase begins after an interrupt."""
    with progress(options.progress, sys.stderr, options.quiet) as show:

        def emit(event: Event) -> None:
            if isinstance(event, PhaseStarted):  # by now, back ends and their packages are imported
                options.interrupts.check()
            show(event)

        yield emit
