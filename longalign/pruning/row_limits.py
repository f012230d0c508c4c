"""Row limits: how much a path can gain from some rows on, found by exact sweeps of sections of the query.

The bound of `longalign.pruning.gains` is far above what can be gained in truth where the sequences differ by
long gaps or runs of N. This excess adds up: a path at the start of the matrix is given all of it, and a wide
band of cells has to be computed. Sweeps of sections remove it, at a small part of that cost.

**Sections.** The query is cut into sections of consecutive letters. Let U be the most that a path gains in
the rows of a section, from H in any cell of the first row boundary to any cell of the last one. A path from
the first row of the section on goes through all of it, and then gains what a path from the last row on gains.
If it is in a gap there, it does not pay alpha again. So with L as the limit of the next section's first row,
the limit is

    U + alpha + L

If the mode frees the end of the query, a path may also end within the section. Then it gains no more than all
of its letters do. In the last section, U is the most that a path gains to where it may end.

**The sweep of a section.** U is the best score of the section's letters in mode `fit`, against any part of
the target. The section is swept in this mode, pruned like any other matrix, with what the alignment of the
seeds scores in these rows as the bound. So the band of a section is as wide as its own excess demands, not
that of all rows below. The larger one of that score and of the best value in the last row is U: paths with
lower scores may have been left out.

**Its columns.** The bound by words also says which columns of its first row a path with that score may start
in. To the left of them, the line of `SideGains` is too low. To the right, a line that falls by beta with each
column is. In the sweep, paths start in these columns only. Such a path gains at most all letters of the
section, less beta for each letter of a horizontal gap. That limits how far to the right it gets.

**Its length.** By the bound by words, paths far from the seeds may also have that score, as in a section with
a long gap. The longer a section is, the more such a path loses. So the query is first cut into short *units*.
The *surplus* of a unit is what the alignment of the seeds scores in it, less what the bound gives paths far
from that. Units are joined to sections with a positive surplus, in such a way that all sweeps together take
the least time. Units for which this takes too long are left to the bound by words.

**Where it ends.** A cut just above or just below a long gap of the alignment makes U too high. A path in the
section below need not begin on the alignment. It may pair the letters of the gap with any others, which costs
less than the gap, and meet the alignment behind it. The same holds for the section above. How much a cut in
row i would add to U is estimated so: each letter that is paired with any other costs beta / 2. Let T(i) be
what the alignment scores up to row i, plus beta / 2 for each row. Then a path in the section below gains
max(T(i) - T(k)) over k >= i, and one in the section above max(T(k) - T(i)) over k <= i. The query is cut
where the sum of the two is least.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Progress, SweepJob, in_calls, no_progress
from longalign.backends.cpu.gain_sums import PathEnd
from longalign.model.alphabet import Codes
from longalign.model.boundary import Boundary, State, entry_edges
from longalign.model.mode import FIT, FreeEnds, Mode
from longalign.model.pruning import NO_LIMITS, SPACING, Anchors, Findings, Pruning, RowLimits, SideGains
from longalign.model.scoring import NEG_INF, Scoring
from longalign.pruning.band_sweep import best_scores
from longalign.pruning.gains import ChargedSide, gains, letters_of_sides, stretches_of_query
from longalign.pruning.milestones import milestones
from longalign.pruning.seeds import LowerBound
from longalign.system.threads import in_threads, processors, streamed

#: About how many letters of the query a unit has.
_UNIT = 1 << 17

#: In as many letters as a unit has, there are about this many places where the query may be cut.
_PLACES = 16

#: A unit that is left to the bound by words counts as much as the sweep of a section of this many letters.
_LONGEST = 1 << 23

#: The surplus of a unit that cannot be swept. No sum of others outweighs it.
_NEVER = -(1 << 40)

#: Bytes of host memory for each letter of a rectangle while it is swept: gains, and a back end's tables.
_BYTES_PER_LETTER = 10


@dataclass(frozen=True, slots=True)
class _Section:
    """The rows start <= i <= stop, and paths from the first to the last one of them.

    They gain at most `most`. Those that gain at least `expected` stay within the column boundaries `columns`,
    and begin in the first `width` of these. The columns are None if they are unknown or if there are no such
    paths. `surplus` is `expected` less what the bound by words leaves to paths far from the seeds. A section
    is swept only if its surplus is positive.
    """

    start: int
    stop: int
    most: int
    expected: int
    surplus: int
    columns: tuple[int, int] | None = None
    width: int = 0

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory that its sweep takes."""
        assert self.columns is not None
        first, last = self.columns
        return _BYTES_PER_LETTER * (self.rows + last - first)


def _top_edge(width: int, cols: int, scoring: Scoring) -> Boundary:
    """The top edge of a section. Paths start in its first `width` cells; to the right there are gaps only."""
    h, gap = np.zeros(cols + 1, np.int32), np.full(cols + 1, NEG_INF, np.int32)
    beyond = np.arange(1, len(h[width:]) + 1, dtype=np.int32)
    h[width:] = -scoring.gap_open - scoring.gap_extend * beyond
    return Boundary(h, gap)


class Sections:
    """The sections of a query.

    `found` is an alignment that is close to the best one. The other arguments are those of
    `longalign.pruning.gains.gains` and the mode, whose free ends decide where paths may end.
    """

    def __init__(self, query: Codes, target: Codes, scoring: Scoring, mode: Mode, found: LowerBound) -> None:
        self._query, self._target = (np.ascontiguousarray(codes) for codes in (query, target))
        self._scoring, self._mode = scoring, mode
        self._anchors, self._score = found.anchors(), found.score
        places = 1 + len(query) // _UNIT * _PLACES
        self._milestones = milestones(query, target, scoring, found, places)
        letters, _ = letters_of_sides(self._query, self._target, scoring)
        stretches = stretches_of_query(self._anchors)
        self._side = ChargedSide.of(self._query, self._target, letters, stretches, processors())

    def limits(self, max_cells: float, backend: Backend, progress: Progress = no_progress) -> RowLimits:
        """The limits of the first rows of all sections.

        There are none if more than about `max_cells` cells would have to be swept, or if gains do not depend
        on the diagonal (`Moves.free`). `progress` receives the cells of what is swept, see `best_scores`.
        Raises BackendError if the device fails, and whatever `progress` raises.
        """
        sections = self._cut()
        if sum(section.rows * section.width for section in sections) > max_cells:
            return NO_LIMITS
        most = {section.start: section.most for section in sections}
        # A call takes as long as its longest section, so sections of similar length are swept together.
        swept = sorted(
            (section for section in sections if section.columns is not None), key=attrgetter("rows")
        )
        needed = [section.host_bytes for section in swept]
        calls = in_calls(swept, needed, backend.host_bytes_per_call, len(swept))
        with streamed(self._jobs, calls, threads=1, max_ahead=2) as prepared:
            for call, jobs in zip(calls, prepared, strict=True):
                for section, score in zip(call, best_scores(jobs, backend, progress), strict=True):
                    most[section.start] = min(section.most, max(section.expected, score))
        limits: list[tuple[int, int]] = []
        for section in reversed(sections):
            gained = most[section.start]
            if limits:
                gained += self._scoring.gap_open + limits[-1][1]
                if self._mode.ends.query_end:
                    gained = max(gained, self._max_letters(section.start, section.stop))
            limits.append((section.start, min(gained, self._max_letters(section.start, len(self._query)))))
        return np.array(limits[::-1], np.int64).reshape(-1, 2)

    def gains(self, limits: RowLimits) -> SideGains:
        """The gains of the query with these limits."""
        most = self._max_letters(0, len(self._query))
        return self._side.gains_within(limits, self._scoring.gap_open, most, self._path_end(self._mode.ends))

    def _max_letters(self, start: int, stop: int) -> int:
        """The most that the letters of these rows gain if all of them are paired."""
        return self._scoring.highest * min(stop - start, len(self._target))

    def _path_end(self, ends: FreeEnds) -> PathEnd:
        """Where paths may end that free these ends."""
        return PathEnd.of(ends.query_end, ends, len(self._query), len(self._target))

    def _cut(self) -> list[_Section]:
        """The sections from where the alignment begins to the end of the query, in order, or none."""
        if self._side.moves.slope == 0:
            return []
        cuts, scores = self._cuts()
        units = in_threads(self._section, cuts[:-1], cuts[1:], np.diff(scores).tolist())
        surplus = np.array([unit.surplus for unit in units])
        ranges = [
            (cuts[first], cuts[last], scores[last] - scores[first])
            for first, last in joined(np.array(cuts), surplus)
        ]
        return in_threads(self._section, *zip(*ranges, strict=True))

    def _cuts(self) -> tuple[list[int], list[int]]:
        """The rows between units, those at both ends included, and what the alignment scores up to there.

        Rows are rounded down to a multiple of `SPACING`, and their scores are not. That may make a sweep
        leave out fewer or more cells, but never a limit too low (see "The sweep of a section").
        """
        rows, _, scores = self._milestones.T
        level = scores + self._scoring.gap_extend * rows // 2
        avoided = np.maximum.accumulate(level) - np.minimum.accumulate(level[::-1])[::-1]
        rows = rows // SPACING * SPACING
        cuts, so_far = [len(self._query)], [self._score]
        while cuts[-1] > rows[0]:
            first, behind = np.searchsorted(rows, [cuts[-1] - 2 * _UNIT, cuts[-1] - _UNIT], "right")
            behind = max(behind, 1)
            nearest_first = avoided[min(first, behind - 1) : behind][::-1]
            cut = behind - 1 - int(nearest_first.argmin())
            cuts.append(int(rows[cut]))
            so_far.append(int(scores[cut]))
        return cuts[::-1], so_far[::-1]

    def _section(self, start: int, stop: int, expected: int) -> _Section:
        """The section of these rows. `expected` is what the alignment of the seeds scores in them."""
        scoring, slope = self._scoring, self._side.moves.slope
        ends, max_letters = self._ends(stop), self._max_letters(start, stop)
        part, falling = self._side.part(start, stop, max_letters, self._path_end(ends))
        most, floor, line = (int(values[0]) for values in part.arrays)
        is_swept = ends.ends_anywhere or ends == FIT.ends
        surplus = expected - floor if is_swept else _NEVER
        if surplus <= 0:  # a path that gains `expected` may start in any column
            return _Section(start, stop, most, expected, surplus)
        # Such a path starts where the rising line and the falling one are high enough.
        first = max(0, -(-(expected - line) // slope))
        last = min(len(self._target), (falling - expected) // slope)
        if first > last:  # there is no such path, so no path gains more
            return _Section(start, stop, min(most, expected), expected, surplus)
        in_gaps = (max_letters - expected) // scoring.gap_extend  # the most letters in horizontal gaps
        right = min(len(self._target), last + stop - start + in_gaps)
        if first >= right:  # no letters of the target are left to sweep
            return _Section(start, stop, most, expected, surplus)
        return _Section(start, stop, most, expected, surplus, (first, right), last - first + 1)

    def _ends(self, stop: int) -> FreeEnds:
        """The ends that a section frees. A path through the last one ends where the mode says."""
        if stop < len(self._query):
            return FIT.ends
        ends = self._mode.ends
        return FreeEnds(
            target_start=True,
            query_end=ends.query_end,
            target_end=ends.target_end,
            ends_anywhere=ends.ends_anywhere,
        )

    def _jobs(self, sections: list[_Section]) -> list[SweepJob]:
        return in_threads(self._job, sections)

    def _job(self, section: _Section) -> SweepJob:
        """The sweep of a section. It may leave out cells that lie on no path that gains `expected`."""
        assert section.columns is not None
        (first, last), scoring, ends = section.columns, self._scoring, self._ends(section.stop)
        query, target = self._query[section.start : section.stop], self._target[first:last]
        size = len(query), len(target)
        findings = Findings(self._anchors_within(section.start, section.stop, first, last))
        most = gains(query, target, scoring, 1, findings, ends)
        top, (_, left) = _top_edge(section.width, len(target), scoring), entry_edges(State.H, *size, scoring)
        return SweepJob(
            query, target, scoring, top, left, False, track_best=ends.ends_anywhere,
            of_matrix=True, pruning=Pruning(section.expected, most.query, most.target),
        )  # fmt: skip

    def _anchors_within(self, i0: int, i1: int, j0: int, j1: int) -> Anchors:
        """The anchors in a rectangle, by its own rows and columns."""
        rows = slice(*np.searchsorted(self._anchors[:, 0], (i0, i1)))
        _, row_end, col, col_end = self._anchors[rows].T
        inside = (row_end <= i1) & (col >= j0) & (col_end <= j1)
        anchors: Anchors = self._anchors[rows][inside] - np.array([i0, i0, j0, j0])
        return anchors


def joined(cuts: NDArray[np.int64], surplus: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The units that form each section, as half-open ranges, with the least cost of all sections together.

    `cuts` are the rows between units, those at both ends included. A section of several units has a positive
    surplus. Its cost is the square of its rows, as its rectangle has about that many cells. A unit without a
    surplus may form a section that is not swept, at the cost of a section of `_LONGEST` rows.
    """
    total = np.insert(np.cumsum(surplus), 0, 0)
    least, first = np.zeros(len(cuts)), np.zeros(len(cuts), np.int64)
    for stop in range(1, len(cuts)):
        cost = np.where(total[:stop] < total[stop], (cuts[stop] - cuts[:stop]) ** 2.0, np.inf)
        cost[-1] = min(cost[-1], float(_LONGEST) ** 2)
        cost += least[:stop]
        first[stop] = cost.argmin()
        least[stop] = cost[first[stop]]
    sections, stop = [], len(surplus)
    while stop:
        sections.append((int(first[stop]), stop))
        stop = sections[-1][0]
    return sections[::-1]
