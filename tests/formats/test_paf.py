"""PAF: what is written, what is read back, what is refused; and the summary as JSON."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from io import BufferedReader, BytesIO, RawIOBase, StringIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alignments import Case, cases
from hypothesis import given

from longalign.errors import InputError
from longalign.events import PhaseFinished
from longalign.formats.paf import PafRecord, format_paf, parse_meaning, read_paf, write_paf
from longalign.formats.summary import summarize
from longalign.model.alignment import Alignment, Op
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LINE = "q\t10\t2\t8\t+\tt\t20\t3\t9\t5\t7\t255\ttp:A:P\tAS:i:-4\tNM:i:2\tcg:Z:3=1D2=1I1X"

Read = Callable[[str], list[PafRecord]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str) -> list[PafRecord]:
        (tmp_path / "x.paf").write_text(text)
        return list(read_paf(tmp_path / "x.paf"))

    return read


def region(name: str, offset: int, letters: str, record_length: int) -> Sequence:
    return Sequence.from_letters(name, letters, offset=offset, record_length=record_length)


def test_a_line() -> None:
    query, target = Sequence.from_letters("q", "AACGTACC"), Sequence.from_letters("t", "TACGTTAN")
    ops = [Op.DIAGONAL, Op.DELETION, Op.DIAGONAL, Op.INSERTION, Op.DIAGONAL]
    alignment = Alignment.from_runs(query, target, Scoring(), "local", -8, (1, 1), ops, [4, 1, 1, 1, 1])
    assert format_paf(alignment) == (
        "q\t8\t1\t8\t+\tt\t8\t1\t8\t5\t8\t255\ttp:A:P\tAS:i:-8\tNM:i:3\tcg:Z:4=1D1=1I1X\t"
        "tg:Z:local;match=1;mismatch=-3;gap(k)=3+2k"
    )


def test_coordinates_are_those_of_whole_records() -> None:
    query, target = region("q", 100, "ACGT", 1000), region("t", 5, "TACG", 9)
    alignment = Alignment.from_runs(query, target, Scoring(), "local", 3, (0, 1), [Op.DIAGONAL], [3])
    assert format_paf(alignment).startswith("q\t1000\t100\t103\t+\tt\t9\t6\t9\t3\t3\t255\t")


def test_nothing_is_written_for_the_empty_alignment() -> None:
    sequence = Sequence.from_letters("x", "A")
    file = StringIO()
    write_paf(Alignment.from_runs(sequence, sequence, Scoring(), "local", 0, (0, 0), [], []), file)
    assert file.getvalue() == ""


@given(cases())
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    alignment = case.alignment()
    path = tmp_path_factory.getbasetemp() / "round.paf"
    with path.open("w") as file:
        write_paf(alignment, file)
        write_paf(alignment, file)
    first, second = read_paf(path)
    assert (first.line, second.line) == (1, 2)
    for record in (first, second):
        assert (record.query_name, record.target_name) == ("query", "target")
        assert (record.query_length, record.target_length) == (case.query.length, case.target.length)
        assert (record.query_start, record.query_end) == (alignment.query_start, alignment.query_end)
        assert (record.target_start, record.target_end) == (alignment.target_start, alignment.target_end)
        assert (record.matches, record.block_length) == (alignment.matches, alignment.columns)
        assert (record.strand, record.mapping_quality) == ("+-"[alignment.strand == "minus"], 255)
        assert record.score == alignment.score
        assert record.edit_distance == alignment.mismatches + alignment.gap_letters
        assert record.cigar == alignment.cigar
        assert record.meaning() == (case.mode, case.scoring, False)


def test_lines_of_other_programs_are_read(read: Read) -> None:
    record, bare = read(
        "a b\t9\t0\t9\t-\tt\t20\t3\t12\t5\t9\t60\ttp:A:P\tcm:i:5\tdv:f:0.1\tcs:Z::6*ag\tcg:Z:9M\n"
        "\n"
        "q\t9\t0\t9\t+\tt\t20\t3\t12\t5\t9\t0\r\n"
    )
    assert (record.query_name, record.strand, record.cigar, record.tags["dv"]) == ("a b", "-", "9M", "0.1")
    assert (bare.line, bare.tags) == (3, {})


@pytest.mark.parametrize(
    ("tag", "wanted"),
    [
        ("AS", lambda record: record.score),
        ("NM", lambda record: record.edit_distance),
        ("cg", lambda record: record.cigar),
        ("tg", lambda record: record.meaning()),
    ],
    ids=["AS", "NM", "cg", "tg"],
)
def test_a_missing_tag_is_named_when_it_is_wanted(read: Read, tag: str, wanted) -> None:
    (record,) = read("q\t9\t0\t9\t+\tt\t20\t3\t12\t5\t9\t0\n")
    with pytest.raises(InputError, match=rf"x\.paf: line 1: no {tag} tag$"):
        wanted(record)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t255\ttp:A:P\tAS:i:-4\tNM:i:2\tcg:Z:3=1D2=1I1X", "", "columns separated by tabs: 11, want"),
        (LINE, "rubbish", "columns separated by tabs: 1, want at least 12"),
        ("q\t10\t", "query\tquery_start\t", "is the header of a table (TSV); want PAF"),
        ("q\t10\t", "q\tten\t", "column 2 (query length): 'ten' is not a whole number"),
        ("\t2\t8\t", "\t-2\t8\t", "column 3 (query start): '-2' is not a whole number"),
        ("\t7\t255", "\t7.0\t255", "column 11 (block length): '7.0' is not a whole number"),
        ("\t255\t", "\t\t", "column 12 (mapping quality): '' is not a whole number"),
        ("+", "*", "column 5 (strand): '*' is neither '+' nor '-'"),
        ("\t2\t8\t", "\t8\t2\t", "columns 3-4: query 8-2 is not within 0-10"),
        ("\t3\t9\t", "\t3\t21\t", "columns 8-9: target 3-21 is not within 0-20"),
        ("cg:Z:3=", "cg:Z:3?", "bad CIGAR: '3?1D2=1I1X' from character 1 on"),
        ("cg:Z:3=", "cg:Z:0=", "bad CIGAR: run 1 has length 0"),
        ("cg:Z:3=1D2=1I1X", "cg:Z:3=1D2=1", "bad CIGAR: '1' from character 7 on"),
        ("tp:A:P", "tp", "column 13: 'tp' is not a tag like NM:i:5"),
        ("NM:i:2", "NM:i:two", "column 15: tag NM: 'two' is not a whole number"),
        ("AS:i:-4", "AS:Z:-4", "column 14: tag AS must be of type i or f, not Z"),
        ("AS:i:-4", "AS:i:-4\tAS:i:9", "column 15: a second tag AS"),
        ("\t255\t", "\t256\t", "column 12 (mapping quality): 256 is not within 0-255"),
        ("tp:A:P", "tp:Z:P", "column 13: tag tp must be of type A, not Z"),
        ("tp:A:P", "tp:A:PP", "column 13: tag tp: 'PP' is not a printable character"),
        ("tp:A:P", "dv:f:1.2.3", "column 13: tag dv: '1.2.3' is not a number"),
        ("tp:A:P", "xx:H:ABC", "column 13: tag xx: 'ABC' is not hexadecimal bytes"),
        ("tp:A:P", "xx:B:c,1,", "column 13: tag xx: 'c,1,' is not an array of numbers"),
        ("tp:A:P", "xx:Z:\x01", r"column 13: tag xx: '\x01' is not printable text"),
        ("cg:Z:", "cg:A:", "column 16: tag cg must be of type Z, not A"),
        ("1I1X", "1I1X ", "bad CIGAR: ' ' from character 11 on"),
        ("1I1X", "1I1X\t", "column 17: '' is not a tag like NM:i:5"),
    ],
)
def test_bad_lines_are_refused_by_number(read: Read, old: str, new: str, message: str) -> None:
    assert LINE.count(old) == 1
    with pytest.raises(InputError) as caught:
        read(f"{LINE}\n\n{LINE.replace(old, new)}\n")
    assert "x.paf: line 3: " + message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_endless_line_is_refused_without_reading_on() -> None:
    with pytest.raises(InputError, match=r"^/dev/zero: line 1: columns separated by tabs: 1 in the first "):
        list(read_paf("/dev/zero"))


class Endless(RawIOBase):
    """A text that goes on for ever after its beginning, on one line; counts what is read of it."""

    def __init__(self, beginning: str) -> None:
        self._beginning, self.taken = beginning.encode(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        self.taken += len(view)
        head, self._beginning = self._beginning[: len(view)], self._beginning[len(view) :]
        view[:] = head.ljust(len(view), b"9")
        return len(view)


@pytest.mark.parametrize("lengths", [(10, 20), (10**6, 3), (10**18 - 1, 0)])
def test_a_line_is_no_longer_than_its_records_explain(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, int]
) -> None:
    monkeypatch.setattr("longalign.formats.paf.TOO_MANY_LETTERS", 10**5)
    stream = Endless("q\t{}\t2\t8\t+\tt\t{}\t3\t9\t5\t7\t255\tcg:Z:".format(*lengths))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(stream)))
    letters = sum(min(length, 10**5) for length in lengths)
    with pytest.raises(
        InputError, match=rf"^stdin: line 1: more than \d+ characters, for records of {letters} "
    ):
        list(read_paf("-"))
    assert stream.taken < 2**18 + 8 * letters


def test_the_longest_true_line_is_read(tmp_path: Path) -> None:
    """Every column an operation of its own, in a line that is longer than what is read at first."""
    length = 50_000
    side = f"{length}\t0\t{length}"
    path = tmp_path / "x.paf"
    cigar = "1=1X" * (length // 2)
    path.write_text(f"q\t{side}\t+\tt\t{side}\t5\t7\t255\tcg:Z:{cigar}\n" * 2)
    assert [record.cigar == cigar for record in read_paf(path)] == [True, True]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "local",
        "local;match=1;mismatch=-3;gap(k)=3-2k",
        "semi;match=1;mismatch=-3;gap(k)=3+2k",
        "local;end=1;match=1;mismatch=-3;gap(k)=3+2k",
        "local;match=1;mismatch=-3;gap(k)=3+2k;x=1",
    ],
)
def test_bad_meanings(text: str) -> None:
    with pytest.raises(InputError, match="is not like 'local;match=1"):
        parse_meaning(text)


def test_a_meaning_that_is_no_scoring(read: Read) -> None:
    (record,) = read(LINE + "\ttg:Z:local;match=-1;mismatch=-3;gap(k)=3+2k")
    with pytest.raises(InputError, match=r"x\.paf: line 1: scoring: match cannot be negative"):
        record.meaning()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, why in [(tmp_path, "is a directory"), (tmp_path / "none", "no such file or directory")]:
        with pytest.raises(InputError) as caught:
            list(read_paf(path))
        assert str(caught.value) == f"{path}: {why}"


def test_stdin_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match=r"^stdin: closed$"):
        list(read_paf("-"))


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = TextIOWrapper(BufferedReader(BytesIO(LINE.encode())))
    monkeypatch.setattr("sys.stdin", stdin)
    assert [record.source for record in read_paf("-")] == ["stdin"]
    assert not stdin.closed
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(BytesIO(b"\x1f\x8b\x08"))))
    with pytest.raises(InputError, match=r"^stdin: damaged gzip: "):
        list(read_paf("-"))


def test_gzipped_files(tmp_path: Path) -> None:
    path, packed = tmp_path / "x.paf.gz", gzip.compress(f"{LINE}\n".encode())
    path.write_bytes(packed + packed)  # members follow one another, as those of bgzip do
    assert [record.line for record in read_paf(path)] == [1, 2]
    for damaged in (packed[:-4], packed[:-8] + bytes(8), packed + b"rubbish"):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"x\.paf\.gz: damaged gzip: "):
            list(read_paf(path))


def test_binary_files_are_not_paf(tmp_path: Path) -> None:
    path = tmp_path / "x.paf"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match=r"x\.paf: line 1: columns separated by tabs: 2, want"):
        list(read_paf(path))


# The summary


def test_a_summary_of_an_alignment() -> None:
    query, target = region("q", 100, "ACGT", 1000), region("t", 5, "TACG", 9)
    alignment = Alignment.from_runs(query, target, Scoring(), "local", 3, (0, 1), [Op.DIAGONAL], [3])
    summary = summarize(
        query=query,
        target=target,
        scoring=alignment.scoring,
        mode="local",
        score=3,
        end=(3, 4),
        strand_scores={"plus": 3, "minus": 2},
        alignment=alignment,
        backend={"name": "cpu", "hardware": "one core"},
        phases=[PhaseFinished("score", 2 * 10**9, 0.5), PhaseFinished("stitch", 0, 0.0)],
        compile_seconds=1.5,
    )
    assert json.loads(json.dumps(summary)) == summary
    versions = summary.pop("versions")
    assert isinstance(versions, dict)
    assert {"longalign", "python", "numpy"} <= set(versions)
    statistics, significance = summary.pop("statistics"), summary.pop("significance")
    assert isinstance(statistics, dict)
    assert (statistics["identity"], statistics["query_coverage"], statistics["longest_match"]) == (1, 0.75, 3)
    assert isinstance(significance, dict)
    assert set(significance) == {"bit_score", "e_value", "lambda", "k", "h", "gapped", "score_step"}
    assert summary == {
        "schema": "longalign.summary/2",
        "query": {
            "name": "q",
            "length": 4,
            "sha256": query.sha256,
            "source": "memory",
            "offset": 100,
            "record_length": 1000,
        },
        "target": {
            "name": "t",
            "length": 4,
            "sha256": target.sha256,
            "source": "memory",
            "offset": 5,
            "record_length": 9,
        },
        "strand": "plus",
        "strand_scores": {"plus": 3, "minus": 2},
        "mode": "local",
        "scoring": {
            "match": 1,
            "mismatch": -3,
            "gap_open": 3,
            "gap_extend": 2,
            "convention": "a gap of length k costs 3 + k*2",
        },
        "score": 3,
        "end": {"query": 103, "target": 9},
        "alignment": {
            "query_start": 100,
            "query_end": 103,
            "target_start": 6,
            "target_end": 9,
            "columns": 3,
            "matches": 3,
            "mismatches": 0,
            "gaps": 0,
            "gap_letters": 0,
            "identity": 1.0,
        },
        "next_best": [],
        "backend": {"name": "cpu", "hardware": "one core"},
        "phases": [
            {"name": "score", "cells": 2 * 10**9, "seconds": 0.5, "left_out": 0, "gcups": 4.0},
            {"name": "stitch", "cells": 0, "seconds": 0.0, "left_out": 0, "gcups": None},
        ],
        "compile_seconds": 1.5,
    }


def test_a_summary_says_why_significance_is_not_known() -> None:
    sequence = Sequence.from_letters("x", "ACGT")
    summary = summarize(
        query=sequence, target=sequence, scoring=Scoring(), mode="global", score=4, end=(4, 4), backend={}
    )
    assert summary["significance"] == {"unknown": "only local alignments have a bit score and an E-value"}


def test_a_summary_of_a_score_alone() -> None:
    sequence = Sequence.from_letters("x", "ACGT")
    summary = summarize(
        query=sequence, target=sequence, scoring=Scoring(), mode="local", score=4, end=(4, 4), backend={}
    )
    assert (summary["end"], summary["alignment"], summary["phases"]) == ({"query": 4, "target": 4}, None, [])
    assert summary["statistics"] is None
    assert summary["significance"]["bit_score"] > 0  # type: ignore[index]
    assert math.isclose(PhaseFinished("score", 10**9, 2.0).gcups or 0, 0.5)
