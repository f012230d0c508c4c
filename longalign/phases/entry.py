"""Where the one path that counts enters a rectangle, given the cell in which it leaves.

Many paths may be equally good. The one that counts is found by going back from the end cell, letter by
letter, with the preference of `recurrence.direction`. It is a function of the matrix alone. Parts of the
matrix suffice to find it, for these reasons:

1. Take a rectangle with an exit on the path. On its edges, let every value be at most that of the whole
   matrix, and let the value be exact where the path enters. The path inside is one of those that the
   rectangle admits. Hence all values along it are exact, and no other value exceeds that of the whole matrix.
   Going back, the path takes the first predecessor that accounts for the value at hand. In the rectangle, the
   predecessors before it in the order of preference are no better than in the whole matrix, so they do not
   account for that value either. The path is thus the same. A local path stops at the first H = 0, and H is
   exact along the path. A rectangle that the path enters at one known corner is a case of this; that is why
   segments can be traced by themselves.
2. The path is an optimal one. Where it enters, the forward value plus the backward value therefore equals the
   value at the exit. If this holds for a single cell and state of the edges, and no path of that value begins
   inside, that is the entry.
3. Otherwise the start states of the rectangle decide (`Backend.starts`). They follow the same preference, so
   by 1 they lead to the entry. They take a few times as long as a sweep, but few rectangles need them.
4. A large rectangle is cut in two instead. By 1, the path enters the second part where it would if that were
   all, given the values on the cut. From there on, the first part is a rectangle with a known exit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, EdgeStarts, Progress, SweepResult
from longalign.errors import InternalError
from longalign.model.boundary import State, Waypoint, start_code
from longalign.phases.halves import Halves, halves_of
from longalign.phases.meeting import calls_of, meetings, reversed_line
from longalign.phases.problem import Approach

#: A rectangle with more cells than this, and than the square of `Backend.min_chunk`, is cut in two.
_MAX_CELLS = 1 << 24

#: So is a rectangle with excluded pairs and more cells than this, if the back end uses every pair. Start
#: states then take 37 bytes for each cell (see `backends.excluding`).
_MAX_CELLS_EXCLUDING = 1 << 18


def entries(
    approaches: Sequence[Approach], swept: Sequence[SweepResult], backend: Backend, progress: Progress
) -> list[Waypoint]:
    """Where the path to each exit enters its rectangle, or begins inside, given sweeps back from the exits.

    Each sweep is a `meeting.backward_sweep`. Raises InternalError if no path accounts for an exit's value.
    """
    found = [*map(_only_entry, approaches, swept)]  # threads would contend for the GIL, and take longer
    tied = [approach for approach, entry in zip(approaches, found, strict=True) if entry is None]
    decided = iter(entries_by_starts(tied, backend, progress))
    return [entry or next(decided) for entry in found]


def entries_by_starts(approaches: Sequence[Approach], backend: Backend, progress: Progress) -> list[Waypoint]:
    """Where the path to each exit enters its rectangle, or begins inside, by start states.

    Each call of the back end takes at most half of `Backend.host_bytes_per_call`. The results of sweeps may
    take the other half.
    """
    max_cells, room = max(_MAX_CELLS, backend.min_chunk**2), backend.host_bytes_per_call // 2
    max_excluding = max_cells if backend.excludes_pairs else _MAX_CELLS_EXCLUDING

    def is_large(approach: Approach) -> bool:
        rectangle = approach.rectangle
        return rectangle.cells > (max_excluding if len(rectangle.excluded) else max_cells)

    large = [approach for approach in approaches if is_large(approach)]
    small = [approach for approach in approaches if not is_large(approach)]
    found: dict[int, Waypoint] = {}
    for group, find in ((small, _entries_of_small), (large, _entries_of_halves)):
        for call in calls_of(group, room, len(group)):
            found.update(zip(map(id, call), find(call, backend, progress), strict=True))
    return [found[id(approach)] for approach in approaches]


def _entries_of_small(approaches: Sequence[Approach], backend: Backend, progress: Progress) -> list[Waypoint]:
    """The same, by one call for the start states."""
    starts = backend.starts([approach.rectangle for approach in approaches], progress)
    codes = [_start_of(approach.exit.state, at) for approach, at in zip(approaches, starts, strict=True)]
    return [approach.entry(code) for approach, code in zip(approaches, codes, strict=True)]


def _entries_of_halves(
    approaches: Sequence[Approach], backend: Backend, progress: Progress
) -> list[Waypoint]:
    """The same, by cutting each rectangle in two."""
    halves = halves_of(approaches, backend.min_pruned_cells)
    found = middles(halves, backend, progress)
    firsts = [half.before(middle) for half, middle in zip(halves, found, strict=True)]
    earlier = iter(entries_by_starts([first for first in firsts if first is not None], backend, progress))
    return [middle if first is None else next(earlier) for first, middle in zip(firsts, found, strict=True)]


def middles(halves: Sequence[Halves], backend: Backend, progress: Progress) -> list[Waypoint]:
    """Where the path enters the second part of each of many approaches, by one call for their sweeps.

    It is a cell on the cut, or beyond the cut on an edge of the approach, or, if `rectangle.local`, inside.
    """
    swept = backend.sweep([job for half in halves for job in (half.first, half.back)], progress)
    seconds = [half.second(result) for half, result in zip(halves, swept[::2], strict=True)]
    return entries(seconds, swept[1::2], backend, progress)


def _only_entry(approach: Approach, swept: SweepResult) -> Waypoint | None:
    """The only entry with which a path has the value of the exit; None if start states must decide.

    There may be no such entry if pruning has left out cells beside the rectangle, and if the exit is a
    likely crossing of `stitch` that the path does not visit. The backward sweep then follows edges whose
    values are left out.
    """
    exit_ = approach.exit
    if approach.rectangle.local and swept.best.score == exit_.value:
        return None  # a path that begins inside
    codes = _possible_entries(approach, swept)
    if not len(codes) and approach.problem.pruning is None:
        raise InternalError(f"no path of value {exit_.value} leads to cell ({exit_.i}, {exit_.j})")
    return approach.entry(int(codes[0])) if len(codes) == 1 else None


def _possible_entries(approach: Approach, swept: SweepResult) -> NDArray[np.int64]:
    """The start codes of all cells and states of the edges through which paths of the exit's value pass."""
    rectangle, total = approach.rectangle, approach.exit.value
    alpha = rectangle.scoring.gap_open
    [top], [left] = swept.rows, swept.cols
    across = meetings(rectangle.top, reversed_line(top), State.E, total, alpha)
    down = meetings(rectangle.left, reversed_line(left), State.F, total, alpha)
    codes = [
        *(start_code(0, cells, int(state)) for state, cells in across),
        *(start_code(cells, 0, int(state)) for state, cells in down),
    ]
    return np.unique(np.concatenate(codes)) if codes else np.empty(0, np.int64)  # the corner is on both edges


def _start_of(state: State, starts: EdgeStarts) -> int:
    """The start code of the path that leaves in this state through the lower right corner."""
    if state == State.F:
        return int(starts.right.gap[-1])
    return int((starts.bottom.h if state == State.H else starts.bottom.gap)[-1])
