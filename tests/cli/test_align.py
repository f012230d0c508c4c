"""Whole runs against parasail and published results: the score, and that the alignment is worth it.

`Alignment.rescore` and `check` count letters and gaps; they share nothing with the sweeps. Runs over
many tiles and chunks are in `test_phases.py`.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest
from inputs import DATA
from oracles import parasail_score, spell

import longalign
from longalign.model.mode import MODES
from longalign.model.scoring import Scoring
from longalign.testing.inputs import (
    QUERY_N,
    SCORINGS,
    mutated,
)


def random_pair(rng, longest):
    """Related or not, of few letters or many, an N now and then."""
    rows, cols = rng.integers(1, longest + 1, 2)
    query = rng.integers(0, rng.integers(1, 5), rows, np.uint8)
    query[rng.random(rows) < rng.choice([0, 0, 0.05])] = QUERY_N
    if rng.random() < 0.3:
        return query, rng.integers(0, 4, cols, np.uint8)
    copied = query[rng.integers(0, rows) // 2 :]
    return query, mutated(copied, cols, rng.choice([0.01, 0.1, 0.3]), rng)


@pytest.mark.parametrize("mode", MODES)
def test_the_public_function_on_random_pairs(mode):
    rng = np.random.default_rng(7)
    for number in range((20 if mode in ("local", "global") else 4) * len(SCORINGS)):
        scoring = SCORINGS[number % len(SCORINGS)]
        query, target = random_pair(rng, 200)
        texts = spell(query), spell(target)
        alignment = longalign.align(*texts, scoring=scoring, mode=mode, backend="cpu", threads=1)
        want = parasail_score(query, target, scoring, alignment.mode)
        call = f"align{(*texts, scoring, mode)}"
        assert alignment.score == want, call
        assert alignment.rescore() == want, call


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
