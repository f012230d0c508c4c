"""Pairs of sequences as genomes are related: copies with mutations, repeats, inversions, runs of N."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from longalign.backends.base import TraceJob
from longalign.model.alphabet import Codes
from longalign.model.boundary import State
from longalign.model.scoring import Scoring
from longalign.testing.inputs import QUERY_N, TARGET_N, generators, mutated
from longalign.testing.traces import TIES


def mutated_copy(letters: int, rate: float, seed: int) -> tuple[Codes, Codes]:
    """A random query and a target of as many letters that copies it with changes at this rate."""
    rng = np.random.default_rng(seed)
    query = rng.integers(0, 4, letters, np.uint8)
    return query, mutated(query, letters, rate, rng)


def leaf(rows: int, cols: int, scoring: Scoring = TIES) -> TraceJob:
    """A rectangle of related letters, to be traced from H to H."""
    rng = np.random.default_rng(rows + cols)
    query = rng.integers(0, 4, rows, np.uint8)
    return TraceJob(query, mutated(query, cols, 0.2, rng), scoring, State.H, State.H)


@st.composite
def related_pairs(draw: st.DrawFn, longest: int) -> tuple[Codes, Codes]:
    """A query and a target of up to about `longest` letters. They may be empty, or have nothing in common."""
    rng = draw(generators())
    length = draw(st.sampled_from([0, 1, 40, longest // 2, longest]))
    query = rng.integers(0, 4, length, np.uint8)
    target = mutated(query, length, draw(st.sampled_from([0.0, 0.01, 0.05, 0.2])), rng)
    for change in draw(st.lists(st.sampled_from(CHANGES), max_size=4)):
        query, target = change(query, target, rng)
        if draw(st.booleans()):
            query, target = target, query
    query, target = query[:longest].copy(), target[:longest].copy()
    query[query >= 4], target[target >= 4] = QUERY_N, TARGET_N
    return query, target


def _part(length: int, rng: np.random.Generator) -> slice:
    start, stop = np.sort(rng.integers(0, length + 1, 2))
    return slice(int(start), int(stop))


def _cut_out(query: Codes, target: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    return query, target[_part(len(target), rng)]


def _repeated(query: Codes, target: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    part = _part(len(target), rng)
    return query, np.concatenate([target[: part.stop], target[part], target[part.stop :]])


def _inverted(query: Codes, target: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    part, target = _part(len(target), rng), target.copy()
    target[part] = np.where(target[part] < 4, 3 - target[part], target[part])[::-1]
    return query, target


def _moved(query: Codes, target: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    at = int(rng.integers(0, len(target) + 1))
    return query, np.concatenate([target[at:], target[:at]])


def _masked(query: Codes, target: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    target = target.copy()
    target[_part(len(target), rng)] = TARGET_N
    return query, target


def _lengthened(query: Codes, target: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    more = [rng.integers(0, 4, int(rng.integers(0, 200)), np.uint8) for _ in range(2)]
    return query, np.concatenate([more[0], target, more[1]])


#: Each takes a query, a target and a random generator, and returns a query and a target.
CHANGES = [_cut_out, _repeated, _inverted, _moved, _masked, _lengthened]
