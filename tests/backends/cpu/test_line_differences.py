"""Differences of lines, in one pass without the GIL, compared with the same in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends.cpu import line_differences as module
from longalign.backends.cpu.line_differences import line_differences
from longalign.errors import InternalError
from longalign.model.narrow_values import NarrowValues
from longalign.model.scoring import NEG_INF

near = st.integers(-40, 40).map(lambda step: 3 * step)
anywhere = st.one_of(
    st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, NEG_INF, 127, 128, -128, -129, 2**15])
)


@st.composite
def lines(draw):
    """H with the value before it, and the gap state: both mostly level, with some steps and some cliffs."""
    length = draw(st.integers(0, 40))
    h, gap = np.full(length + 1, draw(anywhere), np.int32), np.empty(length + 1, np.int32)
    gap[:] = h - np.int32(draw(near))
    for values in (h, gap):
        for place in draw(st.sets(st.integers(0, length), max_size=6)):
            values[place:] += np.int32(draw(near))
        for place in draw(st.sets(st.integers(0, length), max_size=2)):
            values[place] = draw(anywhere)
    return h, gap[1:]


def check(got: NarrowValues, want: np.ndarray, width: int, level: int) -> None:
    dtype = np.dtype(f"i{width}")
    narrow = want.astype(dtype)
    places = np.flatnonzero(narrow != want)
    assert (got.narrow.dtype, got.narrow.tolist()) == (dtype, narrow.tolist())
    assert (got.places.tolist(), got.wide.tolist()) == (places.tolist(), want[places].tolist())
    assert np.array_equal(got.whole(), want)
    uneven = np.flatnonzero(narrow != level)
    assert (got.first, got.stop) == ((uneven[0], uneven[-1] + 1) if len(uneven) else (len(want), len(want)))


@given(lines(), st.sampled_from([1, 2, 4]), st.integers(-9, 9))
def test_differences_are_those_of_numpy(line, width, level_gap):
    h, gap = line
    steps, gaps = line_differences(h[:1], h[1:], gap, level_gap, width)
    check(steps, h[1:] - h[:-1], width, 0)
    check(gaps, h[1:] - gap, width, level_gap)


def test_values_of_different_lengths_are_refused():
    with pytest.raises(InternalError, match="a line has H in 8 cells, and the gap state in 4"):
        line_differences(np.zeros(1, np.int32), np.zeros(8, np.int32), np.zeros(4, np.int32), 0, 1)


def test_values_that_change_meanwhile_are_refused_and_nothing_is_written_beyond_the_list(monkeypatch):
    h, gap = np.zeros(100, np.int32), np.zeros(100, np.int32)
    gap[3] = 1_000
    lister = module._lister(1)

    def list_others(before, h, gap, *found):
        return lister(before, h, gap - 1_000, *found)

    monkeypatch.setattr(module, "_lister", lambda width: list_others)
    with pytest.raises(InternalError, match="have changed while they were packed"):
        line_differences(np.zeros(1, np.int32), h, gap, 0, 1)


@pytest.mark.parametrize("length", [31, 32, 33, 4_097, 100_000])
def test_long_pieces_and_arrays_that_are_read_only_or_strided(length):
    rng = np.random.default_rng(length)
    h = np.cumsum(rng.integers(-3, 3, 2 * length + 2), dtype=np.int32)
    gap = h - rng.integers(0, 9, len(h), np.int32)
    h[length] += 1_000
    gap.flags.writeable = False
    for every in (1, 2):
        few, few_gaps = h[::every], gap[::every]
        steps, gaps = line_differences(few[:1], few[1:], few_gaps[1:], 5, 1)
        check(steps, few[1:] - few[:-1], 1, 0)
        check(gaps, few[1:] - few_gaps[1:], 1, 5)
