"""Phases 2 and 3 on the CUDA back end, in Numba's simulator: all kinds of entries, ties, tiny inputs."""

from __future__ import annotations

import pytest
from crossings import CROSSINGS, entries, regular, run_on
from runs import CPU, PLAIN_MODES, Geometry, Pair

from longalign.backends.cuda.backend import CudaBackend
from longalign.model.scoring import Scoring
from longalign.run.batch import run_batch
from longalign.run.planner import Resources
from longalign.testing.inputs import SCORINGS, matrix_of
from longalign.testing.traces import FREE_GAPS, TIES


@pytest.fixture(scope="module")
def backend() -> CudaBackend:
    return CudaBackend(columns=2, block_rows=16, warps=1)


@pytest.mark.parametrize("crossing", CROSSINGS, ids=str)
def test_a_path_enters_where_it_should(crossing, backend):
    grid = regular(crossing.pair, 8, 16)
    outcome, path = run_on(grid, crossing.pair, backend, leaf=30)
    crossing.pair.check(outcome)
    assert (crossing.place, crossing.state) in entries(grid, path)
    assert outcome.alignment.cigar == run_on(grid, crossing.pair, CPU, leaf=30)[0].alignment.cigar


MATRIX = Scoring(gap_open=0, gap_extend=1, matrix=matrix_of([[2, -2, 1], [-1, 2, -2], [0, -1, 3]]))


PAIRS = [
    Pair("A", "A"),
    Pair("CAC", "GAG"),
    Pair("AAAA", "CCCC"),
    Pair("A", "C", mode="global"),
    Pair("A", "CCCA", mode="global"),
    Pair("ACAC" * 3, "CACA" * 3, TIES),
    Pair("ACAC" * 3, "CACA" * 3, FREE_GAPS, "global"),
    Pair("AAC" * 4, "CAA" * 4, SCORINGS[2], "global"),
    Pair("AAC" * 4, "CAA" * 4, SCORINGS[-1], "global"),
    Pair("ABCAABBC", "CABBACAB", MATRIX, "global"),
    *(Pair("TTACGTACG", "ACGTTACGAAC", mode=mode) for mode in PLAIN_MODES),
    Pair("AAC" * 4, "CAA" * 4, FREE_GAPS, "semiglobal:query-start,query-end,target-end"),
    Pair("ABCAABBC", "CABBACAB", MATRIX, "semiglobal"),
    Pair("ABCAABBC", "CABBACAB", MATRIX, "extend"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_ties_and_tiny_inputs(pair, backend):
    pair.check(Geometry((9, 9), chunk=5, leaf=6).run(pair, backend))


def test_a_batch_of_pairs(backend):
    outcomes = run_batch([pair.spec() for pair in PAIRS], Resources([backend], 1 << 40))
    for pair, outcome in zip(PAIRS, outcomes, strict=True):
        pair.check(outcome)
