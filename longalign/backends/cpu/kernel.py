"""The kernel: one block of a strip, swept by SIMD lanes in numbers of 8, 16 or 32 bits.

A *lane* owns K neighbouring columns, and lanes are staggered: in step t, lane l works on row t - l, so
that what it needs from its left neighbour was finished in the step before. A step is one loop over
all lanes with K cells unrolled in its body, and that loop is what LLVM turns into vectors. For it to
do so,

- lanes are laid out in *reverse*: lane l of a block W lanes wide lies at p = W - 1 - l, so its left
  neighbour is at p + 1, which an ascending loop reads before it overwrites it. The block's own left
  edge is put at p = W, where lane 0 looks for its neighbour;
- all state is one allocation addressed with constant offsets, so no two accesses need an alias check;
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
from longalign.backends.cpu.memory import advance, load, pointer, store
from longalign.recurrence import make_cell

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
    """Where in the state the rows of a kernel lie; each holds one number a lane, `pitch` in all.

    Three rows for each column of a lane (those of column k are k * column_pitch further on), then what
    a lane has once.
    """

    def __init__(self, columns: int, pitch: int) -> None:
        self.h_open, self.e, self.letter = 0, pitch, 2 * pitch
        self.column_pitch = 3 * pitch
        self.last_h_open = (columns - 1) * self.column_pitch
        self.f_out = columns * self.column_pitch
        self.diagonal = self.f_out + pitch
        self.highest = self.f_out + 2 * pitch
        self.threshold = self.f_out + 3 * pitch
        self.size = self.f_out + 4 * pitch


def make_block_sweep(config: KernelConfig) -> Callable[..., bool]:
    """The kernel for one configuration, not compiled yet: `sweep_block` below."""
    family, bits = config.family, config.bits
    tracks = family.track
    columns, group, pitch = family.geometry.columns, family.geometry.group, family.geometry.pitch
    number = getattr(numba.types, f"int{bits}")
    lowest = -(1 << (bits - 1))
    at = Layout(columns, pitch)
    h_open_at, e_at, letter_at, last_h_open_at = at.h_open, at.e, at.letter, at.last_h_open
    column_pitch = at.column_pitch
    f_out_at, diagonal_at, highest_at, threshold_at = at.f_out, at.diagonal, at.highest, at.threshold

    @fuse
    def subtract(x: Any, y: Any) -> Any:
        return number(x - y)

    cell = fuse(make_cell(maximum, subtract, family.local))

    @fuse
    def one_column(
        state: Any, p: int, letter: Any, diagonal: Any, left: Any, f: Any, highest: Any, costs: Any
    ) -> Any:
        """The cell of a lane's first column after `state`; returns what the column to its right needs."""
        match, mismatch, opening, extend, zero = costs
        up = load(state, h_open_at + p)
        paired = number(diagonal + (match if letter == load(state, letter_at + p) else mismatch))
        h, e, f = cell(paired, up, load(state, e_at + p), left, f, extend, zero)
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
    def threshold(best: Any, diagonal: int, base: int, limit: int) -> Any:
        """What a cell must exceed to be looked at, if all from now on are at `diagonal` or beyond.

        The lowest number of the type is below every value (see `widths.py`): it hides nothing.
        """
        tie_counts = 1 if diagonal <= best.i + best.j else 0
        return number(min(max(best.score - tie_counts - base, lowest), limit))

    @inline
    def begin_lane(state: Any, p: int, lane: int, edges: Any, target: Any, frame: Any, job: Any) -> None:
        """Load a lane's columns from the top boundary; columns beyond the rectangle repeat its last.

        E far below H is raised to H - alpha, which changes no value computed from it: the next E is
        max(E - beta, H - alpha - beta) either way. So -infinity there needs no room in the type.
        """
        opening = job.gap_open + job.gap_extend
        for k in range(columns):
            column = lane * columns + k
            above = min(column, frame.cols - 1) + 1
            h = edges.top_h[above]
            gap = max(edges.top_e[above], h - job.gap_open)
            letter = target[frame.target + column] if column < frame.cols else NO_LETTER
            store(state, h_open_at + k * column_pitch + p, number(h - opening - frame.base))
            store(state, e_at + k * column_pitch + p, number(gap - frame.base))
            store(state, letter_at + k * column_pitch + p, number(letter))
        store(state, diagonal_at + p, number(edges.top_h[lane * columns] - opening - frame.base))

    @inline
    def end_lane(state: Any, p: int, lane: int, edges: Any, frame: Any, job: Any) -> None:
        """Store a lane's columns as the bottom boundary."""
        opening = job.gap_open + job.gap_extend
        for k in range(min(columns, frame.cols - lane * columns)):
            below = lane * columns + k + 1
            h_open = load(state, h_open_at + k * column_pitch + p)
            edges.bottom_h[below] = h_open + opening + frame.base
            edges.bottom_e[below] = load(state, e_at + k * column_pitch + p) + frame.base

    @inline
    def note_best(
        state: Any, width: int, step: int, first: int, last: int, frame: Any, job: Any, best: Any
    ) -> bool:
        """Look at the lanes whose highest cell in this step exceeds their threshold.

        False if one exceeds the block's limit: the next row of it might not fit the type.
        """
        opening = job.gap_open + job.gap_extend
        for lane in range(first, last + 1):
            p = width - 1 - lane
            highest = load(state, highest_at + p)
            if highest > frame.limit:
                return False
            if highest > load(state, threshold_at + p):
                i = frame.row + step - lane + 1
                for k in range(min(columns, frame.cols - lane * columns)):
                    j = frame.col + lane * columns + k + 1
                    score = load(state, h_open_at + k * column_pitch + p) + opening + frame.base
                    if outranks(score, i, j, best):
                        best.score, best.i, best.j = score, i, j
        for lane in range(first, last + 1):
            diagonal = frame.row + step - lane + 2 + frame.col + lane * columns + 1
            store(state, threshold_at + width - 1 - lane, threshold(best, diagonal, frame.base, frame.limit))
        return True

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

    def sweep_block(lanes: Any, edges: Any, query: Any, target: Any, frame: Any, job: Any, best: Any) -> bool:
        """Sweep the block `frame` says: bottom and right of `edges` from top and left of them.

        `best` (score, i, j) becomes the best cell if this block holds a better one. Returns False,
        with bottom and right undefined, if a value rose above `frame.limit`; `best` is true even
        then, because every cell seen before that was exact.
        """
        opening = job.gap_open + job.gap_extend
        costs = (
            number(job.match + opening),
            number(job.mismatch + opening),
            number(opening),
            number(job.gap_extend),
            number(max(-frame.base, lowest)),
        )
        used = (frame.cols + columns - 1) // columns
        width = (used + group - 1) // group * group
        right = width - used
        right_columns = frame.cols - (used - 1) * columns
        state, letters = pointer(lanes.state), pointer(lanes.letters)
        left_h, left_f = pointer(lanes.left_h), pointer(lanes.left_f)
        right_h, right_f = pointer(lanes.right_h), pointer(lanes.right_f)
        load_letters_and_left_edge(lanes, edges, query, width, frame, job)
        if tracks:
            for p in range(width):
                store(state, threshold_at + p, number(frame.limit))
        for step in range(frame.rows + used - 1):
            first, last = max(0, step - frame.rows + 1), min(step, used - 1)
            if step < frame.rows:
                store(state, last_h_open_at + width, load(left_h, step))
                store(state, f_out_at + width, load(left_f, step))
            if step < used:
                begin_lane(state, width - 1 - step, step, edges, target, frame, job)
                if tracks:
                    diagonal = frame.row + frame.col + step * columns + 2
                    store(
                        state,
                        threshold_at + width - 1 - step,
                        threshold(best, diagonal, frame.base, frame.limit),
                    )
            edge_left, edge_f = load(state, last_h_open_at + right + 1), load(state, f_out_at + right + 1)
            exceeded = number(0)
            for g in range((width - 1 - last) // group, (width - 1 - first) // group + 1):
                part, part_letters = advance(state, g * group), advance(letters, step + g * group)
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
            if tracks and exceeded and not note_best(state, width, step, first, last, frame, job, best):
                return False
            if step >= used - 1:
                if right_columns == columns:
                    edge_f = load(state, f_out_at + right)
                else:
                    # The last lane's F left it beyond the rectangle: follow F to the right column.
                    for k in range(right_columns):
                        edge_f = cell(edge_left, edge_left, edge_f, edge_left, edge_f, costs[3], costs[4])[2]
                        edge_left = load(state, h_open_at + k * column_pitch + right)
                store(right_h, step - used + 1, load(state, h_open_at + (right_columns - 1) * column_pitch + right))
                store(right_f, step - used + 1, edge_f)
            if step >= frame.rows - 1:
                lane = step - frame.rows + 1
                end_lane(state, width - 1 - lane, lane, edges, frame, job)
                if tracks:
                    store(state, threshold_at + width - 1 - lane, number(frame.limit))
        store_right_edge(lanes, edges, frame, job)
        return True

    return sweep_block
