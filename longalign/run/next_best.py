"""The next best local alignments after the best one, none of which uses a letter pair twice.

M. S. Waterman and M. Eggert, J. Mol. Biol. 197:723-728 (1987). After each alignment its letter pairs are
excluded, the tiles that this can change are swept again, and phases 2 and 3 find the next alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from longalign.backends.base import Backend
from longalign.backends.excluding import excluding
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.phases.changed_tiles import ChangedTiles
from longalign.phases.lattice import StoreLattice
from longalign.run.engines.local import LocalEngine
from longalign.run.outcome import Outcome
from longalign.store import MemoryStore

#: Runs the three phases over a lattice on these devices.
RunPhases = Callable[[StoreLattice, LocalEngine, Sequence[Backend]], Outcome]


def next_best(
    first: Outcome, lattice: StoreLattice, backends: Sequence[Backend], run_phases: RunPhases
) -> tuple[Outcome, ...]:
    """The outcomes after `first`, in decreasing score: fewer than its spec asks for if there are no more.

    `lattice` is that of `first`, complete. The lattices of the others are kept in memory. They share the
    records of unchanged tiles.
    """
    able = [*map(excluding, backends)]
    found: list[Outcome] = []
    last, pairs = first, NO_PAIRS
    while len(found) + 1 < first.spec.top and last.alignment is not None and not last.is_empty:
        pairs |= ExcludedPairs.of(last.alignment)
        changed = ChangedTiles(lattice)
        lattice = replace(lattice, problem=replace(lattice.problem, excluded=pairs), store=MemoryStore())
        last = run_phases(lattice, LocalEngine(lattice, able, changed), able)
        if last.alignment is not None and not last.is_empty:
            found.append(last)
    return tuple(found)
