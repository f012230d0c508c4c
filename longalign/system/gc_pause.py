"""The garbage collector, at rest while packages are imported, kernels compiled, alignments recomputed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: A program that freezes its objects has thousands. Python 3.12 begins with some hundred of its own.
_FROZEN_BY_A_PROGRAM = 1000


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Do without a search for garbage in cycles.

    An import or a compiler makes objects by the hundred thousand that stay. Each makes the collector look
    through all the others before it, to find little. Work on thousands of rectangles makes as many that do
    not stay, and has no cycles either.
    Threads and nested blocks may overlap: the collector works again when the one that stopped it has ended.
    It then takes what was made meanwhile for old, and does not begin by looking through it.
    """
    was_at_work = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_at_work:
            if gc.get_freeze_count() < _FROZEN_BY_A_PROGRAM:  # others stay frozen
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            gc.enable()
