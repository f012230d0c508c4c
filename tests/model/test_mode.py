"""Modes are values: a word, and the ends that cost nothing if they stay unaligned."""

from __future__ import annotations

import copy
import json
import pickle
from itertools import product
from typing import get_args

import pytest

from longalign.errors import UsageError
from longalign.model.mode import (
    EXTEND,
    FIT,
    GLOBAL,
    LOCAL,
    MODES,
    OVERLAP,
    SEMIGLOBAL,
    EndName,
    FreeEnds,
    ModeName,
    as_mode,
    choose_mode,
)

ENDS = get_args(EndName)


@pytest.mark.parametrize(
    ("mode", "starts_anywhere", "last_row", "last_column"),
    [
        (LOCAL, True, False, False),
        (GLOBAL, False, True, False),
        (SEMIGLOBAL, False, True, True),
        (OVERLAP, False, True, False),
        (FIT, False, True, False),
        (EXTEND, False, False, False),
        (choose_mode("semiglobal", ["query-end"]), False, False, True),
        (choose_mode("semiglobal", ["query-start"]), False, True, False),
    ],
    ids=str,
)
def test_a_mode_says_where_paths_start_and_which_far_edges_show_their_ends(
    mode, starts_anywhere, last_row, last_column
):
    assert mode.starts_anywhere == starts_anywhere
    assert mode.ends_anywhere == (mode in (LOCAL, EXTEND))
    assert (mode.needs_last_row, mode.needs_last_column) == (last_row, last_column)


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_the_best_alignment_may_be_empty_where_a_path_may_start_and_end_in_one_cell(mode):
    """In a matrix of 2 x 3 letters: a cell beyond its four corners allows both only if any cell does."""
    rows, cols, ends = 2, 3, mode.ends

    def may_end(i, j):
        on_right, on_bottom = ends.query_end and j == cols, ends.target_end and i == rows
        return ends.ends_anywhere or ((i == rows or on_right) and (j == cols or on_bottom))

    cells = product(range(rows + 1), range(cols + 1))
    assert mode.may_be_empty == any(mode.starts_at(i, j, 0) and may_end(i, j) for i, j in cells)


def test_a_path_starts_on_a_free_edge_or_in_the_corner():
    assert all(mode.starts_at(0, 0, 0) for mode in MODES.values())
    assert [FIT.starts_at(*cell, -3) for cell in ((0, 4), (4, 0), (4, 4))] == [True, False, False]
    assert [OVERLAP.starts_at(*cell, -3) for cell in ((0, 4), (4, 0), (4, 4))] == [False, True, False]
    assert [LOCAL.starts_at(4, 4, value) for value in (0, 3)] == [True, False]


def test_the_offered_modes_are_found_by_their_words():
    plain = [mode for mode in MODES if ":" not in mode]
    assert plain == list(get_args(ModeName)) == list(MODES)[: len(plain)]
    assert as_mode("local") is as_mode(LOCAL) is LOCAL
    assert as_mode(FIT) is FIT
    with pytest.raises(UsageError):
        as_mode("semi")


def test_a_word_determines_the_ends_and_each_choice_of_free_ends_has_one_word():
    choices = [[end for k, end in enumerate(ENDS) if number >> k & 1] for number in range(1, 16)]
    modes = [choose_mode("semiglobal", ends) for ends in choices]
    assert len(set(modes)) == len(choices)
    assert {*modes} == {mode for mode in MODES if mode.startswith("semiglobal")}
    for mode, ends in zip(modes, choices, strict=True):
        assert [getattr(mode.ends, end.replace("-", "_")) for end in ENDS] == [end in ends for end in ENDS]
        assert not mode.starts_anywhere
        assert not mode.ends_anywhere
        assert (MODES[mode], MODES[mode].ends) == (mode, mode.ends)
        assert choose_mode("semiglobal", [*ends[::-1], ends[0]]) == mode
    assert choose_mode("semiglobal", ["target-end", "query-start"]) == "semiglobal:query-start,target-end"
    assert choose_mode("semiglobal") == choose_mode("semiglobal", ENDS) == "semiglobal"


@pytest.mark.parametrize(
    ("word", "free", "problem"),
    [
        ("semi", None, "mode must be one of local, global, semiglobal, overlap, fit, extend, not 'semi'"),
        (["local"], None, "mode must be one of .*, not ['local']"),
        ("fit", ["query-start"], "free ends can be chosen with mode semiglobal only, not with fit"),
        ("semiglobal:query-end", ["query-end"], "with mode semiglobal only, not with semiglobal:query-end"),
        ("semiglobal", [], "free ends must be among query-start, query-end, .*, not none"),
        ("semiglobal", ["query"], "free ends must be among .*, target-start, target-end, not 'query'"),
    ],
)
def test_other_words_and_ends_are_refused(word, free, problem):
    with pytest.raises(UsageError, match=problem.replace("[", r"\[")):
        choose_mode(word, free)


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_a_mode_is_written_as_its_word_and_copied_with_its_ends(mode):
    assert json.loads(json.dumps(mode)) == str(mode) == mode
    for same in (copy.deepcopy(mode), pickle.loads(pickle.dumps(mode))):
        assert (same, same.ends) == (mode, mode.ends)


@pytest.mark.parametrize("ends", [{"starts_anywhere": True}, {"ends_anywhere": True, "query_end": True}])
def test_what_is_free_in_every_cell_is_free_on_both_edges(ends):
    with pytest.raises(ValueError, match="of either sequence"):
        FreeEnds(**ends)
