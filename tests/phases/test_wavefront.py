"""The wavefront hands out each tile once, never before its neighbours, with any set of finished tiles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longalign.phases.wavefront import Wavefront

shapes = st.tuples(st.integers(1, 7), st.integers(1, 7))


@st.composite
def shapes_with_done(draw: st.DrawFn) -> tuple[tuple[int, int], set[tuple[int, int]]]:
    """A grid, and any set of its tiles, with holes and islands."""
    rows, cols = draw(shapes)
    tiles = [(row, col) for row in range(rows) for col in range(cols)]
    return (rows, cols), draw(st.sets(st.sampled_from(tiles)))


@given(shapes_with_done(), st.sets(st.integers(1, 6)), st.data())
def test_each_missing_tile_is_given_once_and_after_its_neighbours(case, guessed, data):
    (rows, cols), done = case
    first_rows = {0, *guessed}
    wavefront = Wavefront((rows, cols), done, first_rows)
    finished, running, given_out = set(done), [], []
    while not wavefront.finished:
        while (tile := wavefront.take()) is not None:
            row, col = tile
            assert row in first_rows or (row - 1, col) in finished
            assert col == 0 or (row, col - 1) in finished
            running.append(tile)
            given_out.append(tile)
        ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
        finished.add(ended)
        wavefront.complete(*ended)
    assert wavefront.take() is None
    assert len(given_out) == len(set(given_out))
    assert set(given_out) | done == {(row, col) for row in range(rows) for col in range(cols)}
    assert not set(given_out) & done


@given(shapes, st.sets(st.integers(0, 60), max_size=8))
def test_a_tile_that_is_given_back_is_given_again_before_those_that_need_it(shape, turns_in_vain):
    wavefront, given_out, finished = Wavefront(shape), [], []
    while (tile := wavefront.take()) is not None:
        given_out.append(tile)
        if len(given_out) - 1 in turns_in_vain:
            wavefront.give_back(*tile)
        else:
            wavefront.complete(*tile)
            finished.append(tile)
    assert wavefront.finished
    assert len(finished) == len(set(finished)) == shape[0] * shape[1]
    assert list(dict.fromkeys(given_out)) == finished


@given(shapes)
def test_one_worker_gets_the_tiles_by_anti_diagonals(shape):
    wavefront = Wavefront(shape)
    order = []
    while (tile := wavefront.take()) is not None:
        order.append(tile)
        wavefront.complete(*tile)
    assert order == sorted(order, key=lambda tile: (sum(tile), tile))
    assert wavefront.finished


def test_a_grid_that_is_done_has_nothing_to_give():
    wavefront = Wavefront((2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)])
    assert wavefront.finished
    assert wavefront.take() is None


def test_tiles_of_a_first_row_do_not_wait():
    wavefront = Wavefront((3, 2), first_rows=(0, 2))
    assert [wavefront.take(), wavefront.take(), wavefront.take()] == [(0, 0), (2, 0), None]
    wavefront.complete(2, 0)
    assert wavefront.take() == (2, 1)
