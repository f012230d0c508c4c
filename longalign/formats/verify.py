"""Verification of a PAF file against two FASTA files.

Each line is followed run by run along the letters of both records, with slices and plain counting. This
module is an independent check: it shares no arithmetic with the back ends or with `Alignment`. It tells
whether an alignment is what it claims to be, not whether it is optimal.

A `tg` tag claims a mode. An alignment begins and ends with the given letters where its mode does not free the
ends; the given letters are whole records, or the regions that the specifications name. A PAF line does not
tell which region was aligned, so an alignment of regions must be verified with the same regions. A local
alignment has a positive score; removing columns from its start must not raise the score, and removing columns
from its end must lower it. In mode extend, where the start is fixed, the score must be positive and removing
columns from the end must lower it. Start and end are those in the direction of the target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from os import PathLike, fspath

from longalign.errors import InputError, NoSuchRecord, UsageError
from longalign.fasta import read_sequence
from longalign.fasta.index import has_fresh_index
from longalign.fasta.reader import RecordFile, read_record
from longalign.fasta.source import STDIN, shown_name
from longalign.fasta.specs import can_read_again, sequence_of, split_spec
from longalign.formats.columns import Beginnings, CigarRuns, Contradiction, complement_of, walk
from longalign.formats.paf import (
    NO_MAPPING_QUALITY,
    Meaning,
    PafRecord,
    format_meaning,
    format_score,
    read_paf,
)
from longalign.model.alphabet import DNA, Alphabet
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence

#: The number of records of a file that are cached, since lines may come in any order.
_KEPT_RECORDS = 4

#: The tags whose claims are checked.
_CHECKED_TAGS = frozenset(("tp", "AS", "NM", "cg", "tg"))

_RUN = re.compile(r"(\d+)([MID=X])")


@dataclass(frozen=True, slots=True)
class FalseClaim:
    """One false claim of a PAF file, in words; `line` counts from 1."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(slots=True)
class Verification:
    """The result of verifying a PAF file.

    `alignments` and `columns` count what was walked. `scores` counts the alignments whose score was
    checked: those with a scoring in their tg tag, or all if a scoring was given. `unchecked` are the tags
    whose claims are not checked, AS among them if a line's scoring is not known. A result is true in a
    condition if it is `ok`.
    """

    paf: str
    alignments: int = 0
    columns: int = 0
    scores: int = 0
    unchecked: set[str] = field(default_factory=set)
    problems: list[FalseClaim] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every claim is true."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(f"{self.paf}: {problem}" for problem in self.problems)
        counts = (self.alignments, "alignment"), (self.columns, "column"), (self.scores, "score")
        found = ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)
        unchecked = f"; not checked: tags {', '.join(sorted(self.unchecked))}" if self.unchecked else ""
        return f"{self.paf}: OK: {found} checked{unchecked}"


def verify_paf(
    paf: str | PathLike[str],
    query: str | PathLike[str],
    target: str | PathLike[str],
    scoring: Scoring | None = None,
) -> Verification:
    """Check every line of a PAF file against the records that it names.

    `query` and `target` are specifications as `read_sequence` takes them; where one is just a FILE, the
    record of each line's name is taken from it. A tg tag must say what `scoring` is, if that is given.
    Without either, as in minimap2's output, AS is not checked. A line with a tg tag is longalign's own, so it
    must have AS, be primary, and of mapping quality 255. A line on the '-' strand aligns the reverse
    complement of the query, as minimap2 has it. (minimap2 leaves columns with an ambiguous letter out of its
    block length; that counts as a false claim here.) That a file lacks the record of a line is a false claim,
    too.

    False claims are in `Verification.problems`, in the order of the file. Raises InputError if a file cannot
    be read or two of its records have the same name, if a line is not PAF or has no cg tag, if the record
    that it names is damaged, or if a file lacks the record that `query` or `target` names; UsageError for
    arguments of other types.
    """
    for name, path in (("paf", paf), ("query", query), ("target", target)):
        if not isinstance(path, str | PathLike):
            raise UsageError(f"{name} must be the name of a file, not {path!r:.60}")
    if not isinstance(scoring, Scoring | None):
        raise UsageError(f"scoring must be a Scoring, not {scoring!r:.60}")
    paf, query, target = fspath(paf), fspath(query), fspath(target)
    queries = _Records(query)
    targets = queries if target == query else _Records(target)
    result = Verification(shown_name(paf))
    for record in read_paf(paf):
        meaning = record.meaning(scoring) if "tg" in record.tags else None
        by = scoring if meaning is None else meaning.scoring
        alphabet = by.alphabet if by is not None else DNA
        try:
            pair = queries.find(record.query_name, alphabet), targets.find(record.target_name, alphabet)
        except _Unreadable as error:
            raise InputError(f"{result.paf}: line {record.line}: {error}") from error
        if isinstance(pair[0], NoSuchRecord) or isinstance(pair[1], NoSuchRecord):
            lacking = (str(one) for one in pair if isinstance(one, NoSuchRecord))
            result.problems += [FalseClaim(record.line, text) for text in lacking]
            continue
        runs = [(int(length), op) for length, op in _RUN.findall(record.cigar)]
        result.alignments += 1
        result.columns += sum(length for length, _ in runs)
        result.scores += by is not None and "AS" in record.tags
        result.unchecked |= record.tags.keys() - (_CHECKED_TAGS if by is not None else _CHECKED_TAGS - {"AS"})
        problems = _problems(record, runs, pair[0], pair[1], by, meaning)
        result.problems += [FalseClaim(record.line, text) for text in problems]
    if result.alignments == 0 and result.ok:  # then no line has asked for a record
        queries.check()
        targets.check()
    return result


class _Unreadable(InputError):
    """A record that a line names, or its file, cannot be read."""


class _Records:
    """The sequence that a specification names, or all records of a file.

    The last few records are cached. A file is read for one record at a time, and of the others nothing is
    kept, until many were asked for: then it is read once for all, unless it has an index.
    """

    def __init__(self, spec: str) -> None:
        self._spec, self._reads = spec, 0
        self._all: RecordFile | None = None
        self.find = lru_cache(maxsize=_KEPT_RECORDS)(self._find)

    def check(self) -> None:
        """Raise InputError if the file cannot be read, unless it is stdin."""
        path, selector = split_spec(self._spec)
        if path != STDIN:
            RecordFile(path, [] if selector is None else [selector])

    def _find(self, name: str, alphabet: Alphabet) -> Sequence | NoSuchRecord:
        """The record called `name`, or the one sequence; if the file lacks the record, the error."""
        _, selector = split_spec(self._spec)
        if selector is not None:
            try:
                return read_sequence(self._spec, alphabet)
            except NoSuchRecord as error:  # the caller's error, and no line's
                raise InputError(str(error)) from error
        self._reads += 1
        if self._all is None and (not can_read_again(self._spec) or self._reads > _KEPT_RECORDS):
            self._all = RecordFile(self._spec, [name] if has_fresh_index(self._spec) else None)
        try:
            record = read_record(self._spec, name) if self._all is None else self._all.record(name)
            return sequence_of(record, f"{self._spec}:{name}", alphabet)
        except NoSuchRecord as error:
            return error  # which is kept as well
        except InputError as error:
            raise _Unreadable(str(error)) from error


def _problems(
    record: PafRecord,
    runs: CigarRuns,
    query: Sequence,
    target: Sequence,
    scoring: Scoring | None,
    meaning: Meaning | None,
) -> Iterator[str]:
    """The false claims of one line. Where letters are missing, they are not counted."""
    sides = _Side.query_of(record, query), _Side.target_of(record, target)
    if meaning is not None:
        yield from _broken_promises(record, meaning)
    misplaced = [text for side in sides for text in side.problems(runs)]
    alphabet = DNA if scoring is None else scoring.alphabet
    if alphabet.complement is None and record.strand == "-":
        misplaced.append(
            f"column 5 (strand): '-' is a reverse complement, which {alphabet.name} does not have"
        )
    if misplaced:
        yield from misplaced
        return
    letters, target_letters = (side.letters() for side in sides)
    if record.strand == "-":
        letters = complement_of(letters, scoring)
    tally = walk(runs, letters, target_letters, scoring)
    if tally.contradiction is not None:
        yield _contradiction(tally.contradiction, *sides, letters, target_letters)
    yield from _differs("column 10 (matches)", record.matches, tally.matches)
    yield from _differs("column 11 (block length)", record.block_length, tally.columns)
    if "NM" in record.tags:
        yield from _differs("tag NM", record.edit_distance, tally.mismatches + tally.gap_letters)
    if tally.beginnings is not None:
        if "AS" in record.tags:
            yield from _wrong_score(record, tally.beginnings)
        if meaning is not None:
            yield from _wrong_mode(meaning, sides, tally.beginnings)


def _contradiction(found: Contradiction, query: _Side, target: _Side, a: bytes, b: bytes) -> str:
    """A contradiction in words. `a` and `b` are the letters along which the alignment was walked."""
    op, i, j = found
    row = query.end - 1 - i if query.is_reversed else query.start + i
    return (
        f"cg has {op!r} at query {row} and target {target.start + j}, "
        f"where the letters {'agree' if op == 'X' else 'differ'} ({chr(a[i])} and {chr(b[j])})"
    )


def _wrong_score(record: PafRecord, beginnings: Beginnings) -> Iterator[str]:
    """That the tag AS is not what longalign writes for this score."""
    scoring = beginnings.scoring
    true = format_score(scoring, scoring.unscaled(beginnings.last)).split(":")[2]
    if record.score != Fraction(true):
        yield f"tag AS: claims {record.tag('AS')}, is {true}"


def _broken_promises(record: PafRecord, meaning: Meaning) -> Iterator[str]:
    """Claims that contradict what longalign writes, independent of the letters."""
    if "AS" not in record.tags:
        yield "tag AS: is missing"
    yield from _differs("tag tg", record.tag("tg"), format_meaning(*meaning))
    yield from _differs("column 12 (mapping quality)", record.mapping_quality, NO_MAPPING_QUALITY)
    yield from _differs("tag tp", record.tags.get("tp", "P"), "P")
    kind = "i" if meaning.scoring.scale == 1 else "f"
    yield from _differs("type of tag AS", record.kinds.get("AS", kind), kind)


def _wrong_mode(meaning: Meaning, sides: tuple[_Side, _Side], scores: Beginnings) -> Iterator[str]:
    """Why an alignment is not one of the mode that it claims."""
    mode = meaning.mode
    claim = f"tag tg: claims {'an' if mode[0] in 'aeiou' else 'a'} {mode} alignment"
    faults = (*_wrong_extent(meaning, *sides), *_wrong_ends(meaning, scores))
    yield from (f"{claim}, but {fault}" for fault in faults)


def _wrong_extent(meaning: Meaning, query: _Side, target: _Side) -> Iterator[str]:
    """Why an alignment does not begin and end where its mode lets it. The user may have chosen the end."""
    mode, ends, end_given = meaning.mode, meaning.mode.ends, meaning.end_given
    for side, begins_free, ends_free in (
        (query, ends.query_start, ends.query_end or end_given),
        (target, ends.target_start, ends.target_end or end_given),
    ):
        first, last = side.given
        if (begins_free or not side.begins_inside) and (ends_free or not side.ends_inside):
            continue
        verb = "begin" if ends_free else "end"
        span = f"does not {verb} where" if begins_free or ends_free else "is not all of"
        does = " do" * (begins_free or ends_free)
        yield f"{side.word} {side.start}-{side.end} {span} the letters given{does}, {first}-{last}"
    begins_on_edge = ends.query_start and ends.target_start and not mode.starts_anywhere
    if begins_on_edge and query.begins_inside and target.begins_inside:
        yield "it begins inside the letters given of both records"
    ends_on_edge = ends.query_end and ends.target_end and not (mode.ends_anywhere or end_given)
    if ends_on_edge and query.ends_inside and target.ends_inside:
        yield "it ends inside the letters given of both records"


def _wrong_ends(meaning: Meaning, scores: Beginnings) -> Iterator[str]:
    """Why an alignment that may begin or end anywhere would not do so where it does."""
    starts_anywhere = meaning.mode.starts_anywhere
    is_best_end = meaning.mode.ends_anywhere and not meaning.end_given
    spell = meaning.scoring.spell
    if (starts_anywhere or is_best_end) and scores.last <= 0:
        yield f"its score is {spell(scores.last)}, which is not positive"
        return
    if starts_anywhere and scores.lowest < 0:
        yield f"its beginning scores {spell(scores.lowest)} and can be cut off"
    if is_best_end and scores.highest >= scores.last:
        yield f"without its end it scores {spell(scores.highest)} instead of {spell(scores.last)}"


@dataclass(frozen=True, slots=True)
class _Side:
    """What a line claims about one of its two records, and the record. `column` is that of the name.

    If it `is_reversed`, the alignment begins at `end` and ends at `start`.
    """

    word: str
    column: int
    sequence: Sequence
    name: str
    length: int
    start: int
    end: int
    is_reversed: bool = False

    @classmethod
    def query_of(cls, record: PafRecord, sequence: Sequence) -> _Side:
        """The query's side of a line."""
        place = record.query_length, record.query_start, record.query_end
        return cls("query", 1, sequence, record.query_name, *place, is_reversed=record.strand == "-")

    @classmethod
    def target_of(cls, record: PafRecord, sequence: Sequence) -> _Side:
        """The target's side of a line."""
        place = record.target_length, record.target_start, record.target_end
        return cls("target", 6, sequence, record.target_name, *place)

    @property
    def given(self) -> tuple[int, int]:
        """Where the letters that were given begin and end in the record."""
        return self.sequence.offset, self.sequence.offset + self.sequence.length

    @property
    def begins_inside(self) -> bool:
        """Whether letters that were given precede the alignment."""
        return self.end != self.given[1] if self.is_reversed else self.start != self.given[0]

    @property
    def ends_inside(self) -> bool:
        """Whether letters that were given follow the alignment."""
        return self.start != self.given[0] if self.is_reversed else self.end != self.given[1]

    def problems(self, runs: CigarRuns) -> Iterator[str]:
        """Why the letters that the line speaks of cannot be found."""
        yield from _differs(f"column {self.column} ({self.word} name)", self.name, self.sequence.name)
        yield from _differs(
            f"column {self.column + 1} ({self.word} length)", self.length, self.sequence.record_length
        )
        first, last = self.given
        if not first <= self.start <= self.end <= last:
            yield f"{self.word} {self.start}-{self.end} is not within the letters given, {first}-{last}"
        consuming = "M=XI" if self.word == "query" else "M=XD"
        span = sum(length for length, op in runs if op in consuming)
        if span != self.end - self.start:
            yield (
                f"cg consumes {span} {self.word} letters, but {self.start}-{self.end} "
                f"has {self.end - self.start}"
            )

    def letters(self) -> bytes:
        """The aligned letters, upper case, forward."""
        offset = self.sequence.offset
        return self.sequence.letters[self.start - offset : self.end - offset].tobytes()


def _differs(what: str, claimed: object, true: object) -> Iterator[str]:
    if claimed != true:
        yield f"{what}: claims {claimed}, is {true}"
