"""The CPU back end in the geometry that users get, on sequences of many strips, against parasail."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import parasail_score

from longalign.backends.cpu import CpuBackend
from longalign.model.mode import GLOBAL, LOCAL
from longalign.model.scoring import Scoring
from longalign.testing.inputs import (
    mutated,
)
from longalign.testing.sweep_jobs import whole_matrix

LINEAR = Scoring(match=2, mismatch=-3, gap_open=0, gap_extend=2)
LONG_GAPS = Scoring(match=1, mismatch=-2, gap_open=10, gap_extend=0)
STEEP = Scoring(match=5000, mismatch=-4000, gap_open=9000, gap_extend=700)


@pytest.fixture(scope="module")
def backend():
    return CpuBackend(2)


def random_letters(length, seed):
    return np.random.default_rng(seed).integers(0, 4, length, np.uint8)


def diverged(length, rate, seed):
    query = random_letters(length, seed)
    return query, mutated(query, length + length // 50, rate, np.random.default_rng(seed))


def repeats(length, unit, seed):
    """A tandem array against a diverged one with fewer copies, which gives many ties and long gaps."""
    query = np.resize(random_letters(unit, seed), length)
    return query, mutated(query, length - 5 * unit, 0.03, np.random.default_rng(seed))


PAIRS = {
    "unrelated": (random_letters(1_000, 1), random_letters(7_000, 2)),
    "wide": diverged(20_000, 0.02, 3),
    "diverged": diverged(8_000, 0.15, 4),
    "repeats": repeats(6_000, 37, 5),
    "one letter": (np.zeros(3_000, np.uint8), np.zeros(2_500, np.uint8)),
}


@pytest.mark.parametrize("scoring", [Scoring(), LINEAR, LONG_GAPS, STEEP], ids=str)
@pytest.mark.parametrize("pair", PAIRS)
def test_score_equals_parasail(backend, pair, scoring):
    query, target = PAIRS[pair]
    jobs = [whole_matrix(query, target, scoring, local) for local in (True, False)]
    in_local, in_global = backend.sweep(jobs)
    assert in_local.best.score == parasail_score(query, target, scoring, LOCAL, "scan_32")
    assert in_global.rows[0].h[-1] == parasail_score(query, target, scoring, GLOBAL, "scan_32")
