"""Tickets, tagged values and flags, and the order of memory between warps: all synchronisation of the kernel.

**Tickets.** Strips are listed so that each stands after its left neighbour, and warps take them in that order
from one atomic counter. A warp waits only for strips of earlier tickets, its left neighbour and itself in the
band above: a warp that runs already holds such a strip (or has finished it). The warp with the earliest
unfinished strip never waits; hence there is always progress, whatever blocks are resident.

**Tags.** Strips of a rectangle hand their edges on through one buffer: H and F of each row, which every strip
reads and overwrites in turn. Each is an int64 of its own: the value, and as its *tag* how many strips have
written it. Strip number s (from 0) waits until it reads the tag s. No fence is needed:

1. memory never tears an aligned int64, so a value comes with its own tag (H and F are tested apart);
2. nothing else is read on the strength of a tag;
3. a word that strip s has read is overwritten by strip s itself and later, with a `syncwarp` between the read
   and the write; so no one reads a value that is too new, and tags only rise. Where there are no more rows,
   the last one is read again, until the strip's last row block, which alone writes it, after all reads that
   count: what the strip begins to read for a row block after its last, or of its next band, is dropped;
4. every tag met before is smaller than s, and nobody but strip s writes a greater one.

**Flags.** A strip's flag in a band counts the rows that its first part has done there; its right edge, and so
all that its lanes have stored of requested rows and columns, is behind by as many rows as the last part is.
The lanes of the warp store these, and what the strip goes on with in the next band, plainly; `syncwarp`
orders that before lane 0's next step, and lane 0 stores the count with *release*, which covers by
cumulativity all that it has seen, the other lanes' stores included. The host fetches what it wants while the
kernel runs; a row block that is swept again (see `replay`) stores the same values once more, without
effect. In the next band the strip waits with *acquire* until it is done in this one, which has an earlier
ticket.

**Aside.** What a warp puts aside of a requested row (see `requested_rows`), its lanes read of one another:
written, then a `syncwarp`, then read; and before any lane writes there again, the `syncwarp` after the row
block.

**Rows.** In the kernel of start states, strips have flags as well, and no tags: before each row block a strip
waits, with *acquire*, for the rows of its left neighbour that it is about to read. All go through one buffer.
A strip overwrites a row of it after it has read the row, and so after its left neighbour has done with it for
good; its right neighbour reads it after it has been published.

**Rests.** A multiprocessor favours some of its warps. A strip that runs far ahead of its right neighbour
takes time from strips that others wait for, and gains nothing: the last strip decides. So now and then it
rests while its neighbour, if a warp has taken that, is more than `MAX_LEAD` row blocks behind what it could
be. Rests are bounded: neither the result nor progress depends on them.

**Stop.** The host sets `stop` from another stream; every warp reads it when it waits, at the end of a strip
and every `REPORT_EVERY` row blocks, and leaves. A warp that leaves stores nothing more, so no
unfinished value is read.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple

import numpy as np

from longalign.backends.cuda.device.ptx import (
    load_acquire,
    load_pair,
    load_relaxed,
    store_pair,
    store_release,
)
from longalign.backends.cuda.device.work_tables import high_of, low_of, pack
from longalign.backends.cuda.numba_api import cuda

ALL_LANES = 0xFFFFFFFF
#: Row blocks between two looks at the right neighbour, and how many it may be behind.
REST_EVERY, MAX_LEAD = 16, 16
#: Row blocks after which a warp tells the host how far it has come, and looks at what the host says, whether
#: it waits or not. A multiple of the others, so that most row blocks end with one look at their number.
REPORT_EVERY = 4 * REST_EVERY

_REST_NANOSECONDS, _MOST_RESTS = np.uint32(1_000), 256

#: Between two looks of a warp that waits.
POLL_NANOSECONDS = np.uint32(20)

#: H and F of a row on a strip's edge, each with its tag.
Tagged = namedtuple("Tagged", "h gap")
#: The same without tags.
Values = namedtuple("Values", "h gap")


@cuda.jit(device=True)
def take_ticket(tickets, lane):
    """The next strip's number, the same in all lanes."""
    ticket = lane  # any number that is in a register: lane 0 alone is heard
    if lane == 0:
        ticket = np.int32(cuda.atomic.add(tickets, 0, 1))
    return cuda.shfl_sync(ALL_LANES, ticket, 0)


@cuda.jit(device=True)
def read_tagged(column, row):
    """H and F of a row as they are now."""
    h, gap = load_pair(column, 2 * row)
    return Tagged(h, gap)


@cuda.jit(device=True)
def untagged(pair):
    """The values alone."""
    return Values(low_of(pair.h), low_of(pair.gap))


@cuda.jit(device=True)
def write_tagged(column, row, h, gap, tag):
    """Hand H and F of a row on."""
    store_pair(column, 2 * row, pack(h, tag), pack(gap, tag))


@cuda.jit(device=True)
def any_missing(first, second, tag):
    """Whether a row of any lane is not ready; the same in all lanes."""
    missing = (
        high_of(first.h) != tag or high_of(first.gap) != tag
        or high_of(second.h) != tag or high_of(second.gap) != tag
    )  # fmt: skip
    return cuda.any_sync(ALL_LANES, missing)


@cuda.jit(device=True)
def stop_requested(stop):
    """What the host says; the same in all lanes."""
    return cuda.any_sync(ALL_LANES, load_relaxed(stop, 0) != 0)


@cuda.jit(device=True)
def load_for_all(array, index):
    """An int32 that others may be changing, the same in all lanes."""
    return cuda.shfl_sync(ALL_LANES, load_relaxed(array, index), 0)


@cuda.jit(device=True)
def let_neighbour_catch_up(column, row, tag, next_ticket, tickets, lane):
    """Rest a while if the right neighbour, though it has begun, is still above a row that carries `tag`."""
    if lane == 0:
        rests = np.int32(0)
        while (
            rests < _MOST_RESTS and high_of(load_pair(column, 2 * row)[0]) == tag
            and next_ticket < load_relaxed(tickets, 0)
        ):  # fmt: skip
            cuda.nanosleep(_REST_NANOSECONDS)
            rests = np.int32(rests + 1)
    cuda.syncwarp()


@cuda.jit(device=True)
def wait_for_band(flags, above, done, stop):
    """Wait until a strip is done in the band above; whether the host says stop instead."""
    stopped = np.int32(0)
    while stopped == 0 and load_acquire(flags, above) < done:
        cuda.nanosleep(POLL_NANOSECONDS)
        stopped = load_relaxed(stop, 0)
    return cuda.any_sync(ALL_LANES, stopped != 0)


@cuda.jit(device=True)
def wait_for_rows(flags, index, rows):
    """Wait until a strip has published so many rows; all lanes together."""
    while load_acquire(flags, index) < rows:
        cuda.nanosleep(POLL_NANOSECONDS)
    cuda.syncwarp()


@cuda.jit(device=True)
def publish_rows(flags, index, rows, lane):
    """Release what the warp has stored of its first `rows` rows, to whoever waits for them."""
    cuda.syncwarp()
    if lane == 0:
        store_release(flags, index, rows)
