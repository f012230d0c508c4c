"""Where the best cell is: a warp sweeps without looking, and repeats the one row block in which it must be.

A look at every row would be a branch that nothing can overlap. So a row block says only how high it has come.
What a warp needs to sweep it again is kept on one of two *buffers* of the warp's memory: before, or, where
there are registers to hold it meanwhile, when the row block has come high. If the row block is higher than
all before it, it becomes the strip's *candidate*, and the other buffer is used from then on: along an
alignment each row block supersedes the one before. If it comes as high as what is known, or could tie with it
and come first, candidate and row block are repeated at once, row by row, with a look at each cell. At the end
of the strip the candidate is repeated, unless another strip has come higher.

Where scores are high, a row block watches every second row only. A gap leads from any cell of the others to
the one below, which is lower by no more than the *slack*, alpha + beta; so a row block may be higher by that
than it says. It is superseded only by one that is higher than that can be, and noticed as soon as it comes
within the slack of what is known. Then the row blocks that follow watch all rows, as many row blocks along an
alignment come near to the one before; and so do all where scores are low.

What is repeated writes the same values to the same places once more, or none.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.best_cell import Best, best_of_warp, no_best
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.ptx import load_relaxed, load_shared, store_shared
from longalign.backends.cuda.device.strip_state import make_state_store
from longalign.backends.cuda.device.sync import ALL_LANES, load_for_all
from longalign.backends.cuda.numba_api import cuda

#: Row blocks that watch all rows after one that has come near what is known.
WATCHED_BLOCKS = np.int32(64)

#: In units of the slack: where no letters are alike but by chance, scores stay below, and row blocks come
#: near the best of them all the time.
_HIGH = 32

#: In place of a candidate's first row: there is no candidate.
NO_BLOCK = np.int32(-1)

#: What a strip is to repeat before it goes on.
REPLAY_NOTHING, REPLAY_NEWEST, REPLAY_CANDIDATE, REPLAY_BOTH = map(np.int32, range(4))

#: The state of a strip's search for its best cell: the best cell so far; which of the two snapshot buffers is
#: free; the first row of the candidate block, or NO_BLOCK; what is to be replayed; by how much the candidate
#: may be higher than its score says; the row from which blocks may again watch every second row only; and the
#: highest score that any strip of the rectangle has reported.
BestSearch = namedtuple("BestSearch", "best buffer candidate to_replay slack watch_until best_elsewhere")


def make_replay(config: KernelConfig) -> tuple[Any, Any, Any, Any]:
    """Device functions that keep what a lane needs to sweep a row block again, its left edge included, in
    `memory`, from `at` on; that hold it in registers, and keep what has been held; and that recall it."""
    block_rows, loads, words = config.block_rows, -(-config.block_rows // LANES), config.state_words * LANES
    (store, load), arithmetic = make_state_store(config), ARITHMETIC[config.numbers]
    store_link, load_link = arithmetic.store_link, arithmetic.load_link
    columns, slot_bytes, link_words = config.columns, config.slot_bytes, config.link_words
    full = config.block_rows % LANES == 0

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
        """Beyond the row block, that of its last row."""
        nearest = slot if full else min(slot, np.int32(block_rows - 1))
        return load_shared(inbox, np.int32(inbox_at + slot_bytes * nearest))

    @cuda.jit(device=True)
    def hold_block(opened, e, held, e_held, lane, inbox, inbox_at):
        """Returns two links, the same twice where a lane has one."""
        for k in range(columns):
            held[k], e_held[k] = opened[k], e[k]
        first = read_link(inbox, inbox_at, lane)
        return first, read_link(inbox, inbox_at, np.int32(lane + LANES)) if loads > 1 else first

    @cuda.jit(device=True)
    def save_held_block(memory, at, lane, held, e_held, strip_state, links):
        first, second = links
        if full or lane < block_rows:
            store_link(memory, at + words + link_words * lane, first)
        if loads > 1 and (full or lane + LANES < block_rows):
            store_link(memory, at + words + link_words * (lane + LANES), second)
        store(memory, at, lane, held, e_held, strip_state)

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
    """A device function that says whether a row block exceeds its threshold, and the highest score of its
    watched cells if so (0 if none is positive), the same in all lanes."""
    arithmetic, halves = ARITHMETIC[config.numbers], np.int32(config.halves)
    part, value = arithmetic.part, arithmetic.value

    @cuda.jit(device=True)
    def score(highest, threshold, costs, base):
        found, exceeds = np.int32(0), cuda.any_sync(ALL_LANES, highest != threshold)
        if exceeds:
            for half in range(halves):
                if part(highest, half) != part(threshold, half):
                    found = max(found, np.int32(value(highest, half, base) + costs.opening))
            distance = LANES // 2
            while distance > 0:
                found = max(found, cuda.shfl_down_sync(ALL_LANES, found, distance))
                distance //= 2
            found = cuda.shfl_sync(ALL_LANES, found, 0)
        return exceeds, found

    return score


@cuda.jit(device=True)
def is_high(score, costs):
    """Whether few row blocks come within the slack of a score that has been seen; the same in all lanes."""
    return cuda.any_sync(ALL_LANES, score > _HIGH * costs.opening)


@cuda.jit(device=True)
def best_in_block(score, start, first_of_strip, block_rows, strip_width):
    """A best cell of which only the row block is known."""
    return Best(score, np.int32(start + block_rows + 1), np.int32(first_of_strip + strip_width + 1))


def make_begin_search(config: KernelConfig) -> Any:
    """A device function for the search at the beginning of a strip."""
    track_best = config.track_best

    @cuda.jit(device=True)
    def begin_search(best_scores, job):
        zero = np.int32(0)
        best_elsewhere = load_relaxed(best_scores, job) if track_best else zero
        return BestSearch(no_best(), zero, NO_BLOCK, REPLAY_NOTHING, zero, zero, best_elsewhere)

    return begin_search


@cuda.jit(device=True)
def with_best_elsewhere(search, score):
    """The search, given the highest score that any strip of the rectangle has reported."""
    return BestSearch(
        search.best, search.buffer, search.candidate, search.to_replay, search.slack, search.watch_until,
        score,
    )  # fmt: skip


@cuda.jit(device=True)
def after_replay(search, best):
    """The search after a replay, in which lanes have found `best`."""
    to_replay = REPLAY_NEWEST if search.to_replay == REPLAY_BOTH else REPLAY_NOTHING
    return BestSearch(
        best_of_warp(best), search.buffer, NO_BLOCK, to_replay, np.int32(0), search.watch_until,
        search.best_elsewhere,
    )  # fmt: skip


def make_after_high_block(config: KernelConfig) -> Any:
    """A device function for the search after a row block that has exceeded its threshold.

    If the block is higher than all before it, it becomes the candidate; otherwise it is to be replayed.
    """
    block_rows, strip_width = config.block_rows, config.strip_width

    @cuda.jit(device=True)
    def after_high_block(search, score, slack_of_block, start, strips, strip, best_scores, job, lane):
        best, buffer, candidate = search.best, search.buffer, search.candidate
        to_replay, slack = search.to_replay, search.slack
        watch_until = np.int32(start + block_rows + WATCHED_BLOCKS * block_rows)
        if score > best.score + slack:
            first_of_strip = strips[strip, work_tables.FIRST_COLUMN]
            best = best_in_block(score, start, first_of_strip, block_rows, strip_width)
            candidate, buffer, slack = start, np.int32(1 - buffer), slack_of_block
            if lane == 0:
                cuda.atomic.max(best_scores, job, score)
        else:
            to_replay = REPLAY_BOTH if candidate != NO_BLOCK else REPLAY_NEWEST
        return BestSearch(best, buffer, candidate, to_replay, slack, watch_until, search.best_elsewhere)

    return after_high_block


@cuda.jit(device=True)
def after_strip(search, best_scores, job):
    """The search at the end of a strip that has a candidate, which is replayed unless it has been beaten."""
    best, to_replay = search.best, search.to_replay
    if best.score + search.slack >= load_for_all(best_scores, job):
        to_replay = REPLAY_CANDIDATE
    else:
        best = no_best()
    return BestSearch(
        best, search.buffer, search.candidate, to_replay, search.slack, search.watch_until,
        search.best_elsewhere,
    )  # fmt: skip
