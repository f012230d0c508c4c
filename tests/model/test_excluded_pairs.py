"""Excluded pairs: those of an alignment, parts of them, and reversed sequences."""

from __future__ import annotations

import numpy as np
from alignments import cases
from hypothesis import given
from hypothesis import strategies as st

from longalign.model.alignment import Op
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs

pair_sets = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)))


def as_pairs(chosen: set[tuple[int, int]]) -> ExcludedPairs:
    ordered = np.array(sorted(chosen), np.int64).reshape(-1, 2)
    return ExcludedPairs(ordered[:, 0], ordered[:, 1])


def as_list(pairs: ExcludedPairs) -> list[tuple[int, int]]:
    return list(zip(pairs.query.tolist(), pairs.target.tolist(), strict=True))


@given(cases())
def test_the_pairs_of_an_alignment(case):
    alignment = case.alignment()
    i, j, wanted = alignment.rows[0], alignment.target_start, []
    for op, length in zip(alignment.ops.tolist(), alignment.lengths.tolist(), strict=True):
        for _ in range(length):
            if op in (Op.MATCH, Op.MISMATCH):
                wanted.append((i, j))
            i, j = i + (op != Op.DELETION), j + (op != Op.INSERTION)
    assert as_list(ExcludedPairs.of(alignment)) == wanted


@given(pair_sets, st.tuples(*[st.integers(0, 10)] * 4))
def test_the_pairs_in_a_rectangle(chosen, place):
    i0, i1, j0, j1 = place
    inside = [(i - i0, j - j0) for i, j in sorted(chosen) if i0 <= i < i1 and j0 <= j < j1]
    assert as_list(as_pairs(chosen).within(*place)) == inside


@given(pair_sets)
def test_reversed_sequences(chosen):
    assert as_list(as_pairs(chosen).reversed(10, 12)) == sorted((9 - i, 11 - j) for i, j in chosen)


@given(pair_sets, pair_sets)
def test_the_union(chosen, others):
    others -= chosen
    assert as_list(as_pairs(chosen) | as_pairs(others)) == sorted(chosen | others)
    assert as_list(as_pairs(chosen) | NO_PAIRS) == sorted(chosen)
