"""Row limits: how much a path can gain from some rows on, found by exact sweeps of pieces of the query.

The bound of `longalign.pruning.gains` is far above what can be gained in truth where the sequences differ by
long gaps or runs of N. This excess adds up: a path at the start of the matrix is given all of it, and a wide
band of cells has to be computed. It is found out piece by piece here, at a small part of that cost.

**Pieces.** The query is cut into pieces of consecutive letters. Let U be the most that a path gains in the
rows of a piece, from H in any cell of the first row boundary to any cell of the last one. A path from the
first row of the piece on goes through all of it, and then gains what a path from the last row on gains. There
it may be in a gap, which has been opened already. So with L as the limit of the next piece's first row, the
limit is

    U + alpha + L

If the mode frees the end of the query, a path may also end within the piece. Then it gains no more than all
of its letters do. In the last piece, U is the most that a path gains to where it may end.

**The sweep of a piece.** U is the best score of the piece's letters in mode `fit`, against any part of the
target. The piece is swept in this mode, pruned like any other matrix, with what the alignment of the seeds
scores in these rows as the bound. So the band of a piece is as wide as its own excess demands, not that of
all rows below. The larger one of that score and of the best value in the last row is U: paths with lower
scores may have been left out.

**Its columns.** The bound by words also says which columns of its first row a path with that score may start
in: below them, the line of `SideGains` is too low, and above them a line that falls in the same way is. In
the sweep, paths start in these columns only. Such a path gains at most all letters of the piece, less beta
for each letter of a horizontal gap. That limits how far to the right it gets.

**Its length.** By the bound by words, paths far from the seeds may also have that score, as in a piece with a
long gap. Then the piece is made longer: the longer it is, the more a path loses that does not follow the
seeds. If no length will do, a short piece is left to the bound by words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from longalign.backends.base import Backend, Progress, SweepJob, SweepResult, in_calls, no_progress
from longalign.backends.cpu.gain_sums import PathEnd
from longalign.model.alphabet import Codes
from longalign.model.boundary import Boundary, State, entry_edges
from longalign.model.mode import FIT, FreeEnds, Mode
from longalign.model.pruning import NO_LIMITS, SPACING, Anchors, Pruning, RowLimits, SideGains
from longalign.model.scoring import NEG_INF, Scoring
from longalign.pruning.gains import ChargedSide, gains, letters_of_sides, stretches_of_query
from longalign.pruning.milestones import milestones
from longalign.pruning.seeds import LowerBound
from longalign.system.threads import in_threads, processors

#: The numbers of letters of a piece that are tried, from the first one on.
_LENGTHS = [1 << bits for bits in range(17, 24)]

#: Once this many pieces could not be limited at any length, the rows above them become one piece without a
#: sweep. The bound by words then says what paths gain there.
_MOST_FAILURES = 16

#: Bytes of host memory for each letter of a rectangle while it is swept: gains, and a back end's tables.
_BYTES_PER_LETTER = 10


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows start <= i <= stop, and paths from the first to the last one of them.

    They gain at most `most`. Those that gain at least `expected` stay within the column boundaries `columns`,
    and begin in the first `width` of these. The columns are None if they are unknown or if there are no such
    paths.
    """

    start: int
    stop: int
    most: int
    expected: int
    columns: tuple[int, int] | None
    width: int = 0

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def is_limited(self) -> bool:
        """Whether it is known, or can be found by a sweep, that no path gains much more than expected."""
        return self.columns is not None or self.most <= self.expected


def query_gains(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    mode: Mode,
    found: LowerBound,
    most_cells: float,
    backend: Backend,
    progress: Progress = no_progress,
) -> SideGains | None:
    """What a path can gain by its place in the query, with row limits.

    `found` is an alignment that is close to the best one. None if more than about `most_cells` cells would
    have to be swept, or if a longer gap costs no more than a shorter one. `progress` receives the cells of
    the pieces, most of which are left out. `gains` says what the other arguments must be, and explains the
    result. Raises BackendError if the device fails, and whatever `progress` raises.
    """
    pieces = Pieces(query, target, scoring, mode, found)
    limits = pieces.limits(most_cells, backend, progress)
    return pieces.gains(limits) if len(limits) else None


def _best(result: SweepResult) -> int:
    """The best score of a piece: that of the best cell or, in mode `fit`, the highest of the last row."""
    return int(result.rows[0].h.max()) if result.rows else int(result.best.score)


def _starts(width: int, cols: int, scoring: Scoring) -> Boundary:
    """The top edge of a piece. Paths start in its first `width` cells; to the right there are gaps only."""
    h, gap = np.zeros(cols + 1, np.int32), np.full(cols + 1, NEG_INF, np.int32)
    beyond = np.arange(1, len(h[width:]) + 1, dtype=np.int32)
    h[width:] = -scoring.gap_open - scoring.gap_extend * beyond
    return Boundary(h, gap)


class Pieces:
    """The pieces of a query. The arguments are those of `query_gains`."""

    def __init__(self, query: Codes, target: Codes, scoring: Scoring, mode: Mode, found: LowerBound) -> None:
        self._query, self._target = (np.ascontiguousarray(codes) for codes in (query, target))
        self._scoring, self._mode = scoring, mode
        self._anchors, self._score = found.anchors(), found.score
        self._milestones = milestones(query, target, scoring, found)
        letters, _ = letters_of_sides(self._query, self._target, scoring)
        stretches = stretches_of_query(self._anchors)
        self._side = ChargedSide.of(self._query, self._target, letters, stretches, processors())

    def limits(self, most_cells: float, backend: Backend, progress: Progress = no_progress) -> RowLimits:
        """The limits of the first rows of all pieces; none where `query_gains` returns None."""
        pieces = list(self._cut())
        if sum(piece.rows * piece.width for piece in pieces) > most_cells:
            return NO_LIMITS
        most = {piece.start: piece.most for piece in pieces}
        for call in _calls(pieces, backend.host_bytes_per_call):
            results = backend.sweep(in_threads(self._job, call), progress)
            for piece, result in zip(call, results, strict=True):
                most[piece.start] = min(piece.most, max(piece.expected, _best(result)))
        limits: list[tuple[int, int]] = []
        for piece in pieces:
            gained = most[piece.start]
            if limits:
                gained += self._scoring.gap_open + limits[-1][1]
                if self._mode.ends.query_end:
                    gained = max(gained, self._scoring.highest * piece.rows)
            limits.append((piece.start, gained))
        return np.array(limits[::-1], np.int64).reshape(-1, 2)

    def gains(self, limits: RowLimits) -> SideGains:
        """The gains of the query with these limits."""
        most = self._scoring.highest * min(len(self._query), len(self._target))
        return self._side.gains_within(limits, self._scoring.gap_open, most, self._path_end(self._mode.ends))

    def _path_end(self, ends: FreeEnds) -> PathEnd:
        """Where paths may end that free these ends."""
        at_corner = not (ends.query_end or ends.target_end)
        return PathEnd(ends.query_end, at_corner, len(self._target) - len(self._query))

    def _cut(self) -> Iterator[_Piece]:
        """All pieces from the end of the query to where the alignment begins, or none."""
        if self._side.moves.slope == 0:
            return
        rows, _, scores = self._milestones.T
        rows = rows // SPACING * SPACING
        stop, score, failures = len(self._query), self._score, 0
        while stop > rows[0]:
            tried: list[_Piece] = []
            for length in _LENGTHS if failures < _MOST_FAILURES else [stop]:
                cut = max(0, int(np.searchsorted(rows, stop - length, "right")) - 1)
                tried.append(self._piece(int(rows[cut]), stop, score - int(scores[cut])))
                if tried[-1].is_limited or cut == 0:
                    break
            failures += not tried[-1].is_limited
            piece = tried[-1 if tried[-1].is_limited else 0]
            yield piece
            stop, score = piece.start, score - piece.expected

    def _piece(self, start: int, stop: int, expected: int) -> _Piece:
        scoring, slope = self._scoring, self._side.moves.slope
        ends, most_letters = self._ends(stop), scoring.highest * (stop - start)
        part, falling = self._side.part(start, stop, most_letters, self._path_end(ends))
        most, floor, line = (int(values[0]) for values in part.arrays)
        if floor >= expected or not (ends.ends_anywhere or ends == FIT.ends):
            return _Piece(start, stop, most, expected, None)
        first, last = max(0, -(-(expected - line) // slope)), (falling - expected) // slope
        beside = (most_letters - expected) // scoring.gap_extend
        right = min(len(self._target), last + stop - start + beside)
        if first > last:
            return _Piece(start, stop, min(most, expected), expected, None)
        if first >= right:
            return _Piece(start, stop, most, expected, None)
        return _Piece(start, stop, most, expected, (first, right), last - first + 1)

    def _ends(self, stop: int) -> FreeEnds:
        """The ends that a piece frees. A path through the last one ends where the mode says."""
        if stop < len(self._query):
            return FIT.ends
        ends = self._mode.ends
        return FreeEnds(
            target_start=True,
            query_end=ends.query_end,
            target_end=ends.target_end,
            ends_anywhere=ends.ends_anywhere,
        )

    def _job(self, piece: _Piece) -> SweepJob:
        """The sweep of a piece. It leaves out cells off all paths that gain less than expected."""
        assert piece.columns is not None
        (first, last), scoring, ends = piece.columns, self._scoring, self._ends(piece.stop)
        query, target = self._query[piece.start : piece.stop], self._target[first:last]
        size = len(query), len(target)
        most = gains(
            query, target, scoring, 1, self._anchors_within(piece.start, piece.stop, first, last), ends
        )
        top, (_, left) = _starts(piece.width, len(target), scoring), entry_edges(State.H, *size, scoring)
        return SweepJob(
            query, target, scoring, top, left, False,
            () if ends.ends_anywhere else size[:1], (), ends.ends_anywhere,
            of_matrix=True, pruning=Pruning(piece.expected, most.query, most.target),
        )  # fmt: skip

    def _anchors_within(self, i0: int, i1: int, j0: int, j1: int) -> Anchors:
        """The anchors in a rectangle, by its own rows and columns."""
        rows = slice(*np.searchsorted(self._anchors[:, 0], (i0, i1)))
        _, row_end, col, col_end = self._anchors[rows].T
        inside = (row_end <= i1) & (col >= j0) & (col_end <= j1)
        anchors: Anchors = self._anchors[rows][inside] - np.array([i0, i0, j0, j0])
        return anchors


def _calls(pieces: list[_Piece], host_bytes: int) -> list[list[_Piece]]:
    """The pieces to sweep, in groups. Each group takes at most `host_bytes`, or is a single piece."""
    to_sweep, needed = [], []
    for piece in pieces:
        if piece.columns is not None:
            first, last = piece.columns
            to_sweep.append(piece)
            needed.append(_BYTES_PER_LETTER * (piece.rows + last - first))
    return in_calls(to_sweep, needed, host_bytes, len(to_sweep))
