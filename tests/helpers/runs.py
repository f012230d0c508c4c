"""Runs of the pipeline over many tiny tiles and chunks, and the truth about them, found slowly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from inputs import BODY
from oracles import spell

from longalign.backends.base import (
    Backend,
    Codes,
    Progress,
    Rectangle,
    SweepJob,
    SweepResult,
    no_progress,
)
from longalign.backends.cpu import CpuBackend
from longalign.events import Advanced, Emit, Event, Notice, PhaseStarted, TileFinished, ignore
from longalign.model import geometry
from longalign.model.alignment import Alignment, Op, format_cigar, split_matches
from longalign.model.boundary import BestCell, State, Waypoint, best_of, entry_edges, local_edges
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.geometry import Grid, part_count
from longalign.model.mode import EXTEND, FIT, GLOBAL, LOCAL, MODES, OVERLAP, SEMIGLOBAL, Mode, as_mode
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence as Letters
from longalign.phases import recompute, tile_step
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem
from longalign.phases.tile_step import Engine, run_tiles, sweep_tile
from longalign.run import pipeline, three_phases
from longalign.run.outcome import Outcome
from longalign.run.request import Resources
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore, MemoryStore, Piece
from longalign.store.base import FoundPath, NextBest
from longalign.store.manifest import Command, StartStates
from longalign.testing.inputs import SCORINGS, any_scorings, pairs, scorings
from longalign.testing.reference import ReferenceBackend, matrices, walk_back
from longalign.testing.traces import FREE_GAPS, TIES


class SmallTiles:
    """Another back end, told that `shape` is the largest tile, and that it can trace `leaf` cells.

    Counts the rectangles it sweeps. It may be told to have parts.
    """

    tile_overhead = 1e9  # seconds: no plan makes tiles lower than `shape`

    def __init__(
        self,
        shape: tuple[int, int] = (13, 17),
        inner: Backend | None = None,
        leaf: int = 12,
        has_parts: bool = False,
    ) -> None:
        self.has_parts = has_parts
        self.inner = inner or ReferenceBackend()
        self.shape = shape
        self.leaf = leaf
        self.swept = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        results = self.inner.sweep(jobs, progress)
        self.swept += len(jobs)
        return results

    def tiles_at_once(self, rows: int, cols: int, *, small: bool) -> int:
        return 2 if self.has_parts else 1

    def parts(self, most: int, cells: int, *, streams: bool) -> list[Backend]:
        if not self.has_parts:
            return [self]
        return [SmallTiles(self.shape, type(self.inner)(), self.leaf) for _ in range(most)]

    @property
    def host_bytes_per_call(self) -> int:
        return min(self.inner.host_bytes_per_call, recompute.GROUP_BYTES)

    def can_trace(self, rows: int, cols: int, detour: int | None = None) -> bool:
        return rows * cols <= self.leaf

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        return self.shape


@contextmanager
def small_geometry(chunk: int = 5, group: int = 256 << 20) -> Iterator[None]:
    """Chunks of at most `chunk` letters a side, and calls for rectangles that take at most `group` bytes:
    short sequences then take every turn of the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "SMALLEST_CHUNK", chunk)
        patch.setattr(recompute, "GROUP_BYTES", group)
        yield


def using(*backends: Backend) -> Resources:
    """All the memory and all the lattice one may want."""
    return Resources(backends or [SmallTiles()], memory=1 << 40, store_budget=1 << 40)


def run_in_small_steps(spec: RunSpec, emit: Emit = ignore, backend: Backend | None = None) -> Outcome:
    """A run in tiles of 24 x 24 letters. Its path passes through many chunks, in several groups of segments,
    and is stored after every step."""
    with small_geometry(chunk=8), pytest.MonkeyPatch.context() as patch:
        patch.setattr(three_phases, "_PATH_INTERVAL", 0.0)
        patch.setattr(recompute, "GROUP_SEGMENTS", 2)
        patch.setattr(
            tile_step, "_POLL_SECONDS", 60.0
        )  # so that the number of events does not depend on time
        return pipeline.run(spec, using(SmallTiles((24, 24), backend, leaf=60)), emit)


@dataclass(frozen=True)
class Pair:
    """Two sequences, a scoring and a mode; prints as Python."""

    query: str
    target: str
    scoring: Scoring = Scoring()  # noqa: RUF009 - frozen
    mode: Mode = LOCAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", as_mode(self.mode))

    @classmethod
    def of_codes(cls, query: Codes, target: Codes, scoring: Scoring, mode: Mode) -> Pair:
        return cls(spell(query, scoring), spell(target, scoring), scoring, mode)

    def sequences(self) -> tuple[Letters, Letters]:
        alphabet = self.scoring.alphabet
        return (
            Letters.from_letters("query", self.query, alphabet=alphabet),
            Letters.from_letters("target", self.target, alphabet=alphabet),
        )

    def run(
        self,
        resources: Resources | None = None,
        store: Path | None = None,
        emit: Emit = ignore,
        command: Command = "align",
        start_states: StartStates = "lazy",
    ) -> Outcome:
        return pipeline.run(self.spec(store, command, start_states), resources or using(), emit)

    def spec(
        self, store: Path | None = None, command: Command = "align", start_states: StartStates = "lazy"
    ) -> RunSpec:
        """A run over the pair."""
        return RunSpec(*self.sequences(), self.scoring, self.mode, command, start_states, store)

    def whole(self) -> Rectangle:
        """The whole matrix, which may be without cells."""
        query, target = self.sequences()
        rows, cols, ends = query.length, target.length, self.mode.ends
        top, left = entry_edges(State.H, rows, cols, self.scoring)
        free_top, free_left = local_edges(rows, cols)
        return Rectangle(
            *(query.as_query(), target.as_target(), self.scoring),
            *(free_top if ends.target_start else top, free_left if ends.query_start else left),
            ends.starts_anywhere,
        )

    def truth(self) -> BestCell:
        """Score and end cell from the full matrix: the best of all cells in which a path may end."""
        h, _, _ = matrices(self.whole())
        rows, cols, ends = len(self.query), len(self.target), self.mode.ends
        values = {
            (i, j): value
            for i, row in enumerate(h)
            for j, value in enumerate(row)
            if ends.ends_anywhere
            or (
                (i == rows or (ends.query_end and j == cols))
                and (j == cols or (ends.target_end and i == rows))
            )
        }
        highest = max(values.values())
        return best_of([BestCell(value, *cell) for cell, value in values.items() if value == highest])

    def check(self, outcome: Outcome) -> None:
        """The optimum, at the right end, by an alignment that is worth it."""
        end, alignment = outcome.end, outcome.alignment
        assert BestCell(end.value, end.i, end.j) == self.truth(), self
        assert (alignment.query_end, alignment.target_end) == (end.i, end.j), self
        assert score_columns(alignment) == end.value, self
        assert outcome.is_empty == (self.mode.may_be_empty and not alignment.columns), self


PAIR = Pair("ACGTTACGGATCAGGCATTACGACGATTACAGG", "ACGTACGGATCCAGGATTACGTACGATACAGGCC")

#: Twice the same letters, with a gap and a mismatch.
REPEATED = Pair(BODY + "TTTTT" + BODY, BODY + BODY[:9] + "G" + BODY[10:])


def walked(pair: Pair, i: int, j: int, excluded: ExcludedPairs = NO_PAIRS) -> tuple[int, int, str]:
    """The path to H of a cell by a walk back through the whole DP matrix: its start and its CIGAR."""
    job = replace(pair.whole(), excluded=excluded)
    end, values = (i, j), matrices(job)
    i, j, _, ops = walk_back(job, values, i, j, State.H)
    if not pair.mode.starts_at(i, j, values[State.H][i][j]):
        ops += [Op.INSERTION] * i + [Op.DELETION] * j
        i = j = 0
    letters = job.query[i : end[0]], job.target[j : end[1]]
    return i, j, format_cigar(*split_matches(*letters, ops[::-1], [1] * len(ops), pair.scoring.alphabet))


def found_path(outcome: Outcome) -> tuple[int, int, str]:
    """The start and the CIGAR of the alignment of a run."""
    alignment = outcome.alignment
    return alignment.query_start, alignment.target_start, alignment.cigar


def pair_score(query: str, target: str, scoring: Scoring) -> int:
    """What two letters score."""
    if scoring.matrix is None:
        return scoring.match if query == target in "ACGT" else scoring.mismatch
    return scoring.matrix.scores[scoring.matrix.letters.index(query)][scoring.matrix.letters.index(target)]


def score_columns(alignment: Alignment) -> int:
    """What an alignment is worth, one column at a time, from its CIGAR and the letters."""
    query = alignment.query.letters.tobytes().decode()[alignment.query_start : alignment.query_end]
    target = alignment.target.letters.tobytes().decode()[alignment.target_start : alignment.target_end]
    columns = "".join(op * int(length) for length, op in re.findall(r"(\d+)(\D)", alignment.cigar))
    scoring, score, i, j = alignment.scoring, 0, 0, 0
    for op, run in groupby(columns):
        score -= scoring.gap_open if op in "ID" else 0
        for _ in run:
            if op in "ID":
                score -= scoring.gap_extend
            else:
                score += pair_score(query[i], target[j], scoring)
            i, j = i + (op != "D"), j + (op != "I")
    assert (i, j) == (len(query), len(target))
    return score


# --- runs of any kind

PLAIN_MODES = [LOCAL, GLOBAL, SEMIGLOBAL, OVERLAP, FIT, EXTEND]

#: For all tests: a CPU back end keeps its working memory.
CPU = CpuBackend(2)

#: Half of them plain ones: most of the others free some of four ends.
modes = st.one_of(st.sampled_from(PLAIN_MODES), st.sampled_from(list(MODES.values())))


@dataclass(frozen=True)
class Geometry:
    """The largest tile, chunk and leaf, and the bytes for a group of segments."""

    tile: tuple[int, int]
    chunk: int
    leaf: int
    group: int = 256 << 20

    def applied(self) -> AbstractContextManager[None]:
        """Chunks and groups of these sizes."""
        return small_geometry(self.chunk, self.group)

    def run(self, pair: Pair, *backends):
        tiled = [SmallTiles(self.tile, backend, self.leaf) for backend in backends]
        with self.applied():
            return pair.run(using(*tiled))


sides = st.one_of(st.integers(1, 8), st.integers(1, 60))

#: Thin tiles and small ones, but no more than some dozens in a run: each takes about a millisecond.
tiles = st.tuples(sides, sides).filter(lambda shape: shape[0] * shape[1] >= 40)

geometries = st.builds(
    Geometry,
    tile=tiles,
    chunk=sides,
    leaf=st.integers(1, 100),
    group=st.sampled_from([1, 2000, 256 << 20]),
)


def tying_scorings(rows: int, cols: int) -> st.SearchStrategy[Scoring]:
    """Scorings for a matrix of this size, of which many give several alignments the same score."""
    return st.one_of(st.sampled_from([TIES, FREE_GAPS, *SCORINGS]), any_scorings(rows, cols))


@st.composite
def problems(
    draw: st.DrawFn,
    longest: int = 45,
    scorings: Callable[[int, int], st.SearchStrategy[Scoring]] = scorings,
    shortest: int = 1,
) -> Pair:
    """Mutated copies, repeats, runs of N and unrelated letters, under any scoring.

    A back end's rectangles have at least one letter a side. A whole run also takes `shortest` 0.
    """
    rows, cols = (draw(st.integers(shortest, longest)) for _ in range(2))
    scoring = draw(scorings(rows, cols))
    return Pair.of_codes(*draw(pairs(rows, cols, scoring)), scoring, draw(modes))


def swept_lattice(pair, chunk=10**6):
    """A whole matrix as one tile, in chunks of at most `chunk` letters a side."""
    problem = Problem.of(*pair.sequences(), pair.scoring, pair.mode)
    rows, cols = len(pair.query), len(pair.target)
    grid = Grid(_even_cuts(rows, chunk), _even_cuts(cols, chunk), (0, rows), (0, cols))
    lattice = StoreLattice(problem, grid, MemoryStore())
    sweep_tile(lattice, CPU, grid.tile(0, 0))
    return lattice


def _even_cuts(length, largest):
    """Cuts into the fewest equal parts (up to one letter), none longer than `largest`."""
    count = part_count(length, largest)
    return tuple(length * k // count for k in range(count + 1))


def run_all(lattice: StoreLattice, engine: Engine) -> set[tuple[int, int]]:
    """Run what is missing: the tiles that were swept."""
    events = list(run_tiles(lattice, engine))
    finished = [event for event in events if isinstance(event, TileFinished)]
    cells = sum(event.cells for event in events if isinstance(event, Advanced))
    assert cells == sum(event.cells for event in finished)
    return {(event.row, event.col) for event in finished}


# --- what became of a run


def result(outcome: Outcome) -> tuple[object, ...]:
    return outcome.end, outcome.alignment.cigar, outcome.alignment.query_start


#: Two alignments after the best one, of two runs and of one.
NEXT_BEST = NextBest(
    [
        FoundPath(Waypoint(9, 8, State.H, 5), Piece(np.array([0, 2], np.uint8), np.array([5, 1], np.int64))),
        FoundPath(Waypoint(4, 9, State.H, 3), Piece(np.array([0], np.uint8), np.array([3], np.int64))),
    ]
)


class Interrupts:
    """Raises KeyboardInterrupt at event number `at`, and keeps those before it."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        if len(self.events) == self.at:
            raise KeyboardInterrupt
        self.events.append(event)


def damaging(store: Path, number: int, events: list[Event]) -> Emit:
    """Keeps events, and damages the tile that is finished as this number, right after it was written."""

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, TileFinished) and swept(events) == number:
            DirectoryStore.attach(store).tile_path(event.row, event.col).write_bytes(b"rubbish")

    return emit


def tiles_in(store: Path) -> int:
    """The number of tiles that are stored, of both strands if there are two."""
    return len(list(store.rglob("tiles/r*.h5")))


def swept(events: list[Event]) -> int:
    return sum(isinstance(event, TileFinished) for event in events)


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


#: Begins or goes on with a run with this store and back end.
StoredRun = Callable[[Path, Emit, Backend | None], Outcome]


def stop_everywhere(
    run: StoredRun, folder: Path, answer: object, tiles: int, moments: Iterable[int] = range(1000)
) -> Iterator[tuple[str | None, int]]:
    """Stop a run at one event and finish it, for each of `moments`. Check that nothing was swept twice.

    `moments` are the numbers of the events, and `tiles` is the number of tiles of the run. Another back end
    finishes every other run. Yields, for each stop, the phase that was stopped and the tiles swept by then.
    """
    for at in moments:
        store, first, again = folder / str(at), Interrupts(at), list[Event]()
        try:
            run(store, first, None)
        except KeyboardInterrupt:
            pass
        else:
            return
        there = tiles_in(store)
        assert result(run(store, again.append, CPU if at % 2 else None)) == answer, at
        assert swept(again) == tiles - there, at
        assert there >= swept(first.events), at
        assert not notices(again), at
        started = [event.name for event in first.events if isinstance(event, PhaseStarted)]
        yield started[-1] if started else None, swept(first.events)


def stop_again_and_again(run: StoredRun, store: Path) -> Outcome:
    """Each stop comes a little later, so every step is interrupted once, and finishes eventually."""
    for at in range(5, 1000):
        with suppress(KeyboardInterrupt):
            return run(store, Interrupts(at), None)
    raise AssertionError("the run does not finish")


def whole_sweep(problem: Problem, rows: tuple[int, ...], cols: tuple[int, ...]) -> SweepJob:
    """A problem as one forward sweep."""
    return SweepJob(
        problem.query, problem.target, problem.scoring, problem.top, problem.left, problem.has_floor,
        rows, cols, problem.mode.ends_anywhere, excluded=problem.excluded, pruning=problem.pruning,
    )  # fmt: skip
