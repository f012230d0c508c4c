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
    The pause saves CPU time of compilation and imports. So does moving the new objects to the oldest
    generation at the end.

    Blocks may be nested. The block that paused the collector resumes it, even if another thread is in a block
    that began later.
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
