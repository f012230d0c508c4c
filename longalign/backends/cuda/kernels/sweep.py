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
from longalign.backends.cuda.device.letter_scores import has_blanks, letter_scores
from longalign.backends.cuda.device.masked_blocks import make_sweep_eventful_batch, make_sweep_rows
from longalign.backends.cuda.device.number_formats import NUMBERS
from longalign.backends.cuda.device.ptx import load_relaxed, shared_address
from longalign.backends.cuda.device.replay import (
    BOTH,
    NEWEST,
    NO_BATCH,
    NOTHING,
    SUSPECT,
    WATCHED,
    is_high,
    make_replay,
    make_score,
    somewhere,
)
from longalign.backends.cuda.device.requested_rows import look_ahead, next_event, wanted_row
from longalign.backends.cuda.device.row import Edge
from longalign.backends.cuda.device.row_block import (
    ANY_LETTERS,
    BY_ROWS,
    EVENTFUL,
    LETTER_BYTES,
    MEETING,
    PARTIAL,
    SAMPLED,
    USUAL,
    Carry,
    Desk,
    Place,
    make_sweep_and_receive,
    make_sweep_batch,
)
from longalign.backends.cuda.device.strip_edges import (
    make_costs,
    make_load_columns,
    make_load_letters,
    make_load_rows,
    make_rebase,
    make_receive,
    make_store_edge,
    read_fields,
)  # fmt: skip
from longalign.backends.cuda.device.strip_profile import ALIGNMENT, ProfileLayout
from longalign.backends.cuda.device.strip_state import Kept, make_keep
from longalign.backends.cuda.device.sync import (
    ALL_LANES,
    LEAD,
    REST_EVERY,
    TELL_EVERY,
    let_catch_up,
    load_for_all,
    publish_rows,
    take_ticket,
    told_to_stop,
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
def _right_edge(begun, behind, rows):
    """Rows of a strip's right edge that are done when its first part has done `begun` rows."""
    return min(rows, max(np.int32(0), np.int32(begun - behind)))


def build_kernel(config: KernelConfig) -> Any:
    """The kernel of a configuration, compiled at its first launch.

    Launch it with blocks of 32 x `config.warps` threads, as many as are resident, with `profile_bytes` of
    dynamic shared memory, and the arguments of `worklist.WorkList` and `memory.DeviceBuffers`.
    """
    columns, halves, span, batch, ring = (
        config.columns, config.halves, config.span, config.batch, config.ring,
    )  # fmt: skip
    track_best, warps, letter_slots = config.track_best, config.warps, config.warps * 2 * ring + 1
    # More than are filled: the last step fetches what none needs, and two are loaded from a multiple of 8 on.
    slots, slot_bytes = config.warps * batch + STEP_ROWS + 1, config.slot_bytes
    scores = letter_scores(config)
    target_letters, fill, has_profile = scores.words, scores.fill, scores.fill is not None
    row_bytes, lane_bytes = ProfileLayout.of(config).row_bytes, ProfileLayout.of(config).lane_bytes
    based, lead = config.numbers == "packed", config.lag + LEAD * batch
    numbers = NUMBERS[config.numbers]
    number, cost, halves_if, origin_below = numbers.number, numbers.cost, numbers.halves, numbers.origin
    first_part, second_part, link_type = numbers.first_part, numbers.second_part, numbers.link_type
    load_columns, load_letters, costs_of = (
        make_load_columns(config), make_load_letters(config), make_costs(config),
    )  # fmt: skip
    (begin_to_receive, receive), store_edge = make_receive(config), make_store_edge(config)
    (load_rows, load_letters_again), (store_kept, load_kept) = make_load_rows(config), make_keep(config)
    rebase, threshold_of, state_words = make_rebase(config), make_threshold(config), config.state_words
    (keep, hold, keep_held, recall), score_of = make_replay(config), make_score(config)
    side_values, warp_values = config.replay_values, config.warp_values
    no_links = numbers.link_type(0), numbers.link_type(0)
    minds_ambiguous, samples, blanks = scores.add_any is not None, config.samples, has_blanks(config)
    sweep_batch, sweep_sampled_batch = make_sweep_batch(config), make_sweep_batch(config, "sampled")
    sweep_and_receive = make_sweep_and_receive(config, begin_to_receive)
    sweep_any_batch = make_sweep_batch(config, "any letters")
    sweep_partial_batch = make_sweep_batch(config, "partial")
    sweep_meeting_batch = make_sweep_eventful_batch(config, "meeting")
    sweep_eventful_batch = make_sweep_eventful_batch(config, "eventful")
    sweep_rows = make_sweep_rows(config)
    full_width = config.strip_width
    sparing, holds, ahead, meets_apart = config.sparing, config.holds, config.ahead, config.meets_apart
    receives_early = config.receives_early

    @jit_kernel(config.max_registers)
    def sweep(
        jobs, strips, query, target, matrices, top, column, wanted_rows,
        flags, tickets, stop, progress, best_scores, lines, best_out, state, memory,
    ):  # fmt: skip
        lane = np.int32(cuda.threadIdx.x % LANES)
        # Each warp has its own part of the mailboxes, a slot for every row of a batch, and a ring of row
        # letters, each stored twice, so that the letters of a batch can be read without an end. The shuffles
        # hide from the assembler what addresses are made of: it would make them anew in each row.
        warp = np.int32(cuda.threadIdx.x // LANES)
        own_at = (np.int64(cuda.blockIdx.x) * warps + warp) * warp_values
        inbox = cuda.shared.array(slots, link_type)
        outbox = cuda.shared.array(slots, link_type)
        row_letters = cuda.shared.array(letter_slots, int32)
        inbox_at = cuda.shfl_sync(ALL_LANES, np.int32(_rounded(inbox) + slot_bytes * warp * batch), 0)
        outbox_at = cuda.shfl_sync(ALL_LANES, np.int32(_rounded(outbox) + slot_bytes * warp * batch), 0)
        ring_at = cuda.shfl_sync(
            ALL_LANES, np.int32(_rounded(row_letters) + LETTER_BYTES * warp * 2 * ring), 0
        )
        profile, lane_at = row_letters, np.int32(0)
        if has_profile:
            profile = cuda.shared.array(0, int32)
            aligned = np.int32(shared_address(profile) + ALIGNMENT - 1 & -ALIGNMENT)
            before = np.int32(warp * jobs[0, work_tables.LETTERS] * row_bytes + lane * lane_bytes)
            lane_at = cuda.shfl_sync(ALL_LANES, np.int32(aligned + before), lane)
            # A lane reads of the profile by letters that may not be there yet: they must be of some row.
            for slot in range(lane, 2 * ring, LANES):
                row_letters[warp * 2 * ring + slot] = 0
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
            behind = strips[strip, work_tables.BEHIND]
            last_part = np.int32(behind // STEP_ROWS)
            part = np.int32(lane * halves)
            first = np.int32(first_of_strip + part * columns)
            width = min(max(np.int32(strip_width - part * columns), np.int32(0)), np.int32(halves * columns))
            end_column = np.int32(first_of_strip + strip_width)
            last_column = np.int32((strip_width - 1) % columns)
            inner = end_column < jobs[job, work_tables.COLS]
            fields, wanted_column = read_fields(jobs, job), strips[strip, work_tables.WANTED_COLUMN]
            place = Place(
                job, lane, first, width, first_part if part == last_part else second_part,
                np.int32(last_part // halves),
                halves_if(part == last_part, part + 1 == last_part), last_column,
                last_column < columns - 1 and (wanted_column >= 0 or inner),
            )  # fmt: skip

            if has_profile:
                fill(profile, lane_at, matrices, target, jobs, job, first, end_column)
            else:
                costs = costs_of(fields, np.int32(0))
                for half in range(halves):
                    load_letters(
                        letters, half, first, width, target, jobs[job, work_tables.TARGET_AT], costs.match,
                        costs.mismatch,
                    )  # fmt: skip
            state_at = jobs[job, work_tables.STATE_AT] + np.int64(tag) * state_words * LANES
            fresh = blanks and jobs[job, work_tables.FRESH] != 0
            if first_start == 0:
                edge = low_of(top[jobs[job, work_tables.TOP_AT] + first_of_strip])
                origin = origin_below(edge, fields.below)
                costs = costs_of(fields, origin)
                diagonal = load_columns(
                    opened,
                    e,
                    first,
                    end_column,
                    top,
                    jobs[job, work_tables.TOP_AT],
                    fields.extend,
                    costs,
                    origin,
                )
                low = number(np.int32(-costs.amount), origin)
                above = Edge(low, low)
                kept = Kept(Carry(above, above, diagonal), edge, origin, np.int32(0), np.int32(0))
            else:
                if wait_for_band(
                    flags, strips[strip, work_tables.FLAG_ABOVE], strips[strip, work_tables.DONE_ABOVE], stop
                ):
                    return
                kept = load_kept(state, state_at, lane, opened, e)
            # Above the rectangle, only parts that sweep on there look at letters.
            if blanks or first_start > 0:
                load_letters_again(
                    row_letters, ring_at, query, fields, rows, np.int32(first_start - span), first_start, lane
                )
            carry, edge, origin = kept.carry, kept.edge, kept.origin
            ambiguous_until = kept.ambiguous_until
            wanted = wanted_row(kept.next_wanted, wanted_rows, jobs, job)
            best, side, suspect, to_repeat = no_best(), np.int32(0), NO_BATCH, NOTHING
            slack, watch_until = np.int32(0), np.int32(0)
            used, links = halves_if(width > 0, width > columns), no_links
            elsewhere = load_relaxed(best_scores, job) if track_best else np.int32(0)
            coming = begin_to_receive(query, column, fields, rows, first_start, lane)
            start = first_start
            while start < last_start or to_repeat != NOTHING:
                looking = track_best and to_repeat != NOTHING
                end = np.int32(start + batch)
                outside = start < behind or end >= rows
                partial = outside and not blanks
                if sparing:
                    fields, wanted_column = read_fields(jobs, job), strips[strip, work_tables.WANTED_COLUMN]
                if looking:
                    of_suspect = to_repeat != NEWEST
                    now, kind = suspect if of_suspect else np.int32(start - batch), BY_ROWS
                    kept_at = own_at + side_values * (np.int32(1 - side) if of_suspect else side)
                    kept = recall(memory, kept_at, lane, opened, e, inbox, inbox_at)
                    carry, origin = kept.carry, kept.origin
                    load_letters_again(
                        row_letters, ring_at, query, fields, rows, np.int32(now - span),
                        np.int32(now + batch), lane,
                    )  # fmt: skip
                    first_wanted = np.int32(0)
                else:
                    now = start
                    moved = origin_below(edge, fields.below)
                    if based:
                        carry = rebase(opened, e, carry, cost(np.int32(moved - origin)))
                        origin = moved
                    one, other, stopped = receive(coming, column, fields, rows, tag, start, lane, stop)
                    if stopped:
                        return
                    edge, ambiguous = load_rows(
                        inbox, inbox_at, row_letters, ring_at, one, other, fields, rows, start, lane,
                        outside, origin,
                    )  # fmt: skip
                    if track_best:
                        kept = Kept(carry, edge, origin, ambiguous_until, wanted.number)
                        if holds:
                            links = hold(opened, e, held, e_held, lane, inbox, inbox_at)
                        else:
                            kept_at = own_at + side_values * side
                            keep(memory, kept_at, lane, opened, e, kept, inbox, inbox_at)
                    if ahead:
                        coming = begin_to_receive(query, column, fields, rows, end, lane)
                    if ambiguous:
                        ambiguous_until = np.int32(end + span)
                    kind = PARTIAL if partial else USUAL
                    if blanks and start < behind and not fresh:
                        kind = EVENTFUL
                    if outside or end >= next_event(wanted, rows) or place.ragged:
                        met = look_ahead(wanted, start, end, behind, wanted_rows, jobs, job)
                        wanted = met.wanted
                        if place.ragged or (partial and met.meets):
                            kind = EVENTFUL
                        if kind == USUAL and met.meets:
                            kind = MEETING if meets_apart else EVENTFUL
                        # What row by row alone can do: `eventful` says why.
                        if met.by_rows or (kind != USUAL and start < ambiguous_until):
                            kind = BY_ROWS
                    first_wanted = wanted.number
                cuda.syncwarp()

                costs, first_row = costs_of(fields, origin), np.int32(now - part * STEP_ROWS)
                # Of a row above the rectangle, nothing could tie with a cell.
                top_row = max(np.int32(first_row + 1 - STEP_ROWS * (halves - 1)), np.int32(1))
                if minds_ambiguous and kind == USUAL and start < ambiguous_until:
                    kind = ANY_LETTERS
                if samples and kind == USUAL and start >= watch_until and is_high(
                    max(best.score, elsewhere), costs
                ):  # fmt: skip
                    kind = SAMPLED
                slack_of_batch = costs.amount if samples and kind == SAMPLED else np.int32(0)
                threshold = threshold_of(
                    best, np.int32(0) if looking else elsewhere, top_row, np.int32(first + 1), costs, origin,
                    used, slack_of_batch,
                )  # fmt: skip
                if track_best:
                    elsewhere = load_relaxed(best_scores, job)  # it takes its time
                letter_at = np.int32(ring_at + LETTER_BYTES * (first_row & (ring - 1)))
                desk = Desk(inbox_at, outbox_at, letter_at, profile, lane_at)
                # In this order: with the usual kind first, the assembler makes slower loops of long sweeps.
                if kind == BY_ROWS:
                    carry, highest, best = sweep_rows(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, origin,
                        place, carry, best, looking, threshold, wanted_rows, first_wanted, jobs, lines,
                    )  # fmt: skip
                elif meets_apart and kind == MEETING:
                    carry, highest = sweep_meeting_batch(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, origin,
                        place, carry, threshold, wanted, jobs, lines, memory,
                    )  # fmt: skip
                elif kind == EVENTFUL:
                    carry, highest = sweep_eventful_batch(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, origin,
                        place, carry, threshold, wanted, jobs, lines, memory,
                    )  # fmt: skip
                elif not blanks and kind == PARTIAL:
                    carry, highest = sweep_partial_batch(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place,
                        carry, threshold,
                    )  # fmt: skip
                elif minds_ambiguous and kind == ANY_LETTERS:
                    carry, highest = sweep_any_batch(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place,
                        carry, threshold,
                    )  # fmt: skip
                elif samples and kind == SAMPLED:
                    carry, highest = sweep_sampled_batch(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place,
                        carry, threshold,
                    )  # fmt: skip
                elif receives_early:
                    carry, highest, coming = sweep_and_receive(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place,
                        carry, threshold, query, column, fields, end,
                    )  # fmt: skip
                else:
                    carry, highest = sweep_batch(
                        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place,
                        carry, threshold,
                    )  # fmt: skip
                cuda.syncwarp()
                if looking:
                    best = best_of_warp(best)
                    suspect, to_repeat = NO_BATCH, NEWEST if to_repeat == BOTH else NOTHING
                    slack = np.int32(0)
                    continue

                if not ahead and not (receives_early and kind == USUAL):
                    coming = begin_to_receive(query, column, fields, rows, end, lane)
                store_edge(
                    outbox, outbox_at, column, lines, jobs, job, fields, rows, np.int32(tag + 1),
                    wanted_column, np.int32(start - behind), lane, origin,
                )  # fmt: skip
                if track_best:
                    exceeds, score = score_of(highest, threshold, costs, origin)
                    if exceeds:
                        if holds:
                            kept_at = own_at + side_values * side
                            keep_held(memory, kept_at, lane, held, e_held, kept, links)
                        watch_until = np.int32(end + WATCHED * batch)
                        if score > best.score + slack:
                            best = somewhere(
                                score, start, strips[strip, work_tables.FIRST_COLUMN], batch, full_width
                            )  # fmt: skip
                            suspect, side = start, np.int32(1 - side)
                            slack = slack_of_batch
                            if lane == 0:
                                cuda.atomic.max(best_scores, job, score)
                        else:
                            to_repeat = BOTH if suspect != NO_BATCH else NEWEST
                start = end
                is_last = start >= last_start
                if is_last or np.uint32(start) % np.uint32(REST_EVERY * batch) == 0:
                    passed = np.int32(start - behind - lead)
                    if not is_last and 0 < passed < rows:
                        let_catch_up(
                            column, fields.column_at + passed, np.int32(tag + 1),
                            strips[strip, work_tables.NEXT], tickets, lane,
                        )  # fmt: skip
                    if is_last or np.uint32(start) % np.uint32(TELL_EVERY * batch) == 0:
                        if last_start <= start < rows + behind:
                            kept = Kept(carry, edge, origin, ambiguous_until, wanted.number)
                            store_kept(state, state_at, lane, opened, e, kept)
                        begin = strips[strip, work_tables.FIRST_START]
                        publish_rows(flags, strips[strip, work_tables.FLAG], np.int32(start - begin), lane)
                        if lane == 0:
                            since = np.int32((start - 1) // (TELL_EVERY * batch) * (TELL_EVERY * batch))
                            before = _right_edge(max(since, begin), behind, rows)
                            done = np.int64(_right_edge(start, behind, rows) - before)
                            cuda.atomic.add(progress, 0, done * strips[strip, work_tables.WIDTH])
                        if told_to_stop(stop):
                            return
                    if track_best and is_last and to_repeat == NOTHING and suspect != NO_BATCH:
                        if best.score + slack >= load_for_all(best_scores, job):
                            to_repeat = SUSPECT
                        else:
                            best = no_best()

            if track_best and lane == 0:
                best_out[strip, work_tables.BEST_SCORE] = best.score
                best_out[strip, work_tables.BEST_I] = best.i
                best_out[strip, work_tables.BEST_J] = best.j
            strip = take_ticket(tickets, lane)

    return sweep
