"""The sweep kernel: one block of a strip, swept by SIMD lanes in numbers of 8, 16 or 32 bits.

A *lane* owns K neighbouring columns. Lanes are staggered: in step t, lane l computes row t - l, so that the
values of its left neighbour were computed in the step before. A step is one loop over all lanes, with the K
cells of a lane unrolled in its body. LLVM vectorises this loop because of the following:

- Lanes are laid out in *reverse*: lane l of a block W lanes wide is at p = W - 1 - l. Its left neighbour is
at
  p + 1, which an ascending loop reads before it overwrites it. The left edge of the block is stored at p = W,
  where lane 0 reads its neighbour.
- The whole state is one allocation addressed with constant offsets, so no alias checks are needed.
- With a substitution matrix, the *profile* of the strip holds the scores of each letter against the columns
of a
  lane side by side. As each lane is at a different row, a step first copies the scores of each lane from the
  profile and transposes them. The scores of column k of all lanes are then adjacent, in the rows that
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
from functools import cache
from typing import Any

import numba

from longalign.backends.cpu.config import KernelConfig
from longalign.backends.cpu.jit import inline_by_llvm, inline_by_numba
from longalign.backends.cpu.raw_memory import advance, load, make_copy, pointer, store
from longalign.backends.substitution_tables import PITCH
from longalign.model.recurrence import make_cell

#: The letter code of columns to the right of the rectangle. No query letter equals it.
NO_LETTER = 7


@inline_by_llvm
def maximum(x: Any, y: Any) -> Any:
    return x if x > y else y


@inline_by_numba
def outranks(score: int, i: int, j: int, best: Any) -> bool:
    """`BestCell.rank`: higher score, then lower anti-diagonal, then further right."""
    if score != best.score:
        return bool(score > best.score)
    if i + j != best.i + best.j:
        return bool(i + j < best.i + best.j)
    return bool(j > best.j)


class StateLayout:
    """Offsets of the rows in the state of a kernel.

    A row holds one number for each lane, and the left edge after the last lane. There are three rows for each
    column of a lane; those of column k are `k * column_pitch` further on. Then follow the rows with one
    number for each lane.
    """

    def __init__(self, columns: int, lanes: int, group: int) -> None:
        pitch = lanes + group
        self.h_open, self.e = 0, pitch
        self.letter = 2 * pitch  # with a substitution matrix, its scores in the current step
        self.column_pitch = 3 * pitch
        self.last_h_open = (columns - 1) * self.column_pitch
        self.f_out = columns * self.column_pitch
        self.diagonal = self.f_out + pitch
        self.highest = self.f_out + 2 * pitch
        self.threshold = self.f_out + 3 * pitch
        self.size = self.f_out + 4 * pitch


def make_block_sweep(config: KernelConfig) -> Callable[..., bool]:
    """The kernel `sweep_block` for one configuration, not yet compiled."""
    bits, columns, group, tracks = config.bits, config.columns, config.group, config.track
    has_matrix, profile_pitch, copy = config.matrix, config.lanes * columns, make_copy(columns)
    number = getattr(numba.types, f"int{bits}")
    lowest, highest_number = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    at = StateLayout(columns, config.lanes, group)
    h_open_at, e_at, letter_at, last_h_open_at = at.h_open, at.e, at.letter, at.last_h_open
    column_pitch = at.column_pitch
    f_out_at, diagonal_at, highest_at, threshold_at = at.f_out, at.diagonal, at.highest, at.threshold

    @inline_by_llvm
    def subtract(x: Any, y: Any) -> Any:
        return number(x - y)

    cell = inline_by_llvm(make_cell(maximum, subtract, config.local))

    @inline_by_llvm
    def pair_score(state: Any, p: int, letter: Any, costs: Any) -> Any:
        """The score, plus alpha + beta, of the row letter and the first column's letter from `state` on."""
        if has_matrix:
            return load(state, letter_at + p)
        return costs[0] if letter == load(state, letter_at + p) else costs[1]

    @inline_by_llvm
    def one_column(
        state: Any, p: int, letter: Any, diagonal: Any, left: Any, f: Any, highest: Any, costs: Any
    ) -> Any:
        """Compute the cell in a lane's first column from `state` on; returns values for the next column."""
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
        """Unroll `count` columns of a lane as two halves, which makes few functions to compile."""
        if count == 1:
            return one_column
        half = count // 2
        left_half, right_half, offset = make_columns(half), make_columns(count - half), half * column_pitch

        @inline_by_llvm
        def columns_of_lane(
            state: Any, p: int, letter: Any, diagonal: Any, left: Any, f: Any, highest: Any, costs: Any
        ) -> Any:
            diagonal, left, f, highest = left_half(state, p, letter, diagonal, left, f, highest, costs)
            right = advance(state, offset)
            return right_half(right, p, letter, diagonal, left, f, highest, costs)

        return columns_of_lane

    all_columns = make_columns(columns)

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
            store(state, threshold_at + p, ties if lane * (columns - 1) <= reach else above)

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
            store(state, h_open_at + k * column_pitch, number(h - opening - block.base))
            store(state, e_at + k * column_pitch, number(max(load(top_e, above), h - gap_open) - block.base))
            if not has_matrix:
                letter = number(load(target, column)) if column < block.cols else number(NO_LETTER)
                store(state, letter_at + k * column_pitch, letter)
        store(state, diagonal_at, number(load(top_h, lane * columns) - opening - block.base))

    @inline_by_numba
    def store_lane(state: Any, lane: int, bottom_h: Any, bottom_e: Any, opening: int, block: Any) -> None:
        """Store the columns of a lane as the bottom boundary; `state` is that of the lane."""
        for k in range(min(columns, block.cols - lane * columns)):
            below = lane * columns + k + 1
            h = load(state, h_open_at + k * column_pitch) + opening + block.base
            store(bottom_h, below, numba.int32(h))
            store(bottom_e, below, numba.int32(load(state, e_at + k * column_pitch) + block.base))

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
                above = load(state, highest_at + p) > load(state, threshold_at + p)
                exceeded = number(1) if above else exceeded
            if not exceeded:
                continue
            for p in range(start, start + group):
                if load(state, highest_at + p) <= load(state, threshold_at + p):
                    continue
                if load(state, highest_at + p) > block.limit:
                    return False
                lane = width - 1 - p
                i = block.row + step - lane + 1
                for k in range(min(columns, block.cols - lane * columns)):
                    j = block.col + lane * columns + k + 1
                    score = load(state, h_open_at + k * column_pitch + p) + opening + block.base
                    if outranks(score, i, j, best):
                        best.score, best.i, best.j = score, i, j
        set_thresholds(state, width, first, last, step + 1, block, best)
        return True

    @inline_by_numba
    def make_profile(profile: Any, matrices: Any, target: Any, width: int, block: Any, job: Any) -> None:
        """Fill the profile of a strip: for each letter, the lanes in state order, each with its columns.

        Columns beyond the rectangle have an arbitrary score of the substitution matrix.
        """
        opening = job.gap_open + job.gap_extend
        for p in range(width):
            for k in range(columns):
                column, at = (width - 1 - p) * columns + k, p * columns + k
                for letter in range(job.letters):
                    score = job.lowest
                    if column < block.cols:
                        score = matrices[job.matrix_at + letter * PITCH + load(target, column)]
                    store(profile, letter * profile_pitch + at, number(score + opening))

    @inline_by_numba
    def load_scores(state: Any, letters: Any, profile: Any, scores: Any) -> None:
        """Load the scores of a group of lanes in this step from the group's part of the profile."""
        for p in range(group):
            row = advance(profile, numba.int64(load(letters, p)) * profile_pitch + p * columns)
            copy(advance(scores, p * columns), row)
        for p in range(group):
            for k in range(columns):
                store(state, letter_at + k * column_pitch + p, load(scores, p * columns + k))

    @inline_by_numba
    def load_letters_and_left_edge(
        lanes: Any, edges: Any, query: Any, width: int, block: Any, job: Any
    ) -> None:
        """Load the query letters and the left edge; F is raised as E is in `load_lane`."""
        opening = job.gap_open + job.gap_extend
        for r in range(block.rows):
            h = edges.left_h[r + 1]
            lanes.letters[width - 1 + r] = number(query[block.query_at + r])
            lanes.left_h[r] = number(h - opening - block.base)
            lanes.left_f[r] = number(max(edges.left_f[r + 1], h - job.gap_open) - block.base)

    @inline_by_numba
    def store_right_edge(lanes: Any, edges: Any, block: Any, job: Any) -> None:
        opening = job.gap_open + job.gap_extend
        for r in range(block.rows):
            edges.right_h[r + 1] = lanes.right_h[r] + opening + block.base
            edges.right_f[r + 1] = lanes.right_f[r] + block.base

    def sweep_block(lanes: Any, edges: Any, inputs: Any, block: Any, job: Any, best: Any) -> bool:
        """Sweep `block`: compute the bottom and right edge in `edges` from the top and left edge.

        `inputs` are the query, the target and the substitution matrices of all jobs. `best` (score, i, j) is
        updated if the block has a better cell. Returns False, with undefined bottom and right edges, if a
        value exceeds `block.limit`. `best` is valid even then, because all cells examined before were exact.
        """
        query, target, matrices = inputs
        gap_open, opening = job.gap_open, job.gap_open + job.gap_extend
        costs = (
            number(job.highest + opening),  # match and mismatch, without a substitution matrix
            number(job.lowest + opening),
            number(opening),
            number(job.gap_extend),
            # The floor of local mode; otherwise a number below every value (see `number_widths`).
            number(max(-block.base, lowest) if job.local else lowest),
        )
        used = (block.cols + columns - 1) // columns
        width = (used + group - 1) // group * group
        right = width - used
        right_columns = block.cols - (used - 1) * columns
        state, letters = pointer(lanes.state), pointer(lanes.letters)
        left_h, left_f = pointer(lanes.left_h), pointer(lanes.left_f)
        right_h, right_f = pointer(lanes.right_h), pointer(lanes.right_f)
        top_h, top_e = pointer(edges.top_h), pointer(edges.top_e)
        bottom_h, bottom_e = pointer(edges.bottom_h), pointer(edges.bottom_e)
        letters_above = advance(pointer(target), block.target_at)
        load_letters_and_left_edge(lanes, edges, query, width, block, job)
        profile, scores = pointer(lanes.profile), pointer(lanes.scores)
        if has_matrix and lanes.profile_ticket[0] != best.ticket:
            make_profile(profile, matrices, letters_above, width, block, job)
            lanes.profile_ticket[0] = best.ticket
        if tracks:
            for p in range(width):
                store(state, threshold_at + p, number(highest_number))
        for step in range(block.rows + used - 1):
            first, last = max(0, step - block.rows + 1), min(step, used - 1)
            if step < block.rows:
                store(state, last_h_open_at + width, load(left_h, step))
                store(state, f_out_at + width, load(left_f, step))
            if step < used:
                lane = advance(state, width - 1 - step)
                load_lane(lane, step, top_h, top_e, letters_above, gap_open, opening, block)
                if tracks:
                    set_thresholds(state, width, step, step, step, block, best)
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
            if tracks and exceeded and not note_best(state, width, first, last, step, opening, block, best):
                return False
            if step >= used - 1:
                if right_columns == columns:
                    edge_f = load(state, f_out_at + right)
                else:
                    # The last lane extends beyond the rectangle, and so does its F: compute F at the last
                    # column.
                    for k in range(right_columns):
                        edge_f = cell(edge_left, edge_left, edge_f, edge_left, edge_f, costs[3], costs[4])[2]
                        edge_left = load(state, h_open_at + k * column_pitch + right)
                store(
                    right_h,
                    step - used + 1,
                    load(state, h_open_at + (right_columns - 1) * column_pitch + right),
                )
                store(right_f, step - used + 1, edge_f)
            if step >= block.rows - 1:
                lane = advance(state, width - 1 - first)
                store_lane(lane, first, bottom_h, bottom_e, opening, block)
                if tracks:
                    store(lane, threshold_at, number(highest_number))
        store_right_edge(lanes, edges, block, job)
        return True

    return sweep_block
