"""An alignment: two sequences, coordinates and a CIGAR; its statistics, and an independent re-scoring.

Runs are stored, not columns: an alignment of two chromosomes has 10^8 columns but 10^6 runs. Functions that
need columns take them from `gapped_rows`, a bounded number at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longalign.errors import InputError, InternalError, UsageError
from longalign.model.alphabet import Alphabet, Codes
from longalign.model.mode import Mode, ModeName, as_mode
from longalign.model.scoring import Scoring
from longalign.model.sequence import Letters, Sequence
from longalign.model.strand import Strand
from longalign.system.rationals import Number, spell
from longalign.system.threads import in_threads

Ops = NDArray[np.uint8]
Lengths = NDArray[np.int64]

#: `str()` of an alignment shows its letters up to this many columns.
LONGEST_SHOWN = 10_000

#: Columns that a thread expands at a time: some MB.
_CHUNK = 1 << 18

_LINE = 60  # columns in a line of `str()`


class Op(IntEnum):
    """CIGAR operations with their numbers in the SAM specification (section 4.2)."""

    DIAGONAL = 0  # M: a letter pair, not yet told apart into = and X
    INSERTION = 1  # I: query letters against a gap
    DELETION = 2  # D: target letters against a gap
    MATCH = 7  # =: the same letter twice, and not an ambiguous one
    MISMATCH = 8  # X: any other letter pair


_FINAL = (Op.INSERTION, Op.DELETION, Op.MATCH, Op.MISMATCH)

_SYMBOLS = "MIDNSHP=X"  # all of SAM's, by number; N S H P have no place here
_OP_OF_SYMBOL = bytes.maketrans(_SYMBOLS.encode(), bytes(range(len(_SYMBOLS))))
_CIGAR = re.compile(r"(?:\d{1,18}[MID=X])+", re.ASCII)
_CIGAR_SYMBOL = re.compile("[MID=X]")

# Fills a row where the other row has an unpaired letter. All letter codes are smaller.
_GAP = 255


def uses_query(ops: Ops) -> NDArray[np.bool_]:
    """Whether each operation consumes query letters."""
    return np.not_equal(ops, Op.DELETION)


def uses_target(ops: Ops) -> NDArray[np.bool_]:
    """Whether each operation consumes target letters."""
    return np.not_equal(ops, Op.INSERTION)


def letters_of_runs(ops: Ops, lengths: Lengths) -> tuple[Lengths, Lengths]:
    """How many query letters and how many target letters each run takes."""
    return np.where(uses_query(ops), lengths, 0), np.where(uses_target(ops), lengths, 0)


def span(ops: Ops, lengths: Lengths) -> tuple[int, int]:
    """How many query letters and how many target letters all runs together take."""
    rows, cols = letters_of_runs(ops, lengths)
    return int(rows.sum()), int(cols.sum())


def merge_runs(ops: ArrayLike, lengths: ArrayLike) -> tuple[Ops, Lengths]:
    """Drop empty runs and join neighbours with the same operation."""
    ops, lengths = np.asarray(ops, np.uint8), np.asarray(lengths, np.int64)
    ops, lengths = ops[lengths > 0], lengths[lengths > 0]
    if not len(ops):
        return ops, lengths
    starts = np.flatnonzero(np.concatenate([[True], ops[1:] != ops[:-1]]))
    return ops[starts], np.add.reduceat(lengths, starts)


def gapped_rows(
    query: Codes | Letters,
    target: Codes | Letters,
    ops: Ops,
    lengths: Lengths,
    *,
    gap: int,
    chunk: int = _CHUNK,
) -> Iterator[tuple[Ops, Codes, Codes]]:
    """The columns of an alignment, at most `chunk` at a time: operation, query row and target row.

    `query` and `target` are the uint8 letters or codes that the runs consume, from the first to the
    last. A row holds `gap` where it has no letter. Rows must not be changed.
    """
    return (stretch.columns(gap) for stretch in _stretches(query, target, ops, lengths, chunk))


class _Stretch(NamedTuple):
    """Neighbouring columns of an alignment: their runs, and the letters that these consume."""

    ops: Ops
    lengths: Lengths
    query: Codes | Letters
    target: Codes | Letters

    def columns(self, gap: int) -> tuple[Ops, Codes, Codes]:
        """See `gapped_rows`."""
        ops = np.repeat(self.ops, self.lengths)
        return ops, _row(self.query, uses_query(ops), gap), _row(self.target, uses_target(ops), gap)


def _row(letters: Codes | Letters, has_letter: NDArray[np.bool_], gap: int) -> Codes:
    if len(letters) == len(has_letter):
        return letters
    row = np.full(len(has_letter), gap, np.uint8)
    row[has_letter] = letters
    return row


def _stretches(
    query: Codes | Letters, target: Codes | Letters, ops: Ops, lengths: Lengths, chunk: int
) -> Iterator[_Stretch]:
    """The columns of an alignment in stretches of `chunk`. The last one may be shorter."""
    ends = np.cumsum(lengths)
    i = j = 0
    for start in range(0, int(lengths.sum()), chunk):
        first = np.searchsorted(ends, start, side="right")
        last = np.searchsorted(ends, start + chunk, side="left") + 1
        runs = ops[first:last]
        counts = np.diff(np.minimum(ends[first:last], start + chunk), prepend=start)
        rows, cols = span(runs, counts)
        yield _Stretch(runs, counts, query[i : i + rows], target[j : j + cols])
        i, j = i + rows, j + cols


def split_matches(
    query: Codes,
    target: Codes,
    ops: ArrayLike,
    lengths: ArrayLike,
    alphabet: Alphabet,
    *,
    chunk: int = _CHUNK,
) -> tuple[Ops, Lengths]:
    """Split the runs of letter pairs (M, = or X) into = and X, by the letters, and merge all runs.

    `query` and `target` are the codes (`Sequence.as_query`, `as_target`) that the runs consume, from
    the first to the last. `=` means the same letter, whatever that scores (`Alphabet.are_same`).
    """

    def split(stretch: _Stretch) -> tuple[Ops, Lengths]:
        columns, query_row, target_row = stretch.columns(_GAP)
        paired = (columns != Op.INSERTION) & (columns != Op.DELETION)
        same = alphabet.are_same(query_row, target_row)
        pairs = np.where(same, np.uint8(Op.MATCH), np.uint8(Op.MISMATCH))
        columns = np.where(paired, pairs, columns)
        starts = np.flatnonzero(np.concatenate([[True], columns[1:] != columns[:-1]]))
        return columns[starts], np.diff(starts, append=len(columns))

    runs = merge_runs(ops, lengths)
    parts = in_threads(split, _stretches(query, target, *runs, chunk))
    if not parts:
        return runs
    return merge_runs(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))


def format_cigar(ops: Ops, lengths: Lengths) -> str:
    """Runs as a CIGAR string; empty for no runs."""
    runs = zip(lengths.tolist(), ops.tolist(), strict=True)
    return "".join([f"{length}{_SYMBOLS[op]}" for length, op in runs])


def parse_cigar(text: str) -> tuple[Ops, Lengths]:
    """Operations and lengths of the runs in a CIGAR string of M I D = X; neighbours are not merged.

    Raises InputError for any other text, and for a run of length 0.
    """
    if not _CIGAR.fullmatch(text):
        start = _CIGAR.match(text)
        good = start.end() if start else 0
        shown = text[good:] if len(text) <= good + 40 else text[good : good + 40] + "..."
        place = f"{shown!r} from character {good + 1} on"
        raise InputError(f"bad CIGAR: {place}: want lengths, each followed by one of M I D = X")
    ops = np.frombuffer(bytearray(text.encode().translate(_OP_OF_SYMBOL, b"0123456789")), np.uint8)
    lengths = np.array(_CIGAR_SYMBOL.split(text)[:-1], "S18").astype(np.int64)
    if not lengths.all():
        raise InputError(f"bad CIGAR: run {np.flatnonzero(lengths == 0)[0] + 1} has length 0")
    return ops, lengths


def check_alignment(value: object) -> None:
    """Raise UsageError unless a public function was given an `Alignment`."""
    if not isinstance(value, Alignment):
        raise UsageError(f"alignment must be an Alignment, not {type(value).__name__}")


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """An optimal alignment of `query` and `target`.

    - `query_start`, `query_end`, `target_start`, `target_end`: 0-based and half-open, counted from the first
      letter of the sequence, which may be a region of a record. They are forward coordinates, as in PAF: if
      `strand` is "minus", the reverse complement of the query's letters from `query_start` to `query_end`
      is aligned, so the alignment begins at `query_end`.
    - `ops` (uint8, values of `Op`), `lengths` (int64): arrays of shape (runs,), read-only, one element for
      each run of I, D, = or X, in the direction of the target. Neighbouring runs differ and none is empty.
      A run of I or D is one gap; an I run next to a D run is two gaps.
    - `score`: in the units that the user gave: an int if the scale of `scoring` is 1, otherwise a Fraction.
    - `end_given`: the user chose the end cell, so other ends may score higher.

    The empty alignment has no runs and no extent. It scores 0, and is one of two sequences without letters,
    or of a mode in which an alignment may start and end in one cell. `cigar`, `matches`, `identity` and
    others are derived; `check` scores the alignment again.

    `from_runs` makes one, from sequences in the alphabet of `scoring`. Raises InternalError if runs,
    coordinates and sequences contradict each other.
    """

    query: Sequence
    target: Sequence
    scoring: Scoring
    mode: Mode
    score: Number
    query_start: int
    query_end: int
    target_start: int
    target_end: int
    ops: Ops
    lengths: Lengths
    end_given: bool = False

    @classmethod
    def from_runs(
        cls,
        query: Sequence,
        target: Sequence,
        scoring: Scoring,
        mode: Mode | ModeName,
        score: Number,
        start: tuple[int, int],
        ops: ArrayLike,
        lengths: ArrayLike,
        *,
        end_given: bool = False,
        codes: tuple[Codes, Codes] | None = None,
    ) -> Alignment:
        """The alignment that runs of M, I and D (`Op`) make from `start` on, a cell of the DP matrix: letters
        of the query, along its strand, and of the target.

        `codes` are those of all letters (`Sequence.as_query`, `as_target`), if the caller has them.
        Empty runs and neighbours with the same operation are allowed. No runs make the empty alignment.
        Raises InternalError for other operations and lengths, and if the runs leave the DP matrix.
        """
        ops, lengths = np.asarray(ops, np.uint8), np.asarray(lengths, np.int64)
        if not np.isin(ops, (Op.DIAGONAL, Op.INSERTION, Op.DELETION)).all() or (lengths < 0).any():
            raise InternalError("runs must be M, I or D, and not of negative length")
        ops, lengths = merge_runs(ops, lengths)
        rows, cols = span(ops, lengths)
        end_i, end_j = start[0] + rows, start[1] + cols
        if min(start) < 0 or end_i > query.length or end_j > target.length:
            raise InternalError(
                f"runs lead from {start} to {(end_i, end_j)}, outside {query.length} x {target.length}"
            )
        of_query, of_target = codes or (query.as_query(), target.as_target())
        letters = of_query[start[0] : end_i], of_target[start[1] : end_j]
        ops, lengths = split_matches(*letters, ops, lengths, scoring.alphabet)
        extent = *query.mirrored(start[0], end_i), start[1], end_j
        return cls(query, target, scoring, as_mode(mode), score, *extent, ops, lengths, end_given)

    def __post_init__(self) -> None:
        ops, lengths = self.ops, self.lengths
        if ops.dtype != np.uint8 or lengths.dtype != np.int64 or ops.shape != lengths.shape or ops.ndim != 1:
            raise InternalError("runs must be two one-dimensional arrays of one length, uint8 and int64")
        if not np.isin(ops, _FINAL).all() or (lengths <= 0).any() or (ops[1:] == ops[:-1]).any():
            raise InternalError("runs must be I, D, = or X, not empty, and differ from their neighbours")
        ends = self.mode.ends
        query, target = self.rows, (self.target_start, self.target_end)
        self._check_extent("query", self.query, *query, (ends.query_start, ends.query_end), uses_query(ops))
        self._check_extent(
            "target", self.target, *target, (ends.target_start, ends.target_end), uses_target(ops)
        )
        self._check_edges()
        for array in (ops, lengths):
            array.setflags(write=False)

    def _check_edges(self) -> None:
        """Raise InternalError unless one of the sequences is aligned from its start, and one to its end,
        where the mode does not let paths start or end anywhere."""
        start, end = self.rows
        starts_inside = start > 0 and self.target_start > 0
        ends_inside = end < self.query.length and self.target_end < self.target.length
        if starts_inside and not self.mode.starts_anywhere:
            raise InternalError(f"an alignment in mode {self.mode} starts inside both sequences: {self!r}")
        if ends_inside and not (self.mode.ends_anywhere or self.end_given):
            raise InternalError(f"an alignment in mode {self.mode} ends inside both sequences: {self!r}")

    def _check_extent(
        self,
        side: str,
        sequence: Sequence,
        start: int,
        end: int,
        free: tuple[bool, bool],
        consumed: NDArray[np.bool_],
    ) -> None:
        if not 0 <= start <= end <= sequence.length:
            raise InternalError(f"{side} coordinates {start}-{end} are not within 0-{sequence.length}")
        first, last = start if free[0] else 0, end if free[1] else sequence.length
        if (start, end) != (first, last):
            raise InternalError(
                f"an alignment in mode {self.mode} spans {side} {start}-{end} instead of {first}-{last}"
            )
        span = int(self.lengths[consumed].sum())
        if span != end - start:
            raise InternalError(
                f"the CIGAR consumes {span} {side} letters, but {start}-{end} has {end - start}"
            )

    @property
    def strand(self) -> Strand:
        """The strand of the query that is aligned."""
        return self.query.strand

    @property
    def _is_reversed(self) -> bool:
        return self.strand == "minus"

    @property
    def rows(self) -> tuple[int, int]:
        """The rows of the DP matrix from which and to which it runs: letters along the query's strand.

        They are `query_start` and `query_end` on the plus strand.
        """
        return self.query.mirrored(self.query_start, self.query_end)

    @property
    def runs(self) -> tuple[Ops, Lengths]:
        """The runs of M, I and D that `from_runs` takes."""
        paired = np.isin(self.ops, (Op.MATCH, Op.MISMATCH))
        return merge_runs(np.where(paired, np.uint8(Op.DIAGONAL), self.ops), self.lengths)

    @property
    def cigar(self) -> str:
        """The runs as a CIGAR string of I, D, = and X; empty for the empty alignment."""
        return format_cigar(self.ops, self.lengths)

    @property
    def matches(self) -> int:
        """Columns with the same letter twice, and not an ambiguous one."""
        return self._letters(Op.MATCH)

    @property
    def mismatches(self) -> int:
        """Columns with two letters that are not a match."""
        return self._letters(Op.MISMATCH)

    @property
    def gaps(self) -> int:
        """Number of gaps, that is of I runs and D runs."""
        return int(np.count_nonzero(self._in_gap))

    @property
    def gap_letters(self) -> int:
        """Letters against a gap."""
        return int(self.lengths[self._in_gap].sum())

    @property
    def columns(self) -> int:
        """Columns, gaps included."""
        return int(self.lengths.sum())

    @property
    def identity(self) -> float:
        """Matches per column, gaps included (BLAST's identity), 0..1; 0 for the empty alignment."""
        return self.matches / self.columns if len(self.ops) else 0.0

    @property
    def _in_gap(self) -> NDArray[np.bool_]:
        return np.isin(self.ops, (Op.INSERTION, Op.DELETION))

    def _letters(self, op: Op) -> int:
        return int(self.lengths[self.ops == op].sum())

    def rescore(self) -> Number:
        """The score in the units of `score`, computed from the letters, the gaps and the scoring alone.

        The letters decide whether a pair matches, not = or X in the CIGAR. Takes some nanoseconds for each
        column, and some tens of MB besides the codes of the letters and 16 bytes for each run.
        """
        return self.scoring.unscaled(self._pairs_and_fault()[0] - self._gap_costs())

    def check(self) -> None:
        """Raise InternalError unless score and CIGAR agree with the letters and the scoring."""
        pairs, wrong = self._pairs_and_fault()
        if wrong is not None:
            raise InternalError(f"CIGAR and letters disagree on = or X in column {wrong} of {self!r}")
        score = self.scoring.unscaled(pairs - self._gap_costs())
        if score != self.score:
            raise InternalError(
                f"the alignment re-scores to {spell(score)}, not to the reported score: {self!r}"
            )

    def _gap_costs(self) -> int:
        """Scaled."""
        return self.gaps * self.scoring.gap_open + self.gap_letters * self.scoring.gap_extend

    def _pairs_and_fault(self) -> tuple[int, int | None]:
        """The scaled score of all letter pairs; the first column (from 0) where = or X contradicts the
        letters."""

        def judge(stretch: _Stretch) -> tuple[int, int | None]:
            ops, query_row, target_row = stretch.columns(_GAP)
            wrong = self.scoring.alphabet.are_same(query_row, target_row) != (ops == Op.MATCH)
            fault = int(wrong.argmax()) if wrong.any() else None
            return self._score_of_pairs(query_row, target_row), fault

        query = self.query.as_query()[slice(*self.rows)]
        target = self.target.as_target()[self.target_start : self.target_end]
        judged = in_threads(judge, _stretches(query, target, self.ops, self.lengths, _CHUNK))
        faults = (k * _CHUNK + fault for k, (_, fault) in enumerate(judged) if fault is not None)
        return sum(score for score, _ in judged), next(faults, None)

    def _score_of_pairs(self, query_row: Codes, target_row: Codes) -> int:
        """The scaled score of all pairs. No column holds two gaps, so a column of equal codes is a match."""
        scoring = self.scoring
        paired = (query_row != _GAP) & (target_row != _GAP)
        if scoring.table is not None:
            scores = np.array(scoring.table.scores, np.int64)
            return int(scores[query_row[paired], target_row[paired]].sum())
        matches = int(np.count_nonzero(query_row == target_row))
        return matches * scoring.match + (int(np.count_nonzero(paired)) - matches) * scoring.mismatch

    def __repr__(self) -> str:
        return (
            f"Alignment({self.mode}, score {spell(self.score)}, "
            f"{self.query.name}:{self.query_start}-{self.query_end}{' minus' * self._is_reversed} x "
            f"{self.target.name}:{self.target_start}-{self.target_end}, {self.columns} columns)"
        )

    def __str__(self) -> str:
        """A summary and, up to `LONGEST_SHOWN` columns, the rows; coordinates are 0-based and half-open."""
        lines = [
            f"{self.mode} alignment, score {spell(self.score)} "
            f"({self.scoring.letter_scores}, {self.scoring.convention})",
            f"query  {self.query.name} {self.query_start}-{self.query_end} of {self.query.length}"
            f"{', minus strand' * self._is_reversed}",
            f"target {self.target.name} {self.target_start}-{self.target_end} of {self.target.length}",
            f"{self.matches} matches, {self.mismatches} mismatches, {self.gaps} gaps with "
            f"{self.gap_letters} letters, identity {self.identity:.2%} of {self.columns} columns",
        ]
        if self.columns <= LONGEST_SHOWN:
            lines += self._view()
        return "\n".join(lines)

    def _view(self) -> Iterator[str]:
        """The rows, query above target, bars between letters that match.

        The places of a query on the minus strand fall, as its letters are read backwards.
        """
        query = self.query.strand_letters[slice(*self.rows)]
        target = self.target.letters[self.target_start : self.target_end]
        rows = gapped_rows(query, target, self.ops, self.lengths, gap=ord("-"), chunk=_LINE)
        width = len(str(max(self.query_end, self.target_end)))
        i, step = (self.query_end, -1) if self._is_reversed else (self.query_start, 1)
        j = self.target_start
        for ops, query_row, target_row in rows:
            next_i = i + step * int(np.count_nonzero(uses_query(ops)))
            next_j = j + int(np.count_nonzero(uses_target(ops)))
            yield ""
            yield f"query  {i:>{width}} {query_row.tobytes().decode()} {next_i}"
            yield f"       {'':{width}} {''.join('|' if op == Op.MATCH else ' ' for op in ops)}".rstrip()
            yield f"target {j:>{width}} {target_row.tobytes().decode()} {next_j}"
            i, j = next_i, next_j
