"""The next best local alignments after the best one, none of which uses a letter pair twice.

M. S. Waterman and M. Eggert, J. Mol. Biol. 197:723-728 (1987). After each alignment its letter pairs are
excluded, the tiles that this can change are swept again, and phases 2 and 3 find the next alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import islice
from operator import or_

import numpy as np

from longalign.errors import InternalError
from longalign.events import Emit, Notice
from longalign.model.alignment import span
from longalign.model.boundary import State, Waypoint
from longalign.model.excluded_pairs import ExcludedPairs
from longalign.phases.changed_tiles import ChangedTiles
from longalign.phases.lattice import StoreLattice
from longalign.run.damage import read_unless_damaged
from longalign.run.outcome import Outcome, checked_alignment, strand_scores
from longalign.store import MemoryStore, Piece, Store
from longalign.store.base import NONE_FOUND, FoundPath, NextBest
from longalign.store.files import NotWritten

#: Runs the three phases over a lattice, phase 1 with this tile step. It may leave out phases 2 and 3 if the
#: score is less than is asked for.
RunRound = Callable[[StoreLattice, ChangedTiles], Outcome]


def next_best(first: Outcome, lattice: StoreLattice, run_round: RunRound, emit: Emit) -> tuple[Outcome, ...]:
    """The outcomes after `first`, in decreasing score: fewer than its spec asks for if there are no more.

    `lattice` is that of `first`, complete. The lattices of the others are kept in memory. They share the
    records of unchanged tiles. Each alignment is kept in the store of `first`, and so is one that scores less
    than is asked for, if its path was found, so that a resumed run does not look for it again. Those that are
    there already are not computed again.
    """
    spec, store = first.spec, lattice.store
    if spec.top == 1 or first.alignment is None or first.is_empty:
        return ()
    stored = read_unless_damaged(store.get_next_best, NONE_FOUND, emit)
    found = [_outcome(first, one) for one in stored.paths[: spec.top - 1]]
    pairs = _pairs_of([first, *found])
    is_enough = partial(spec.scoring.reaches, least=spec.min_score)
    if stored.suffice(spec.top, is_enough):
        return tuple(one for one in found if is_enough(one.end.value))
    paths, is_kept = [*stored.paths], True
    for last in islice(_rounds(lattice, pairs, run_round), spec.top - 1 - len(found)):
        if last.alignment is not None and not last.is_empty:
            paths.append(FoundPath(last.end, Piece(*last.alignment.runs)))
        is_kept = is_kept and _keep(store, NextBest(paths, last.is_empty), emit)
        if last.is_empty or not is_enough(last.end.value):
            break
        found.append(last)
    return tuple(found)


def _rounds(lattice: StoreLattice, pairs: ExcludedPairs, run_round: RunRound) -> Iterator[Outcome]:
    """The best outcome without `pairs`, then the best one without the pairs of the first as well, and so on.

    If nothing more aligns, the last one is empty. One that scores too little may have no alignment; it is the
    last one, too.
    """
    while True:
        changed = ChangedTiles(lattice)
        lattice = replace(lattice, problem=replace(lattice.problem, excluded=pairs), store=MemoryStore())
        last = run_round(lattice, changed)
        yield last
        if last.is_empty or last.alignment is None:
            return
        pairs |= ExcludedPairs.of(last.alignment)


def _outcome(first: Outcome, found: FoundPath) -> Outcome:
    """What is known of an alignment that is in the store. Raises InternalError if its score is another."""
    spec, end, runs = first.spec, found.end, found.runs
    rows, cols = span(runs.ops, runs.lengths)
    start = Waypoint(end.i - rows, end.j - cols, State.H, 0)
    return replace(
        first,
        end=end,
        alignment=checked_alignment(spec, [end, start], runs),
        phases=(),
        compile_seconds=0.0,
        strand_scores=strand_scores([spec], [end]),
    )


def _pairs_of(outcomes: Sequence[Outcome]) -> ExcludedPairs:
    """The letter pairs of all alignments, given in decreasing score.

    Raises InternalError if scores increase, or if two alignments share a letter pair.
    """
    pairs = reduce(or_, (ExcludedPairs.of(one.alignment) for one in outcomes if one.alignment is not None))
    is_repeated = (np.diff(pairs.query) == 0) & (np.diff(pairs.target) == 0)
    values = [one.end.value for one in outcomes]
    if is_repeated.any() or values != sorted(values, reverse=True):
        raise InternalError("the next best alignments share letter pairs, or their scores increase")
    return pairs


def _keep(store: Store, found: NextBest, emit: Emit) -> bool:
    """Write the alignments into the store, and return True. A store that takes no more is no error."""
    try:
        store.put_next_best(found)
    except NotWritten as error:
        emit(Notice(f"{error}; a later resume finds the next best alignments again"))
        return False
    return True
