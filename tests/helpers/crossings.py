"""Runs on any lattice, and pairs whose one best path crosses a lattice in a certain way."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st
from runs import Pair, SmallTiles, using

from longalign.backends.base import Backend
from longalign.model.boundary import State, Waypoint
from longalign.model.geometry import Grid, owning_interval
from longalign.model.scoring import Scoring
from longalign.phases.lattice import StoreLattice
from longalign.run import pipeline, three_phases
from longalign.run.outcome import Outcome
from longalign.store.manifest import StartStates


def run_on(
    grid: Grid, pair: Pair, backend: Backend | None = None, leaf: int = 12, start_states: StartStates = "lazy"
) -> tuple[Outcome, list[Waypoint]]:
    """A run on this very lattice: what it found, and the waypoints of phase 2 from the end backwards."""
    paths: list[list[Waypoint]] = []

    def keeping(find):
        def found(lattice: StoreLattice, *rest):
            paths.append(find(lattice, *rest))
            return paths[-1]

        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "plan", lambda *_, **__: grid)
        for name in ("stitch", "walk"):
            patch.setattr(three_phases, name, keeping(getattr(three_phases, name)))
        outcome = pair.run(using(SmallTiles(inner=backend, leaf=leaf)), start_states=start_states)
    return outcome, paths[-1]


def multiples(length: int, step: int) -> tuple[int, ...]:
    """Cuts at all multiples of `step`, and at the end."""
    return (*range(0, length, step), length)


def regular(pair: Pair, chunk: int, tile: int) -> Grid:
    """Chunks of exactly `chunk` letters a side in tiles of `tile`, a multiple of it."""
    rows, cols = len(pair.query), len(pair.target)
    return Grid(multiples(rows, chunk), multiples(cols, chunk), multiples(rows, tile), multiples(cols, tile))


@st.composite
def grids(draw: st.DrawFn, pair: Pair) -> Grid:
    """Any lattice, as uneven as may be, and any tiles on it."""
    sides = []
    for length in (len(pair.query), len(pair.target)):
        cuts = draw(st.sets(st.integers(1, length), max_size=12)) | {length}
        tiles = draw(st.sets(st.sampled_from(sorted(cuts)), max_size=3)) | {length}
        sides.append(((0, *sorted(cuts)), (0, *sorted(tiles))))
    (row_cuts, tile_rows), (col_cuts, tile_cols) = sides
    return Grid(row_cuts, col_cuts, tile_rows, tile_cols)


# --- where a path enters a chunk


def entries(grid: Grid, path: list[Waypoint]) -> set[tuple[str, State]]:
    """Where on its edge, or inside, the path enters each of its chunks, and in which state."""
    return {
        (_place(grid, entry, exit_), entry.state) for exit_, entry in pairwise(path) if exit_.i > 0 < exit_.j
    }


def _place(grid: Grid, entry: Waypoint, exit_: Waypoint) -> str:
    row, col = owning_interval(grid.row_cuts, exit_.i), owning_interval(grid.col_cuts, exit_.j)
    (top, bottom), (left, right) = grid.row_cuts[row : row + 2], grid.col_cuts[col : col + 2]
    if entry.i == top:
        return {left: "upper left corner", right: "upper right corner"}.get(entry.j, "top")
    if entry.j == left:
        return "lower left corner" if entry.i == bottom else "left"
    return "inside"


@dataclass(frozen=True)
class Crossing:
    """A pair, and how its path enters one of the chunks of 8 letters a side."""

    pair: Pair
    place: str
    state: State

    def __str__(self) -> str:
        return f"{self.place} in {self.state.name}, {self.pair.mode}"

    def transposed(self, place: str) -> Crossing:
        """The same with query and target exchanged, where the path then enters at `place`."""
        pair = replace(self.pair, query=self.pair.target, target=self.pair.query)
        return Crossing(pair, place, {State.E: State.F}.get(self.state, self.state))


#: No T, so that a gap of T has one place.
BODY = "ACGGACCAGACGCAAGCCGAGCAC"
CHEAP_GAPS = Scoring(match=5, mismatch=-4, gap_open=2, gap_extend=0)


def _insertion(at: int, length: int = 9) -> Pair:
    """The path goes down column `at` from row `at` on, over `length` letters."""
    return Pair(BODY[:at] + "T" * length + BODY[at:], BODY, CHEAP_GAPS, "global")


_DOWN = [
    Crossing(_insertion(12), "top", State.E),
    Crossing(_insertion(8), "upper right corner", State.E),
    Crossing(_insertion(8), "upper right corner", State.H),
    Crossing(_insertion(13, length=3), "top", State.H),
]
_ACROSS = {"top": "left", "upper right corner": "lower left corner"}

CROSSINGS = [
    *_DOWN,
    *(crossing.transposed(_ACROSS[crossing.place]) for crossing in _DOWN),
    Crossing(Pair(BODY, BODY, CHEAP_GAPS, "global"), "upper left corner", State.H),
    Crossing(Pair("N" * 8 + BODY, "N" * 8 + BODY), "upper left corner", State.H),
    Crossing(Pair("N" * 8 + BODY, "N" * 3 + BODY), "top", State.H),
    Crossing(Pair("N" * 3 + BODY, "N" * 8 + BODY), "left", State.H),
    Crossing(Pair("N" * 3 + BODY, "N" * 5 + BODY), "inside", State.H),
]


# --- a path that was there first


@dataclass(frozen=True)
class Planned:
    """A pair that was made for a path, the CIGAR of that path, and the side of its chunks."""

    pair: Pair
    cigar: str
    chunk: int

    @property
    def grid(self) -> Grid:
        return regular(self.pair, self.chunk, 3 * self.chunk)

    @property
    def score(self) -> int:
        """What the path is worth."""
        runs = [(int(length), op) for length, op in re.findall(r"(\d+)(\D)", self.cigar)]
        return sum(length * 5 if op == "=" else -2 for length, op in runs)


@st.composite
def planned(draw: st.DrawFn) -> Planned:
    """Matches and long gaps by turns. Most matches end at a line of the lattice, so that gaps run along it.

    A gap costs less than a match is worth, at any length, and its letters match nothing: all other paths are
    worse.
    """
    chunk, runs = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    query, target, cigar = "", "", ""
    for _ in range(runs):
        end = len(query if draw(st.booleans()) else target)
        to_line = chunk - end % chunk
        length = draw(st.sampled_from([to_line, to_line + chunk, draw(st.integers(1, 9))]))
        letters = "".join(rng.choice(list("ACG"), length))
        gap, op = draw(st.sampled_from([chunk, 2 * chunk, 5 * chunk, 3, 30])), draw(st.sampled_from("ID"))
        query += letters + "T" * gap * (op == "I")
        target += letters + "N" * gap * (op == "D")
        cigar += f"{length}={gap}{op}"
    return Planned(Pair(query + "A", target + "A", CHEAP_GAPS, "global"), cigar + "1=", chunk)
