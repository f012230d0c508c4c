"""Whole runs against parasail and published results: the score, and that the alignment is worth it.

`Alignment.rescore` and `check` count letters and gaps; they share nothing with the sweeps.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from oracles import parasail_score, spell

import longalign
from longalign import geometry, pipeline
from longalign.boundary import BestCell
from longalign.phases import recompute
from longalign.plan import Resources
from longalign.reference import ReferenceBackend
from longalign.scoring import Scoring
from longalign.sequence import Sequence
from longalign.testing import QUERY_N, SCORINGS, mutated, whole_matrix

DATA = Path(__file__).with_name("data")

MODES = ["local", "global"]


def random_pair(rng, longest):
    """Related or not, of few letters or many, an N now and then."""
    rows, cols = rng.integers(1, longest + 1, 2)
    query = rng.integers(0, rng.integers(1, 5), rows, np.uint8)
    query[rng.random(rows) < rng.choice([0, 0, 0.05])] = QUERY_N
    if rng.random() < 0.3:
        return query, rng.integers(0, 4, cols, np.uint8)
    copied = query[rng.integers(0, rows) // 2 :]
    return query, mutated(copied, cols, rng.choice([0.01, 0.1, 0.3]), rng)


def as_sequences(query, target):
    return [Sequence.from_letters(name, spell(codes)) for name, codes in (("q", query), ("t", target))]


def check(alignment, query, target, scoring, mode):
    alignment.check()
    assert alignment.rescore() == alignment.score
    assert alignment.score == parasail_score(query, target, scoring, mode == "local")


@pytest.mark.parametrize("mode", MODES)
def test_the_public_function_on_random_pairs(mode):
    rng = np.random.default_rng(7)
    for number in range(1100):
        scoring = SCORINGS[number % len(SCORINGS)]
        pair = random_pair(rng, 300)
        alignment = longalign.align(
            *as_sequences(*pair), scoring=scoring, mode=mode, backend="cpu", threads=1
        )
        check(alignment, *pair, scoring, mode)


def golden():
    """Rows of GOLDEN.tsv as test parameters."""
    with (DATA / "GOLDEN.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            marks = [pytest.mark.slow] if "LPA" in row["query"] else []
            yield pytest.param(row, id=f"{row['query']}-{row['target']}-{row['mode']}", marks=marks)


@pytest.mark.parametrize("row", list(golden()))
def test_published_score_and_end(row):
    costs = (int(row[name]) for name in ("match", "mismatch", "gap_open_alpha", "gap_extend_beta"))
    pair = (longalign.read_sequence(DATA / f"{row[side]}.fa.gz") for side in ("query", "target"))
    alignment = longalign.align(*pair, scoring=Scoring(*costs), mode=row["mode"], backend="cpu")
    alignment.check()
    found = alignment.score, alignment.query_end, alignment.target_end
    assert found == tuple(int(row[name]) for name in ("score", "end_query_1based", "end_target_1based"))


class TinyTiles(ReferenceBackend):
    """Tiles so small that a short alignment passes through many."""

    def tile_shape(self, rows, cols):
        return 13, 17


@pytest.fixture
def tiny_geometry(monkeypatch):
    """Chunks inside tiles, and segments that are refined several times before they are traced."""
    monkeypatch.setattr(geometry, "SMALLEST_CHUNK", 5)
    monkeypatch.setattr(recompute, "LEAF_CELLS", 12)


@pytest.mark.usefixtures("tiny_geometry")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scoring", SCORINGS, ids=str)
def test_many_small_chunks(scoring, mode):
    rng = np.random.default_rng(SCORINGS.index(scoring))
    resources = Resources([TinyTiles()], threads=1, memory=4 << 30)
    for _ in range(30):
        query, target = random_pair(rng, 60)
        outcome = pipeline.run(*as_sequences(query, target), scoring, mode, resources)
        check(outcome.alignment, query, target, scoring, mode)
        [whole] = ReferenceBackend().sweep([whole_matrix(query, target, scoring, mode == "local")])
        if mode == "local":
            assert BestCell(outcome.end.value, outcome.end.i, outcome.end.j) == whole.best
