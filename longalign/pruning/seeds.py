"""A lower bound of the best score: the score of a real alignment, found by words unique in both sequences.

The words are joined to segments, the heaviest chain of segments is taken, and the rectangles between them are
filled by the back end. Nothing here has to be the best: the bound is the score of the path that was found,
computed from its letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Kernel, Progress, Runs, no_progress
from longalign.model.alignment import Lengths, Op, Ops, letters_of_runs, merge_runs, span
from longalign.model.alphabet import Codes
from longalign.model.mode import Mode
from longalign.model.pruning import Anchors
from longalign.model.scoring import Scoring
from longalign.pruning import bridge, chain, run_scores, segments, unique_words
from longalign.pruning.anchors import chained, refined
from longalign.pruning.bridge import extension
from longalign.pruning.budget import TimeBudget
from longalign.pruning.fill import Cell, fill, rectangles_around
from longalign.pruning.run_scores import scores_of_runs
from longalign.pruning.segments import find_segments
from longalign.pruning.unique_words import SMALL_SAMPLE, shared_words, word_length

#: Two sequences are taken for unrelated if anchors cover a smaller share of the shorter one.
_MIN_COVERED = 0.005

#: Two sequences are closely related if they share at least this part of the words sampled of the shorter one,
#: and at least this many. Human and chimpanzee share two thirds of their words, two species of yeast a ninth.
_MIN_SHARED_PART, _MIN_SHARED_WORDS = 0.33, 10

#: Where a path may start and end anywhere, its ends are looked for within this many letters of the outermost
#: anchors.
_LONGEST_END = 512


@dataclass(frozen=True, slots=True, eq=False)
class LowerBound:
    """A real alignment and its scaled score.

    `start` is the cell of the DP matrix where it begins. `ops` and `lengths` are its runs of M, I and D, and
    `scores` what each of them scores.
    """

    start: Cell
    ops: Ops
    lengths: Lengths
    scores: NDArray[np.int64]

    @property
    def score(self) -> int:
        """The score of all runs."""
        return int(self.scores.sum())

    def anchors(self) -> Anchors:
        """The stretches of letter pairs."""
        down, right = letters_of_runs(self.ops, self.lengths)
        row, col = self.start[0] + np.cumsum(down), self.start[1] + np.cumsum(right)
        stretches: Anchors = np.stack([row - down, row, col - right, col], axis=1)[self.ops == Op.DIAGONAL]
        return stretches


def lower_bound(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    mode: Mode,
    backend: Backend,
    progress: Progress = no_progress,
    note_related: Callable[[], object] = lambda: None,
    more_for_related: bool = True,
) -> LowerBound | None:
    """A real alignment of two sequences in a mode, and its score.

    None if the letters are not nucleotides, if a sequence is very short, if there are hardly any seeds or no
    time to look for them, or if the alignment is no better than an empty one that the mode allows.

    `query` and `target` are uint8 codes of shape (m,) and (n,), whose lengths satisfy `Scoring.check_range`.
    `TimeBudget` limits the time to a small share of the time of a sweep. With `more_for_related`, closely
    related sequences may take a larger share. `progress` receives the cells that the back end sweeps and
    traces. `note_related` is called once, before most of the work, if the sequences prove related.
    Raises BackendError if the device fails, and whatever `progress` and `note_related` raise.
    """
    shape = len(query), len(target)
    k = word_length(*shape)
    if not scoring.alphabet.begins_with_bases or min(shape) < 2 * k:
        return None
    query, target = _writable(query), _writable(target)
    sweep = *shape, scoring, mode.starts_anywhere, backend
    budget, larger = TimeBudget.of(*sweep), TimeBudget.of(*sweep, related=True)
    related = more_for_related and larger.allows_words(sum(shape)) and _are_related(query, target, k)
    if related:
        budget = larger
        note_related()
    if not budget.allows_words(sum(shape)):
        return None
    found = find_segments(query, target, scoring, k)
    anchors = chained(found, shape, scoring, mode, k)
    covered = int((anchors[:, 1] - anchors[:, 0]).sum())
    if covered < max(1, _MIN_COVERED * min(shape)):
        return None
    if not related:
        note_related()
    cells = _first_cell(anchors, mode), _last_cell(anchors, shape, mode)
    anchors = refined(query, target, scoring, anchors, cells, backend, budget, progress)
    rectangles = rectangles_around(anchors, *cells)
    path = fill(query, target, scoring, anchors, rectangles, backend, budget, progress)
    start, (ops, lengths) = _best_stretch(query, target, scoring, mode, cells[0], path)
    bound = LowerBound(start, ops, lengths, scores_of_runs(query, target, scoring, start, ops, lengths))
    return None if bound.score <= 0 and mode.may_be_empty else bound


def _are_related(query: Codes, target: Codes, k: int) -> bool:
    """Whether two sequences are closely related, judged by a small sample of their words.

    That takes a tenth of the time of a search for words.
    """
    sampled = SMALL_SAMPLE * min(len(query), len(target)) / max(len(query), len(target))
    return shared_words(query, target, k) >= max(_MIN_SHARED_WORDS, _MIN_SHARED_PART * sampled)


def kernels() -> list[Kernel]:
    """What `lower_bound` compiles on its first call on a machine besides kernels of the back end.

    That takes about two seconds of a processor.
    """
    parts = chain, unique_words, segments, bridge, run_scores
    return [kernel for part in parts for kernel in part.kernels()]


def _writable(codes: Codes) -> Codes:
    """The codes as compiled functions take them."""
    return np.require(codes, np.uint8, ["C", "W"])


def _first_cell(anchors: Anchors, mode: Mode) -> Cell:
    """Where a path to the first anchor begins: on the anchor's diagonal if the mode allows it, otherwise in
    the corner."""
    i, _, j, _ = anchors[0].tolist()
    back = min(i, j)
    if mode.starts_anywhere:
        back = min(back, _LONGEST_END)
        return i - back, j - back
    is_free = mode.ends.query_start if i > j else mode.ends.target_start
    return (i - back, j - back) if is_free else (0, 0)


def _last_cell(anchors: Anchors, shape: Cell, mode: Mode) -> Cell:
    """Where a path from the last anchor ends: on the anchor's diagonal if the mode allows it, otherwise in
    the corner."""
    _, i, _, j = anchors[-1].tolist()
    rows, cols = shape[0] - i, shape[1] - j
    on = min(rows, cols)
    if mode.ends_anywhere:
        on = min(on, _LONGEST_END)
        return i + on, j + on
    is_free = mode.ends.query_end if rows > cols else mode.ends.target_end
    return (i + on, j + on) if is_free else shape


def _end_of(start: Cell, ops: Ops, lengths: Lengths) -> Cell:
    """The cell in which runs end that begin in `start`."""
    rows, cols = span(ops, lengths)
    return start[0] + rows, start[1] + cols


def _best_stretch(
    query: Codes, target: Codes, scoring: Scoring, mode: Mode, start: Cell, path: Runs
) -> tuple[Cell, Runs]:
    """The part of a path with the best score that the mode allows: its first cell and its runs.

    Where the mode lets a path start or end anywhere, the part is extended along its diagonal.
    """
    ops, lengths = path
    totals = np.concatenate([[0], np.cumsum(scores_of_runs(query, target, scoring, start, ops, lengths))])
    lowest = np.minimum.accumulate(totals) if mode.starts_anywhere else 0 * totals
    stop = int(np.argmax(totals - lowest)) if mode.ends_anywhere else len(ops)
    first = int(np.argmin(totals[: stop + 1])) if mode.starts_anywhere else 0
    start = _end_of(start, ops[:first], lengths[:first])
    ops, lengths = ops[first:stop], lengths[first:stop]
    more = [0, 0]
    if mode.starts_anywhere:
        more[0] = extension(query, target, scoring, start, -1)
    if mode.ends_anywhere:
        more[1] = extension(query, target, scoring, _end_of(start, ops, lengths), 1)
    pair = [Op.DIAGONAL]
    runs = merge_runs(np.concatenate([pair, ops, pair]), np.concatenate([more[:1], lengths, more[1:]]))
    return (start[0] - more[0], start[1] - more[0]), runs
