"""Tickets, progress flags and the order of memory between warps: all synchronisation of the kernel.

**Tickets.** Strips are listed so that each stands after its left neighbour, and warps take them in that
order from one atomic counter. A warp waits only for the strip to the left of its own: that one has an
earlier ticket, so a warp that runs already holds it (or has finished it). The warp with the earliest
unfinished strip never waits; hence there is always progress, whatever blocks are resident.

**Flags.** flags[s + 1] counts the rows whose right edge strip s has published. The order of memory:

1. all lanes of the publishing warp store boundary values (plain stores);
2. `syncwarp` orders them before lane 0's next step;
3. lane 0 stores the count with *release* at device scope, which covers by cumulativity all that lane 0
   has seen, the other lanes' stores included;
4. lane 0 of the waiting warp loads the count until it is large enough, and then once more with *acquire*:
   it sees what the release covered (on the hardware the acquire also drops stale first-level cache lines,
   which costs the whole multiprocessor too much to be done at every look);
5. `syncwarp` orders that before the loads of the other lanes.

Publisher and reader share one buffer per rectangle: a strip overwrites the values to its left with its
own. Row r is stored by strip s after strip s has loaded row r (in an earlier batch, a `syncwarp`
between), and loaded by strip s + 1 after (4); strip s + 1 stores it later still. So every element is
accessed in strip order.

A count that reaches further than the next batch saves the looks at the flag before the batches it covers.

**Stop.** The host sets `stop` from another stream; every warp reads it when it looks at a flag, which it
does every `LOOK_EVERY` batches at the least, and leaves. A warp that leaves publishes nothing more, so
nobody reads unfinished values.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

import numpy as np

from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.ptx import load_acquire, load_relaxed, store_release

ALL_LANES = 0xFFFFFFFF
#: Batches after which a warp looks at its flag, and at what the host says, whether it needs to or not.
LOOK_EVERY = 32

_POLL_NANOSECONDS = np.uint32(40)


@cuda.jit(device=True)
def take_ticket(tickets, lane):
    """The next strip's number, the same in all lanes."""
    ticket = np.int32(0)
    if lane == 0:
        ticket = np.int32(cuda.atomic.add(tickets, 0, 1))
    return cuda.shfl_sync(ALL_LANES, ticket, 0)


@cuda.jit(device=True)
def wait_for_rows(flags, index, needed, stop, lane):
    """Wait until flags[index] >= needed; the count then, or -1 if the host says stop. Same in all lanes."""
    done = np.int32(0)
    if lane == 0:
        stopped = load_relaxed(stop, 0)  # on its way while the flag is read
        done = load_relaxed(flags, index)
        while done < needed and stopped == 0:
            cuda.nanosleep(_POLL_NANOSECONDS)
            stopped = load_relaxed(stop, 0)
            done = load_relaxed(flags, index)
        done = np.int32(-1) if stopped != 0 else load_acquire(flags, index)
    cuda.syncwarp()
    return cuda.shfl_sync(ALL_LANES, done, 0)


@cuda.jit(device=True)
def publish_rows(flags, index, rows, lane):
    """Release the boundary values that the warp has stored: the first `rows` rows are now readable."""
    cuda.syncwarp()
    if lane == 0:
        store_release(flags, index, rows)
