"""Modes are values: a word, and the ends that cost nothing if they stay unaligned."""

from __future__ import annotations

import copy
import json
import pickle
from typing import get_args

import pytest

from longalign.model.mode import GLOBAL, LOCAL, MODES, FreeEnds, Mode, ModeName, as_mode

SEMIGLOBAL = Mode("semiglobal", FreeEnds(True, True, True, True))
OVERLAP = Mode("overlap", FreeEnds(query_start=True, target_end=True))
FIT = Mode("fit", FreeEnds(target_start=True, target_end=True))
EXTEND = Mode("extend", FreeEnds(query_end=True, target_end=True, ends_anywhere=True))


@pytest.mark.parametrize(
    ("mode", "starts_anywhere", "last_row", "last_column"),
    [
        (LOCAL, True, False, False),
        (GLOBAL, False, True, False),
        (SEMIGLOBAL, False, True, True),
        (OVERLAP, False, True, False),
        (FIT, False, True, False),
        (EXTEND, False, False, False),
    ],
    ids=str,
)
def test_a_mode_says_where_paths_start_and_which_far_edges_show_their_ends(
    mode, starts_anywhere, last_row, last_column
):
    assert mode.starts_anywhere == starts_anywhere
    assert mode.ends_anywhere == (mode in (LOCAL, EXTEND))
    assert mode.may_be_empty == (mode == LOCAL)
    assert (mode.needs_last_row, mode.needs_last_column) == (last_row, last_column)


def test_the_offered_modes_are_found_by_their_words():
    assert list(MODES) == list(get_args(ModeName)) == ["local", "global"]
    assert as_mode("local") is as_mode(LOCAL) is LOCAL
    assert as_mode(FIT) is FIT
    with pytest.raises(KeyError):
        as_mode("fit")


@pytest.mark.parametrize("mode", [LOCAL, GLOBAL, FIT], ids=str)
def test_a_mode_is_written_as_its_word_and_copied_with_its_ends(mode):
    assert json.loads(json.dumps(mode)) == str(mode) == mode
    for same in (copy.deepcopy(mode), pickle.loads(pickle.dumps(mode))):
        assert (same, same.ends) == (mode, mode.ends)


@pytest.mark.parametrize("ends", [{"starts_anywhere": True}, {"ends_anywhere": True, "query_end": True}])
def test_what_is_free_in_every_cell_is_free_on_both_edges(ends):
    with pytest.raises(ValueError, match="of either sequence"):
        FreeEnds(**ends)
