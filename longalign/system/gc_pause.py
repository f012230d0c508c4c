"""A pause of the cyclic garbage collector: during imports, compilation and the recomputing of alignments."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: If more objects than this are frozen, the program has frozen them. Python 3.12 itself freezes a few hundred
#: at its start.
_FROZEN_BY_A_PROGRAM = 1000


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Within the block, Python does not collect cyclic garbage.

    Imports and compilation allocate many long-lived objects; a cyclic collection would rescan them and free
    almost nothing. Work on thousands of rectangles allocates many short-lived ones, without cycles.
    Measured savings of CPU time: 15 % for compiling a CUDA sweep to PTX, 8 % for a CPU kernel, and 13 % for
    the imports. In each case, 4 or 5 percentage points come from moving the new objects to the oldest
    generation at the end.

    Blocks may be nested, and may overlap in threads. The block that paused the collector resumes it.
    """
    was_at_work = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_at_work:
            if gc.get_freeze_count() < _FROZEN_BY_A_PROGRAM:  # what the program froze stays frozen
                gc.freeze()
                gc.unfreeze()  # which puts the objects into the oldest generation
            gc.enable()
