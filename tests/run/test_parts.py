"""How many tiles of a run are swept at once in this process, and by which back ends."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from itertools import count
from threading import Barrier

import numpy as np
import pytest
from oracles import spell
from runs import SmallTiles, using

from longalign.backends.base import no_progress
from longalign.errors import UsageError
from longalign.model.geometry import Grid
from longalign.model.mode import LOCAL
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.run import pipeline
from longalign.run.grid_bytes import boundary_cells_per_tile, check_memory, spare_bytes, tile_bytes
from longalign.run.parts import sweepers
from longalign.run.planner import plan
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.testing.inputs import mutated
from longalign.testing.reference import ReferenceBackend

SIDE = 1000
REQUEST = Request(SIDE, SIDE)


class Divisible(ReferenceBackend):
    """Sweeps three tiles at once in parts, of which its memory may allow fewer."""

    def __init__(self, most=3):
        self.most = most

    def tiles_at_once(self, rows, cols, *, small):
        return 3

    def parts(self, most, cells, *, streams):
        assert streams
        count = min(most, self.most)
        return [Divisible() for _ in range(count)] if count > 1 else [self]


def grid_of(rows, cols):
    row_cuts, col_cuts = (tuple(range(0, SIDE + 1, SIDE // count)) for count in (rows, cols))
    return Grid(row_cuts, col_cuts, row_cuts, col_cuts)


@pytest.mark.parametrize(
    ("shape", "count"), [((1, 10), 1), ((10, 1), 1), ((2, 10), 2), ((10, 2), 2), ((4, 4), 3)], ids=str
)
def test_there_are_as_many_parts_as_tiles_can_be_swept_at_once(shape, count):
    devices = Resources([Divisible()], 1 << 40)
    found = sweepers(grid_of(*shape), REQUEST, devices)
    assert len(found) == count
    assert (found[0] is devices.backends[0]) == (count == 1)


@pytest.mark.parametrize(
    ("request_", "devices"),
    [
        (replace(REQUEST, share=0.01), [Divisible()]),
        (replace(REQUEST, share=0.5), [Divisible()]),
        (replace(REQUEST, start_states="eager"), [Divisible()]),
        (REQUEST, [Divisible(), Divisible()]),
        (REQUEST, [Divisible(most=1)]),
        (REQUEST, [ReferenceBackend()]),
    ],
    ids=[
        "narrow band",
        "wide band",
        "start states",
        "two devices",
        "little device memory",
        "indivisible",
    ],
)
def test_other_devices_sweep_a_tile_each(request_, devices):
    assert [*sweepers(grid_of(4, 4), request_, Resources(devices, 1 << 40))] == devices


def test_memory_is_planned_for_all_tiles_at_once():
    whole, divided = [ReferenceBackend()], [Divisible()]
    spare = [spare_bytes(REQUEST, Resources(devices, 1 << 40)) for devices in (whole, divided)]
    assert spare[1] == spare[0] // 3
    tile = tile_bytes(grid_of(4, 4), REQUEST, ReferenceBackend.line_bytes)
    assert min_memory(grid_of(4, 4), divided) == min_memory(grid_of(4, 4), whole) + 2 * tile
    assert min_memory(grid_of(1, 10), divided) == min_memory(grid_of(1, 10), whole)


def min_memory(grid, devices):
    """The fewest bytes with which a run over a grid is not refused."""

    def is_enough(memory):
        with suppress(UsageError):
            check_memory(grid, REQUEST, Resources(devices, memory))
            return True
        return False

    return bisect_left(range(1 << 40), True, key=is_enough)


def test_the_tiles_at_once_fit_in_device_memory_beside_phases_2_and_3():
    class OneTile(Divisible):
        def __init__(self, room):
            super().__init__()
            self.room = room

        def tile_shape(self, rows, cols, devices=1):
            return rows, cols

        def max_boundary_cells(self):
            return self.room

    def max_cells(room):
        return boundary_cells_per_tile(
            plan(Request(10_000, 10_000), Resources([OneTile(room)], 1 << 40)), LOCAL
        )

    largest = max_cells(1 << 40)
    assert largest > 10_000
    assert max_cells(4 * largest) == largest
    assert max_cells(largest) <= largest // 4


class Together(SmallTiles):
    """Has two parts. Each sweeps a tile only with the other one, but for the first and the last of six."""

    def __init__(self):
        super().__init__((20, 30), has_parts=True)
        self.calls, self.both = count(), Barrier(2, timeout=60)

    def parts(self, most, cells, *, streams):
        return [Part(self, self.shape) for _ in range(most)]


class Part(SmallTiles):
    def __init__(self, whole, shape):
        super().__init__(shape)
        self.whole = whole

    def sweep(self, jobs, progress=no_progress):
        if next(self.whole.calls) not in (0, 5):
            self.whole.both.wait()
        return super().sweep(jobs, progress)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("command", ["align", "score"])
def test_two_tiles_are_swept_at_once(command, stored, tmp_path):
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 60, np.uint8)
    target = mutated(query, 60, 0.1, rng)
    pair = [Sequence.from_letters("any", spell(codes, Scoring())) for codes in (query, target)]
    spec = RunSpec(*pair, Scoring(), command=command, store=tmp_path / "store" if stored else None)
    backend = Together()
    outcome, want = (
        pipeline.run(one, using(device) if command == "align" else Resources([device], 1 << 40))
        for one, device in ((spec, backend), (replace(spec, store=None), SmallTiles()))
    )
    assert next(backend.calls) == 6
    assert outcome.end == want.end
    if command == "align":
        assert outcome.alignment.cigar == want.alignment.cigar
