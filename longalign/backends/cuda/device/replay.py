"""The search for the best cell: the sweep finds its row block, and a *replay* of that block finds the cell.

A test of each row for a new best cell would need a branch, and no other work can overlap with that branch. A
row block therefore reports only its highest opened value. If this value exceeds the threshold, a warp may
have to replay the row block: to sweep it again, row by row, testing each cell.

**Snapshots.** A replay starts from a snapshot: the state of the lanes and the left edge of the row block, as
they were before its sweep. Each warp has two snapshot buffers in device memory. The snapshot of a row block
is written before its sweep. In kernels with enough registers (`KernelConfig.snapshot_in_registers`) it is
held in registers instead, and written only if the row block exceeds its threshold.

**Candidates.** A row block that is higher than all earlier ones of its strip becomes the strip's *candidate*.
Its snapshot is kept, and later row blocks use the other buffer. Along an alignment each row block thus
supersedes the candidate, without any replay. A row block may exceed its threshold without being higher: it
reaches the best known score, or a cell of it could tie with this score and rank first. Then the candidate and
this row block are replayed at once. At the end of the strip the candidate is replayed, unless another strip
has reported a higher score.

**Alternate rows.** Where scores are high, a row block may watch only the second row of each step. From any
cell of the first row, a gap leads to the cell below it in the second row. That cell is lower by at most the
*slack*, alpha + beta. Hence the row block contains no cell that is higher than its reported score plus the
slack. Two rules follow. A candidate is superseded only by a row block that is higher than the candidate's
score plus its slack. And the threshold of a row block is lower by its slack, so that a row block counts as
soon as it comes within the slack of the best known score. The next `WATCHED_BLOCKS` row blocks then watch all
rows, since along an alignment many row blocks come close to the one before. Where scores are low, all row
blocks watch all rows.

**No floor.** Nothing here needs the floor of local mode. A best cell has a positive score, and the first
threshold is that of the score 0. A threshold may lie outside the 16 bits above the base. The nearer end of
this range then stands for it (`number_formats`): no value exceeds the upper end, and all values exceed the
lower end, since every value lies above the base (`packed_range`).

A replay writes the same values to the same places as the sweep did, or writes nothing.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.best_cell import Best, best_of_warp, no_best
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.ptx import load_shared, store_shared
from longalign.backends.cuda.device.strip_state import make_state_store
from longalign.backends.cuda.device.sync import ALL_LANES, highest_of_warp, load_for_all
from longalign.backends.cuda.numba_api import cuda, jit_inlined

#: The number of row blocks that watch all rows after a row block that exceeded its threshold.
WATCHED_BLOCKS = np.int32(64)

#: Scores above this multiple of the slack are high. Unrelated sequences score less, and their row blocks come
#: close to the best known score all the time.
_HIGH = 32

#: Stands for the first row of the candidate if there is no candidate.
NO_BLOCK = np.int32(-1)

#: What a strip must replay before it continues. Of both, the candidate comes first.
REPLAY_NOTHING, REPLAY_NEWEST, REPLAY_CANDIDATE, REPLAY_BOTH = map(np.int32, range(4))

# The state of a strip's search for its best cell is in these variables of the kernel.
# `best`: the best cell so far, as `Best`.
# `buffer`: the snapshot buffer, 0 or 1, for the next snapshot. The other one holds the candidate's, if any.
# `candidate`: the row at which the first part begins the candidate, or NO_BLOCK.
# `to_replay`: one of REPLAY_NOTHING, ...
# `slack`: the most by which the candidate may be higher than its reported score.
# `watch_until`: the row from which row blocks may again watch alternate rows only.
# `best_elsewhere`: the highest score that any strip of the rectangle has reported.


def make_replay(config: KernelConfig) -> tuple[Any, Any, Any, Any]:
    """Device functions for the snapshot of a row block, which consists of the lanes' state and the left edge.

    `save_block` writes the snapshot to `memory`, from index `at` on. `hold_block` keeps it in registers, and
    `save_held_block` writes what `hold_block` has kept. `restore_block` reads it back: the columns into
    `opened` and `e`, the left edge into the inbox. It returns the `StripState`.
    """
    block_rows, loads, words = config.block_rows, config.rows_per_lane, config.state_words * LANES
    (store, load), arithmetic = make_state_store(config), ARITHMETIC[config.numbers]
    store_link, load_link = arithmetic.store_link, arithmetic.load_link
    columns, slot_bytes, link_words = config.columns, config.slot_bytes, config.link_words
    full = config.fills_lanes

    @cuda.jit(device=True)
    def save_block(memory, at, lane, opened, e, strip_state, inbox, inbox_at):
        store(memory, at, lane, opened, e, strip_state)
        for k in range(loads):
            slot = np.int32(k * LANES + lane)
            if slot < block_rows:
                link = load_shared(inbox, np.int32(inbox_at + slot_bytes * slot))
                store_link(memory, at + words + link_words * slot, link)

    @cuda.jit(device=True)
    def read_link(inbox, inbox_at, slot):
        """The link in a slot. For slots beyond the row block it is that of the block's last row."""
        nearest = slot if full else min(slot, np.int32(block_rows - 1))
        return load_shared(inbox, np.int32(inbox_at + slot_bytes * nearest))

    @cuda.jit(device=True)
    def hold_block(opened, e, held, e_held, lane, inbox, inbox_at):
        """Copies the columns to `held` and `e_held`. Returns the lane's two links of the left edge.

        They are the same link where each lane has only one row of the row block.
        """
        for k in range(columns):
            held[k], e_held[k] = opened[k], e[k]
        first = read_link(inbox, inbox_at, lane)
        return first, read_link(inbox, inbox_at, np.int32(lane + LANES)) if loads > 1 else first

    @cuda.jit(device=True)
    def save_held_block(memory, at, lane, held, e_held, strip_state, links):
        first, second = links
        # The state is stored before the links. In the other order, NVVM of CUDA 13.0 stores it at wrong
        # addresses where row blocks have as many rows as a warp has lanes (`test_row_blocks_of_any_height`).
        store(memory, at, lane, held, e_held, strip_state)
        if full or lane < block_rows:
            store_link(memory, at + words + link_words * lane, first)
        if loads > 1 and (full or lane + LANES < block_rows):
            store_link(memory, at + words + link_words * (lane + LANES), second)

    @cuda.jit(device=True)
    def restore_block(memory, at, lane, opened, e, inbox, inbox_at):
        for k in range(loads):
            slot = np.int32(k * LANES + lane)
            if slot < block_rows:
                link = load_link(memory, at + words + link_words * slot)
                store_shared(inbox, np.int32(inbox_at + slot_bytes * slot), link)
        return load(memory, at, lane, opened, e)

    return save_block, hold_block, save_held_block, restore_block


def make_score(config: KernelConfig) -> Any:
    """A device function that returns whether a row block exceeds its threshold, and the highest score.

    That is the highest score of the watched cells that exceed the threshold, or 0 if none is positive. Both
    results are the same in all lanes.
    """
    arithmetic, halves = ARITHMETIC[config.numbers], np.int32(config.halves)
    part, value = arithmetic.part, arithmetic.value

    @cuda.jit(device=True)
    def score(highest, threshold, costs, base):
        found, exceeds = np.int32(0), cuda.any_sync(ALL_LANES, highest != threshold)
        if exceeds:
            for half in range(halves):
                if part(highest, half) != part(threshold, half):
                    found = max(found, np.int32(value(highest, half, base) + costs.opening))
            found = highest_of_warp(found)
        return exceeds, found

    return score


@cuda.jit(device=True)
def is_high(score, costs):
    """Whether a score is so high that few row blocks come within the slack of it; the same in all lanes."""
    return cuda.any_sync(ALL_LANES, score > _HIGH * costs.opening)


@cuda.jit(device=True)
def best_in_block(score, start, first_of_strip, block_rows, strip_width):
    """A best cell of which only the row block is known: i and j are beyond all cells of the row block."""
    return Best(score, np.int32(start + block_rows + 1), np.int32(first_of_strip + strip_width + 1))


@jit_inlined
def after_replay(best, to_replay):
    """The search after a replay in which each lane has found its `best` cell.

    Returns `best`, `candidate`, `slack` and `to_replay`.
    """
    best = best_of_warp(best)
    return best, NO_BLOCK, np.int32(0), REPLAY_NEWEST if to_replay == REPLAY_BOTH else REPLAY_NOTHING


def make_after_high_block(config: KernelConfig) -> Any:
    """A device function that returns the search after a row block that has exceeded its threshold.

    A row block that is higher than all earlier ones becomes the candidate. Any other must be replayed.
    """
    block_rows, strip_width = config.block_rows, config.strip_width

    @jit_inlined
    def after_high_block(
        best, buffer, candidate, slack, to_replay, score, slack_of_block, start, strips, strip, best_scores,
        job, lane,
    ):  # fmt: skip
        """Returns the first five arguments as they are then."""
        if score > best.score + slack:
            first_of_strip = strips[strip, work_tables.FIRST_COLUMN]
            best = best_in_block(score, start, first_of_strip, block_rows, strip_width)
            candidate, buffer, slack = start, np.int32(1 - buffer), slack_of_block
            if lane == 0:
                cuda.atomic.max(best_scores, job, score)
        else:
            to_replay = REPLAY_BOTH if candidate != NO_BLOCK else REPLAY_NEWEST
        return best, buffer, candidate, slack, to_replay

    return after_high_block


@jit_inlined
def after_strip(best, slack, to_replay, best_scores, job):
    """The search at the end of a strip that has a candidate: `best` and `to_replay`.

    The candidate must be replayed, unless another strip has reported a higher score than it can contain.
    """
    if best.score + slack >= load_for_all(best_scores, job):
        to_replay = REPLAY_CANDIDATE
    else:
        best = no_best()
    return best, to_replay
