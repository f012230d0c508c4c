"""MAF, chains and Biopython's alignments: read with Biopython, and compared letter pair by letter pair."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from io import StringIO

import numpy as np
import pytest
from alignments import Case, cases
from Bio import Align
from hypothesis import given
from hypothesis import strategies as st
from oracles import reverse_complement

from longalign import to_biopython
from longalign.errors import UsageError
from longalign.formats.registry import resolve_format
from longalign.model.alignment import Alignment, Op
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence

Regions = tuple[tuple[int, int], tuple[int, int]]

#: How many letters lie before and after the aligned region of the query and of the target.
regions = st.tuples(*[st.tuples(st.integers(0, 5), st.integers(0, 5))] * 2)


def written(alignment: Alignment, name: str) -> str:
    file = StringIO()
    resolve_format(name, "-").write_all([alignment], file)
    return file.getvalue()


def read(alignment: Alignment, name: str) -> list[Align.Alignment]:
    return list(Align.parse(StringIO(written(alignment, name)), name))


def within_records(case: Case, around: Regions) -> Case:
    """The same case, as regions of longer records."""
    query, target = (
        replace(sequence, offset=before, record_length=before + sequence.length + after)
        for sequence, (before, after) in zip((case.query, case.target), around, strict=True)
    )
    return replace(case, query=query, target=target)


def letter_pairs(case: Case) -> list[tuple[int, int]]:
    """The place of each letter pair in both records, on their forward strands: target, then query."""
    pairs = []
    i, j = case.start
    for op, length in case.runs:
        for _ in range(length):
            if op == Op.DIAGONAL:
                row = i if case.query.strand == "plus" else case.query.length - 1 - i
                pairs.append((case.target.offset + j, case.query.offset + row))
            i, j = i + (op != Op.DELETION), j + (op != Op.INSERTION)
    return pairs


def pairs_read(alignment: Align.Alignment) -> list[tuple[int, int]]:
    """The same, of one of Biopython's alignments."""
    step = -1 if alignment.coordinates[1, 0] > alignment.coordinates[1, -1] else 1
    return [
        (j, i if step == 1 else i - 1)
        for (start, end), (from_row, to_row) in zip(*alignment.aligned.tolist(), strict=True)
        for j, i in zip(range(start, end), range(from_row, to_row, step), strict=True)
    ]


@given(cases(), regions)
def test_letter_pairs_are_those_of_the_alignment(case: Case, around: Regions) -> None:
    case = within_records(case, around)
    alignment, expected = case.alignment(), letter_pairs(case)
    assert pairs_read(to_biopython(alignment)) == expected
    for name in ("maf", "chain"):
        (found,) = read(alignment, name) if expected else [None]
        assert (pairs_read(found) if found else []) == expected, name
        assert found is None or found.score == alignment.score
        assert found is None or [record.id for record in found.sequences] == ["target", "query"]
        lengths = [case.target.record_length, case.query.record_length]
        assert found is None or [*map(len, found.sequences)] == lengths


@given(cases(), regions)
def test_rows_of_maf_have_the_letters_of_the_records(case: Case, around: Regions) -> None:
    case = within_records(case, around)
    query, target = (sequence.letters.tobytes().decode() for sequence in (case.query, case.target))
    strand = reverse_complement(query) if case.query.strand == "minus" else query
    head, *blocks = written(case.alignment(), "maf").split("a score=")
    assert head == "##maf version=1\n\n"
    rows = [line.split() for block in blocks for line in block.splitlines()[1:] if line]
    if not case.columns():
        assert not rows
        return
    (_, _, _, _, _, _, of_target), (_, _, _, _, _, _, of_query) = rows
    i, j = case.start
    assert len(of_target) == len(of_query) == len(case.columns())
    assert of_query.replace("-", "") == strand[i : i + len(of_query.replace("-", ""))]
    assert of_target.replace("-", "") == target[j : j + len(of_target.replace("-", ""))]
    gaps = [(a == "-", b == "-") for a, b in case.columns()]
    assert [(a == "-", b == "-") for a, b in zip(of_query, of_target, strict=True)] == gaps


@given(cases(), regions)
def test_rows_of_biopython_have_the_letters_of_maf(case: Case, around: Regions) -> None:
    alignment = within_records(case, around).alignment()
    for found in read(alignment, "maf"):
        converted = to_biopython(alignment)
        assert [converted[0], converted[1]] == [found[0], found[1]]
        assert np.array_equal(converted.coordinates, found.coordinates)


def on_minus_strand() -> Alignment:
    """An insertion next to a deletion, a gap at the end, and a fraction as score."""
    query = Sequence.from_letters("q", "CAGTTACGT", offset=10, record_length=30).on("minus")
    target = Sequence.from_letters("t", "TACGTTACAG")
    runs = [(Op.DIAGONAL, 4), (Op.INSERTION, 1), (Op.DELETION, 2), (Op.DIAGONAL, 2), (Op.DELETION, 1)]
    ops, lengths = zip(*runs, strict=True)
    scoring = Scoring(match=Fraction(1, 3), gap_extend=Fraction(1, 2))
    return Alignment.from_runs(query, target, scoring, "local", Fraction(7, 3), (0, 1), ops, lengths)


def test_a_block_of_maf() -> None:
    assert written(on_minus_strand(), "maf") == (
        f"##maf version=1\n\na score={7 / 3!r}\ns t 1 9 + 10 ACGT-TACAG\ns q 11 7 - 30 ACGTA--AC-\n\n"
    )


def test_a_chain() -> None:
    assert written(on_minus_strand(), "chain") == f"chain {7 / 3!r} t 10 + 1 9 q 30 - 11 18\n4\t2\t1\n2\n\n"


def test_scores_are_not_rounded_if_a_decimal_spells_them() -> None:
    alignment = replace(on_minus_strand(), score=Fraction("123456789.5"))
    assert written(alignment, "chain").startswith("chain 123456789.5 t ")
    assert "a score=123456789.5\n" in written(alignment, "maf")
    assert to_biopython(alignment).score == 123456789.5


def test_nothing_but_gaps_is_a_block_of_maf_but_no_chain() -> None:
    query, target = Sequence.from_letters("q", ""), Sequence.from_letters("t", "ACG")
    alignment = Alignment.from_runs(query, target, Scoring(), "global", -9, (0, 0), [Op.DELETION], [3])
    assert written(alignment, "maf").endswith("s t 0 3 + 3 ACG\ns q 0 0 + 0 ---\n\n")
    assert written(alignment, "chain") == ""


def test_biopython_writes_sam() -> None:
    line = format(to_biopython(on_minus_strand()), "sam").split("\t")
    assert line[:6] == ["q", "16", "t", "2", "255", "11S4M1I2D2M1D12S"]


@pytest.mark.parametrize("value", [None, "ACGT", 3])
def test_only_alignments_are_converted(value: object) -> None:
    with pytest.raises(UsageError, match="alignment must be an Alignment, not "):
        to_biopython(value)  # type: ignore[arg-type]
