"""Runs of the pipeline over many tiny tiles and chunks, and the truth about them, found slowly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest
from oracles import spell

from longalign import geometry, pipeline
from longalign.alignment import Alignment, Mode
from longalign.backends.base import (
    Backend,
    Codes,
    EdgeStarts,
    Progress,
    Rectangle,
    Runs,
    SweepJob,
    SweepResult,
    TraceJob,
    no_progress,
)
from longalign.boundary import BestCell
from longalign.events import Emit, ignore
from longalign.phases import meeting
from longalign.plan import Resources
from longalign.reference import ReferenceBackend
from longalign.scoring import Scoring
from longalign.sequence import Sequence as Letters
from longalign.store.manifest import Command, StartStates
from longalign.testing import whole_matrix


class SmallTiles:
    """Another back end, told that `shape` is the largest tile, and that it can trace `leaf` cells.

    Counts the rectangles it sweeps.
    """

    def __init__(
        self, shape: tuple[int, int] = (13, 17), inner: Backend | None = None, leaf: int = 12
    ) -> None:
        self.inner = inner or ReferenceBackend()
        self.shape = shape
        self.leaf = leaf
        self.swept = 0
        self.name = self.inner.name
        self.least_chunk = self.inner.least_chunk

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        results = self.inner.sweep(jobs, progress)
        self.swept += len(jobs)
        return results

    def can_trace(self, rows: int, cols: int) -> bool:
        return rows * cols <= self.leaf

    def trace(self, jobs: Sequence[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        return self.inner.trace(jobs, progress)

    def starts(self, jobs: Sequence[Rectangle], progress: Progress = no_progress) -> list[EdgeStarts]:
        return self.inner.starts(jobs, progress)

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        return self.shape

    def describe(self) -> dict[str, str]:
        return self.inner.describe()


@contextmanager
def small_geometry(chunk: int = 5, group: int = 256 << 20) -> Iterator[None]:
    """Chunks of at most `chunk` letters a side, and calls for rectangles that take at most `group` bytes:
    short sequences then take every turn of the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "SMALLEST_CHUNK", chunk)
        patch.setattr(meeting, "CALL_BYTES", group)
        yield


def using(*backends: Backend) -> Resources:
    """All the memory and all the lattice one may want."""
    return Resources(backends or [SmallTiles()], memory=1 << 40, store_budget=1 << 40)


@dataclass(frozen=True)
class Pair:
    """Two sequences, a scoring and a mode; prints as Python."""

    query: str
    target: str
    scoring: Scoring = Scoring()  # noqa: RUF009 - frozen
    mode: Mode = "local"

    @classmethod
    def of_codes(cls, query: Codes, target: Codes, scoring: Scoring, mode: Mode) -> Pair:
        return cls(spell(query), spell(target), scoring, mode)

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
    ) -> pipeline.Outcome:
        return pipeline.run(
            *self.sequences(),
            self.scoring,
            self.mode,
            resources or using(),
            command=command,
            start_states=start_states,
            store_path=store,
            emit=emit,
        )

    def truth(self) -> BestCell:
        """Score and end cell from the full matrix."""
        query, target = self.sequences()
        job = whole_matrix(query.as_query(), target.as_target(), self.scoring, self.mode == "local")
        [result] = ReferenceBackend().sweep([job])
        if self.mode == "local":
            return result.best
        return BestCell(int(result.rows[-1].h[-1]), query.length, target.length)

    def check(self, outcome: pipeline.Outcome) -> None:
        """The optimum, at the right end, by an alignment that is worth it."""
        end, alignment = outcome.end, outcome.alignment
        assert BestCell(end.value, end.i, end.j) == self.truth(), self
        assert (alignment.query_end, alignment.target_end) == (end.i, end.j), self
        assert score_columns(alignment) == end.value, self


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
