"""The next best local alignments after the best one, none of which uses a letter pair twice.

M. S. Waterman and M. Eggert, J. Mol. Biol. 197:723-728 (1987). After each alignment its letter pairs are
excluded, the tiles that this can change are swept again, and phases 2 and 3 find the next alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from longalign.events import Emit, ignore
from longalign.model.alignment import uses_query, uses_target
from longalign.model.boundary import State, Waypoint
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.phases.changed_tiles import ChangedTiles
from longalign.phases.lattice import StoreLattice
from longalign.run.damage import read_or
from longalign.run.outcome import Outcome, checked_alignment, strand_scores
from longalign.store import MemoryStore, Piece, Store
from longalign.store.base import FoundPath

#: Runs the three phases over a lattice, phase 1 with this tile step.
RunRound = Callable[[StoreLattice, ChangedTiles], Outcome]


def next_best(
    first: Outcome, lattice: StoreLattice, run_round: RunRound, emit: Emit = ignore
) -> tuple[Outcome, ...]:
    """The outcomes after `first`, in decreasing score: fewer than its spec asks for if there are no more.

    `lattice` is that of `first`, complete. The lattices of the others are kept in memory. They share the
    records of unchanged tiles. Each alignment is kept in the store of `first`. Those that are there already
    are not computed again.
    """
    found, store = _found_before(first, lattice.store, emit), lattice.store
    last, pairs = first, NO_PAIRS
    for last in (first, *found):
        if last.alignment is not None:
            pairs |= ExcludedPairs.of(last.alignment)
    while len(found) + 1 < first.spec.top and last.alignment is not None and not last.is_empty:
        changed = ChangedTiles(lattice)
        lattice = replace(lattice, problem=replace(lattice.problem, excluded=pairs), store=MemoryStore())
        last = run_round(lattice, changed)
        if last.alignment is not None and not last.is_empty:
            found.append(last)
            pairs |= ExcludedPairs.of(last.alignment)
            store.put_next_best([*map(_found_path, found)])
    return tuple(found)


def _found_before(first: Outcome, store: Store, emit: Emit) -> list[Outcome]:
    """The outcomes after `first` that an earlier process has stored, as far as they are asked for now."""
    spec = first.spec
    if spec.top == 1 or first.alignment is None or first.is_empty:
        return []
    nothing: Sequence[FoundPath] = ()
    stored = read_or(store.get_next_best, nothing, emit)[: spec.top - 1]
    outcomes = [_outcome(first, one) for one in stored]
    return [one for one in outcomes if spec.min_score is None or one.score >= spec.min_score]


def _outcome(first: Outcome, found: FoundPath) -> Outcome:
    """What is known of an alignment that is in the store. Raises InternalError if its score is another."""
    spec, end, runs = first.spec, found.end, found.runs
    down, right = (int(runs.lengths[uses(runs.ops)].sum()) for uses in (uses_query, uses_target))
    start = Waypoint(end.i - down, end.j - right, State.H, 0)
    return replace(
        first,
        end=end,
        alignment=checked_alignment(spec, [end, start], runs),
        phases=(),
        compile_seconds=0.0,
        strand_scores=strand_scores([spec], [end]),
    )


def _found_path(outcome: Outcome) -> FoundPath:
    alignment = outcome.alignment
    assert alignment is not None
    return FoundPath(outcome.end, Piece(*alignment.runs))
