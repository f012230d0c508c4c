"""The sweep kernel: warps take strips of a work list and sweep them from top to bottom.

Lane l of a warp owns `columns` neighbouring columns and works on row t - l in step t, so that what it
needs from its left, it gets from lane l - 1 by a shuffle. Lane 0 gets it from the strip to the left, a
batch of rows at a time, and lane 31 leaves the right edge for the strip to the right.

A lane keeps, for each of its columns, *opened* = H - alpha - beta instead of H: E below and F to the right
need it, and the diagonal does as well when alpha + beta is added to the letter scores once and for all.
Order is not changed by a constant, so the best cell is found among opened values too.

A strip that is narrower than a warp leaves lanes empty or part empty at its *right*. They hand on what
they are given: lane 31 always has the right edge, and nothing there can be the best cell.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64, uint8

from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.layout import pack, packed_gap, packed_h
from longalign.backends.cuda.letters import LETTER_SCORES
from longalign.backends.cuda.sync import ALL_LANES, publish_rows, take_ticket, wait_for_rows
from longalign.recurrence import make_cell
from longalign.scoring import NEG_INF

#: Batches between two updates of the progress counter: often enough for a display, rare for the memory.
_PROGRESS_EVERY = 64

LAST_LANE = LANES - 1

#: The types of a kernel's arguments, all C-contiguous arrays.
SIGNATURE = (
    int64[:, ::1], int32[:, ::1], uint8[::1], uint8[::1], int64[::1], int64[::1], int32[::1],
    int32[::1], int32[::1], int32[::1], int64[::1], int64[::1], int64[::1], int32[:, ::1],
)  # fmt: skip


@cuda.jit(device=True)
def _maximum(x, y):
    return max(x, y)


@cuda.jit(device=True)
def _subtract(x, y):
    return np.int32(x - y)


def _make_row(config: KernelConfig, masked: bool) -> Any:
    """A device function that advances one lane by one row; `masked` for lanes that are not full."""
    columns = config.columns
    cell = cuda.jit(device=True)(make_cell(_maximum, _subtract, config.local))
    add_score = LETTER_SCORES[config.letters].add

    @cuda.jit(device=True)
    def advance(
        opened, e, letters, width, letter, diagonal, open_left, f_left,
        background, match, mismatch, opening, extend,
    ):  # fmt: skip
        """Returns opened and F at the right edge, and the highest opened value of the row."""
        highest = np.int32(NEG_INF)
        for k in range(columns):
            if not masked or k < width:
                open_up = opened[k]
                h, e[k], f_left = cell(
                    add_score(diagonal, letters[k], letter, background, match, mismatch),
                    open_up, e[k], open_left, f_left, extend, np.int32(0),
                )  # fmt: skip
                diagonal = open_up
                open_left = _subtract(h, opening)
                opened[k] = open_left
                highest = max(highest, open_left)
        return open_left, f_left, highest

    return advance


@cuda.jit(device=True)
def _ranks_higher(score, i, j, than_score, than_i, than_j):
    """`BestCell.rank`: score, then lowest anti-diagonal, then rightmost."""
    if score != than_score:
        return score > than_score
    if i + j != than_i + than_j:
        return i + j < than_i + than_j
    return j > than_j


@cuda.jit(device=True)
def _best_of_warp(score, i, j):
    """The highest-ranking cell of all lanes, in lane 0."""
    distance = LANES // 2
    while distance > 0:
        other_score = cuda.shfl_down_sync(ALL_LANES, score, distance)
        other_i = cuda.shfl_down_sync(ALL_LANES, i, distance)
        other_j = cuda.shfl_down_sync(ALL_LANES, j, distance)
        if _ranks_higher(other_score, other_i, other_j, score, i, j):
            score, i, j = other_score, other_i, other_j
        distance //= 2
    return score, i, j


def _make_loader(config: KernelConfig) -> Any:
    """A device function that loads a lane's columns from the top boundary and the target."""
    columns = config.columns
    column_letter = LETTER_SCORES[config.letters].column

    @cuda.jit(device=True)
    def load(opened, e, letters, width, top, top_at, target, target_at, opening, match, mismatch):
        """Returns opened above and left of the first cell; what lies beyond `width` can never be best."""
        for k in range(columns):
            opened[k] = np.int32(NEG_INF)
            e[k] = np.int32(NEG_INF)
            letters[k] = np.int32(0)
            if k < width:
                value = top[top_at + k + 1]
                opened[k] = _subtract(packed_h(value), opening)
                e[k] = packed_gap(value)
                letters[k] = column_letter(target[target_at + k], match, mismatch)
        if width > 0:
            return _subtract(packed_h(top[top_at]), opening)
        return np.int32(NEG_INF)

    return load


@cuda.jit(device=True)
def _first_of_value(values, columns, value):
    """The lowest index of a value that is there."""
    found = np.int32(0)
    for k in range(columns):
        if values[columns - 1 - k] == value:
            found = np.int32(columns - 1 - k)
    return found


@cuda.jit(device=True)
def _store_row(row_out, at, opened, e, columns, width, opening):
    """Write a lane's part of a wanted row."""
    for k in range(columns):
        if k < width:
            row_out[at + k] = pack(np.int32(opened[k] + opening), e[k])


def build_kernel(config: KernelConfig) -> Any:
    """The kernel of a configuration, compiled at its first launch.

    Launch it with blocks of 32 x `config.warps` threads, as many as are resident, and the arguments of
    `worklist.WorkList` and `memory.DeviceBuffers`.
    """
    columns, batch = config.columns, config.batch
    track_best, slots = config.track_best, config.warps * config.batch
    letter_scores = LETTER_SCORES[config.letters]
    row_letter, background_of = letter_scores.row, letter_scores.background
    load = _make_loader(config)
    advance_full = _make_row(config, masked=False)
    advance_masked = _make_row(config, masked=True)

    @cuda.jit
    def sweep(
        jobs, strips, query, target, top, column, wanted_rows,
        flags, tickets, stop, progress, row_out, col_out, best,
    ):  # fmt: skip
        lane = np.int32(cuda.threadIdx.x % LANES)
        # Each warp has its own part of the mailboxes, a slot for every row of a batch (an unsigned index
        # spares numba's test for negative ones).
        mailbox = np.uint32(cuda.threadIdx.x // LANES * batch)
        mailbox_end = np.uint32(mailbox + batch)
        own_slot = np.uint32(mailbox + lane)
        inbox = cuda.shared.array(slots, int64)
        inbox_letters = cuda.shared.array(slots, int64)
        outbox = cuda.shared.array(slots, int64)
        opened = cuda.local.array(columns, int32)
        e = cuda.local.array(columns, int32)
        letters = cuda.local.array(columns, int32)

        strip = take_ticket(tickets, lane)
        while strip < strips.shape[0]:
            job = strips[strip, layout.JOB]
            rows = np.int32(jobs[job, layout.ROWS])
            query_at = jobs[job, layout.QUERY_AT]
            column_at = jobs[job, layout.COLUMN_AT] + 1
            opening = np.int32(jobs[job, layout.OPENING])
            extend = np.int32(jobs[job, layout.EXTEND])
            match = np.int32(jobs[job, layout.MATCH] + opening)
            mismatch = np.int32(jobs[job, layout.MISMATCH] + opening)
            background = background_of(mismatch)
            flag = strips[strip, layout.FLAG]
            wanted_column = strips[strip, layout.WANTED_COLUMN]
            col_out_at = jobs[job, layout.COL_OUT_AT] + np.int64(wanted_column) * rows

            # This lane's columns: `width` of them, after the first `first` columns of the rectangle.
            strip_width = strips[strip, layout.WIDTH]
            full = strip_width == columns * LANES
            width = np.int32(min(max(strip_width - lane * columns, 0), columns))
            first = np.int32(strips[strip, layout.FIRST_COLUMN] + lane * columns)
            top_at = jobs[job, layout.TOP_AT] + first
            target_at = jobs[job, layout.TARGET_AT] + first
            diagonal = load(
                opened, e, letters, width, top, top_at, target, target_at, opening, match, mismatch
            )

            wanted_at = jobs[job, layout.WANTED_AT]
            wanted_row = wanted_rows[wanted_at]
            row_out_at = jobs[job, layout.ROW_OUT_AT] + first
            best_open, best_i, best_j = np.int32(1 - opening), np.int32(0), np.int32(0)
            open_right, f_right, letter = np.int32(0), np.int32(0), np.int32(0)
            row = np.int32(-lane)
            published = np.int32(0)
            reported = np.int32(0)
            batches = np.int32((rows + LAST_LANE + batch - 1) // batch)
            for turn in range(batches):
                start = np.int32(turn * batch)
                if not wait_for_rows(flags, flag, min(rows, np.int32(start + batch)), stop, lane):
                    return
                if lane < batch and start + lane < rows:
                    value = column[column_at + start + lane]
                    inbox[own_slot] = pack(_subtract(packed_h(value), opening), packed_gap(value))
                    inbox_letters[own_slot] = row_letter(query[query_at + start + lane])
                cuda.syncwarp()

                slot = mailbox
                while slot < mailbox_end:
                    open_left = cuda.shfl_up_sync(ALL_LANES, open_right, 1)
                    f_left = cuda.shfl_up_sync(ALL_LANES, f_right, 1)
                    letter = cuda.shfl_up_sync(ALL_LANES, letter, 1)
                    value = inbox[slot]
                    first_letter = np.int32(inbox_letters[slot])
                    if lane == 0:
                        open_left = packed_h(value)
                        f_left = packed_gap(value)
                        letter = first_letter
                    if row >= 0 and row < rows:
                        if full:
                            open_right, f_right, highest = advance_full(
                                opened, e, letters, width, letter, diagonal, open_left, f_left,
                                background, match, mismatch, opening, extend,
                            )  # fmt: skip
                        else:
                            open_right, f_right, highest = advance_masked(
                                opened, e, letters, width, letter, diagonal, open_left, f_left,
                                background, match, mismatch, opening, extend,
                            )  # fmt: skip
                        diagonal = open_left
                        if track_best and highest >= best_open:
                            i = np.int32(row + 1)
                            j = np.int32(first + _first_of_value(opened, columns, highest) + 1)
                            if best_j == 0 or _ranks_higher(highest, i, j, best_open, best_i, best_j):
                                best_open, best_i, best_j = highest, i, j
                        if row + 1 == wanted_row:
                            _store_row(row_out, row_out_at, opened, e, columns, width, opening)
                            wanted_at += 1
                            wanted_row = wanted_rows[wanted_at]
                            row_out_at += jobs[job, layout.COLS]
                    row = np.int32(row + 1)
                    if lane == LAST_LANE:
                        outbox[slot] = pack(np.int32(open_right + opening), f_right)
                    slot = np.uint32(slot + 1)
                cuda.syncwarp()

                right_row = start + lane - LAST_LANE
                if lane < batch and right_row >= 0 and right_row < rows:
                    value = outbox[own_slot]
                    column[column_at + right_row] = value
                    if wanted_column >= 0:
                        col_out[col_out_at + right_row] = value
                published = min(rows, max(np.int32(0), np.int32(start + batch - LAST_LANE)))
                publish_rows(flags, flag + 1, published, lane)
                if lane == 0 and ((turn + 1) % _PROGRESS_EVERY == 0 or turn + 1 == batches):
                    cuda.atomic.add(progress, 0, np.int64(published - reported) * strip_width)
                    reported = published

            if track_best:
                if best_j == 0:
                    best_open = np.int32(-opening)
                score, best_i, best_j = _best_of_warp(np.int32(best_open + opening), best_i, best_j)
                if lane == 0:
                    best[strip, layout.BEST_SCORE] = score
                    best[strip, layout.BEST_I] = best_i
                    best[strip, layout.BEST_J] = best_j
            strip = take_ticket(tickets, lane)

    return sweep
