"""Which matrices are swept in several places at once, with how many back ends, and what ends a guess."""

from __future__ import annotations

from dataclasses import replace
from threading import Event

import numpy as np
import pytest

from longalign.errors import BackendError
from longalign.model.geometry import Grid
from longalign.model.mode import GLOBAL
from longalign.model.pruning import Pruning, SideGains
from longalign.model.scoring import Scoring
from longalign.phases.guessed_lines import rows_to_guess
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem
from longalign.run import slabs
from longalign.run.request import Request, Resources
from longalign.run.slabs import Slabs
from longalign.store import MemoryStore
from longalign.testing.reference import ReferenceBackend

SIDE, TILE = 1000, 100
CUTS = tuple(range(0, SIDE + 1, TILE))
GRID = Grid(CUTS, CUTS, CUTS, CUTS)
MILESTONES = np.array([(k, k, k) for k in range(0, SIDE, 10)], np.int64)
REQUEST = Request(SIDE, SIDE, share=0.1)


class Divisible(ReferenceBackend):
    """Has up to `most` parts, which know whether they were asked to stream."""

    streams, whole = None, None

    def __init__(self, most=100):
        self.most = most

    def parts(self, most, cells, *, streams):
        count = min(most, self.most)
        parts = [Divisible() for _ in range(count)] if count > 1 else [self]
        for part in parts:
            part.streams, part.whole = streams, self
        return parts


def slabs_of(*backends, milestones=MILESTONES, request=REQUEST, memory=1 << 40):
    return Slabs.of(GRID, milestones, request, Resources(backends, memory))


def test_a_narrow_band_has_as_many_slabs_as_parts_work_side_by_side():
    found = slabs_of(Divisible())
    assert found.rows == (200, 300, 500, 700, 800)
    assert len(found.backends) == 6
    assert found.rows_above(GRID) == {1, 2, 4, 6, 7}


def test_slabs_have_as_many_tiles_each_where_the_band_begins_far_to_the_right():
    """The first rows of tiles reach from the corner to the band, so the first slab is low."""
    shape = Grid(CUTS, tuple(range(0, 2 * SIDE + 1, TILE)), CUTS, tuple(range(0, 2 * SIDE + 1, TILE)))
    milestones = MILESTONES + np.array([0, SIDE, 0])
    assert rows_to_guess(shape, MILESTONES, 3) == (300, 700)
    assert rows_to_guess(shape, milestones, 3) == (100, 500)


@pytest.mark.parametrize(("devices", "workers"), [(2, 6), (3, 6), (4, 8), (8, 8)])
def test_several_devices_divide_the_slabs(devices, workers):
    found = slabs_of(*(Divisible() for _ in range(devices)))
    assert len(found.backends) == workers
    assert len(found.rows) == max(6, devices) - 1


@pytest.mark.parametrize(
    "found",
    [
        slabs_of(ReferenceBackend()),
        slabs_of(Divisible(1)),
        slabs_of(Divisible(), milestones=None),
        slabs_of(Divisible(), request=replace(REQUEST, share=0.5)),
        slabs_of(Divisible(), milestones=MILESTONES[:5]),
        slabs_of(Divisible(), memory=1 << 10),
    ],
    ids=["no parts", "one part", "no milestones", "not narrow", "a short alignment", "little memory"],
)
def test_other_matrices_are_swept_from_one_end_to_the_other(found):
    assert found.rows == ()
    assert len(found.backends) == 1


WIDE = Request(10**8, 10**8, share=0.02)


@pytest.mark.parametrize(
    ("backend", "tiles", "rows"),
    [(Divisible(), 2, (500,)), (Divisible(1), 1, ()), (ReferenceBackend(), 1, ())],
)
def test_a_wide_band_has_two_slabs(backend, tiles, rows):
    found = slabs_of(backend, request=WIDE)
    assert (found.rows, len(found.backends)) == (rows, tiles)


@pytest.mark.parametrize("request_", [WIDE, replace(WIDE, rows=10**9), replace(WIDE, cols=10**9)])
def test_the_shorter_side_decides_whether_a_band_is_wide(request_):
    """The width of a band is a share of it."""
    for share, slab_count in ((1 << 20, 6), ((1 << 20) + 100, 2)):
        found = slabs_of(Divisible(), request=replace(request_, share=share / 10**8))
        assert len(found.backends) == slab_count


@pytest.mark.parametrize(("request_", "streams"), [(REQUEST, False), (WIDE, True)])
def test_boundaries_of_wide_bands_are_fetched_while_tiles_are_swept(request_, streams):
    assert {part.streams for part in slabs_of(Divisible(), request=request_).backends} == {streams}


def test_two_tiles_of_a_wide_band_are_swept_at_a_time_if_no_row_can_be_guessed():
    found = slabs_of(Divisible(), request=WIDE, milestones=MILESTONES[:5])
    assert (found.rows, len(found.backends)) == ((), 2)


def test_each_of_several_devices_has_two_slabs_of_a_wide_band():
    devices = [Divisible() for _ in range(3)]
    found = slabs_of(*devices, request=WIDE)
    assert found.rows == (200, 300, 500, 700, 800)
    assert [part.whole for part in found.backends] == [device for device in devices for _ in "ab"]


@pytest.mark.parametrize(("tiles", "slab_count"), [(1, 2), (2, 2), (3, 2), (4, 4), (9, 4)])
def test_all_devices_have_as_many_slabs_of_a_wide_band(monkeypatch, tiles, slab_count):
    """And no more than tiles fit in memory, but for one each."""
    monkeypatch.setattr(slabs, "tiles_in_memory", lambda *_: tiles)
    assert len(slabs_of(Divisible(), Divisible(), request=WIDE).backends) == slab_count


@pytest.mark.parametrize(("request_", "tiles"), [(REQUEST, 3), (WIDE, 1)])
def test_there_are_no_more_slabs_than_tiles_fit_in_memory(request_, tiles, monkeypatch):
    monkeypatch.setattr(slabs, "tiles_in_memory", lambda *_: tiles)
    assert len(slabs_of(Divisible(), request=request_).backends) == tiles


def lattice():
    letters = np.random.default_rng(1).integers(0, 4, SIDE, np.uint8)
    problem = Problem.of_codes(letters, letters, Scoring(), GLOBAL)
    gains = SideGains.of(np.arange(SIDE, -1, -1, dtype=np.int32))
    return StoreLattice(replace(problem, pruning=Pruning(SIDE, gains, gains)), GRID, MemoryStore())


class FailsOnce(Divisible):
    """Of its parts, the first fails, and the others work until they are told to stop."""

    def parts(self, most, cells, *, streams):
        failed = Event()

        class Fails(ReferenceBackend):
            def sweep(self, jobs, progress=None):
                failed.set()
                raise BackendError("no device")

        class Works(ReferenceBackend):
            def sweep(self, jobs, progress=None):
                failed.wait()
                while True:
                    progress(1)

        return [Fails(), *(Works() for _ in range(most - 1))]


def test_an_error_in_a_guess_ends_the_others(monkeypatch):
    monkeypatch.setattr("longalign.phases.guessed_lines._LONGEST_REPEAT", 5)
    with pytest.raises(BackendError, match="no device"):
        slabs_of(FailsOnce()).open_engine(lattice())


def test_rows_are_guessed_only_before_the_first_tile(monkeypatch):
    monkeypatch.setattr("longalign.phases.guessed_lines._LONGEST_REPEAT", 5)
    one, found = lattice(), slabs_of(Divisible())
    with monkeypatch.context() as patched:
        patched.setattr(one.store, "stored_tiles", lambda: {(0, 0)})
        found.open_engine(one)
    assert one.guesses == {}
    assert found.open_engine(one).capacity == 6
    assert sorted(one.guesses) == list(found.rows)
