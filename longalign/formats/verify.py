"""Whether a PAF file tells the truth about two FASTA files.

Each line is walked run by run along the letters of both records, with slices and plain counting. This
module shares no arithmetic with the back ends or with `Alignment`, so that it can bear witness against
them. It tells whether an alignment is what it claims to be, not whether it is optimal.
"""

from __future__ import annotations

import operator
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from longalign.alphabet import DNA, Alphabet
from longalign.errors import InputError
from longalign.fasta import STDIN
from longalign.formats.paf import PafRecord, read_paf
from longalign.scoring import Scoring
from longalign.sequence import Sequence, read_sequence

# Every letter as its base; an ambiguous one as a byte of its own in the query, another in the target,
# so that equal bytes are equal bases.
_QUERY_BASE = bytes.maketrans(b"URYSWKMBDHVN", b"T" + b"?" * 11)
_TARGET_BASE = bytes.maketrans(b"URYSWKMBDHVN", b"T" + b"!" * 11)
_COMPLEMENT = bytes.maketrans(b"ACGT", b"TGCA")
_COMPLEMENT_SHOWN = bytes.maketrans(b"ACGTURYSWKMBDHVN", b"TGCAAYRSWMKVHDBN")

#: Records of a file that are kept: lines come in any order.
_KEPT_RECORDS = 4

_RUN = re.compile(r"(\d+)([MID=X])")
CigarRuns = list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class FalseClaim:
    """One false claim of a PAF file, in words; `line` counts from 1."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(slots=True)
class Verification:
    """What a PAF file was found to be.

    `alignments` and `columns` count what was walked. `scores` counts the alignments whose score was
    checked: those with a scoring in their tg tag, or all if a scoring was given.
    """

    paf: str
    alignments: int = 0
    columns: int = 0
    scores: int = 0
    problems: list[FalseClaim] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every claim is true."""
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(f"{self.paf}: {problem}" for problem in self.problems)
        counts = (self.alignments, "alignment"), (self.columns, "column"), (self.scores, "score")
        found = ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)
        return f"{self.paf}: OK: {found} checked"


def verify_paf(paf: str, query: str, target: str, scoring: Scoring | None = None) -> Verification:
    """Check every line of a PAF file against the records that it names.

    `query` and `target` are specifications as `read_sequence` takes them; where one is just a FILE, the
    record of each line's name is taken from it. `scoring` goes before that of the tg tags; without
    either, as in minimap2's output, AS is not checked. A line on the '-' strand aligns the reverse
    complement of the query, as minimap2 has it. (minimap2 leaves columns with an ambiguous letter out of
    its block length; that counts as a false claim here.)

    False claims are returned, in the order of the file. Raises InputError if a file cannot be read, a
    line is not PAF or has no cg tag, or names a record that the FASTA file does not have.
    """
    queries = _Records(query)
    targets = queries if target == query else _Records(target)
    result = Verification(paf)
    for record in read_paf(paf):
        meaning = record.meaning[1] if scoring is None and "tg" in record.tags else scoring
        alphabet = meaning.alphabet if meaning is not None else DNA
        try:
            pair = queries.find(record.query_name, alphabet), targets.find(record.target_name, alphabet)
        except _NotFound as error:
            raise InputError(f"{paf}: line {record.line}: {error}") from error
        runs = [(int(length), op) for length, op in _RUN.findall(record.cigar)]
        result.alignments += 1
        result.columns += sum(length for length, _ in runs)
        result.scores += meaning is not None
        result.problems += [FalseClaim(record.line, text) for text in _problems(record, runs, *pair, meaning)]
    return result


class _NotFound(InputError):
    """A record that a file does not have."""


class _Records:
    """What a specification chooses: a sequence, or all records of a file, of which it keeps the last few."""

    def __init__(self, spec: str) -> None:
        self._spec, self._of_stdin = spec, ""
        self.find = lru_cache(maxsize=_KEPT_RECORDS)(self._find)

    def _find(self, name: str, alphabet: Alphabet) -> Sequence:
        """The record called `name`, or the one sequence."""
        if self._spec == STDIN:
            if self._of_stdin:
                raise _NotFound(
                    f"stdin: it was read for record {self._of_stdin}: to find {name}, give a file"
                )
            self._of_stdin = name
        elif not os.path.isfile(self._spec):  # noqa: PTH113 - is_file raises EACCES
            return read_sequence(self._spec, alphabet)
        try:
            return read_sequence(f"{self._spec}:{name}", alphabet)
        except InputError as error:
            raise _NotFound(str(error)) from error


def _problems(
    record: PafRecord, runs: CigarRuns, query: Sequence, target: Sequence, scoring: Scoring | None
) -> Iterator[str]:
    """The false claims of one line. Where letters are missing, they are not counted."""
    sides = (
        _Side(
            "query", 1, query, record.query_name, record.query_length, record.query_start, record.query_end
        ),
        _Side(
            "target",
            6,
            target,
            record.target_name,
            record.target_length,
            record.target_start,
            record.target_end,
        ),
    )
    misplaced = [text for side in sides for text in side.problems(runs)]
    matrix = None if scoring is None else scoring.matrix
    if matrix is not None and record.strand == "-":
        misplaced.append(f"column 5 (strand): '-' is a reverse complement, which {matrix.name} does not have")
    if misplaced:
        yield from misplaced
        return
    tally = _walk(record, runs, *sides, is_dna=matrix is None)
    yield from tally.contradictions
    yield from _differs("column 10 (matches)", record.matches, tally.matches)
    yield from _differs("column 11 (block length)", record.block_length, tally.columns)
    if "NM" in record.tags:
        yield from _differs("tag NM", record.edit_distance, tally.mismatches + tally.gap_letters)
    if scoring is not None:
        yield from _differs("tag AS", record.score, tally.score(scoring))


@dataclass(frozen=True, slots=True)
class _Side:
    """What a line claims about one of its two records, and the record. `column` is that of the name."""

    word: str
    column: int
    sequence: Sequence
    name: str
    length: int
    start: int
    end: int

    def problems(self, runs: CigarRuns) -> Iterator[str]:
        """Why the letters that the line speaks of cannot be found."""
        yield from _differs(f"column {self.column} ({self.word} name)", self.name, self.sequence.name)
        yield from _differs(
            f"column {self.column + 1} ({self.word} length)", self.length, self.sequence.record_length
        )
        first, last = self.sequence.offset, self.sequence.offset + self.sequence.length
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


@dataclass(slots=True)
class _Tally:
    """What the letters say about an alignment; `pairs` counts each pair of letters, query's first."""

    matches: int = 0
    mismatches: int = 0
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    gaps: int = 0
    gap_letters: int = 0
    contradictions: list[str] = field(default_factory=list)

    @property
    def columns(self) -> int:
        return self.matches + self.mismatches + self.gap_letters

    def score(self, scoring: Scoring) -> int:
        costs = scoring.gap_open * self.gaps + scoring.gap_extend * self.gap_letters
        if scoring.matrix is None:
            return scoring.match * self.matches + scoring.mismatch * self.mismatches - costs
        rows = dict(zip(scoring.matrix.letters.encode(), scoring.matrix.scores, strict=True))
        place = scoring.matrix.letters.encode().index
        return sum(count * rows[a][place(b)] for (a, b), count in self.pairs.items()) - costs


def _walk(record: PafRecord, runs: CigarRuns, query: _Side, target: _Side, *, is_dna: bool) -> _Tally:
    """Count along the CIGAR; the first = or X that the letters contradict is described."""
    a, b = query.letters(), target.letters()
    if is_dna:
        a, b = a.translate(_QUERY_BASE), b.translate(_TARGET_BASE)
    if record.strand == "-":
        a = a[::-1].translate(_COMPLEMENT)
    tally = _Tally()
    i = j = 0
    previous = ""
    for length, op in runs:
        if op in "ID":
            tally.gaps += op != previous
            tally.gap_letters += length
            i, j = (i + length, j) if op == "I" else (i, j + length)
        else:
            pair = a[i : i + length], b[j : j + length]
            same = length if pair[0] == pair[1] else sum(map(operator.eq, *pair))
            tally.matches += same
            tally.mismatches += length - same
            if not is_dna:
                tally.pairs.update(zip(*pair, strict=True))
            claimed = {"=": length, "X": 0, "M": same}[op]
            if same != claimed and not tally.contradictions:
                at = [x == y for x, y in zip(*pair, strict=True)].index(op == "X")
                is_forward = record.strand == "+"
                row = i + at if is_forward else len(a) - 1 - (i + at)
                letter = query.letters()[row : row + 1]
                shown = letter if is_forward else letter.translate(_COMPLEMENT_SHOWN)
                tally.contradictions.append(
                    f"cg has {op!r} at query {query.start + row} and target {target.start + j + at}, "
                    f"where the letters {'agree' if op == 'X' else 'differ'} "
                    f"({shown.decode()} and {target.letters()[j + at : j + at + 1].decode()})"
                )
            i, j = i + length, j + length
        previous = op
    return tally


def _differs(what: str, claimed: object, true: object) -> Iterator[str]:
    if claimed != true:
        yield f"{what}: claims {claimed}, is {true}"
