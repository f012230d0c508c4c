"""The sweep kernel: warps take strips of a work list and sweep them from top to bottom.

**Parts.** A strip has one part for each number of the warp: one a lane, or two where numbers are packed, the
first in the low half. Part p owns `columns` neighbouring columns. In step t it works on rows 2(t - p) and
2(t - p) + 1. What it needs from its left was therefore finished in the step before: it comes from lane l - 1
by a shuffle, or from the other half of the lane. The first part gets it from the strip to the left, one row
block at a time, and the last part leaves the right edge for the strip to the right.

**Opened values.** For each of its columns a lane keeps *opened* = H - alpha - beta instead of H. E below and
F to the right need it, and so does the diagonal when alpha + beta is added to the letter scores beforehand. A
constant does not change the order, so the best cell is found among opened values too.

**The right end.** Parts do not stop at a narrow strip's end. They sweep on beyond it, where there are no
letters and a pair scores at most -alpha - beta. No cell there outranks all the true ones: the best path to it
leaves the strip at some (i, j). Each step from there on, a gap or such a pair, takes it no higher than
H(i', j) in the row i' that it has reached, on a lower anti-diagonal. If a strip ends inside a part and its
right edge is needed, it is *ragged*: the edge is found after each row.

**The upper and lower ends.** In local mode, where letters can be left out (`letter_scores.has_blank_rows`),
parts do not stop at the first and the last row either: they sweep through rows without letters. Below the
rectangle the left edge continues with its last value, and the argument above holds for rows. Above it H is 0
if paths begin all along the top edge, and after any number of such rows a part holds its initial values, or
equivalent ones. Otherwise a part keeps its columns until it starts: such row blocks are MASKED, and slower.
Where only the first blocks of some rectangles need this, they share the code of MASKED_STORES_ROW. `replay`
finds out where the best cell is.

`experiments/README.md` lists what was tried in this kernel and left out.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64, uint8

from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.best_cell import make_threshold, no_best
from longalign.backends.cuda.device.block_kinds import (
    EXCLUDES_PAIRS,
    FAST,
    FAST_ALTERNATE_ROWS,
    ROW_BY_ROW,
)
from longalign.backends.cuda.device.choose_kind import make_choose_kind, make_refine_kind
from longalign.backends.cuda.device.excluded_pairs import excluded_row_from, pairs_of_strip
from longalign.backends.cuda.device.left_out_blocks import (
    LEFT_OUT_BASE,
    is_left_out,
    make_enter_block,
    make_highest_around,
    make_leave_out,
    make_store_left_out,
    query_limits,
    raise_row,
    read_gains,
    read_pruning,
)
from longalign.backends.cuda.device.letter_scores import has_blank_rows, letter_scores
from longalign.backends.cuda.device.load_strip import make_load_target, make_load_top, make_place
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.ptx import load_relaxed, shared_address
from longalign.backends.cuda.device.publish import make_publish
from longalign.backends.cuda.device.replay import (
    NO_BLOCK,
    REPLAY_NEWEST,
    REPLAY_NOTHING,
    WATCHED_BLOCKS,
    after_replay,
    after_strip,
    make_after_high_block,
    make_replay,
    make_score,
)
from longalign.backends.cuda.device.requested_rows import requested_row
from longalign.backends.cuda.device.row_block import LETTER_BYTES, SharedCursor
from longalign.backends.cuda.device.strip_edges import (
    make_costs,
    make_load_rows,
    make_rebase,
    make_receive,
    make_store_edge,
    read_parameters,
)
from longalign.backends.cuda.device.strip_profile import ALIGNMENT, ProfileLayout
from longalign.backends.cuda.device.strip_state import StripState, make_state_store
from longalign.backends.cuda.device.sweep_block import make_sweep_block
from longalign.backends.cuda.device.sync import (
    ALL_LANES,
    REST_EVERY,
    highest_of_warp,
    take_ticket,
    wait_for_band,
)
from longalign.backends.cuda.numba_api import cuda, jit_kernel

#: The types of a kernel's arguments, all C-contiguous arrays.
SIGNATURE = (
    int64[:, ::1], int32[:, ::1], uint8[::1], uint8[::1], int32[::1], int64[::1], int64[::1], int32[::1],
    int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int32[:, ::1], int32[::1],
    int32[::1],
)  # fmt: skip


@cuda.jit(device=True)
def _rounded(array):
    """The first multiple of 8 among the addresses of an array in shared memory."""
    return shared_address(array) + 7 & -8


def build_kernel(config: KernelConfig) -> Any:
    """The kernel of a configuration, compiled at its first launch.

    Launch it with blocks of 32 x `config.warps` threads, with `profile_bytes` of dynamic shared memory, and
    the arguments of `worklist.WorkList` and `device_memory.DeviceBuffers`. More blocks than are resident at a
    time would gain nothing.
    """
    columns, halves, span, block_rows = config.columns, config.halves, config.span, config.block_rows
    track_best, warps, ring_slots = config.track_best, config.warps, config.ring_slots
    # More slots than are filled: the last step fetches rows that are not used, and pairs of slots are loaded
    # from multiples of 8.
    slots, slot_bytes = config.warps * block_rows + STEP_ROWS + 1, config.slot_bytes
    letter_slots = config.warps * 2 * ring_slots + 1
    target_letters, has_profile = letter_scores(config).words, letter_scores(config).fill is not None
    row_bytes, lane_bytes = ProfileLayout.of(config).row_bytes, ProfileLayout.of(config).lane_bytes
    arithmetic, rebases = ARITHMETIC[config.numbers], config.numbers == "packed"
    cost, halves_if, base_below = arithmetic.cost, arithmetic.halves, arithmetic.base
    link_type, no_links = arithmetic.link_type, (arithmetic.link_type(0), arithmetic.link_type(0))
    snapshot_values, warp_values = config.snapshot_values, config.warp_values
    may_skip_rows, blank_rows = config.may_skip_rows, has_blank_rows(config)
    reload_parameters, prefetch_edge = config.reload_parameters, config.prefetch_edge
    snapshot_in_registers, receive_edge_early = config.snapshot_in_registers, config.receive_edge_early
    place, load_target, load_top = make_place(config), make_load_target(config), make_load_top(config)
    lane_costs, rebase, state_words = make_costs(config), make_rebase(config), config.state_words
    (begin_receive, receive), store_edge = make_receive(config), make_store_edge(config)
    load_rows, load_letters_again = make_load_rows(config)
    choose_kind, refine_kind = make_choose_kind(config), make_refine_kind(config)
    threshold_of, sweep_block = make_threshold(config), make_sweep_block(config, begin_receive)
    save_block, hold_block, save_held_block, restore_block = make_replay(config)
    score_of, after_high_block = make_score(config), make_after_high_block(config)
    publish, (_, load_state) = make_publish(config), make_state_store(config)
    prunes, leave_out, store_left_out = config.prunes, make_leave_out(config), make_store_left_out(config)
    highest_around, enter_block = make_highest_around(config), make_enter_block(config)
    excludes = config.excludes

    @jit_kernel(config.max_registers)
    def sweep(
        jobs, strips, query, target, matrices, top, column, lists,
        flags, tickets, stop, progress, best_scores, lines, best_out, state, memory,
    ):  # fmt: skip
        lane = np.int32(cuda.threadIdx.x % LANES)
        # Each warp has its own part of the mailboxes, with a slot for every row of a row block, and a ring of
        # row letters. Each letter is stored twice, so that a row block's letters are contiguous in the ring.
        # The shuffles hide how addresses are computed: the assembler would compute them again in each row.
        warp = np.int32(cuda.threadIdx.x // LANES)
        scratch_at = (np.int64(cuda.blockIdx.x) * warps + warp) * warp_values
        inbox = cuda.shared.array(slots, link_type)
        outbox = cuda.shared.array(slots, link_type)
        row_letters = cuda.shared.array(letter_slots, int32)
        inbox_at = cuda.shfl_sync(ALL_LANES, np.int32(_rounded(inbox) + slot_bytes * warp * block_rows), 0)
        outbox_at = cuda.shfl_sync(ALL_LANES, np.int32(_rounded(outbox) + slot_bytes * warp * block_rows), 0)
        letter_ring_at = cuda.shfl_sync(
            ALL_LANES, np.int32(_rounded(row_letters) + LETTER_BYTES * warp * 2 * ring_slots), 0
        )
        profile, lane_at = row_letters, np.int32(0)
        if has_profile:
            profile = cuda.shared.array(0, int32)
            aligned = np.int32(shared_address(profile) + ALIGNMENT - 1 & -ALIGNMENT)
            before = np.int32(warp * jobs[0, work_tables.LETTERS] * row_bytes + lane * lane_bytes)
            lane_at = cuda.shfl_sync(ALL_LANES, np.int32(aligned + before), lane)
            # Lanes look up the profile by ring slots that may be unfilled: these must hold valid offsets.
            for slot in range(lane, 2 * ring_slots, LANES):
                row_letters[warp * 2 * ring_slots + slot] = 0
            cuda.syncwarp()
        opened = cuda.local.array(columns, int32)
        e = cuda.local.array(columns, int32)
        letters = cuda.local.array(target_letters, int32)
        held = cuda.local.array(columns, int32)
        e_held = cuda.local.array(columns, int32)

        strip = take_ticket(tickets, lane)
        while strip < strips.shape[0]:
            job = strips[strip, work_tables.JOB]
            rows, tag = np.int32(jobs[job, work_tables.ROWS]), strips[strip, work_tables.NUMBER]
            start, last_start = strips[strip, work_tables.FIRST_START], strips[strip, work_tables.LAST_START]
            position, parameters = place(strips, strip, jobs, job, lane)
            last_part_lag = strips[strip, work_tables.LAST_PART_LAG]
            requested_column = strips[strip, work_tables.REQUESTED_COLUMN]
            load_target(
                letters, profile, lane_at, strips, strip, position, parameters, jobs, target, matrices
            )  # fmt: skip
            state_at = jobs[job, work_tables.STATE_AT] + np.int64(tag) * state_words * LANES
            free_top = blank_rows and jobs[job, work_tables.FREE_TOP] != 0
            if start == 0:
                strip_state = load_top(opened, e, strips, strip, position, parameters, jobs, top)
            else:
                above, done = strips[strip, work_tables.FLAG_ABOVE], strips[strip, work_tables.DONE_ABOVE]
                if wait_for_band(flags, above, done, stop):
                    return
                strip_state = load_state(state, state_at, lane, opened, e)
            # Above the rectangle, only parts that sweep on there need letters. But where low values are
            # raised, what all other parts compute must not be too high either.
            if blank_rows or prunes or start > 0:
                load_letters_again(
                    row_letters, letter_ring_at, query, parameters, rows, np.int32(start - span), start, lane
                )
            carry, edge, base, ambiguous_until, next_requested = strip_state
            requested = requested_row(next_requested, lists, jobs, job)
            # The search for the best cell: `replay` says what these are.
            best, buffer, candidate, to_replay = no_best(), np.int32(0), NO_BLOCK, REPLAY_NOTHING
            slack, watch_until = np.int32(0), np.int32(0)
            used, links = halves_if(position.width > 0, position.width > columns), no_links
            best_elsewhere = load_relaxed(best_scores, job) if track_best else np.int32(0)
            if prunes:
                gains = read_gains(jobs, job, strips, strip, lists)
                limits = query_limits(np.int32(start - last_part_lag), gains, jobs, job, lists)
                blocks_left_out = np.int32(0)
            # The next row with an excluded pair, of those that some part has yet to sweep.
            pairs, next_excluded = pairs_of_strip(strips, strip), np.int32(0)
            if excludes:
                next_excluded = excluded_row_from(np.int32(start - last_part_lag), pairs, lists)
            incoming = begin_receive(query, column, parameters, rows, start, lane)
            # `start` and `end`: the rows of the row block that comes next, for the first part. `now`: the
            # first row of the block that is swept, which is an earlier one in a replay. `edge`: H on the left
            # edge above the block. `used`: the halves of the lane that lie in the strip. `peak`: the highest
            # value around the block, first of the lane and then of the warp.
            while start < last_start or to_replay != REPLAY_NOTHING:
                replaying = track_best and to_replay != REPLAY_NOTHING
                end = np.int32(start + block_rows)
                outside, leaves_out = start < last_part_lag or end >= rows, False
                if reload_parameters:
                    parameters = read_parameters(jobs, job)
                    requested_column = strips[strip, work_tables.REQUESTED_COLUMN]
                if replaying:
                    of_candidate, kind = to_replay != REPLAY_NEWEST, ROW_BY_ROW
                    now = candidate if of_candidate else np.int32(start - block_rows)
                    its_buffer = np.int32(1 - buffer) if of_candidate else buffer
                    snapshot_at = scratch_at + snapshot_values * its_buffer
                    strip_state = restore_block(memory, snapshot_at, lane, opened, e, inbox, inbox_at)
                    carry, base = strip_state.carry, strip_state.base
                    load_letters_again(
                        row_letters, letter_ring_at, query, parameters, rows, np.int32(now - span),
                        np.int32(now + block_rows), lane,
                    )  # fmt: skip
                    first_requested = np.int32(0)
                else:
                    now, new_base = start, base_below(edge, parameters.base_offset)
                    if rebases and not prunes:
                        carry = rebase(opened, e, carry, cost(np.int32(new_base - base)))
                        base = new_base
                    if prunes:  # read before the edge, for which the warp may have to wait
                        pruning = read_pruning(jobs, job)
                    one, other, stopped = receive(incoming, column, parameters, rows, tag, start, lane, stop)
                    if stopped:
                        return
                    if prunes:
                        opening = parameters.opening
                        peak = highest_around(opened, e, carry, base, edge, one, other, opening, pruning)
                        leaves_out = is_left_out(
                            peak, limits, gains, end, parameters.extend, pruning, best_elsewhere
                        )
                        # The limits of the next row block. They are loaded early because that takes long.
                        limits = query_limits(np.int32(end - last_part_lag), gains, jobs, job, lists)
                    if prunes and not leaves_out:
                        if base == LEFT_OUT_BASE:
                            load_letters_again(
                                row_letters, letter_ring_at, query, parameters, rows, np.int32(start - span),
                                start, lane,
                            )  # fmt: skip
                        peak = highest_of_warp(peak)
                        lowest, new_base = np.int32(peak - pruning.reach), base_below(
                            peak, parameters.base_offset
                        )  # fmt: skip
                        carry = enter_block(
                            opened, e, carry, base, new_base, edge, opening, pruning, lowest, lane
                        )
                        base, one, other = new_base, raise_row(one, lowest), raise_row(other, lowest)
                    if not leaves_out:
                        edge, ambiguous = load_rows(
                            inbox, inbox_at, row_letters, letter_ring_at, one, other, parameters, rows, start,
                            lane, outside, base,
                        )  # fmt: skip
                        if track_best:
                            strip_state = StripState(carry, edge, base, ambiguous_until, requested.number)
                            if snapshot_in_registers:
                                links = hold_block(opened, e, held, e_held, lane, inbox, inbox_at)
                            else:
                                snapshot_at = scratch_at + snapshot_values * buffer
                                save_block(memory, snapshot_at, lane, opened, e, strip_state, inbox, inbox_at)
                        if prefetch_edge:
                            incoming = begin_receive(query, column, parameters, rows, end, lane)
                        if ambiguous:
                            ambiguous_until = np.int32(end + span)
                        kind, requested = choose_kind(
                            position, requested, start, end, last_part_lag, rows, outside, free_top,
                            ambiguous_until, lists, jobs,
                        )  # fmt: skip
                        first_requested = requested.number
                        if excludes and next_excluded < start - last_part_lag:
                            next_excluded = excluded_row_from(
                                np.int32(start - last_part_lag), pairs, lists
                            )  # fmt: skip
                        if excludes and next_excluded < end:
                            is_fast = kind == FAST and start >= ambiguous_until
                            kind = EXCLUDES_PAIRS if is_fast else ROW_BY_ROW

                if prunes and leaves_out:
                    incoming = begin_receive(query, column, parameters, rows, end, lane)
                    edge, ambiguous = leave_out(
                        one, other, column, lines, jobs, job, parameters, pruning, rows, np.int32(tag + 1),
                        requested_column, np.int32(start - last_part_lag), lane,
                    )  # fmt: skip
                    if 0 < requested.row <= end:
                        requested = store_left_out(
                            lines, position, requested, start, last_part_lag, lists, jobs, pruning
                        )  # fmt: skip
                    base = LEFT_OUT_BASE
                    if not outside:
                        blocks_left_out = np.int32(blocks_left_out + 1)
                    if ambiguous:
                        ambiguous_until = np.int32(end + span)
                    if track_best:
                        best_elsewhere = load_relaxed(best_scores, job)
                else:
                    cuda.syncwarp()

                    costs, first_row = lane_costs(parameters, base), np.int32(now - lane * halves * STEP_ROWS)
                    # No row above the rectangle could tie with a cell.
                    top_row = max(np.int32(first_row + 1 - STEP_ROWS * (halves - 1)), np.int32(1))
                    kind = refine_kind(kind, start, ambiguous_until, best, best_elsewhere, watch_until, costs)
                    slack_of_block = (
                        costs.opening if may_skip_rows and kind == FAST_ALTERNATE_ROWS else np.int32(0)
                    )
                    threshold = threshold_of(
                        best, np.int32(0) if replaying else best_elsewhere, top_row,
                        np.int32(position.first + 1), costs, base, used, slack_of_block,
                    )  # fmt: skip
                    if track_best:  # the load is issued early, as it takes long
                        best_elsewhere = load_relaxed(best_scores, job)
                    letter_at = np.int32(letter_ring_at + LETTER_BYTES * (first_row & (ring_slots - 1)))
                    cursor = SharedCursor(inbox_at, outbox_at, letter_at, profile, lane_at)
                    carry, highest, best, incoming = sweep_block(
                        kind, opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs,
                        base, position, carry, best, replaying, threshold, lists,
                        first_requested, requested, jobs, lines, memory, incoming, query, column, parameters,
                        end, pairs,
                    )  # fmt: skip
                    cuda.syncwarp()
                    if replaying:
                        best, candidate, slack, to_replay = after_replay(best, to_replay)
                        continue

                    if not prefetch_edge and not (receive_edge_early and kind == FAST):
                        incoming = begin_receive(query, column, parameters, rows, end, lane)
                    store_edge(
                        outbox, outbox_at, column, lines, jobs, job, parameters, rows, np.int32(tag + 1),
                        requested_column, np.int32(start - last_part_lag), lane, base,
                    )  # fmt: skip
                    if track_best:
                        exceeds, score = score_of(highest, threshold, costs, base)
                        if exceeds:
                            if snapshot_in_registers:
                                snapshot_at = scratch_at + snapshot_values * buffer
                                save_held_block(memory, snapshot_at, lane, held, e_held, strip_state, links)
                            watch_until = np.int32(end + WATCHED_BLOCKS * block_rows)
                            best, buffer, candidate, slack, to_replay = after_high_block(
                                best, buffer, candidate, slack, to_replay, score, slack_of_block, start,
                                strips, strip, best_scores, job, lane,
                            )  # fmt: skip
                start = end
                is_last = start >= last_start
                if is_last or np.uint32(start) % np.uint32(REST_EVERY * block_rows) == 0:
                    strip_state = StripState(carry, edge, base, ambiguous_until, requested.number)
                    if publish(
                        opened, e, strip_state, state, state_at, strips, strip, parameters, rows, tag, start,
                        last_start, last_part_lag, column, flags, tickets, progress, lane, stop,
                    ):  # fmt: skip
                        return
                    if track_best and is_last and to_replay == REPLAY_NOTHING and candidate != NO_BLOCK:
                        best, to_replay = after_strip(best, slack, to_replay, best_scores, job)

            if prunes and lane == 0:
                cells = np.int64(blocks_left_out) * block_rows * strips[strip, work_tables.WIDTH]
                cuda.atomic.add(jobs, (job, work_tables.CELLS_LEFT_OUT), cells)
            if track_best and lane == 0:
                best_out[strip, work_tables.BEST_SCORE] = best.score
                best_out[strip, work_tables.BEST_I] = best.i
                best_out[strip, work_tables.BEST_J] = best.j
            strip = take_ticket(tickets, lane)

    return sweep
