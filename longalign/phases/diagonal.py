"""Stretches of a path that are known without a sweep, because letter pairs alone account for their values.

Take an exit in H on the path, with its value v. Going back along its diagonal, let s(t) be the sum of the
scores of the last t letter pairs. The recurrence has H >= v' + s(t) in the exit, if v' is H after t pairs.

- If a stored H after k pairs is v - s(k), the path follows the diagonal down from there. Stored values are
  never above those of the whole matrix. So H after t < k pairs is at least v - s(t), by the pairs in between,
  and at most v - s(t), since the exit has no more than v. In each of these cells the letter pair therefore
  accounts for H, and `recurrence.direction` takes a pair before any gap.
- In local mode, H is at least 0 everywhere. If v = s(t), H after t pairs is therefore 0, and the path starts
  there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longalign.backends.substitution_tables import PITCH, table_of
from longalign.model.boundary import State, Waypoint
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem, Segment


def is_straight(problem: Problem, segment: Segment) -> bool:
    """Whether the path of a segment is known to be one diagonal. A segment has letters on both sides."""
    entry, exit_ = segment.entry, segment.exit
    if segment.rows != segment.cols or not _may_be_straight(problem, exit_) or entry.state != State.H:
        return False
    return entry.value + int(_sums_back(problem, exit_, segment.rows)[-1]) == exit_.value


def straight_back(lattice: StoreLattice, point: Waypoint) -> Waypoint | None:
    """Where the path to `point` enters its chunk, or begins in it, if it comes straight down a diagonal.

    `point` has letters on both sides. None if the path does not come down a diagonal, or is unlikely to.
    """
    problem, (i0, j0) = lattice.problem, lattice.corner(point.i, point.j)
    if not _may_be_straight(problem, point):
        return None
    pairs = min(point.i - i0, point.j - j0)
    sums = _sums_back(problem, point, pairs)
    if problem.has_floor and len(starts := np.flatnonzero(sums == point.value)):
        length = int(starts[0]) + 1
        return Waypoint(point.i - length, point.j - length, State.H, 0)
    if sums[-1] <= 0:
        return None  # a path that loses so much is seldom the best, and to read an edge takes time
    entry = lattice.entry((i0, j0), point.i - pairs, point.j - pairs, State.H)
    return entry if entry.value + int(sums[-1]) == point.value else None


def _may_be_straight(problem: Problem, exit_: Waypoint) -> bool:
    return exit_.state == State.H and len(problem.excluded) == 0


def _sums_back(problem: Problem, exit_: Waypoint, count: int) -> NDArray[np.int64]:
    """The sums of the scores of the last 1, 2, ... `count` letter pairs on the diagonal before a cell."""
    query, target = problem.letters_backwards(exit_.i - count, exit_.i, exit_.j - count, exit_.j)
    scores = table_of(problem.scoring)[query.astype(np.intp) * PITCH + target]
    return np.cumsum(scores, dtype=np.int64)
