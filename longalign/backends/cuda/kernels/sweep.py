"""The sweep kernel: warps take strips of a work list and sweep them from top to bottom.

A strip has as many *parts* as the warp has numbers: one a lane, or two where numbers are packed, the first in
the low half. Part p owns `columns` neighbouring columns and works on two rows a step, 2(t - p) and the next
in step t, so that what it needs from its left was finished in the step before: it comes from lane l - 1 by a
shuffle, or from the other half of the lane. The first part gets it from the strip to the left, a batch of
rows at a time, and the last part leaves the right edge for the strip to the right.

A lane keeps, for each of its columns, *opened* = H - alpha - beta instead of H: E below and F to the right
need it, and the diagonal does as well when alpha + beta is added to the letter scores once and for all.
Order is not changed by a constant, so the best cell is found among opened values too.

The parts take no notice of a narrow strip's end: they go on beyond it, where there are no letters, and a pair
scores no more than -alpha - beta. No cell there outranks all the true ones: the best path to it leaves the
strip at some (i, j), and each step from there on, a gap or such a pair, takes it no higher than H(i', j) in
the row i' it has come to, on a lower anti-diagonal. If a strip ends inside a part and its right edge counts,
it is *ragged*: the edge is found after each row.

In local mode, where letters can be left out (`letters.has_blanks`), they take no notice of the first and the
last row either, and go on through rows without letters. Below the rectangle the left edge goes on with its
last value, and the same argument holds for rows. Above it H is 0, if paths begin all along the top edge, and
after any number of such rows a part has at hand what it began with, or what comes to the same. Else a part
keeps its columns until it begins: such batches are *partial*, and take longer. Where only the first batches
of some rectangles are, they go with those in which more happens: `eventful` has these. Where the best cell
is, `replay` finds out.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64, uint8

from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.best_cell import best_of_warp, make_threshold, no_best
from longalign.backends.cuda.device.block_kinds import (
    AMBIGUOUS,
    FAST,
    FAST_ALTERNATE_ROWS,
    MASKED,
    MASKED_STORES_ROW,
    ROW_BY_ROW,
    STORES_ROW,
)
from longalign.backends.cuda.device.letter_scores import has_blank_rows, letter_scores
from longalign.backends.cuda.device.masked_blocks import make_sweep_row_by_row, make_sweep_storing_block
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.ptx import load_relaxed, shared_address
from longalign.backends.cuda.device.replay import (
    NO_BLOCK,
    REPLAY_BOTH,
    REPLAY_CANDIDATE,
    REPLAY_NEWEST,
    REPLAY_NOTHING,
    WATCHED_BLOCKS,
    best_in_block,
    is_high,
    make_replay,
    make_score,
)
from longalign.backends.cuda.device.requested_rows import look_ahead, next_event, requested_row
from longalign.backends.cuda.device.row import LaneEdge
from longalign.backends.cuda.device.row_block import (
    LETTER_BYTES,
    LaneCarry,
    SharedCursor,
    StripPosition,
    make_sweep_and_receive,
    make_sweep_row_block,
)
from longalign.backends.cuda.device.strip_edges import (
    make_costs,
    make_load_columns,
    make_load_letters,
    make_load_rows,
    make_rebase,
    make_receive,
    make_store_edge,
    read_parameters,
)  # fmt: skip
from longalign.backends.cuda.device.strip_profile import ALIGNMENT, ProfileLayout
from longalign.backends.cuda.device.strip_state import StripState, make_state_store
from longalign.backends.cuda.device.sync import (
    ALL_LANES,
    MAX_LEAD,
    REPORT_EVERY,
    REST_EVERY,
    let_neighbour_catch_up,
    load_for_all,
    publish_rows,
    stop_requested,
    take_ticket,
    wait_for_band,
)  # fmt: skip
from longalign.backends.cuda.device.work_tables import low_of
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


@cuda.jit(device=True)
def _finished_edge_rows(started, last_part_lag, rows):
    """Rows of a strip's right edge that are done when its first part has done `begun` rows."""
    return min(rows, max(np.int32(0), np.int32(started - last_part_lag)))


def build_kernel(config: KernelConfig) -> Any:
    """The kernel of a configuration, compiled at its first launch.

    Launch it with blocks of 32 x `config.warps` threads, as many as are resident, with `profile_bytes` of
    dynamic shared memory, and the arguments of `worklist.WorkList` and `memory.DeviceBuffers`.
    """
    columns, halves, span, block_rows, ring_slots = (
        config.columns, config.halves, config.span, config.block_rows, config.ring_slots,
    )  # fmt: skip
    track_best, warps, letter_slots = config.track_best, config.warps, config.warps * 2 * ring_slots + 1
    # More than are filled: the last step fetches what none needs, and two are loaded from a multiple of 8 on.
    slots, slot_bytes = config.warps * block_rows + STEP_ROWS + 1, config.slot_bytes
    scores = letter_scores(config)
    target_letters, fill, has_profile = scores.words, scores.fill, scores.fill is not None
    row_bytes, lane_bytes = ProfileLayout.of(config).row_bytes, ProfileLayout.of(config).lane_bytes
    based, lead = config.numbers == "packed", config.lag + MAX_LEAD * block_rows
    arithmetic = ARITHMETIC[config.numbers]
    number, cost, halves_if, base_below = (
        arithmetic.number,
        arithmetic.cost,
        arithmetic.halves,
        arithmetic.base,
    )
    first_part, second_part, link_type = arithmetic.first_part, arithmetic.second_part, arithmetic.link_type
    load_columns, load_letters, lane_costs = (
        make_load_columns(config), make_load_letters(config), make_costs(config),
    )  # fmt: skip
    (begin_receive, receive), store_edge = make_receive(config), make_store_edge(config)
    (load_rows, load_letters_again), (store_state, load_state) = (
        make_load_rows(config),
        make_state_store(config),
    )
    rebase, threshold_of, state_words = make_rebase(config), make_threshold(config), config.state_words
    (save_block, hold_block, save_held_block, restore_block), score_of = (
        make_replay(config),
        make_score(config),
    )
    snapshot_values, warp_values = config.snapshot_values, config.warp_values
    no_links = arithmetic.link_type(0), arithmetic.link_type(0)
    tracks_ambiguous, may_skip_rows, blank_rows = (
        scores.add_any is not None,
        config.may_skip_rows,
        has_blank_rows(config),
    )
    sweep_row_block, sweep_alternate_rows = (
        make_sweep_row_block(config),
        make_sweep_row_block(config, FAST_ALTERNATE_ROWS),
    )
    sweep_and_receive = make_sweep_and_receive(config, begin_receive)
    sweep_ambiguous = make_sweep_row_block(config, AMBIGUOUS)
    sweep_masked = make_sweep_row_block(config, MASKED)
    sweep_store_row = make_sweep_storing_block(config, STORES_ROW)
    sweep_masked_store_row = make_sweep_storing_block(config, MASKED_STORES_ROW)
    sweep_row_by_row = make_sweep_row_by_row(config)
    full_width = config.strip_width
    reload_parameters, snapshot_in_registers, prefetch_edge, separate_store_row_code = (
        config.reload_parameters,
        config.snapshot_in_registers,
        config.prefetch_edge,
        config.separate_store_row_code,
    )
    receive_edge_early = config.receive_edge_early

    @jit_kernel(config.max_registers)
    def sweep(
        jobs, strips, query, target, matrices, top, column, requested_rows,
        flags, tickets, stop, progress, best_scores, lines, best_out, state, memory,
    ):  # fmt: skip
        lane = np.int32(cuda.threadIdx.x % LANES)
        # Each warp has its own part of the mailboxes, a slot for every row of a batch, and a ring of row
        # letters, each stored twice, so that the letters of a batch can be read without an end. The shuffles
        # hide from the assembler what addresses are made of: it would make them anew in each row.
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
            # A lane reads of the profile by letters that may not be there yet: they must be of some row.
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
            first_start, last_start = (
                strips[strip, work_tables.FIRST_START],
                strips[strip, work_tables.LAST_START],
            )

            # This lane's columns: `width` of them, after the first `first` columns of the rectangle.
            strip_width = np.int32(strips[strip, work_tables.WIDTH])
            first_of_strip = strips[strip, work_tables.FIRST_COLUMN]
            last_part_lag = strips[strip, work_tables.LAST_PART_LAG]
            last_part = np.int32(last_part_lag // STEP_ROWS)
            part = np.int32(lane * halves)
            first = np.int32(first_of_strip + part * columns)
            width = min(max(np.int32(strip_width - part * columns), np.int32(0)), np.int32(halves * columns))
            end_column = np.int32(first_of_strip + strip_width)
            last_column = np.int32((strip_width - 1) % columns)
            inner = end_column < jobs[job, work_tables.COLS]
            parameters, requested_column = (
                read_parameters(jobs, job),
                strips[strip, work_tables.REQUESTED_COLUMN],
            )
            position = StripPosition(
                job, lane, first, width, first_part if part == last_part else second_part,
                np.int32(last_part // halves),
                halves_if(part == last_part, part + 1 == last_part), last_column,
                last_column < columns - 1 and (requested_column >= 0 or inner),
            )  # fmt: skip

            if has_profile:
                fill(profile, lane_at, matrices, target, jobs, job, first, end_column)
            else:
                costs = lane_costs(parameters, np.int32(0))
                for half in range(halves):
                    load_letters(
                        letters, half, first, width, target, jobs[job, work_tables.TARGET_AT], costs.match,
                        costs.mismatch,
                    )  # fmt: skip
            state_at = jobs[job, work_tables.STATE_AT] + np.int64(tag) * state_words * LANES
            free_top = blank_rows and jobs[job, work_tables.FREE_TOP] != 0
            if first_start == 0:
                edge = low_of(top[jobs[job, work_tables.TOP_AT] + first_of_strip])
                base = base_below(edge, parameters.base_offset)
                costs = lane_costs(parameters, base)
                diagonal = load_columns(
                    opened,
                    e,
                    first,
                    end_column,
                    top,
                    jobs[job, work_tables.TOP_AT],
                    parameters.extend,
                    costs,
                    base,
                )
                low = number(np.int32(-costs.opening), base)
                above = LaneEdge(low, low)
                strip_state = StripState(
                    LaneCarry(above, above, diagonal), edge, base, np.int32(0), np.int32(0)
                )
            else:
                if wait_for_band(
                    flags, strips[strip, work_tables.FLAG_ABOVE], strips[strip, work_tables.DONE_ABOVE], stop
                ):
                    return
                strip_state = load_state(state, state_at, lane, opened, e)
            # Above the rectangle, only parts that sweep on there look at letters.
            if blank_rows or first_start > 0:
                load_letters_again(
                    row_letters,
                    letter_ring_at,
                    query,
                    parameters,
                    rows,
                    np.int32(first_start - span),
                    first_start,
                    lane,
                )
            carry, edge, base = strip_state.carry, strip_state.edge, strip_state.base
            ambiguous_until = strip_state.ambiguous_until
            requested = requested_row(strip_state.next_requested, requested_rows, jobs, job)
            best, buffer, candidate, to_replay = no_best(), np.int32(0), NO_BLOCK, REPLAY_NOTHING
            slack, watch_until = np.int32(0), np.int32(0)
            used, links = halves_if(width > 0, width > columns), no_links
            best_elsewhere = load_relaxed(best_scores, job) if track_best else np.int32(0)
            incoming = begin_receive(query, column, parameters, rows, first_start, lane)
            start = first_start
            while start < last_start or to_replay != REPLAY_NOTHING:
                replaying = track_best and to_replay != REPLAY_NOTHING
                end = np.int32(start + block_rows)
                outside = start < last_part_lag or end >= rows
                partial = outside and not blank_rows
                if reload_parameters:
                    parameters, requested_column = (
                        read_parameters(jobs, job),
                        strips[strip, work_tables.REQUESTED_COLUMN],
                    )
                if replaying:
                    of_candidate = to_replay != REPLAY_NEWEST
                    now, kind = candidate if of_candidate else np.int32(start - block_rows), ROW_BY_ROW
                    snapshot_at = scratch_at + snapshot_values * (
                        np.int32(1 - buffer) if of_candidate else buffer
                    )
                    strip_state = restore_block(memory, snapshot_at, lane, opened, e, inbox, inbox_at)
                    carry, base = strip_state.carry, strip_state.base
                    load_letters_again(
                        row_letters, letter_ring_at, query, parameters, rows, np.int32(now - span),
                        np.int32(now + block_rows), lane,
                    )  # fmt: skip
                    first_requested = np.int32(0)
                else:
                    now = start
                    new_base = base_below(edge, parameters.base_offset)
                    if based:
                        carry = rebase(opened, e, carry, cost(np.int32(new_base - base)))
                        base = new_base
                    one, other, stopped = receive(incoming, column, parameters, rows, tag, start, lane, stop)
                    if stopped:
                        return
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
                    kind = MASKED if partial else FAST
                    if blank_rows and start < last_part_lag and not free_top:
                        kind = MASKED_STORES_ROW
                    if outside or end >= next_event(requested, rows) or position.ragged:
                        lookahead = look_ahead(
                            requested, start, end, last_part_lag, requested_rows, jobs, job
                        )
                        requested = lookahead.requested
                        if position.ragged or (partial and lookahead.stores_row):
                            kind = MASKED_STORES_ROW
                        if kind == FAST and lookahead.stores_row:
                            kind = STORES_ROW if separate_store_row_code else MASKED_STORES_ROW
                        # What row by row alone can do: `eventful` says why.
                        if lookahead.row_by_row or (kind != FAST and start < ambiguous_until):
                            kind = ROW_BY_ROW
                    first_requested = requested.number
                cuda.syncwarp()

                costs, first_row = lane_costs(parameters, base), np.int32(now - part * STEP_ROWS)
                # Of a row above the rectangle, nothing could tie with a cell.
                top_row = max(np.int32(first_row + 1 - STEP_ROWS * (halves - 1)), np.int32(1))
                if tracks_ambiguous and kind == FAST and start < ambiguous_until:
                    kind = AMBIGUOUS
                if may_skip_rows and kind == FAST and start >= watch_until and is_high(
                    max(best.score, best_elsewhere), costs
                ):  # fmt: skip
                    kind = FAST_ALTERNATE_ROWS
                slack_of_block = (
                    costs.opening if may_skip_rows and kind == FAST_ALTERNATE_ROWS else np.int32(0)
                )
                threshold = threshold_of(
                    best, np.int32(0) if replaying else best_elsewhere, top_row, np.int32(first + 1), costs,
                    base, used, slack_of_block,
                )  # fmt: skip
                if track_best:
                    best_elsewhere = load_relaxed(best_scores, job)  # it takes its time
                letter_at = np.int32(letter_ring_at + LETTER_BYTES * (first_row & (ring_slots - 1)))
                cursor = SharedCursor(inbox_at, outbox_at, letter_at, profile, lane_at)
                # In this order: with the usual kind first, the assembler makes slower loops of long sweeps.
                if kind == ROW_BY_ROW:
                    carry, highest, best = sweep_row_by_row(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base,
                        position, carry, best, replaying, threshold, requested_rows, first_requested, jobs,
                        lines,
                    )  # fmt: skip
                elif separate_store_row_code and kind == STORES_ROW:
                    carry, highest = sweep_store_row(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base,
                        position, carry, threshold, requested, jobs, lines, memory,
                    )  # fmt: skip
                elif kind == MASKED_STORES_ROW:
                    carry, highest = sweep_masked_store_row(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base,
                        position, carry, threshold, requested, jobs, lines, memory,
                    )  # fmt: skip
                elif not blank_rows and kind == MASKED:
                    carry, highest = sweep_masked(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs,
                        position, carry, threshold,
                    )  # fmt: skip
                elif tracks_ambiguous and kind == AMBIGUOUS:
                    carry, highest = sweep_ambiguous(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs,
                        position, carry, threshold,
                    )  # fmt: skip
                elif may_skip_rows and kind == FAST_ALTERNATE_ROWS:
                    carry, highest = sweep_alternate_rows(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs,
                        position, carry, threshold,
                    )  # fmt: skip
                elif receive_edge_early:
                    carry, highest, incoming = sweep_and_receive(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs,
                        position, carry, threshold, query, column, parameters, end,
                    )  # fmt: skip
                else:
                    carry, highest = sweep_row_block(
                        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs,
                        position, carry, threshold,
                    )  # fmt: skip
                cuda.syncwarp()
                if replaying:
                    best = best_of_warp(best)
                    candidate, to_replay = (
                        NO_BLOCK,
                        REPLAY_NEWEST if to_replay == REPLAY_BOTH else REPLAY_NOTHING,
                    )
                    slack = np.int32(0)
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
                        if score > best.score + slack:
                            best = best_in_block(
                                score, start, strips[strip, work_tables.FIRST_COLUMN], block_rows, full_width
                            )  # fmt: skip
                            candidate, buffer = start, np.int32(1 - buffer)
                            slack = slack_of_block
                            if lane == 0:
                                cuda.atomic.max(best_scores, job, score)
                        else:
                            to_replay = REPLAY_BOTH if candidate != NO_BLOCK else REPLAY_NEWEST
                start = end
                is_last = start >= last_start
                if is_last or np.uint32(start) % np.uint32(REST_EVERY * block_rows) == 0:
                    shuffled = np.int32(start - last_part_lag - lead)
                    if not is_last and 0 < shuffled < rows:
                        let_neighbour_catch_up(
                            column, parameters.column_at + shuffled, np.int32(tag + 1),
                            strips[strip, work_tables.NEXT], tickets, lane,
                        )  # fmt: skip
                    if is_last or np.uint32(start) % np.uint32(REPORT_EVERY * block_rows) == 0:
                        if last_start <= start < rows + last_part_lag:
                            strip_state = StripState(carry, edge, base, ambiguous_until, requested.number)
                            store_state(state, state_at, lane, opened, e, strip_state)
                        begin = strips[strip, work_tables.FIRST_START]
                        publish_rows(flags, strips[strip, work_tables.FLAG], np.int32(start - begin), lane)
                        if lane == 0:
                            since = np.int32(
                                (start - 1) // (REPORT_EVERY * block_rows) * (REPORT_EVERY * block_rows)
                            )
                            before = _finished_edge_rows(max(since, begin), last_part_lag, rows)
                            done = np.int64(_finished_edge_rows(start, last_part_lag, rows) - before)
                            cuda.atomic.add(progress, 0, done * strips[strip, work_tables.WIDTH])
                        if stop_requested(stop):
                            return
                    if track_best and is_last and to_replay == REPLAY_NOTHING and candidate != NO_BLOCK:
                        if best.score + slack >= load_for_all(best_scores, job):
                            to_replay = REPLAY_CANDIDATE
                        else:
                            best = no_best()

            if track_best and lane == 0:
                best_out[strip, work_tables.BEST_SCORE] = best.score
                best_out[strip, work_tables.BEST_I] = best.i
                best_out[strip, work_tables.BEST_J] = best.j
            strip = take_ticket(tickets, lane)

    return sweep
