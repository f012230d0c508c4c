"""The registry of formats, and the table."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

import pytest
from alignments import Case, cases
from hypothesis import given

from longalign.errors import UsageError
from longalign.formats import registry
from longalign.formats.paf import format_scoring
from longalign.formats.registry import FORMATS, Format, describe_formats, format_names, resolve_format
from longalign.model.alignment import Alignment, Op
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.substitution_matrix import SubstitutionMatrix


def small(score: int = 3, **region: int) -> Alignment:
    query, target = Sequence.from_letters("q", "ACGT", **region), Sequence.from_letters("t", "TACG")
    return Alignment.from_runs(query, target, Scoring(), "local", score, (0, 1), [Op.DIAGONAL], [3])


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        (None, "-", "paf"),
        (None, "x.paf", "paf"),
        (None, "x", "paf"),
        (None, "x.out", "paf"),
        ("paf", "x.bam", "paf"),
        (None, "x.tsv", "tsv"),
        (None, "a.paf/X.TSV", "tsv"),
        ("paf", "x.tsv", "paf"),
        ("tsv", "-", "tsv"),
    ],
)
def test_a_name_goes_before_an_ending(name: str | None, path: str, expected: str) -> None:
    assert resolve_format(name, path).name == expected


@pytest.mark.parametrize("path", ["x.sam", "a/b.BAM", "x.psl"])
def test_the_ending_of_a_format_that_is_not_written_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match=f"{path}: this format is not written; the formats are paf, tsv"):
        resolve_format(None, path)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown format 'sam': choose from paf, tsv"):
        resolve_format("sam", "x.paf")


def test_names_and_endings_are_unambiguous() -> None:
    endings = [ending for known in FORMATS for ending in known.endings]
    assert len(set(format_names())) == len(FORMATS)
    assert len(set(endings)) == len(endings)
    assert all(ending.startswith(".") and ending == ending.lower() for ending in endings)
    assert all(f"{known.name}: {known.description}" in describe_formats() for known in FORMATS)


def test_alignments_are_written_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Format("toy", (".toy",), "scores", lambda alignment, file: print(alignment.score, file=file), "#\n")
    monkeypatch.setattr(registry, "FORMATS", (*FORMATS, toy))
    file, seen = StringIO(), []

    def alignments() -> Iterator[Alignment]:
        for score in (3, 4):
            yield small(score)
            seen.append(file.getvalue())

    resolve_format(None, "x.toy").write_all(alignments(), file)
    assert seen == ["#\n3\n", "#\n3\n4\n"]


def test_a_row() -> None:
    file = StringIO()
    resolve_format("tsv", "-").write_all([small(offset=100, record_length=1000)], file)
    header, row = (line.split("\t") for line in file.getvalue().splitlines())
    assert dict(zip(header, row, strict=True)) == {
        "query": "q", "query_length": "1000", "query_start": "100", "query_end": "103", "strand": "+",
        "target": "t", "target_length": "4", "target_start": "1", "target_end": "4",
        "mode": "local", "end": "best", "scoring": "match=1;mismatch=-3;gap(k)=3+2k", "score": "3",
        "columns": "3", "matches": "3", "mismatches": "0", "gaps": "0", "gap_letters": "0", "cigar": "3=",
    }  # fmt: skip


def test_an_alignment_without_columns_has_no_row() -> None:
    query, target = Sequence.from_letters("q", "A"), Sequence.from_letters("t", "C")
    file = StringIO()
    empty = Alignment.from_runs(query, target, Scoring(), "local", 0, (0, 0), [], [])
    resolve_format("tsv", "-").write_all([empty], file)
    assert file.getvalue().count("\n") == 1


def test_the_scoring_of_a_row_names_the_substitution_matrix() -> None:
    matrix = SubstitutionMatrix.load("BLOSUM62")
    text = format_scoring(Scoring(gap_open=10, gap_extend=1, matrix=matrix))
    assert text == "matrix=BLOSUM62:086168af2b7a;gap(k)=10+1k"


@given(cases())
def test_a_table_tells_what_the_alignment_is(case: Case) -> None:
    alignment, file = case.alignment(), StringIO()
    resolve_format("tsv", "-").write_all([alignment], file)
    rows = list(csv.DictReader(StringIO(file.getvalue()), delimiter="\t"))
    assert len(rows) == (alignment.columns > 0)
    for row in rows:
        assert (row["query"], row["cigar"]) == (alignment.query.name, alignment.cigar)
        assert row["strand"] == "+-"[alignment.strand == "minus"]
        assert int(row["query_end"]) - int(row["query_start"]) == alignment.query_end - alignment.query_start
        counted = sum(int(row[name]) for name in ("matches", "mismatches", "gap_letters"))
        assert counted == int(row["columns"]) == alignment.columns
