"""Alignments: = and X from the letters, statistics, CIGAR strings, and the score from letters and CIGAR."""

from __future__ import annotations

import dataclasses
from itertools import groupby

import numpy as np
import pytest
from alignments import Case, cases
from hypothesis import given
from hypothesis import strategies as st

from longalign.errors import InputError, InternalError
from longalign.model.alignment import (
    LONGEST_SHOWN,
    Alignment,
    Op,
    format_cigar,
    gapped_rows,
    merge_runs,
    parse_cigar,
    split_matches,
)
from longalign.model.mode import GLOBAL, LOCAL
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence

runs = st.lists(st.tuples(st.sampled_from([0, 1, 2, 7, 8]), st.integers(0, 5)), max_size=30)


def expand(ops: np.ndarray, lengths: np.ndarray) -> list[int]:
    return np.repeat(ops, lengths).tolist()


def example(score: int = 1) -> Alignment:
    """ACGT-AC / AGGTTA-: 4 matches, 1 mismatch, a deletion and an insertion."""
    query, target = Sequence.from_letters("q", "ACGTAC"), Sequence.from_letters("t", "AGGTTA")
    ops = [Op.DIAGONAL, Op.DELETION, Op.DIAGONAL, Op.INSERTION]
    return Alignment.from_runs(query, target, Scoring(), "global", score, (0, 0), ops, [4, 1, 1, 1])


@given(runs)
def test_merging_keeps_columns_and_leaves_nothing_to_merge(runs: list[tuple[int, int]]) -> None:
    ops, lengths = merge_runs([op for op, _ in runs], [n for _, n in runs])
    assert (ops.dtype, lengths.dtype) == (np.uint8, np.int64)
    assert expand(ops, lengths) == [op for op, n in runs for _ in range(n)]
    assert (lengths > 0).all()
    assert (ops[1:] != ops[:-1]).all()


@given(cases(), st.integers(1, 20))
def test_rows_are_the_same_however_they_are_cut(case: Case, chunk: int) -> None:
    alignment = case.alignment()
    query = case.query.letters[alignment.query_start : alignment.query_end]
    target = case.target.letters[alignment.target_start : alignment.target_end]
    rows = list(gapped_rows(query, target, alignment.ops, alignment.lengths, gap=ord("-"), chunk=chunk))
    assert all(len(ops) == chunk for ops, _, _ in rows[:-1])
    ops, above, below = (np.concatenate(part) for part in zip(*rows, strict=True))
    assert ops.tolist() == expand(alignment.ops, alignment.lengths)
    assert above.tobytes().replace(b"-", b"") == query.tobytes()
    assert below.tobytes().replace(b"-", b"") == target.tobytes()
    assert ((above == ord("-")) == (ops == Op.DELETION)).all()
    assert ((below == ord("-")) == (ops == Op.INSERTION)).all()


@given(cases(), st.sampled_from([1, 2, 3, 7, 1 << 20]))
def test_splitting_agrees_with_the_columns(case: Case, chunk: int) -> None:
    alignment = case.alignment()
    truth = "".join(f"{len(list(run))}{op}" for op, run in groupby(case.operations()))
    assert alignment.cigar == truth
    query, target = case.query.as_query(), case.target.as_target()
    rows = sum(length for op, length in case.runs if op != Op.DELETION)
    again = split_matches(
        query[case.start[0] : case.start[0] + rows],
        target[alignment.target_start : alignment.target_end],
        [op for op, _ in case.runs],
        [length for _, length in case.runs],
        case.scoring.alphabet,
        chunk=chunk,
    )
    assert format_cigar(*again) == truth


@given(cases())
def test_score_and_statistics_agree_with_the_columns(case: Case) -> None:
    alignment = case.alignment()
    columns = case.operations()
    alignment.check()
    assert alignment.rescore() == alignment.score == case.score()
    assert alignment.columns == len(columns)
    assert alignment.matches == columns.count("=")
    assert alignment.mismatches == columns.count("X")
    assert alignment.gap_letters == columns.count("I") + columns.count("D")
    assert alignment.gaps == sum(op in "ID" for op, _ in groupby(columns))
    assert alignment.identity == columns.count("=") / len(columns)
    assert alignment.strand == case.query.strand
    row = alignment.query_start
    if alignment.strand == "minus":
        row = case.query.length - alignment.query_end
    assert (row, alignment.target_start) == case.start


@given(st.lists(st.tuples(st.sampled_from("MID=X"), st.integers(1, 10**18 - 1)), min_size=1))
def test_cigars_round_trip(runs: list[tuple[str, int]]) -> None:
    text = "".join(f"{length}{symbol}" for symbol, length in runs)
    ops, lengths = parse_cigar(text)
    assert lengths.tolist() == [length for _, length in runs]
    assert format_cigar(ops, lengths) == text


@pytest.mark.parametrize(
    "text", ["", "5", "M", "5M3", "M5", "5N", "5H3M", "-5M", "5 M", "5M\n", "\u0665M", "1" * 19 + "M"]
)
def test_bad_cigars(text: str) -> None:
    with pytest.raises(InputError, match=r"^bad CIGAR"):
        parse_cigar(text)


def test_bad_cigars_are_shown_short_and_empty_runs_by_number() -> None:
    with pytest.raises(InputError, match=r"^bad CIGAR: '5\?5M.{36}\.\.\.' from character 11 on: want len"):
        parse_cigar("5M" * 5 + "5?" + "5M" * 1000)
    with pytest.raises(InputError, match=r"run 2 has length 0$"):
        parse_cigar("5M0I3M")


def test_numbers_of_operations_are_those_of_sam() -> None:
    assert format_cigar(np.array([0, 1, 2, 7, 8], np.uint8), np.arange(1, 6)) == "1M2I3D4=5X"


def test_a_wrong_score_does_not_pass() -> None:
    example(example().rescore()).check()
    wrong = example(example().rescore() + 1)
    with pytest.raises(InternalError, match="re-scores to -9, not to the reported score: Alignment"):
        wrong.check()


@pytest.mark.parametrize("column", [0, 6, 7, 20])
def test_a_wrong_column_is_found_in_any_stretch(column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longalign.model.alignment._CHUNK", 7)
    letters = "ACGT" * 6
    other = letters[:column] + "N" + letters[column + 1 :]
    sides = Sequence.from_letters("q", letters), Sequence.from_letters("t", other)
    wrong = Alignment(*sides, Scoring(), GLOBAL, 24, 0, 24, 0, 24, *parse_cigar("24="))
    with pytest.raises(InternalError, match=f"disagree on = or X in column {column} of Alignment"):
        wrong.check()


def test_a_wrong_cigar_does_not_pass() -> None:
    right = example(-9)
    assert right.cigar == "1=1X2=1D1=1I"
    ops = right.ops.copy()
    ops[:3] = Op.MISMATCH, Op.MATCH, Op.MISMATCH
    wrong = dataclasses.replace(right, ops=ops)
    assert wrong.rescore() == -9  # the score of the letters
    with pytest.raises(InternalError, match="disagree on = or X in column 0 of Alignment"):
        wrong.check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_end": 5}, "spans query 0-5 instead of 0-6"),
        ({"mode": LOCAL, "query_end": 5}, "CIGAR consumes 6 query letters, but 0-5 has 5"),
        ({"mode": LOCAL, "target_start": 1}, "CIGAR consumes 6 target letters, but 1-6 has 5"),
        ({"mode": LOCAL, "target_end": 7}, "target coordinates 0-7 are not within 0-6"),
        ({"mode": LOCAL, "query_start": -1}, "query coordinates -1-6 are not within 0-6"),
        ({"lengths": np.array([1, 1, 2, 1, 0, 2])}, "not empty"),
        ({"ops": np.array([7, 7, 7, 2, 7, 1], np.uint8)}, "differ from their neighbours"),
        ({"ops": np.array([0, 8, 7, 2, 7, 1], np.uint8)}, "must be I, D, = or X"),
        ({"ops": np.array([7, 8, 7, 2, 7, 1])}, "uint8 and int64"),
        ({"ops": np.array([7], np.uint8)}, "of one length"),
    ],
)
def test_what_does_not_fit_is_no_alignment(change: dict[str, object], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        dataclasses.replace(example(), **change)


def test_runs_that_lead_out_of_the_sequences() -> None:
    query, target = Sequence.from_letters("q", "ACGT"), Sequence.from_letters("t", "ACG")
    for start, length in [((0, 0), 4), ((-1, 0), 2), ((4, 0), 1)]:
        with pytest.raises(InternalError, match="outside 4 x 3"):
            Alignment.from_runs(query, target, Scoring(), "local", 4, start, [Op.DIAGONAL], [length])


def test_codes_that_are_given_are_taken_but_the_letters_are_scored():
    query, target = (Sequence.from_letters(name, "ACGT") for name in ("q", "t"))
    arguments = query, target, Scoring(), "local", 4, (0, 0), [Op.DIAGONAL], [4]
    right = Alignment.from_runs(*arguments, codes=(query.as_query(), target.as_target()))
    right.check()
    assert right.cigar == "4="
    wrong = Alignment.from_runs(*arguments, codes=(query.as_query()[::-1], target.as_target()))
    assert wrong.cigar == "4X"
    with pytest.raises(InternalError, match="disagree on = or X in column 0"):
        wrong.check()


def test_the_empty_alignment() -> None:
    query, target = Sequence.from_letters("q", "AAAA"), Sequence.from_letters("t", "CC")
    empty = Alignment.from_runs(query, target, Scoring(), "local", 0, (0, 0), [], [])
    empty.check()
    assert (empty.cigar, empty.columns, empty.identity, empty.rescore()) == ("", 0, 0.0, 0)
    assert (empty.query_start, empty.query_end, empty.target_start, empty.target_end) == (0, 0, 0, 0)
    assert "score 0" in str(empty)
    with pytest.raises(InternalError, match="spans query 0-0 instead of 0-4"):
        Alignment.from_runs(query, target, Scoring(), "global", 0, (0, 0), [], [])


def test_ambiguous_letters_never_match_and_u_is_t() -> None:
    query, target = Sequence.from_letters("q", "NNUTRA"), Sequence.from_letters("t", "NATURR")
    alignment = Alignment.from_runs(query, target, Scoring(), "global", -10, (0, 0), [Op.DIAGONAL], [6])
    assert alignment.cigar == "2X2=2X"
    alignment.check()


def test_runs_cannot_be_changed() -> None:
    alignment = example()
    with pytest.raises(ValueError, match="read-only"):
        alignment.lengths[0] = 5


def test_the_view() -> None:
    assert str(example(-9)) == (
        "global alignment, score -9 (match 1, mismatch -3, a gap of length k costs 3 + k*2)\n"
        "query  q 0-6 of 6\n"
        "target t 0-6 of 6\n"
        "4 matches, 1 mismatches, 2 gaps with 2 letters, identity 57.14% of 7 columns\n"
        "\n"
        "query  0 ACGT-AC 6\n"
        "         | || |\n"
        "target 0 AGGTTA- 6"
    )


def test_the_view_of_a_minus_strand_counts_down() -> None:
    query = Sequence.from_letters("q", "TTTTACGTAATT").on("minus")  # reverse complement AATTACGTAAAA
    target = Sequence.from_letters("t", "GTTACTAAAA")
    runs = [Op.DIAGONAL, Op.INSERTION, Op.DIAGONAL], [4, 1, 5]
    alignment = Alignment.from_runs(query, target, Scoring(), "local", 4, (2, 1), *runs)
    alignment.check()
    assert repr(alignment) == "Alignment(local, score 4, q:0-10 minus x t:1-10, 10 columns)"
    assert str(alignment).splitlines()[1:] == [
        "query  q 0-10 of 12, minus strand",
        "target t 1-10 of 10",
        "9 matches, 0 mismatches, 1 gaps with 1 letters, identity 90.00% of 10 columns",
        "",
        "query  10 TTACGTAAAA 0",
        "          |||| |||||",
        "target  1 TTAC-TAAAA 10",
    ]


def test_the_view_is_broken_into_lines_with_coordinates() -> None:
    query, target = Sequence.from_letters("q", "A" * 100), Sequence.from_letters("t", "A" * 140)
    ops = [Op.DIAGONAL, Op.DELETION, Op.DIAGONAL]
    alignment = Alignment.from_runs(query, target, Scoring(), "local", 0, (5, 10), ops, [50, 30, 20])
    lines = [line for line in str(alignment).splitlines() if line.startswith(("query ", "target "))]
    assert lines[2:] == [
        "query    5 " + "A" * 50 + "-" * 10 + " 55",
        "target  10 " + "A" * 60 + " 70",
        "query   55 " + "-" * 20 + "A" * 20 + " 75",
        "target  70 " + "A" * 40 + " 110",
    ]


def test_nothing_prints_megabases() -> None:
    sequence = Sequence.from_letters("x", "ACGTA" * LONGEST_SHOWN)
    for length, shown in [(LONGEST_SHOWN, True), (LONGEST_SHOWN + 1, False)]:
        alignment = Alignment.from_runs(
            sequence, sequence, Scoring(), "local", 0, (0, 0), [Op.DIAGONAL], [length]
        )
        assert ("ACGTA" in str(alignment)) == shown
        assert len(repr(alignment)) < 100
