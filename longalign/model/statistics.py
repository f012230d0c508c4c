"""Statistics of an alignment: identities, kinds of mismatches, gaps, coverage and significance.

Everything but the kinds of mismatches follows from the runs. Only the letters of mismatches are looked at, a
bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from longalign.model.alignment import Alignment, Lengths, Op, check_alignment, uses_query, uses_target
from longalign.model.alphabet import Codes
from longalign.model.karlin_altschul import NOT_THE_BEST, Significance, significance

_CHUNK = 1 << 20  # letter pairs compared at a time: some tens of MB

#: A code for each letter. A C G T have 0 1 2 3, so the two of a transition differ in the higher bit only.
_OTHER = 4
_BASE_CODES = np.full(256, _OTHER, np.uint8)
_BASE_CODES[[*b"ACGTU"]] = 0, 1, 2, 3, 3


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of an alignment; ratios are 0..1, and 0 where the denominator is 0.

    - `columns`: letter pairs and letters against a gap.
    - `matches`, `mismatches`: columns of two letters, equal or not. An ambiguous letter never matches.
    - `transitions`, `transversions`, `ambiguous_pairs`: the mismatches by kind: A with G or C with T, other
      pairs of nucleotides, and pairs with an ambiguous letter. None if the letters are not nucleotides.
    - `insertions`, `inserted_letters`: gaps in the target, and the query letters in them.
    - `deletions`, `deleted_letters`: gaps in the query, and the target letters in them.
    - `longest_match`: columns of the longest run of matches.
    - `longest_gap`: letters of the longest gap.
    - `identity`: matches / columns, as in BLAST.
    - `identity_without_gaps`: matches / (matches + mismatches).
    - `identity_gap_compressed`: the same as `identity`, but each gap counts as one column.
    - `query_coverage`, `target_coverage`: the aligned letters, up to the first and last column, as a share of
      the sequence.
    - `significance`: bit score and E-value, or why they are not known, in words.
    """

    columns: int
    matches: int
    mismatches: int
    transitions: int | None
    transversions: int | None
    ambiguous_pairs: int | None
    insertions: int
    inserted_letters: int
    deletions: int
    deleted_letters: int
    longest_match: int
    longest_gap: int
    identity: float
    identity_without_gaps: float
    identity_gap_compressed: float
    query_coverage: float
    target_coverage: float
    significance: Significance | str


def statistics(alignment: Alignment) -> Statistics:
    """The statistics of an alignment. Takes some ns for each run and for each mismatch.

    Raises UsageError for anything but an alignment.
    """
    check_alignment(alignment)
    of = {op: alignment.lengths[alignment.ops == op] for op in Op}
    inserted, deleted = of[Op.INSERTION], of[Op.DELETION]
    matches, mismatches = alignment.matches, alignment.mismatches
    transitions, transversions, ambiguous = _kinds_of_mismatches(alignment)
    return Statistics(
        columns=alignment.columns,
        matches=matches,
        mismatches=mismatches,
        transitions=transitions,
        transversions=transversions,
        ambiguous_pairs=ambiguous,
        insertions=len(inserted),
        inserted_letters=int(inserted.sum()),
        deletions=len(deleted),
        deleted_letters=int(deleted.sum()),
        longest_match=_longest(of[Op.MATCH]),
        longest_gap=max(_longest(inserted), _longest(deleted)),
        identity=alignment.identity,
        identity_without_gaps=_ratio(matches, matches + mismatches),
        identity_gap_compressed=_ratio(matches, matches + mismatches + alignment.gaps),
        query_coverage=_ratio(alignment.query_end - alignment.query_start, alignment.query.length),
        target_coverage=_ratio(alignment.target_end - alignment.target_start, alignment.target.length),
        significance=_significance(alignment),
    )


def _significance(alignment: Alignment) -> Significance | str:
    if alignment.end_given:
        return NOT_THE_BEST
    lengths = alignment.query.length, alignment.target.length
    return significance(alignment.score, alignment.scoring, alignment.mode, *lengths)


def _longest(lengths: Lengths) -> int:
    return int(lengths.max(initial=0))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _kinds_of_mismatches(alignment: Alignment) -> tuple[int, int, int] | tuple[None, None, None]:
    """Transitions, transversions, and pairs with an ambiguous letter."""
    if alignment.scoring.alphabet.complement is None:
        return None, None, None
    transitions = transversions = 0
    for query, target in _mismatches(alignment):
        known = (query < _OTHER) & (target < _OTHER)
        transition = int(np.count_nonzero(known & (query ^ target == 2)))
        transitions += transition
        transversions += int(np.count_nonzero(known)) - transition
    return transitions, transversions, alignment.mismatches - transitions - transversions


def _mismatches(alignment: Alignment, chunk: int = _CHUNK) -> Iterator[tuple[Codes, Codes]]:
    """The `_BASE_CODES` of the letters in mismatches, query and target, at most `chunk` pairs at a time."""
    ops, lengths = alignment.ops, alignment.lengths
    chosen = ops == Op.MISMATCH
    rows = alignment.rows[0] + np.cumsum(lengths * uses_query(ops))[chosen]
    cols = alignment.target_start + np.cumsum(lengths * uses_target(ops))[chosen]
    ends = np.cumsum(lengths[chosen])  # counted in mismatches alone
    query_letters, target_letters = alignment.query.strand_letters, alignment.target.strand_letters
    for start in range(0, alignment.mismatches, chunk):
        places = np.arange(start, min(start + chunk, alignment.mismatches))
        runs = np.searchsorted(ends, places, side="right")
        before_end = ends[runs] - places
        yield (
            _BASE_CODES[query_letters[rows[runs] - before_end]],
            _BASE_CODES[target_letters[cols[runs] - before_end]],
        )
