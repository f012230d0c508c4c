"""The deliberate faults of `mutations.py`, and the tests that must notice them.

The replaced texts are short, which keeps them valid when the code around them changes.
`tests/tools/test_mutations.py` checks that each occurs exactly once in its file, and that the tests exist.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One fault replaces the text `before` in `file` by `after`.

    `tests` are the arguments of pytest that select the tests which must notice it. `name` identifies the
    fault in `experiments/results/mutations.json`.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def in_simulator(self) -> bool:
        """Whether its tests need Numba's CUDA simulator, which is selected when a process imports Numba."""
        return self.tests[0].startswith("tests/backends/cuda/simulator/")


_CONFORMANCE = "tests/backends/test_conformance.py::TestCpuOnOneThread"
_TRACES = "tests/backends/test_conformance.py::TestCpuTraces"
_SIMULATED = "tests/backends/cuda/simulator/test_conformance_simulated.py"
_LEFT_OUT = "tests/backends/cuda/simulator/test_left_out_simulated.py"
_CUDA = "longalign/backends/cuda"

_RECURRENCE = (
    Fault(
        "a gap preferred to a letter pair of equal score",
        "longalign/model/recurrence.py",
        "    if h == diagonal:\n        bits = DIAGONAL\n    elif h == e:\n        bits = FROM_E\n",
        "    if h == e:\n        bits = FROM_E\n    elif h == diagonal:\n        bits = DIAGONAL\n",
        ("tests/model/test_recurrence.py",),
    ),
    Fault(
        "gap opening not paid along an edge",
        "longalign/model/boundary.py",
        "opening = 0 if extends else scoring.gap_open",
        "opening = 0",
        ("tests/model/test_boundary.py::test_entry_edges_worked_out_by_hand",),
    ),
    Fault(
        "E and F exchanged in traceback",
        "longalign/model/recurrence.py",
        "return 0, 1, F if bits & F_EXTENDS else H",
        "return 0, 1, E if bits & F_EXTENDS else H",
        ("tests/model/test_recurrence.py",),
    ),
    Fault(
        "end cell on the highest anti-diagonal",
        "longalign/model/boundary.py",
        "return (self.score, -(self.i + self.j), self.j)",
        "return (self.score, self.i + self.j, self.j)",
        ("tests/model/test_boundary.py::test_best_cells_in_order",),
    ),
    Fault(
        "range check without room for minus infinity",
        "longalign/model/scoring.py",
        "_HIGHEST = (1 << 31) - (1 << 27)",
        "_HIGHEST = (1 << 31) - 1",
        ("tests/model/test_scoring.py",),
    ),
    Fault(
        "range check without the second gap",
        "longalign/model/scoring.py",
        "lowest = -2 * self.gap_open -",
        "lowest = -1 * self.gap_open -",
        ("tests/model/test_scoring.py",),
    ),
    Fault(
        "ambiguous letters match each other",
        "longalign/model/alphabet.py",
        "AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET = 4, 5",
        "AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET = 4, 4",
        ("tests/model/test_alignment.py::test_ambiguous_letters_never_match_and_u_is_t",),
    ),
    Fault(
        "ambiguous letters of a matrix match themselves",
        "longalign/model/alphabet.py",
        "same &= np.isin(query, [*codes], invert=True)",
        "same &= True",
        ("tests/model/test_alphabet.py",),
    ),
)

_CPU = (
    Fault(
        "leftmost of tied end cells",
        "longalign/model/recurrence.py",
        "return j > best_j",
        "return j < best_j",
        (
            f"{_CONFORMANCE}::test_of_two_best_cells_on_an_anti_diagonal_the_rightmost_is_the_end",
            "-k",
            "general",
        ),
    ),
    Fault(
        "CPU kernel: gap opening not paid",
        "longalign/backends/cpu/sweep_kernel.py",
        "h_open = number(h - opening)",
        "h_open = number(h - extend)",
        (f"{_CONFORMANCE}::test_equals_the_reference", "-k", "general"),
    ),
    Fault(
        "CPU kernel: 8-bit limit off by a match",
        "longalign/backends/cpu/worker.py",
        "limit = LARGEST_8 - job.highest",
        "limit = LARGEST_8",
        ("tests/backends/cpu/test_cpu_sweep.py::test_scores_that_outgrow_eight_and_sixteen_bits",),
    ),
    Fault(
        "CPU kernel: 16-bit limit ignores what a block may gain",
        "longalign/backends/cpu/worker.py",
        "if kernels.block_16 and high - low <=",
        "if kernels.block_16 and highest - low <=",
        ("tests/backends/cpu/test_cpu_sweep.py::test_scores_that_outgrow_eight_and_sixteen_bits",),
    ),
    Fault(
        "CPU kernel: progress published before the column is written",
        "longalign/backends/cpu/worker.py",
        "    edges.top_h[0] = edges.left_h[rows]\n",
        "    store_release(pointer(work.rows_done), position.ticket, position.block_end)\n"
        "    edges.top_h[0] = edges.left_h[rows]\n",
        (
            "tests/backends/cpu/test_cpu_sweep.py::test_rows_are_published_after_all_that_belongs_to_them_is_written",
        ),
    ),
    Fault(
        "CPU traces: a lane takes E from itself",
        "longalign/backends/cpu/traceback_kernel.py",
        "load(state, _E + p + 1), load(state, _F + p)",
        "load(state, _E + p), load(state, _F + p)",
        (f"{_TRACES}::test_finds_the_path_of_the_reference",),
    ),
    Fault(
        "columns of a leaf left out in which the path may be",
        "longalign/backends/cpu/traceback_kernel.py",
        "max(first + lowest, 0)",
        "max(first, 0)",
        ("tests/backends/cpu/test_cpu_trace.py",),
    ),
    Fault(
        "strips of lanes that are not whole groups",
        "longalign/backends/cpu/worklist.py",
        "step = -(-width // (parts * group)) * group",
        "step = -(-width // parts)",
        ("tests/backends/cpu/test_cpu_sweep.py::test_strips_are_whole_groups_of_lanes",),
    ),
    Fault(
        "start states of large rectangles with excluded pairs, all cells at once",
        "longalign/phases/entry.py",
        "most_excluding = most if backend.excludes_pairs else _MOST_EXCLUDING",
        "most_excluding = most",
        (
            "tests/run/test_next_best.py::"
            "test_start_states_beside_excluded_pairs_are_asked_for_in_small_rectangles",
        ),
    ),
)

_PRUNING = (
    Fault(
        "an edge not unpacked first where its bound is highest",
        "longalign/model/pruning.py",
        "    if len(may_reach) > 1:\n",
        "    if len(may_reach) > 1_000:\n",
        (
            "tests/model/test_pruning.py::"
            "test_an_edge_is_unpacked_first_where_its_bound_is_highest_and_nowhere_twice",
        ),
    ),
    Fault(
        "pruning: a tie with the bound is left out",
        "longalign/model/pruning.py",
        "return highest + gain + gap_open >= bound",
        "return highest + gain + gap_open > bound",
        (f"{_CONFORMANCE}::test_paths_that_just_reach_the_bound_are_exact",),
    ),
    Fault(
        "pruning: a best cell that just reaches the bound is not found",
        "longalign/backends/cpu/worker.py",
        "else max(job.bound - 1, 0)",
        "else max(job.bound, 0)",
        (f"{_CONFORMANCE}::test_paths_that_just_reach_the_bound_are_exact",),
    ),
    Fault(
        "pruning: a tile that just reaches the bound is left out",
        "longalign/model/pruning.py",
        "        least = self.bound - gap_open\n",
        "        least = self.bound - gap_open + 1\n",
        ("tests/model/test_pruning.py",),
    ),
    Fault(
        "gains: absent words are charged one too much",
        "longalign/pruning/gains.py",
        "            least_gain + beta + alpha // 2,\n        )\n",
        "            least_gain + beta + alpha // 2,\n        ) + 1\n",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound",),
    ),
    Fault(
        "gains: the whole gap opening for a word that is partly in a gap",
        "longalign/pruning/gains.py",
        "least_gain + beta + alpha // 2,",
        "least_gain + beta + alpha,",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound",),
    ),
    Fault(
        "gains: a word is charged where the path ends within it",
        "longalign/backends/cpu/gain_sums.py",
        "floor = max(floor - charge, stop)",
        "floor = max(floor - charge, zero)",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound",),
    ),
    Fault(
        "gains: a word that occurs twice is placed",
        "longalign/backends/cpu/absent_words.py",
        "return words[place] >> unused != words[place + 1] >> unused",
        "return True",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound_with_anchors",),
    ),
    Fault(
        "gains: a word across a row with a limit is charged",
        "longalign/pruning/gains.py",
        "charges[np.flatnonzero(charges[:-1])[-1:]] = 0",
        "pass",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound_with_row_limits",),
    ),
    Fault(
        "gains: a part above a limit has the corner of all letters",
        "longalign/pruning/gains.py",
        "end._replace(corner=end.corner + start)",
        "end",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound_with_row_limits",),
    ),
    Fault(
        "row limits: a path that gains more than expected is not found",
        "longalign/pruning/row_limits.py",
        "most[piece.start] = min(piece.most, max(piece.expected, score))",
        "most[piece.start] = min(piece.most, piece.expected)",
        ("tests/pruning/test_row_limits.py::test_no_path_gains_more_than_a_limit",),
    ),
    Fault(
        "row limits: letters are paired that the target does not have",
        "longalign/pruning/row_limits.py",
        "self._scoring.highest * min(stop - start, len(self._target))",
        "self._scoring.highest * (stop - start)",
        ("tests/pruning/test_row_limits.py::test_letters_that_score_almost_too_much",),
    ),
    Fault(
        "row limits: a limit exceeds what all letters gain",
        "longalign/pruning/row_limits.py",
        "min(gained, self._most_letters(piece.start, len(self._query)))",
        "gained",
        ("tests/pruning/test_row_limits.py::test_letters_that_score_almost_too_much",),
    ),
    Fault(
        "row limits: many devices wait for one",
        "longalign/run/bounds.py",
        "saved * self._seconds_of_all() / self._seconds_of(self.backend)",
        "saved",
        (
            "tests/run/test_bounds.py::test_nothing_is_looked_for_that_takes_longer_than_the_sweep_on_all_devices",
        ),
    ),
    Fault(
        "bound: gains take longer than the sweep on all devices",
        "longalign/run/bounds.py",
        "<= share * self._seconds_of_all()",
        "<= share * self._seconds_of(self.backend)",
        (
            "tests/run/test_bounds.py::test_nothing_is_looked_for_that_takes_longer_than_the_sweep_on_all_devices",
        ),
    ),
    Fault(
        "gains: row limits of a store are not used",
        "longalign/pruning/gains.py",
        "if len(limits):",
        "if False:",
        ("tests/pruning/test_gains.py::test_a_row_limit_lowers_the_bound_of_the_rows_above_by_as_much",),
    ),
    Fault(
        "store: row limits in any order are read",
        "longalign/store/pruned_files.py",
        "(np.diff(row) <= 0).any()",
        "False",
        ("tests/store/test_schema.py::test_numbers_that_cannot_be_there_are_damage_and_named",),
    ),
    Fault(
        "row limits: the query is cut beside long gaps",
        "longalign/pruning/row_limits.py",
        "cut = behind - 1 - int(nearest_first.argmin())",
        "cut = behind - 1",
        ("tests/pruning/test_row_limits.py::test_the_query_is_not_cut_near_a_long_gap",),
    ),
    Fault(
        "band sweep: a slab begins in the first column of the band",
        "longalign/pruning/band_sweep.py",
        "first = max(0, int(cols[needed[0]]) - 1)",
        "first = int(cols[needed[0]])",
        ("tests/pruning/test_band_sweep.py::test_a_long_gap_crosses_stages",),
    ),
    Fault(
        "band sweep: a slab has no columns for horizontal gaps",
        "longalign/pruning/band_sweep.py",
        "(cols[needed] + gap_letters).max()",
        "cols[needed].max()",
        ("tests/pruning/test_band_sweep.py::test_a_long_gap_crosses_stages",),
    ),
    Fault(
        "cuda: two GPUs load the same machine code",
        "longalign/backends/cuda/kernel_library.py",
        "kernel = dispatcher(spec, device)",
        'kernel = dispatcher(spec, "cuda:0")',
        ("tests/backends/test_kernel_cache.py::test_each_device_loads_machine_code_of_its_own",),
    ),
    Fault(
        "gains: the last words of a piece are cut off at its end",
        "longalign/backends/cpu/absent_words.py",
        "piece.start : piece.stop + _WORD_BITS // bits]",
        "piece.start : piece.stop]",
        ("tests/backends/cpu/test_absent_words.py",),
    ),
    Fault(
        "gains: a word is placed where its letters differ",
        "longalign/backends/cpu/placed_words.py",
        "                if unpaired >= 0:\n",
        "                if unpaired >= place + length:\n",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound_with_anchors",),
    ),
    Fault(
        "gains: words at the ends of gaps pay the whole charge",
        "longalign/pruning/gains.py",
        "spread = np.maximum(0, [charge - alpha, charge - least_gain - alpha // 2])",
        "spread = np.zeros(2, np.int64)",
        ("tests/pruning/test_gains.py::test_gaps_could_not_be_charged_more",),
    ),
    Fault(
        "gains: a hill that a new one covers only in part is removed",
        "longalign/backends/cpu/gain_sums.py",
        "farthest = max(diagonal - hills[hill, _LOW], hills[hill, _HIGH] - diagonal)",
        "farthest = min(diagonal - hills[hill, _LOW], hills[hill, _HIGH] - diagonal)",
        ("tests/pruning/test_gains.py::test_a_path_may_leave_a_diagonal_and_return",),
    ),
    Fault(
        "gains: a hill for which there is no room removed with nothing in its place",
        "longalign/backends/cpu/gain_sums.py",
        "floor = max(floor, remove_lowest(hills, count))",
        "remove_lowest(hills, count)",
        ("tests/pruning/test_gains.py::test_a_path_may_leave_a_diagonal_and_return",),
    ),
    Fault(
        "pruning: a path that begins inside a tile is not thought of",
        "longalign/phases/tile_step.py",
        "    if is_needed(level, gain, alpha, lattice.bound):\n        return True\n",
        "",
        ("tests/phases/test_pruned.py",),
    ),
    Fault(
        "pruning: gains of a part count the other sequence from its first letter",
        "longalign/model/pruning.py",
        "np.int64(self.slope * other_start)",
        "np.int64(0)",
        ("tests/model/test_pruning.py",),
    ),
    Fault(
        "pruning: CPU blocks are tested for paths to their first column only",
        "longalign/backends/cpu/skipping.py",
        "_gain_within(by_row, slope, strip.stop)",
        "_gain_within(by_row, slope, strip.start)",
        (f"{_CONFORMANCE}::test_paths_that_just_reach_the_bound_are_exact",),
    ),
    Fault(
        "pruning: CPU blocks are tested for paths to their first row only",
        "longalign/backends/cpu/skipping.py",
        "_gain_within(by_column, slope, end)",
        "_gain_within(by_column, slope, row)",
        (f"{_CONFORMANCE}::test_paths_that_just_reach_the_bound_are_exact",),
    ),
    Fault(
        "pruning: CUDA row blocks are tested for paths to their first column only",
        f"{_CUDA}/device/left_out_blocks.py",
        "return StripGains(jobs[job, work_tables.QUERY_GAIN_AT], target, last)",
        "return StripGains(jobs[job, work_tables.QUERY_GAIN_AT], target, first)",
        (f"{_LEFT_OUT}::test_a_path_that_lags_behind_is_exact_with_the_smallest_gains",),
    ),
    Fault(
        "pruning: CUDA row blocks are tested for paths to their first row only",
        f"{_CUDA}/device/left_out_blocks.py",
        "_gain_within(gains.target, np.int64(slope), end)",
        "_gain_within(gains.target, np.int64(slope), end - np.int32(16))",
        (f"{_LEFT_OUT}::test_a_path_that_lags_behind_is_exact_with_the_smallest_gains",),
    ),
    Fault(
        "pruning: CUDA row blocks are tested with the query's gains of the next row block",
        f"{_CUDA}/kernels/sweep.py",
        "limits = query_limits(np.int32(end - last_part_lag)",
        "limits = query_limits(np.int32(end + block_rows - last_part_lag)",
        (f"{_LEFT_OUT}::test_a_path_that_lags_behind_is_exact_with_the_smallest_gains",),
    ),
    Fault(
        "pruning: a strip that goes on in another band begins with the gains of the next row block",
        f"{_CUDA}/kernels/sweep.py",
        "limits = query_limits(np.int32(start - last_part_lag)",
        "limits = query_limits(np.int32(start + block_rows * (start > 0) - last_part_lag)",
        (f"{_LEFT_OUT}::test_a_path_that_lags_behind_is_exact_with_the_smallest_gains",),
    ),
    Fault(
        "pruning: a stretch of a tile's edge is tested with the gains of its last cell",
        "longalign/model/pruning.py",
        "self.gain(i, i, j + first, j + last)",
        "self.gain(i, i, j + last, j + last)",
        ("tests/model/test_pruning.py::test_a_rectangle_is_needed_if_a_cell_of_its_edges_reaches_the_bound",),
    ),
    Fault(
        "pruning: a tile's left edge is tested with the gains at the beginning of the query",
        "longalign/model/pruning.py",
        "self.gain(i + first, i + last, j, j)",
        "self.gain(first, last, j, j)",
        ("tests/model/test_pruning.py::test_a_part_is_tested_with_the_gains_at_its_place",),
    ),
    Fault(
        "gains: the line of paths that lag behind begins at the high ends of hills",
        "longalign/backends/cpu/gain_sums.py",
        "hills[hill, _HEIGHT] - hills[hill, _LOW])",
        "hills[hill, _HEIGHT] - hills[hill, _HIGH])",
        ("tests/pruning/test_gains.py::test_gains_on_each_diagonal_are_as_defined",),
    ),
    Fault(
        "gains: the corner of a global alignment is taken to be elsewhere",
        "longalign/backends/cpu/gain_sums.py",
        "add_hill(hills, 0, zero, slope * corner)",
        "add_hill(hills, 0, zero, slope * (corner + 1))",
        ("tests/pruning/test_gains.py::test_the_way_to_the_corner_is_charged",),
    ),
    Fault(
        "gains: no path may end before the end of a sequence",
        "longalign/backends/cpu/gain_sums.py",
        "least = zero if may_stop else never",
        "least = never",
        ("tests/pruning/test_gains.py::test_no_path_gains_more_than_the_bound",),
    ),
    Fault(
        "sweep: one of several back ends of a GPU does not fetch its best cells",
        "longalign/backends/cuda/launch/sweep_launch.py",
        "        if not alone:\n            buffers.fetch_best()",
        "        if not alone:\n            pass",
        (_LEFT_OUT + "::test_what_is_fetched_for_one_of_several_back_ends",),
    ),
    Fault(
        "plan: the lattice of a narrow band may make tiles too large",
        "longalign/run/planner.py",
        "if kept <= room and self.fits(grid):",
        "if kept <= room:",
        ("tests/run/test_planner.py::test_a_finer_lattice_does_not_make_tiles_too_large_for_memory",),
    ),
    Fault(
        "seeds: gap opening not paid",
        "longalign/pruning/run_scores.py",
        "score = -(numbers[2] + length * numbers[3])",
        "score = -length * numbers[3]",
        ("tests/pruning/test_seeds.py::test_a_bound_is_the_score_of_an_alignment_and_never_above_the_best",),
    ),
)

_CUDA_DEVICE = (
    Fault(
        "a strip of a traced leaf without its last row",
        f"{_CUDA}/device/directions.py",
        "STRIP_WIDTH + highest - lowest + 1)",
        "STRIP_WIDTH + highest - lowest)",
        ("tests/backends/cuda/test_cuda_traceback.py::test_a_strip_has_all_rows_in_which_a_path_can_be",),
    ),
    Fault(
        "rows that the strip before has not swept read from its edge",
        f"{_CUDA}/device/directions.py",
        "elif row < swept:",
        "else:",
        (
            "tests/backends/cuda/simulator/test_traces_simulated.py::TestTracesInNarrowStrips"
            "::test_most_rows_of_a_strip_are_left_out",
        ),
    ),
    Fault(
        "CUDA: E not moved to the new origin",
        f"{_CUDA}/device/strip_edges.py",
        "e[k] = subtract(e[k], by)",
        "e[k] = e[k]",
        (f"{_SIMULATED}::test_ragged_strips_and_runs_of_ambiguous_letters",),
    ),
    Fault(
        "CUDA: F read before it has come",
        f"{_CUDA}/device/sync.py",
        "high_of(first.h) != tag or high_of(first.gap) != tag",
        "high_of(first.h) != tag",
        (f"{_SIMULATED}::test_a_row_block_waits_for_each_value_of_its_edge",),
    ),
    Fault(
        "CUDA: rows published a row block too early",
        f"{_CUDA}/device/publish.py",
        "np.int32(start - begin), lane)",
        "np.int32(start - begin + block_rows), lane)",
        (f"{_SIMULATED}::test_rows_are_published_after_their_edges_are_stored",),
    ),
    Fault(
        "CUDA: a requested row stored one row late",
        f"{_CUDA}/device/masked_blocks.py",
        "if row == of_low.row and row > 0:",
        "if row == of_low.row + 1 and row > 0:",
        (f"{_SIMULATED}::test_ragged_strips_and_runs_of_ambiguous_letters",),
    ),
    Fault(
        "CUDA: excluded pairs of the second half looked for too far down",
        f"{_CUDA}/device/excluded_pairs.py",
        "first_pair_from(np.int32(row - STEP_ROWS), pairs, words)",
        "first_pair_from(row, pairs, words)",
        (f"{_LEFT_OUT}::test_every_pair_of_two_diagonals_is_excluded",),
    ),
    Fault(
        "CUDA: the excluded pairs of the first row of a step in both rows",
        f"{_CUDA}/device/masked_blocks.py",
        "None, excluded_upper, excluded_lower,",
        "None, excluded_upper, excluded_upper,",
        (f"{_LEFT_OUT}::test_every_pair_of_two_diagonals_is_excluded",),
    ),
    Fault(
        "CUDA: letters N beside excluded pairs not looked for",
        f"{_CUDA}/kernels/sweep.py",
        "is_fast = kind == FAST and start >= ambiguous_until",
        "is_fast = kind == FAST",
        (f"{_LEFT_OUT}::test_every_pair_of_two_diagonals_is_excluded",),
    ),
    Fault(
        "CUDA: the best cell beside excluded pairs looked for in every second row only",
        f"{_CUDA}/device/masked_blocks.py",
        "maximum(state.high, state.higher)\n\n    return sweep_excluding_block",
        "state.high\n\n    return sweep_excluding_block",
        (f"{_LEFT_OUT}::test_every_pair_of_two_diagonals_is_excluded",),
    ),
    Fault(
        "CUDA: a requested row not stored where a row block that is left out ends with it",
        f"{_CUDA}/kernels/sweep.py",
        "if 0 < requested.row <= end:",
        "if 0 < requested.row < end:",
        (f"{_LEFT_OUT}::test_what_requested_rows_hold_where_all_is_left_out",),
    ),
)

_STORE = (
    Fault(
        "a piece of a line whose first step does not begin in the piece before",
        "longalign/phases/packing.py",
        "self._last[line], self._filled[line] = h[-1], start + len(h)",
        "self._filled[line] = start + len(h)",
        ("tests/store/test_store.py::test_lines_that_come_in_pieces_are_packed_as_whole_ones",),
    ),
    Fault(
        "wide distances of the gap state cut to narrow ones",
        "longalign/backends/cpu/line_differences.py",
        "places[count], wide[count] = x, below",
        "places[count], wide[count] = x, kind(below)",
        ("tests/store/test_store.py::test_lines_that_come_in_pieces_are_packed_as_whole_ones",),
    ),
    Fault(
        "seeds: segments without the score of what is between words",
        "longalign/pruning/segments.py",
        "score += between + in_word",
        "score += in_word",
        ("tests/pruning/test_unique_words.py",),
    ),
    Fault(
        "kernels of the GPU that leave out cells used for large scores",
        "longalign/backends/cuda/planning/raised_range.py",
        '!= "compare" and largest < _MOST',
        '!= "compare"',
        ("tests/backends/cuda/test_cuda_planning.py", "-k", "leave_out"),
    ),
    Fault(
        "an index believed to show the only record of a file",
        "longalign/fasta/index.py",
        "choice for choice in choices if choice.name is not None",
        "choice for choice in choices",
        ("tests/fasta/test_specs.py", "-k", "only_one"),
    ),
    Fault(
        "wide values of a pruned tile not listed",
        "longalign/store/line_tables.py",
        "return complete(values.narrow), values.listed()",
        "return values.narrow, NONE_APART",
        ("tests/store/test_store.py::test_a_pruned_store_lists_wide_values_apart",),
    ),
    Fault(
        "a cliff whose step wraps not noticed",
        "longalign/store/codec.py",
        "highest[np.maximum(rise, -fall) > _LARGEST_BOUNDED]",
        "highest[rise > _LARGEST_BOUNDED]",
        ("tests/store/test_store.py::test_a_cliff_spoils_the_bounds_of_its_own_stretch_alone",),
    ),
    Fault(
        "any constant piece of a line taken for cells left out",
        "longalign/model/narrow_values.py",
        "0 if value == level else count",
        "0",
        ("tests/store/test_store.py::test_a_constant_piece_is_level_only_if_cells_left_out_have_its_value",),
    ),
    Fault(
        "dropped boundaries still counted",
        "longalign/store/memory.py",
        " - sum(lines.nbytes for lines in dropped)",
        "",
        ("tests/store/test_memory.py",),
    ),
    Fault(
        "packed lines: gaps of a part shifted by one",
        "longalign/store/codec.py",
        "self.gaps[line, start:stop],",
        "self.gaps[line, max(0, start - 1) : max(0, start - 1) + stop - start],",
        ("tests/store/test_store.py::test_every_part_of_every_packed_line_comes_back",),
    ),
    Fault(
        "packed lines: anchors off by one",
        "longalign/phases/packing.py",
        "h[first * codec.ANCHOR_STRIDE - 1 - start :: codec.ANCHOR_STRIDE]",
        "h[first * codec.ANCHOR_STRIDE - start :: codec.ANCHOR_STRIDE]",
        ("tests/store/test_store.py::test_every_part_of_every_packed_line_comes_back",),
    ),
    Fault(
        "CRC of a block not compared",
        "longalign/store/hdf5_filters.py",
        "if checksum(numbers) != crc:",
        "if checksum(numbers) < 0:",
        ("tests/store/test_blocks.py",),
    ),
    Fault(
        "CRC made of the buffer",
        "longalign/store/line_tables.py",
        "values_so_far[: at + count], crc)",
        "values_so_far[: at + count], checksum(values_so_far[: at + count]))",
        ("tests/store/test_tile_writer.py::test_a_buffer_that_is_changed_in_memory_is_noticed_on_reading",),
    ),
    Fault(
        "lock shared with others",
        "longalign/store/lock.py",
        "fcntl.LOCK_EX if self.refusal is None",
        "fcntl.LOCK_SH if self.refusal is None",
        ("tests/store/test_store.py::test_a_store_has_one_owner_who_may_die",),
    ),
    Fault(
        "files written in place",
        "longalign/store/files.py",
        "temporary.replace(path)",
        "path.write_bytes(temporary.read_bytes())",
        ("tests/store/test_store.py::test_a_reader_of_a_file_that_is_replaced_reads_the_old_one_to_its_end",),
    ),
    Fault(
        "files renamed before they are flushed",
        "longalign/store/files.py",
        "        _flush(temporary)\n",
        "",
        ("tests/store/test_store.py::test_a_file_is_flushed_before_it_has_its_name_and_its_name_after",),
    ),
    Fault(
        "another scoring accepted by a store",
        "longalign/store/manifest.py",
        "*_scoring_pairs(self.scoring, asked.scoring),",
        "",
        ("tests/store/test_store.py::test_another_run_is_refused_with_every_field_that_differs",),
    ),
    Fault(
        "changed sequence files accepted by a store",
        "longalign/store/manifest.py",
        '(f"SHA-256 of the target {asked.target.place}", self.target.sha256, asked.target.sha256),',
        "",
        ("tests/run/test_resume.py::test_a_changed_file_is_refused_and_the_field_named",),
    ),
    Fault(
        "SHA-256 of stored sequences not compared",
        "longalign/store/directory.py",
        "if sequence.sha256 != record.sha256:",
        "if sequence.length != record.length:",
        ("tests/store/test_store.py::test_other_letters_in_the_place_of_a_sequence_are_noticed",),
    ),
    Fault(
        "a tile in the place of another accepted",
        "longalign/store/schema.py",
        'for name in ("i0", "i1", "j0", "j1")):',
        'for name in ("i0", "i1")):',
        ("tests/store/test_store.py::test_a_tile_in_the_place_of_another_is_noticed",),
    ),
    Fault(
        "a path stored before its tiles",
        "longalign/store/write_behind.py",
        "self._last_result = self._thread.submit(self._write_result, write)",
        "write()",
        ("tests/store/test_write_behind.py::test_a_path_is_stored_when_the_tiles_are",),
    ),
    Fault(
        "a path stored after a tile could not be written",
        "longalign/store/write_behind.py",
        "        if self._error is None:\n",
        "        if True:\n",
        ("tests/store/test_write_behind.py::test_there_is_no_path_through_tiles_that_cannot_be_written",),
    ),
    Fault(
        "tiles lost after one that could not be written",
        "longalign/store/write_behind.py",
        "            with self._noting_errors():\n                self._store.put_tile",
        "            if self._error is None:\n                self._store.put_tile",
        ("tests/store/test_write_behind.py::test_tiles_after_one_that_cannot_be_written_are_written",),
    ),
    Fault(
        "tiles that are held back have no limit of memory",
        "longalign/store/write_behind.py",
        "                self._held_bytes.change([record.rows, record.cols])\n                self._held[",
        "                self._held[",
        ("tests/store/test_write_behind.py::test_held_tiles_take_no_more_memory_than_was_planned",),
    ),
    Fault(
        "tiles left out are not listed after a damaged tile",
        "longalign/run/three_phases.py",
        "    end = _swept(side, sides, recorder)\n    left_out = side.lattice.left_out\n",
        "    left_out = side.lattice.left_out\n    before = {*left_out.tiles}\n"
        "    end = _swept(side, sides, recorder)\n    left_out.listed = frozenset(before)\n",
        (
            "tests/phases/test_pruned.py::test_what_was_left_out_is_listed_although_phase_1_met_a_damaged_tile",
        ),
    ),
    Fault(
        "U unknown to a matrix of nucleotides",
        "longalign/model/alphabet.py",
        "    if is_nucleotides(letters):\n        for one, other",
        "    if False:\n        for one, other",
        ("tests/test_api.py::test_rna_is_aligned_like_dna",),
    ),
    Fault(
        "a resumed run of many pairs names a record twice",
        "longalign/cli/many.py",
        "query=split_spec(asked.query)[0]",
        "query=asked.query",
        ("tests/cli/test_many.py::test_a_run_over_a_named_record_is_resumed",),
    ),
    Fault(
        "a flush that does not wait for results",
        "longalign/store/write_behind.py",
        "            wait([self._last_result])",
        "            pass",
        ("tests/store/test_write_behind.py::test_a_flush_waits_for_results",),
    ),
)

_RUN = (
    Fault(
        "more parts of a device than tiles can be swept at a time",
        "longalign/run/parts.py",
        "request, min(grid.shape)",
        "request, max(grid.shape)",
        ("tests/run/test_parts.py::test_there_are_as_many_parts_as_tiles_can_be_swept_at_once",),
    ),
    Fault(
        "device memory planned for one of the tiles that are swept at once",
        "longalign/run/planner.py",
        "one.max_boundary_cells // shares",
        "one.max_boundary_cells",
        ("tests/run/test_parts.py::test_the_tiles_at_once_fit_in_device_memory_beside_phases_2_and_3",),
    ),
    Fault(
        "the store of one strand of a pruned run over both used alone",
        "longalign/run/pipeline.py",
        'of_both_strands=spec.strand == "both"',
        "of_both_strands=False",
        (
            "tests/run/test_bounds.py::test_the_store_of_one_strand_of_a_pruned_run_over_both_is_not_used_alone",
        ),
    ),
    Fault(
        "tiles swept one after the other although planned for two at a time",
        "longalign/run/slabs.py",
        "return LocalEngine(lattice, self.backends)",
        "return LocalEngine(lattice, self.backends[:1])",
        ("tests/run/test_parts.py::test_two_tiles_are_swept_at_once",),
    ),
    Fault(
        "a kernel in the cache that knows nothing of an edited rule",
        "longalign/backends/kernel_cache.py",
        '    "model",\n',
        '    "model/recurrence.py",\n',
        ("tests/backends/test_kernel_cache.py", "-k", "source"),
    ),
    Fault(
        "a resumed run that asks for as many alignments as before",
        "longalign/store/directory.py",
        "if asked != self.manifest:",
        "if asked.output != self.manifest.output:",
        ("tests/cli/test_top.py",),
    ),
    Fault(
        "blocks left out inside tiles not counted",
        "longalign/cli/inspect.py",
        " for place in left_out) + sum(left_out_inside.values())",
        " for place in left_out)",
        ("tests/cli/test_cli.py::test_inspect_counts_all_cells_that_were_left_out",),
    ),
    Fault(
        "wavefront a tile too early",
        "longalign/phases/wavefront.py",
        "if above and beside:",
        "if above or beside:",
        ("tests/phases/test_wavefront.py",),
    ),
    Fault(
        "a guessed row accepted whose values are too low",
        "longalign/phases/guessed_lines.py",
        "if highest >= 0 >= added else",
        "if highest >= 0 else",
        ("tests/phases/test_guessed_lines.py::test_a_constant_above_0_is_refused",),
    ),
    Fault(
        "a guessed row whose gap states are not compared",
        "longalign/phases/guessed_lines.py",
        "in ((h, guessed_h + added), (e, guessed_e + added)):",
        "in ((h, guessed_h + added),):",
        ("tests/phases/test_guessed_lines.py::test_every_value_of_interest_matters",),
    ),
    Fault(
        "the bound raised by values below a guess, which may be too high",
        "longalign/phases/tile_step.py",
        "if not guesses:  #",
        "if True:  #",
        ("tests/phases/test_guessed_lines.py", "-k", "whatever_the_constant"),
    ),
    Fault(
        "the best cell of a tile below a guess not corrected",
        "longalign/phases/lattice.py",
        "replace(record.best, score=score)",
        "record.best",
        ("tests/phases/test_guessed_lines.py", "-k", "whatever_the_constant"),
    ),
    Fault(
        "the constant of a tile below a guess not stored",
        "longalign/store/directory.py",
        "record.left_out, record.added\n",
        "record.left_out, 0\n",
        ("tests/phases/test_guessed_lines.py", "-k", "accepted_in_a_stored_run"),
    ),
    Fault(
        "tiles below guesses stored before these are checked",
        "longalign/run/pipeline.py",
        "writing.held() if lattice.guesses else nullcontext()",
        "nullcontext()",
        ("tests/phases/test_guessed_lines.py", "-k", "before_these_are_checked"),
    ),
    Fault(
        "a tile below a guessed row left out because of the tile above",
        "longalign/phases/tile_step.py",
        "if not is_below_guess and {",
        "if {",
        ("tests/phases/test_guessed_lines.py", "-k", "wrong_one_left_out"),
    ),
    Fault(
        "a guess below which a path may begin",
        "longalign/phases/guessed_lines.py",
        " or _may_begin_below(problem, row):",
        ":",
        ("tests/phases/test_guessed_lines.py", "-k", "begins_below"),
    ),
    Fault(
        "a guess no wider than paths to the right of the alignment need",
        "longalign/phases/guessed_lines.py",
        "    return max(0, right, below)\n",
        "    return max(0, right)\n",
        ("tests/phases/test_guessed_lines.py::test_half_the_width_of_a_band",),
    ),
    Fault(
        "a row above a guess dropped before the guess is checked",
        "longalign/store/memory.py",
        " and above[0] not in self._kept:",
        ":",
        ("tests/store/test_memory.py::test_rows_that_are_kept_stay_whatever_is_stored_below",),
    ),
    Fault(
        "tiles below a wrong guess kept",
        "longalign/phases/score.py",
        "            lattice.store.drop_tile(*place)\n",
        "",
        ("tests/phases/test_guessed_lines.py",),
    ),
    Fault(
        "a refused call made twice",
        "longalign/system/threads.py",
        "            call.make()\n            if isinstance(error",
        "            fn(*args, **kwargs)\n            call.make()\n            if isinstance(error",
        ("tests/system/test_threads.py::test_each_call_is_made_once_where_there_are_few_threads",),
    ),
    Fault(
        "halves of a gap meet without alpha",
        "longalign/phases/meeting.py",
        "join(before, after, state, alpha) == total",
        "join(before, after, state, 0) == total",
        ("tests/phases/test_meeting.py",),
    ),
    Fault(
        "the last of several possible entries",
        "longalign/phases/entry.py",
        "return approach.entry(int(codes[0])) if len(codes) == 1 else None",
        "return approach.entry(int(codes[-1]))",
        ("tests/run/test_one_paf.py",),
    ),
    Fault(
        "a segment whose gap is open on entry pays for two openings",
        "longalign/phases/problem.py",
        "(2 if self.entry.state == State.H else 1)",
        "2",
        ("tests/phases/test_detour.py",),
    ),
    Fault(
        "a diagonal taken for the path although another path scores more",
        "longalign/phases/diagonal.py",
        "return entry if entry.value + int(sums[-1]) == point.value else None",
        "return entry",
        ("tests/phases/test_diagonal.py",),
    ),
    Fault(
        "pieces looked for under the next number",
        "longalign/run/three_phases.py",
        "in enumerate(groups)\n",
        "in enumerate(groups, 1)\n",
        ("tests/run/test_resume.py::test_a_finished_run_is_not_swept_again",),
    ),
    Fault(
        "one more stored alignment taken than was asked for",
        "longalign/run/next_best.py",
        "[: spec.top - 1]",
        "[: spec.top]",
        ("tests/run/test_next_best.py",),
    ),
    Fault(
        "tiles that did not change are missing in progress",
        "longalign/phases/changed_tiles.py",
        "        progress(tile.cells)\n",
        "",
        ("tests/run/test_next_best.py::test_only_changed_tiles_are_swept_again",),
    ),
    Fault(
        "a least score that no store can hold",
        "longalign/run/spec.py",
        "is_long(self.min_score)",
        "False",
        ("tests/run/test_next_best.py::test_the_public_function_checks_its_numbers",),
    ),
    Fault(
        "pairs whose next best alignments are missing counted as done",
        "longalign/cli/inspect.py",
        'and part["next_best_complete"]',
        "",
        ("tests/cli/test_top.py::test_a_pair_is_done_when_its_next_best_alignments_are_found",),
    ),
    Fault(
        "small pairs run together whatever memory they need",
        "longalign/run/pipeline.py",
        "if len(batch) > 1 and fits(batch, resources):",
        "if len(batch) > 1:",
        ("tests/run/test_batch.py",),
    ),
    Fault(
        "a place where no store can be made noticed only after seeds",
        "longalign/run/pipeline.py",
        "    refuse_taken(path, spec.strand)",
        "    pass",
        ("tests/run/test_pipeline.py",),
    ),
    Fault(
        "a trace that does not say that it waits for the compiler",
        "longalign/run/trace_cell.py",
        'with compiles_reported(recorder), recorder.phase("stitch"):',
        'with recorder.phase("stitch"):',
        ("tests/phases/test_eager.py::test_a_trace_says_how_long_kernels_were_compiled",),
    ),
    Fault(
        "an alignment that scores too little looked for again",
        "longalign/run/three_phases.py",
        "else replace(first.spec, min_score=None)",
        "else first.spec",
        ("tests/run/test_next_best.py::test_one_that_scores_too_little_is_not_looked_for_again",),
    ),
    Fault(
        "alignment not scored again before it is returned",
        "longalign/run/outcome.py",
        "    alignment.check()\n",
        "",
        ("tests/phases/test_phases.py::test_an_alignment_that_is_not_worth_its_score_is_an_internal_error",),
    ),
)

_FORMATS = (
    Fault(
        "an output file replaced although it is the one behind a descriptor",
        "longalign/formats/output.py",
        "return int(place.name)",
        "return None",
        ("tests/formats/test_output.py::test_a_descriptor_is_written_where_the_next_text_goes",),
    ),
    Fault(
        "I and D exchanged in CIGARs",
        "longalign/model/alignment.py",
        '_SYMBOLS = "MIDNSHP=X"',
        '_SYMBOLS = "MDINSHP=X"',
        ("tests/formats/test_paf.py::test_a_line",),
    ),
    Fault(
        "letters that were replaced taken for those of another rule",
        "longalign/model/sequence.py",
        "if substitute and (",
        "if not substitute and (",
        ("tests/model/test_sequence.py::test_letters_that_were_replaced_are_not_those_of_another_rule",),
    ),
    Fault(
        "an index believed without a look at the end of the record",
        "longalign/fasta/index.py",
        ' and after[:1] in (b"", b">")',
        "",
        ("tests/fasta/test_specs.py::test_an_index_that_no_longer_fits_is_an_error",),
    ),
    Fault(
        "pairs left out told before their turn",
        "longalign/cli/many.py",
        "self._pending.append((pair, reason))",
        "self._pending.appendleft((pair, reason))",
        ("tests/cli/test_many.py::test_pairs_left_out_stand_in_their_places",),
    ),
    Fault(
        "region offset missing in PAF",
        "longalign/formats/paf.py",
        "sequence.offset + start, sequence.offset + end",
        "start, end",
        ("tests/formats/test_paf.py::test_coordinates_are_those_of_whole_records",),
    ),
    Fault(
        "NM not verified",
        "longalign/formats/verify.py",
        '"tag NM", record.edit_distance,',
        '"tag NM", tally.mismatches + tally.gap_letters,',
        ("tests/formats/test_verify.py::test_false_claims_are_named",),
    ),
    Fault(
        "an interrupt ends with the number of its signal",
        "longalign/cli/interrupts.py",
        "return 128 + (self.struck or signal.SIGINT)",
        "return self.struck or signal.SIGINT",
        ("tests/cli/test_cli.py::test_an_interrupt_says_how_to_go_on",),
    ),
    Fault(
        "a kernel loaded where a signal may interrupt it",
        "longalign/backends/compilation.py",
        "_this_thread.poll):\n        return in_own_thread(call, _this_thread.poll)",
        "_this_thread.poll):\n        return call()",
        ("tests/cli/test_signals.py::test_a_signal_while_a_kernel_is_loaded_is_not_lost_in_llvm",),
    ),
)

FAULTS = (*_RECURRENCE, *_CPU, *_PRUNING, *_CUDA_DEVICE, *_STORE, *_RUN, *_FORMATS)
