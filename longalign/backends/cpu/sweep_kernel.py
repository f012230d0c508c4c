"""The kernel: one block of a strip, swept by SIMD lanes in numbers of 8, 16 or 32 bits.

A *lane* owns K neighbouring columns, and lanes are staggered: in step t, lane l works on row t - l, so
that what it needs from its left neighbour was finished in the step before. A step is one loop over
all lanes with K cells unrolled in its body, and that loop is what LLVM turns into vectors. For it to
do so,

- lanes are laid out in *reverse*: lane l of a block W lanes wide lies at p = W - 1 - l, so its left
  neighbour is at p + 1, which an ascending loop reads before it overwrites it. The block's own left
  edge is put at p = W, where lane 0 looks for its neighbour;
- all state is one allocation addressed with constant offsets, so no two accesses need an alias check;
- with a matrix, what a letter scores against the columns of a lane lies side by side in the *profile* of the
  strip: as each lane is at another row, a step first copies a piece of it for each lane, and turns them, so
  that the scores of column k of all lanes lie side by side, where else the letters of its columns do;
- every sum is cast back to the narrow type, and every maximum is a conditional expression.

Instead of H the state holds H - alpha - beta, which E below and F to the right both need; a letter
score has alpha + beta added to make up for it. All sums are modulo 2^bits: `widths.py` proves that
the values themselves fit.

Lanes that have not begun, or have finished, or lie right of the rectangle, compute garbage. It flows
only down and to the right, never into a cell of the rectangle: a lane is overwritten with its top
boundary in the step in which it begins, and read out in the step in which it ends; and its threshold
keeps it out of the search for the best cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba

from longalign.backends.cpu.config import KernelConfig
from longalign.backends.cpu.jit import fuse, inline
from longalign.backends.cpu.raw_memory import advance, load, make_copy, pointer, store
from longalign.backends.substitution_tables import PITCH
from longalign.model.recurrence import make_cell

#: The letter of columns right of the rectangle: no query letter equals it.
NO_LETTER = 7


@fuse
def maximum(x: Any, y: Any) -> Any:
    return x if x > y else y


@inline
def outranks(score: int, i: int, j: int, best: Any) -> bool:
    """`BestCell.rank`: higher score, then lower anti-diagonal, then further right."""
    if score != best.score:
        return bool(score > best.score)
    if i + j != best.i + best.j:
        return bool(i + j < best.i + best.j)
    return bool(j > best.j)


class Layout:
    """Where in the state of a kernel its rows lie.

    A row holds one number a lane, and has room for the left edge after the last. There are three rows
    for each column of a lane, those of column k `k * column_pitch` further on, then what a lane has once.
    """

    def __init__(self, columns: int, lanes: int, group: int) -> None:
        pitch = lanes + group
        self.h_open, self.e = 0, pitch
        self.letter = 2 * pitch  # with a matrix, what it scores in the step in hand
        self.column_pitch = 3 * pitch
        self.last_h_open = (columns - 1) * self.column_pitch
        self.f_out = columns * self.column_pitch
        self.diagonal = self.f_out + pitch
        self.highest = self.f_out + 2 * pitch
        self.threshold = self.f_out + 3 * pitch
        self.size = self.f_out + 4 * pitch


def make_block_sweep(config: KernelConfig) -> Callable[..., bool]:
    """The kernel for one configuration, not compiled yet: `sweep_block` below."""
    bits, columns, group, tracks = config.bits, config.columns, config.group, config.track
    has_matrix, profile_pitch, copy = config.matrix, config.lanes * columns, make_copy(columns)
    number = getattr(numba.types, f"int{bits}")
    lowest, highest_number = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    at = Layout(columns, config.lanes, group)
    h_open_at, e_at, letter_at, last_h_open_at = at.h_open, at.e, at.letter, at.last_h_open
    column_pitch = at.column_pitch
    f_out_at, diagonal_at, highest_at, threshold_at = at.f_out, at.diagonal, at.highest, at.threshold

    @fuse
    def subtract(x: Any, y: Any) -> Any:
        return number(x - y)

    cell = fuse(make_cell(maximum, subtract, config.local))

    @fuse
    def pair_score(state: Any, p: int, letter: Any, costs: Any) -> Any:
        """What the letter of a lane's row and of its first column after `state` score, plus alpha + beta."""
        if has_matrix:
            return load(state, letter_at + p)
        return costs[0] if letter == load(state, letter_at + p) else costs[1]

    @fuse
    def one_column(
        state: Any, p: int, letter: Any, diagonal: Any, left: Any, f: Any, highest: Any, costs: Any
    ) -> Any:
        """The cell of a lane's first column after `state`; returns what the column to its right needs."""
        _, _, opening, extend, zero = costs
        up = load(state, h_open_at + p)
        paired = number(diagonal + pair_score(state, p, letter, costs))
        h, e, f, _ = cell(paired, up, load(state, e_at + p), left, f, extend, zero)
        h_open = number(h - opening)
        store(state, h_open_at + p, h_open)
        store(state, e_at + p, e)
        if tracks:
            highest = maximum(highest, h)
        return up, h_open, f, highest

    @cache
    def make_columns(count: int) -> Callable[..., Any]:
        """So many columns of a lane unrolled, as two halves: few functions to compile."""
        if count == 1:
            return one_column
        half = count // 2
        left_half, right_half, offset = make_columns(half), make_columns(count - half), half * column_pitch

        @fuse
        def columns_of_lane(
            state: Any, p: int, letter: Any, diagonal: Any, left: Any, f: Any, highest: Any, costs: Any
        ) -> Any:
            diagonal, left, f, highest = left_half(state, p, letter, diagonal, left, f, highest, costs)
            right = advance(state, offset)
            return right_half(right, p, letter, diagonal, left, f, highest, costs)

        return columns_of_lane

    all_columns = make_columns(columns)

    @inline
    def threshold(score: int, frame: Any) -> Any:
        """What a cell must exceed to be looked at, if only more than `score` or the limit matters.

        The lowest number of the type is below every value (see `widths.py`): it hides nothing.
        """
        return number(min(max(score - frame.base, lowest), frame.limit))

    @inline
    def set_thresholds(
        state: Any, width: int, first: int, last: int, step: int, frame: Any, best: Any
    ) -> None:
        """The thresholds of lanes first..last from `step` on: ties matter where they could outrank `best`.

        The lowest anti-diagonal that a lane still reaches is the one of its first column, in `step`.
        """
        above, ties = threshold(best.score, frame), threshold(best.score - 1, frame)
        reach = best.i + best.j - (frame.row + frame.col + step + 2)
        for p in range(width - 1 - last, width - first):
            lane = width - 1 - p
            store(state, threshold_at + p, ties if lane * (columns - 1) <= reach else above)

    @inline
    def begin_lane(
        state: Any, lane: int, top_h: Any, top_e: Any, target: Any, gap_open: int, opening: int, frame: Any
    ) -> None:
        """Load the columns of a lane from the top boundary; those beyond the rectangle repeat its last.

        `state` is that of the lane. E far below H is raised to H - alpha, which changes no value
        computed from it: the next E is max(E - beta, H - alpha - beta) either way. So -infinity there
        needs no room in the type.
        """
        for k in range(columns):
            column = lane * columns + k
            above = min(column, frame.cols - 1) + 1
            h = load(top_h, above)
            store(state, h_open_at + k * column_pitch, number(h - opening - frame.base))
            store(state, e_at + k * column_pitch, number(max(load(top_e, above), h - gap_open) - frame.base))
            if not has_matrix:
                letter = number(load(target, column)) if column < frame.cols else number(NO_LETTER)
                store(state, letter_at + k * column_pitch, letter)
        store(state, diagonal_at, number(load(top_h, lane * columns) - opening - frame.base))

    @inline
    def end_lane(state: Any, lane: int, bottom_h: Any, bottom_e: Any, opening: int, frame: Any) -> None:
        """Store the columns of a lane as the bottom boundary; `state` is that of the lane."""
        for k in range(min(columns, frame.cols - lane * columns)):
            below = lane * columns + k + 1
            h = load(state, h_open_at + k * column_pitch) + opening + frame.base
            store(bottom_h, below, numba.int32(h))
            store(bottom_e, below, numba.int32(load(state, e_at + k * column_pitch) + frame.base))

    @inline
    def note_best(
        state: Any, width: int, first: int, last: int, step: int, opening: int, frame: Any, best: Any
    ) -> bool:
        """Look at the lanes whose highest cell in this step exceeds their threshold.

        False if one exceeds the block's limit: the next row of it might not fit the type.
        """
        for start in range(0, width, group):
            exceeded = number(0)
            for p in range(start, start + group):
                above = load(state, highest_at + p) > load(state, threshold_at + p)
                exceeded = number(1) if above else exceeded
            if not exceeded:
                continue
            for p in range(start, start + group):
                if load(state, highest_at + p) <= load(state, threshold_at + p):
                    continue
                if load(state, highest_at + p) > frame.limit:
                    return False
                lane = width - 1 - p
                i = frame.row + step - lane + 1
                for k in range(min(columns, frame.cols - lane * columns)):
                    j = frame.col + lane * columns + k + 1
                    score = load(state, h_open_at + k * column_pitch + p) + opening + frame.base
                    if outranks(score, i, j, best):
                        best.score, best.i, best.j = score, i, j
        set_thresholds(state, width, first, last, step + 1, frame, best)
        return True

    @inline
    def make_profile(profile: Any, matrices: Any, target: Any, width: int, frame: Any, job: Any) -> None:
        """The profile of a strip: of each letter, the lanes as they lie, and of each the columns in order.

        Beyond the rectangle any score will do that a matrix might have.
        """
        opening = job.gap_open + job.gap_extend
        for p in range(width):
            for k in range(columns):
                column, at = (width - 1 - p) * columns + k, p * columns + k
                for letter in range(job.letters):
                    score = job.lowest
                    if column < frame.cols:
                        score = matrices[job.matrix + letter * PITCH + load(target, column)]
                    store(profile, letter * profile_pitch + at, number(score + opening))

    @inline
    def load_scores(state: Any, letters: Any, profile: Any, scores: Any) -> None:
        """What the letters of a group of lanes score in this step, from its part of the profile."""
        for p in range(group):
            row = advance(profile, numba.int64(load(letters, p)) * profile_pitch + p * columns)
            copy(advance(scores, p * columns), row)
        for p in range(group):
            for k in range(columns):
                store(state, letter_at + k * column_pitch + p, load(scores, p * columns + k))

    @inline
    def load_letters_and_left_edge(
        lanes: Any, edges: Any, query: Any, width: int, frame: Any, job: Any
    ) -> None:
        """The block's query letters and left boundary in the kernel's numbers; F as E in `begin_lane`."""
        opening = job.gap_open + job.gap_extend
        for r in range(frame.rows):
            h = edges.left_h[r + 1]
            lanes.letters[width - 1 + r] = number(query[frame.query + r])
            lanes.left_h[r] = number(h - opening - frame.base)
            lanes.left_f[r] = number(max(edges.left_f[r + 1], h - job.gap_open) - frame.base)

    @inline
    def store_right_edge(lanes: Any, edges: Any, frame: Any, job: Any) -> None:
        opening = job.gap_open + job.gap_extend
        for r in range(frame.rows):
            edges.right_h[r + 1] = lanes.right_h[r] + opening + frame.base
            edges.right_f[r + 1] = lanes.right_f[r] + frame.base

    def sweep_block(lanes: Any, edges: Any, given: Any, frame: Any, job: Any, best: Any) -> bool:
        """Sweep the block `frame` says: bottom and right of `edges` from top and left of them.

        `given` are the query, the target and the matrices of all jobs.

        `best` (score, i, j) becomes the best cell if this block holds a better one. Returns False,
        with bottom and right undefined, if a value rose above `frame.limit`; `best` is true even
        then, because every cell seen before that was exact.
        """
        query, target, matrices = given
        gap_open, opening = job.gap_open, job.gap_open + job.gap_extend
        costs = (
            number(job.highest + opening),  # match and mismatch where there is no matrix
            number(job.lowest + opening),
            number(opening),
            number(job.gap_extend),
            # The floor; without one in this rectangle, what is below every value (see `widths.py`).
            number(max(-frame.base, lowest) if job.local else lowest),
        )
        used = (frame.cols + columns - 1) // columns
        width = (used + group - 1) // group * group
        right = width - used
        right_columns = frame.cols - (used - 1) * columns
        state, letters = pointer(lanes.state), pointer(lanes.letters)
        left_h, left_f = pointer(lanes.left_h), pointer(lanes.left_f)
        right_h, right_f = pointer(lanes.right_h), pointer(lanes.right_f)
        top_h, top_e = pointer(edges.top_h), pointer(edges.top_e)
        bottom_h, bottom_e = pointer(edges.bottom_h), pointer(edges.bottom_e)
        letters_above = advance(pointer(target), frame.target)
        load_letters_and_left_edge(lanes, edges, query, width, frame, job)
        profile, scores = pointer(lanes.profile), pointer(lanes.scores)
        if has_matrix and lanes.profiled[0] != best.ticket:
            make_profile(profile, matrices, letters_above, width, frame, job)
            lanes.profiled[0] = best.ticket
        if tracks:
            for p in range(width):
                store(state, threshold_at + p, number(highest_number))
        for step in range(frame.rows + used - 1):
            first, last = max(0, step - frame.rows + 1), min(step, used - 1)
            if step < frame.rows:
                store(state, last_h_open_at + width, load(left_h, step))
                store(state, f_out_at + width, load(left_f, step))
            if step < used:
                lane = advance(state, width - 1 - step)
                begin_lane(lane, step, top_h, top_e, letters_above, gap_open, opening, frame)
                if tracks:
                    set_thresholds(state, width, step, step, step, frame, best)
            edge_left, edge_f = load(state, last_h_open_at + right + 1), load(state, f_out_at + right + 1)
            exceeded = number(0)
            for g in range((width - 1 - last) // group, (width - 1 - first) // group + 1):
                part, part_letters = advance(state, g * group), advance(letters, step + g * group)
                if has_matrix:
                    load_scores(part, part_letters, advance(profile, g * group * columns), scores)
                for p in range(group):
                    left, f = load(part, last_h_open_at + p + 1), load(part, f_out_at + p + 1)
                    diagonal_h = load(part, diagonal_at + p)
                    store(part, diagonal_at + p, left)
                    _, _, f, highest = all_columns(
                        part, p, load(part_letters, p), diagonal_h, left, f, number(lowest), costs
                    )
                    store(part, f_out_at + p, f)
                    if tracks:
                        store(part, highest_at + p, highest)
                        exceeded = number(1) if highest > load(part, threshold_at + p) else exceeded
            if tracks and exceeded and not note_best(state, width, first, last, step, opening, frame, best):
                return False
            if step >= used - 1:
                if right_columns == columns:
                    edge_f = load(state, f_out_at + right)
                else:
                    # The last lane's F left it beyond the rectangle: follow F to the right column.
                    for k in range(right_columns):
                        edge_f = cell(edge_left, edge_left, edge_f, edge_left, edge_f, costs[3], costs[4])[2]
                        edge_left = load(state, h_open_at + k * column_pitch + right)
                store(
                    right_h,
                    step - used + 1,
                    load(state, h_open_at + (right_columns - 1) * column_pitch + right),
                )
                store(right_f, step - used + 1, edge_f)
            if step >= frame.rows - 1:
                lane = advance(state, width - 1 - first)
                end_lane(lane, first, bottom_h, bottom_e, opening, frame)
                if tracks:
                    store(lane, threshold_at, number(highest_number))
        store_right_edge(lanes, edges, frame, job)
        return True

    return sweep_block
