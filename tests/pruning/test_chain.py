"""The heaviest chain, compared with a plain search of all predecessors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.pruning.chain import heaviest_chain
from longalign.testing.inputs import generators


def random_segments(rng, count, span):
    """Segments by row, of which those of one diagonal do not overlap, and their weights."""
    row, col = rng.integers(0, span, (2, count))
    length = rng.integers(1, max(2, span // 8), count)
    order = np.lexsort((row, col - row))
    row, col, length = row[order], col[order], length[order]
    is_same = np.diff(col - row) == 0
    keep = np.ones(count, bool)
    end = -1
    for x in range(count):
        keep[x] = x == 0 or not is_same[x - 1] or row[x] >= end
        if keep[x]:
            end = row[x] + length[x]
    row, col, length = row[keep], col[keep], length[keep]
    order = np.argsort(row, kind="stable")
    return row[order], col[order], length[order], rng.integers(1, 60, len(order))


def plain_value(row, col, length, weight, bonus, alpha, beta):
    """The value of the heaviest chain."""
    value = []
    for j in range(len(row)):
        best = bonus[0][j]
        for i in range(j):
            if row[i] + length[i] <= row[j] and col[i] + length[i] <= col[j]:
                apart = abs((col[j] - row[j]) - (col[i] - row[i]))
                best = max(best, value[i] - (alpha + beta * apart if apart else 0))
        value.append(best + weight[j])
    return max(total + last for total, last in zip(value, bonus[1], strict=True))


def value_of(chain, row, col, length, weight, bonus, alpha, beta):
    total = bonus[0][chain[0]] + bonus[1][chain[-1]] + weight[chain].sum()
    for i, j in pairwise(chain):
        assert row[i] + length[i] <= row[j]
        assert col[i] + length[i] <= col[j]
        apart = abs((col[j] - row[j]) - (col[i] - row[i]))
        total -= alpha + beta * apart if apart else 0
    return total


@given(
    generators(), st.integers(1, 300), st.sampled_from([20, 100, 1000]), st.integers(0, 5), st.integers(0, 3),
    st.booleans(),
)  # fmt: skip
def test_no_chain_is_heavier(rng, count, span, alpha, beta, has_bonus):
    row, col, length, weight = random_segments(rng, count, span)
    bonus = tuple(-rng.integers(0, 50, (2, len(row))) * has_bonus)
    chain = heaviest_chain((row, col), (row + length, col + length), weight, bonus, alpha, beta)
    found = value_of(chain, row, col, length, weight, bonus, alpha, beta)
    assert found == plain_value(row, col, length, weight, bonus, alpha, beta)


@pytest.mark.parametrize("count", [33, 64, 65, 1500])
def test_sizes_around_blocks(count):
    rng = np.random.default_rng(count)
    row, col, length, weight = random_segments(rng, count, 100_000)
    bonus = (0 * row, 0 * row)
    length = 0 * length + 1
    chain = heaviest_chain((row, col), (row + length, col + length), weight, bonus, 1, 0)
    found = value_of(chain, row, col, length, weight, bonus, 1, 0)
    assert found == plain_value(row, col, length, weight, bonus, 1, 0)


def test_no_segments():
    none = np.empty(0, np.int64)
    assert len(heaviest_chain((none, none), (none, none), none, (none, none), 3, 2)) == 0
