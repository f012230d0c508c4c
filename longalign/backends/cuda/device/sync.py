"""Synchronisation between warps, and with the host: tickets, tags, flags, and the order of memory accesses.

**Tickets.** In the list of strips, each strip comes after its left neighbour and after itself in the band
above. Warps take strips in the order of the list, by an atomic counter; the position of a strip in the list
is its *ticket*. A warp waits only for these two strips. Their tickets are earlier, so a warp that is already
running holds or has finished them. The warp with the earliest unfinished ticket never waits. Hence there is
always progress, whatever blocks are resident.

**Tags.** The strips of a rectangle pass their edges on through one buffer, which holds H and F of each row.
Each strip in turn reads and overwrites it. H and F of a row are an int64 each: the value, and a *tag*, which
is the number of strips that have written this word. Strip number s (from 0) waits until it reads tag s. No
fence is needed:

1. Memory never tears an aligned int64, so a value comes with its own tag. The tags of H and F are tested
   separately.
2. A tag vouches for its own word only. Nothing else is read because a tag has been seen.
3. A strip never reads a value that is too new, and tags only rise: a word that strip s reads is overwritten
   by strip s itself, later. No lane writes a row before all lanes have read their rows: each lane tests the
   tags that it has read, and goes on by a vote of all lanes on these tests (`any_missing`). In place of rows
   beyond the rectangle, its last row is read again. Only the last row block of a strip writes that row, after
   all reads that count. What a strip begins to read for a row block after its last one, or for its next band,
   is discarded.
4. Until tag s appears, strip s reads smaller tags only. The next greater tag is written by strip s itself.

**Flags.** A strip has a flag in each band, which counts the rows that its first part has swept in the band.
Its right edge lags behind this count by the lag of its last part, and so do the requested rows and columns
that its lanes have stored. The lanes use plain stores for these, and for the state with which the strip
continues in the next band. A `syncwarp` orders the stores before lane 0's next step. Lane 0 then stores the
count with *release*. By cumulativity, the release covers everything that lane 0 has observed, including the
stores of the other lanes. The host fetches requested rows and columns while the kernel runs, flags first, by
copies in another stream. CUDA does not promise that a copy sees what GPU threads see, but both go through the
L2 cache of the GPU, and a copy begins after the one before it has ended. A replay (see `replay`) stores the
same values once more, without effect. In the next band the strip waits with *acquire* until it has finished
this band.

**Row buffers.** The lanes of a warp read one another's part of its row buffer (see `requested_rows`). A
`syncwarp` separates the writes from the reads, and the `syncwarp` after the row block separates the reads
from the next writes.

**Rows.** In the kernel of start states, strips have flags but no tags. Before each row block, a strip waits
with *acquire* for the rows of its left neighbour that it is about to read. All strips of a rectangle share
one buffer of rows. A strip overwrites a row after it has read the row, and so after its left neighbour has
used the row for the last time. Its right neighbour reads the row after it has been published.

**Rests.** A multiprocessor favours some of its warps. A strip that runs far ahead of its right neighbour
takes time from strips that others wait for. It gains nothing, because the last strip decides when the sweep
ends. Every `REST_EVERY` row blocks a strip therefore rests while its right neighbour, if a warp has taken it,
is more than `MAX_LEAD` row blocks behind where it could be. Rests are bounded, so neither the result nor
progress depends on them.

**Stop.** The host sets `stop` of a sweep through another stream. Every warp reads it while it waits, at the
end of a strip and every `REPORT_EVERY` row blocks, and exits if it is set. A warp that exits stores nothing
more, so no unfinished value is read. The kernel of start states is not stopped.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple

import numpy as np

from longalign.backends.cuda.config import LANES
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
#: The number of row blocks between two checks of the right neighbour, and the number that it may be behind.
REST_EVERY, MAX_LEAD = 16, 16
#: The number of row blocks after which a warp reports its progress to the host and reads `stop`, even if it
#: does not wait. It is a multiple of `REST_EVERY`, so most row blocks end with a single test of their number.
REPORT_EVERY = 4 * REST_EVERY

_REST_NANOSECONDS, _MAX_RESTS = np.uint32(1_000), 256

#: The pause of a waiting warp between two polls.
POLL_NANOSECONDS = np.uint32(20)

#: H and F of a row on a strip's edge, each an int64 with its tag.
Tagged = namedtuple("Tagged", "h gap")
#: H and F of a row on a strip's edge, each an int32.
Values = namedtuple("Values", "h gap")


@cuda.jit(device=True)
def take_ticket(tickets, lane):
    """The ticket of the next strip to sweep, the same in all lanes."""
    ticket = lane  # an arbitrary register: only the value of lane 0 is used
    if lane == 0:
        ticket = np.int32(cuda.atomic.add(tickets, 0, 1))
    return cuda.shfl_sync(ALL_LANES, ticket, 0)


@cuda.jit(device=True)
def from_left(own, loaded, step, lane):
    """The value `own` of the lane to the left. The first lane gets the value `loaded` of lane `step`."""
    beside, edge = cuda.shfl_up_sync(ALL_LANES, own, 1), cuda.shfl_sync(ALL_LANES, loaded, step)
    return edge if lane == 0 else beside


@cuda.jit(device=True)
def highest_of_warp(value):
    """The highest value of all lanes, in every lane."""
    distance = LANES // 2
    while distance > 0:
        value = max(value, cuda.shfl_down_sync(ALL_LANES, value, distance))
        distance //= 2
    return cuda.shfl_sync(ALL_LANES, value, 0)


@cuda.jit(device=True)
def read_tagged(column, row):
    """H and F of a row as they are now, whatever their tags."""
    h, gap = load_pair(column, 2 * row)
    return Tagged(h, gap)


@cuda.jit(device=True)
def untagged(pair):
    """The values of a `Tagged`, as `Values`."""
    return Values(low_of(pair.h), low_of(pair.gap))


@cuda.jit(device=True)
def write_tagged(column, row, h, gap, tag):
    """Pass H and F of a row on to the strip that waits for `tag`."""
    store_pair(column, 2 * row, pack(h, tag), pack(gap, tag))


@cuda.jit(device=True)
def any_missing(first, second, tag):
    """Whether a value of any lane's two rows does not carry `tag` yet; the same in all lanes."""
    missing = (
        high_of(first.h) != tag or high_of(first.gap) != tag
        or high_of(second.h) != tag or high_of(second.gap) != tag
    )  # fmt: skip
    return cuda.any_sync(ALL_LANES, missing)


@cuda.jit(device=True)
def stop_requested(stop):
    """Whether the host has set `stop`; the same in all lanes."""
    return cuda.any_sync(ALL_LANES, load_relaxed(stop, 0) != 0)


@cuda.jit(device=True)
def load_for_all(array, index):
    """An int32 that other warps may be changing, the same in all lanes."""
    return cuda.shfl_sync(ALL_LANES, load_relaxed(array, index), 0)


@cuda.jit(device=True)
def let_neighbour_catch_up(column, row, tag, next_ticket, tickets, lane):
    """Rest, for a bounded time, while the right neighbour has been taken but has not passed `row`.

    That is the case while the row still carries `tag`, which this strip has written.
    """
    if lane == 0:
        rests = np.int32(0)
        while (
            rests < _MAX_RESTS and high_of(load_pair(column, 2 * row)[0]) == tag
            and next_ticket < load_relaxed(tickets, 0)
        ):  # fmt: skip
            cuda.nanosleep(_REST_NANOSECONDS)
            rests = np.int32(rests + 1)
    cuda.syncwarp()


@cuda.jit(device=True)
def wait_for_band(flags, above, done, stop):
    """Wait until a strip has finished the band above. Returns whether the host has set `stop` instead.

    `above` is the index of the strip's flag in that band, and `done` the value of the flag at its end.
    """
    stopped = np.int32(0)
    while stopped == 0 and load_acquire(flags, above) < done:
        cuda.nanosleep(POLL_NANOSECONDS)
        stopped = load_relaxed(stop, 0)
    return cuda.any_sync(ALL_LANES, stopped != 0)


@cuda.jit(device=True)
def wait_for_rows(flags, index, rows):
    """Wait until a strip has published `rows` rows; all lanes together."""
    while load_acquire(flags, index) < rows:
        cuda.nanosleep(POLL_NANOSECONDS)
    cuda.syncwarp()


@cuda.jit(device=True)
def publish_rows(flags, index, rows, lane):
    """Publish the first `rows` rows: release what the warp has stored, and set the strip's flag."""
    cuda.syncwarp()
    if lane == 0:
        store_release(flags, index, rows)
