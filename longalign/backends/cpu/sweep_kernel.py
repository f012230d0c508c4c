"""The sweep kernel: one block of a strip, swept by SIMD lanes in numbers of 8, 16 or 32 bits.

A *lane* owns K neighbouring columns. Lanes are staggered: in step t, lane l computes row t - l, so that the
values of its left neighbour were computed in the step before. A step is one loop over all lanes, with the K
cells of a lane unrolled in its body. LLVM vectorises this loop because of the following:

- Lanes are laid out in *reverse*: lane l of a block W lanes wide is at p = W - 1 - l. Its left neighbour is
  at p + 1, which an ascending loop reads before it overwrites it. The left edge of the block is stored at
  p = W, where lane 0 reads its neighbour.
- The whole state is one allocation addressed with constant offsets, so no alias checks are needed.
- With a substitution matrix, the *profile* of the strip holds the scores of each letter against the columns
  of a lane side by side. As each lane is at a different row, a step first copies the scores of each lane from
  the profile and transposes them. The scores of column k of all lanes are then adjacent, in the rows that
  otherwise hold the letters of the columns.
- Every sum is cast back to the narrow type, and every maximum is a conditional expression.

Instead of H the state holds H - alpha - beta, which E below and F to the right both need. In return alpha +
beta is added to the scores of letter pairs. Sums are modulo 2^bits; `number_widths` proves that the values
fit.

Lanes that have not started, have finished, or lie to the right of the rectangle compute meaningless values.
These propagate only down and to the right, and never into a cell of the rectangle: a lane is overwritten with
its top boundary in the step in which it starts, and its results are read in the step in which it ends. Its
threshold excludes it from the search for the best cell at all other times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba

from longalign.backends.cpu.config import KernelConfig
from longalign.backends.cpu.jit import inline_by_llvm, inline_by_numba
from longalign.backends.cpu.lanes import lane_counts, maximum, unroll_columns
from longalign.backends.cpu.raw_memory import advance, load, make_copy, pointer, store
from longalign.backends.substitution_tables import PITCH
from longalign.model import recurrence

#: The letter code of columns to the right of the rectangle. No query letter equals it.
NO_LETTER = 7


outranks: Any = inline_by_numba(recurrence.outranks)


class StateLayout(NamedTuple):
    """Offsets of the rows in the state of a kernel.

    A row holds one number for each lane, and the left edge after the last lane. There are three rows for each
    column of a lane; those of column k are `k * column_pitch` further on. Then follow the rows with one
    number for each lane.
    """

    h_open: int
    e: int
    letter: int  # with a substitution matrix, its scores in the current step
    column_pitch: int
    last_h_open: int
    f_out: int
    diagonal: int
    highest: int
    threshold: int
    size: int

    @classmethod
    def of(cls, columns: int, lanes: int, group: int) -> StateLayout:
        pitch = lanes + group
        f_out = 3 * columns * pitch
        return cls(
            h_open=0,
            e=pitch,
            letter=2 * pitch,
            column_pitch=3 * pitch,
            last_h_open=3 * (columns - 1) * pitch,
            f_out=f_out,
            diagonal=f_out + pitch,
            highest=f_out + 2 * pitch,
            threshold=f_out + 3 * pitch,
            size=f_out + 4 * pitch,
        )


class _Numbers(NamedTuple):
    """The number type of a kernel as Numba's type, its lowest and its highest number, and the layout."""

    number: Any
    lowest: int
    highest: int
    at: StateLayout

    @classmethod
    def of(cls, config: KernelConfig) -> _Numbers:
        half = 1 << (config.bits - 1)
        layout = StateLayout.of(config.columns, config.lanes, config.group)
        return cls(getattr(numba.types, f"int{config.bits}"), -half, half - 1, layout)


def _make_cell(config: KernelConfig) -> Any:
    """The recurrence in the numbers of a kernel."""
    number, *_ = _Numbers.of(config)

    @inline_by_llvm
    def subtract(x: Any, y: Any) -> Any:
        return number(x - y)

    return inline_by_llvm(recurrence.make_cell(maximum, subtract, config.local))


def _make_columns(config: KernelConfig, cell: Any) -> Callable[..., Any]:
    """The function that computes the cells of all columns of a lane in one row."""
    (number, *_, at), has_matrix, tracks = _Numbers.of(config), config.matrix, config.track

    @inline_by_llvm
    def pair_score(state: Any, p: int, letter: Any, costs: Any) -> Any:
        """The score, plus alpha + beta, of the row letter and the first column's letter from `state` on."""
        if has_matrix:
            return load(state, at.letter + p)
        return costs[0] if letter == load(state, at.letter + p) else costs[1]

    @inline_by_llvm
    def one_column(state: Any, p: int, letter: Any, carried: Any, costs: Any) -> Any:
        """Compute the cell in a lane's first column from `state` on; returns values for the next column."""
        diagonal, left, f, highest = carried
        _, _, opening, extend, zero = costs
        up = load(state, at.h_open + p)
        paired = number(diagonal + pair_score(state, p, letter, costs))
        h, e, f, _ = cell(paired, up, load(state, at.e + p), left, f, extend, zero)
        h_open = number(h - opening)
        store(state, at.h_open + p, h_open)
        store(state, at.e + p, e)
        if tracks:
            highest = maximum(highest, h)
        return up, h_open, f, highest

    return unroll_columns(one_column, config.columns, at.column_pitch)


def _make_search(config: KernelConfig) -> tuple[Callable[..., None], Callable[..., bool]]:
    """The functions `set_thresholds` and `note_best`, which find the best cell."""
    columns, group, (number, lowest, _, at) = config.columns, config.group, _Numbers.of(config)

    @inline_by_numba
    def threshold(score: int, block: Any) -> Any:
        """The number that a cell's H must exceed to be examined: the lower of `score` and the block's limit.

        If `score` is below the type, the threshold is the lowest number, which is below every value (see
        `number_widths`), so that every cell is examined.
        """
        return number(min(max(score - block.base, lowest), block.limit))

    @inline_by_numba
    def set_thresholds(
        state: Any, width: int, first: int, last: int, step: int, block: Any, best: Any
    ) -> None:
        """Set the thresholds of lanes first..last from `step` on. A tie counts where it could outrank `best`.

        The lowest anti-diagonal that a lane reaches from now on is that of its first column in `step`.
        """
        above, ties = threshold(best.score, block), threshold(best.score - 1, block)
        reach = best.i + best.j - (block.row + block.col + step + 2)
        for p in range(width - 1 - last, width - first):
            lane = width - 1 - p
            store(state, at.threshold + p, ties if lane * (columns - 1) <= reach else above)

    @inline_by_numba
    def examine_lane(state: Any, lane: int, p: int, step: int, opening: int, block: Any, best: Any) -> None:
        """Update `best` if a cell that the lane at p has computed in this step outranks it."""
        i = block.row + step - lane + 1
        for k in range(min(columns, block.cols - lane * columns)):
            j = block.col + lane * columns + k + 1
            score = load(state, at.h_open + k * at.column_pitch + p) + opening + block.base
            if outranks(score, i, j, best.score, best.i, best.j):
                best.score, best.i, best.j = score, i, j

    @inline_by_numba
    def note_best(
        state: Any, width: int, first: int, last: int, step: int, opening: int, block: Any, best: Any
    ) -> bool:
        """Examine the lanes whose highest cell in this step exceeds their threshold, and update `best`.

        Returns False if a cell exceeds the block's limit: the next row might not fit the type.
        """
        for start in range(0, width, group):
            exceeded = number(0)
            for p in range(start, start + group):
                above = load(state, at.highest + p) > load(state, at.threshold + p)
                exceeded = number(1) if above else exceeded
            if not exceeded:
                continue
            for p in range(start, start + group):
                if load(state, at.highest + p) <= load(state, at.threshold + p):
                    continue
                if load(state, at.highest + p) > block.limit:
                    return False
                examine_lane(state, width - 1 - p, p, step, opening, block, best)
        set_thresholds(state, width, first, last, step + 1, block, best)
        return True

    return set_thresholds, note_best


def _make_profile(config: KernelConfig) -> tuple[Callable[..., None], Callable[..., None]]:
    """The functions `make_profile` and `load_scores`, for a substitution matrix."""
    columns, group, (number, *_, at) = config.columns, config.group, _Numbers.of(config)
    profile_pitch, copy = config.lanes * columns, make_copy(columns)

    @inline_by_numba
    def make_profile(profile: Any, matrices: Any, target: Any, width: int, block: Any, job: Any) -> None:
        """Fill the profile of a strip: for each letter, the lanes in state order, each with its columns.

        Columns beyond the rectangle have an arbitrary score of the substitution matrix.
        """
        opening = job.gap_open + job.gap_extend
        for p in range(width):
            for k in range(columns):
                column, place = (width - 1 - p) * columns + k, p * columns + k
                for letter in range(job.letters):
                    score = job.lowest
                    if column < block.cols:
                        score = matrices[job.matrix_at + letter * PITCH + load(target, column)]
                    store(profile, letter * profile_pitch + place, number(score + opening))

    @inline_by_numba
    def load_scores(state: Any, letters: Any, profile: Any, scores: Any) -> None:
        """Load the scores of a group of lanes in this step from the group's part of the profile."""
        for p in range(group):
            row = advance(profile, numba.int64(load(letters, p)) * profile_pitch + p * columns)
            copy(advance(scores, p * columns), row)
        for p in range(group):
            for k in range(columns):
                store(state, at.letter + k * at.column_pitch + p, load(scores, p * columns + k))

    return make_profile, load_scores


def _make_top_and_bottom(config: KernelConfig) -> tuple[Callable[..., None], Callable[..., None]]:
    """The functions `load_lane` and `store_lane`, for the top and the bottom boundary of a lane."""
    columns, (number, *_, at), has_matrix = config.columns, _Numbers.of(config), config.matrix

    @inline_by_numba
    def load_lane(
        state: Any, lane: int, top_h: Any, top_e: Any, target: Any, gap_open: int, opening: int, block: Any
    ) -> None:
        """Load the columns of a lane from the top boundary; columns beyond the rectangle repeat its last one.

        `state` is that of the lane. An E below H - alpha is raised to H - alpha. This changes no result,
        because the next E is max(E - beta, H - alpha - beta) in either case, and minus infinity need not fit
        the type.
        """
        for k in range(columns):
            column = lane * columns + k
            above = min(column, block.cols - 1) + 1
            h = load(top_h, above)
            store(state, at.h_open + k * at.column_pitch, number(h - opening - block.base))
            e = max(load(top_e, above), h - gap_open)
            store(state, at.e + k * at.column_pitch, number(e - block.base))
            if not has_matrix:
                letter = number(load(target, column)) if column < block.cols else number(NO_LETTER)
                store(state, at.letter + k * at.column_pitch, letter)
        store(state, at.diagonal, number(load(top_h, lane * columns) - opening - block.base))

    @inline_by_numba
    def store_lane(state: Any, lane: int, bottom_h: Any, bottom_e: Any, opening: int, block: Any) -> None:
        """Store the columns of a lane as the bottom boundary; `state` is that of the lane."""
        for k in range(min(columns, block.cols - lane * columns)):
            below = lane * columns + k + 1
            h = load(state, at.h_open + k * at.column_pitch) + opening + block.base
            store(bottom_h, below, numba.int32(h))
            store(bottom_e, below, numba.int32(load(state, at.e + k * at.column_pitch) + block.base))

    return load_lane, store_lane


def _make_left_and_right(config: KernelConfig, cell: Any) -> tuple[Callable[..., None], ...]:
    """The functions for the left and the right edge of a block.

    `load_rows` and `store_rows` convert between `BlockEdges` and `LaneBuffers`; `load_left` and `store_right`
    move the cell of one row between `LaneBuffers` and the state.
    """
    columns, (number, *_, at) = config.columns, _Numbers.of(config)

    @inline_by_numba
    def load_rows(lanes: Any, edges: Any, query: Any, width: int, block: Any, job: Any) -> None:
        """Load the query letters and the left edge; F is raised as E is in `load_lane`."""
        opening = job.gap_open + job.gap_extend
        for r in range(block.rows):
            h = edges.left_h[r + 1]
            lanes.letters[width - 1 + r] = number(query[block.query_at + r])
            lanes.left_h[r] = number(h - opening - block.base)
            lanes.left_f[r] = number(max(edges.left_f[r + 1], h - job.gap_open) - block.base)

    @inline_by_numba
    def store_rows(lanes: Any, edges: Any, block: Any, job: Any) -> None:
        """Store the right edge."""
        opening = job.gap_open + job.gap_extend
        for r in range(block.rows):
            edges.right_h[r + 1] = lanes.right_h[r] + opening + block.base
            edges.right_f[r + 1] = lanes.right_f[r] + block.base

    @inline_by_numba
    def load_left(lanes: Any, state: Any, width: int, row: int) -> None:
        store(state, at.last_h_open + width, load(pointer(lanes.left_h), row))
        store(state, at.f_out + width, load(pointer(lanes.left_f), row))

    @inline_by_numba
    def store_right(
        lanes: Any, state: Any, last_lane: int, last_columns: int, row: int, left: Any, f: Any, costs: Any
    ) -> None:
        """Store the right end of a row from the last lane, which is at `last_lane` of the state.

        `last_columns` of its columns are in the rectangle. If that is not all, the F of the lane is beyond
        the rectangle. F at the rectangle's last column is then computed from `left` and `f`, the values to
        the left of the lane.
        """
        if last_columns == columns:
            f = load(state, at.f_out + last_lane)
        else:
            for k in range(last_columns):
                f = cell(left, left, f, left, f, costs[3], costs[4])[2]
                left = load(state, at.h_open + k * at.column_pitch + last_lane)
        h_open = load(state, at.h_open + (last_columns - 1) * at.column_pitch + last_lane)
        store(pointer(lanes.right_h), row, h_open)
        store(pointer(lanes.right_f), row, f)

    return load_rows, store_rows, load_left, store_right


def _make_step(config: KernelConfig, cell: Any, load_scores: Callable[..., None]) -> Callable[..., Any]:
    """The function `advance_groups`: one step of the lanes that are on a cell of the block."""
    columns, group, (number, lowest, _, at) = config.columns, config.group, _Numbers.of(config)
    has_matrix, tracks, all_columns = config.matrix, config.track, _make_columns(config, cell)

    @inline_by_numba
    def advance_groups(
        lanes: Any, state: Any, width: int, first: int, last: int, step: int, costs: Any
    ) -> Any:
        """Compute the next row of lanes first..last, by whole groups.

        Returns 1 if the highest cell of any of these lanes exceeds the lane's threshold, otherwise 0.
        """
        exceeded = number(0)
        for g in range((width - 1 - last) // group, (width - 1 - first) // group + 1):
            part = advance(state, g * group)
            letters = advance(pointer(lanes.letters), step + g * group)
            if has_matrix:
                profile = advance(pointer(lanes.profile), g * group * columns)
                load_scores(part, letters, profile, pointer(lanes.scores))
            for p in range(group):
                left, f = load(part, at.last_h_open + p + 1), load(part, at.f_out + p + 1)
                carried = load(part, at.diagonal + p), left, f, number(lowest)
                store(part, at.diagonal + p, left)
                _, _, f, highest = all_columns(part, p, load(letters, p), carried, costs)
                store(part, at.f_out + p, f)
                if tracks:
                    store(part, at.highest + p, highest)
                    exceeded = number(1) if highest > load(part, at.threshold + p) else exceeded
        return exceeded

    return advance_groups


def make_block_sweep(config: KernelConfig) -> Callable[..., bool]:
    """The kernel `sweep_block` for one configuration, not yet compiled."""
    columns, group, tracks, has_matrix = config.columns, config.group, config.track, config.matrix
    number, lowest, highest, at = _Numbers.of(config)
    cell = _make_cell(config)
    set_thresholds, note_best = _make_search(config)
    make_profile, load_scores = _make_profile(config)
    load_lane, store_lane = _make_top_and_bottom(config)
    load_rows, store_rows, load_left, store_right = _make_left_and_right(config, cell)
    advance_groups = _make_step(config, cell, load_scores)

    @inline_by_numba
    def costs_of(block: Any, job: Any) -> Any:
        """Match and mismatch plus alpha + beta (unused with a matrix), alpha + beta, beta, and the floor.

        The floor is the 0 of local mode, or else a number below every value (see `number_widths`).
        """
        opening = job.gap_open + job.gap_extend
        floor = max(-block.base, lowest) if job.local else lowest
        return (
            number(job.highest + opening),
            number(job.lowest + opening),
            number(opening),
            number(job.gap_extend),
            number(floor),
        )

    def sweep_block(lanes: Any, edges: Any, inputs: Any, block: Any, job: Any, position: Any) -> bool:
        """Sweep `block`: compute the bottom and right edge in `edges` from the top and left edge.

        `inputs` are the query, the target and the substitution matrices of all jobs. `position` is the
        thread's `POSITION`. Its ticket tells whether the profile is that of this strip. Its best cell (score,
        i, j) is updated if the block has a better one. Returns False, with undefined bottom and right edges,
        if a value exceeds `block.limit`. The best cell is valid even then, because all cells examined before
        were exact.
        """
        query, target, matrices = inputs
        gap_open, opening = job.gap_open, job.gap_open + job.gap_extend
        costs = costs_of(block, job)
        used, width = lane_counts(block.cols, columns, group)
        last_lane, last_columns = width - used, block.cols - (used - 1) * columns
        state = pointer(lanes.state)
        top_h, top_e = pointer(edges.top_h), pointer(edges.top_e)
        bottom_h, bottom_e = pointer(edges.bottom_h), pointer(edges.bottom_e)
        letters_above = advance(pointer(target), block.target_at)
        load_rows(lanes, edges, query, width, block, job)
        if has_matrix and lanes.profile_ticket[0] != position.ticket:
            make_profile(pointer(lanes.profile), matrices, letters_above, width, block, job)
            lanes.profile_ticket[0] = position.ticket
        if tracks:
            for p in range(width):
                store(state, at.threshold + p, number(highest))
        for step in range(block.rows + used - 1):
            first, last = max(0, step - block.rows + 1), min(step, used - 1)
            if step < block.rows:
                load_left(lanes, state, width, step)
            if step < used:
                lane = advance(state, width - 1 - step)
                load_lane(lane, step, top_h, top_e, letters_above, gap_open, opening, block)
                if tracks:
                    set_thresholds(state, width, step, step, step, block, position)
            left, f = load(state, at.last_h_open + last_lane + 1), load(state, at.f_out + last_lane + 1)
            exceeded = advance_groups(lanes, state, width, first, last, step, costs)
            if (
                tracks
                and exceeded
                and not note_best(state, width, first, last, step, opening, block, position)
            ):
                return False
            if step >= used - 1:
                store_right(lanes, state, last_lane, last_columns, step - used + 1, left, f, costs)
            if step >= block.rows - 1:
                lane = advance(state, width - 1 - first)
                store_lane(lane, first, bottom_h, bottom_e, opening, block)
                if tracks:
                    store(lane, at.threshold, number(highest))
        store_rows(lanes, edges, block, job)
        return True

    return sweep_block
