"""The next best local alignments after the best one, none of which uses a letter pair twice.

M. S. Waterman and M. Eggert, J. Mol. Biol. 197:723-728 (1987). After each alignment its letter pairs are
excluded, the tiles that this can change are swept again, and phases 2 and 3 find the next alignment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.phases.changed_tiles import ChangedTiles
from longalign.phases.lattice import StoreLattice
from longalign.run.outcome import Outcome
from longalign.store import MemoryStore

#: Runs the three phases over a lattice, phase 1 with this tile step.
RunRound = Callable[[StoreLattice, ChangedTiles], Outcome]


def next_best(first: Outcome, lattice: StoreLattice, run_round: RunRound) -> tuple[Outcome, ...]:
    """The outcomes after `first`, in decreasing score: fewer than its spec asks for if there are no more.

    `lattice` is that of `first`, complete. The lattices of the others are kept in memory. They share the
    records of unchanged tiles.
    """
    found: list[Outcome] = []
    last, pairs = first, NO_PAIRS
    while len(found) + 1 < first.spec.top and last.alignment is not None and not last.is_empty:
        pairs |= ExcludedPairs.of(last.alignment)
        changed = ChangedTiles(lattice)
        lattice = replace(lattice, problem=replace(lattice.problem, excluded=pairs), store=MemoryStore())
        last = run_round(lattice, changed)
        if last.alignment is not None and not last.is_empty:
            found.append(last)
    return tuple(found)
