"""Verification: what is true passes, and every false claim is found and named."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from io import BufferedReader, BytesIO, TextIOWrapper
from itertools import combinations
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from alignments import Case, cases
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from inputs import DATA
from oracles import spell
from runs import Geometry, Pair, SmallTiles, geometries, problems, small_geometry, using

from longalign.errors import InputError
from longalign.fasta import read_sequence
from longalign.fasta.reader import Record, read_record
from longalign.formats.paf import format_paf, read_paf, write_paf
from longalign.formats.verify import Verification, verify_paf
from longalign.model.alignment import Alignment, Mode, Op
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.strand import Strand
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.store.manifest import StartStates
from longalign.testing.inputs import any_scorings, edited

QUERY, TARGET = "AACGTACC", "TACGTTAN"
LINE = (
    "q\t8\t1\t8\t+\tt\t8\t1\t8\t5\t8\t255\ttp:A:P\tAS:i:-8\tNM:i:3\tcg:Z:4=1D1=1I1X\t"
    "tg:Z:global;match=1;mismatch=-3;gap(k)=3+2k"
)
TG = LINE.rpartition(":Z:")[2]


def verify(folder: Path, line: str, scoring: Scoring | None = None, region: str = ":1-8") -> Verification:
    for name, text in [("x.paf", line), ("q.fa", f">q\n{QUERY}\n"), ("t.fa", f">t\n{TARGET}\n")]:
        (folder / name).write_text(text)
    return verify_paf(
        str(folder / "x.paf"), str(folder / f"q.fa{region}"), str(folder / f"t.fa{region}"), scoring
    )


def test_a_true_line_passes(tmp_path: Path) -> None:
    result = verify(tmp_path, LINE)
    assert result.ok
    assert str(result) == f"{tmp_path}/x.paf: OK: 1 alignment, 8 columns, 1 score checked"


@given(cases())
def test_whatever_longalign_writes_passes(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    folder = tmp_path_factory.getbasetemp()
    for sequence in (case.query, case.target):
        (folder / f"{sequence.name}.fa").write_bytes(
            b">%s\n%s\n" % (sequence.name.encode(), sequence.letters)
        )
    (folder / "any.paf").write_text(format_paf(case.alignment()))
    result = verify_paf(*(str(folder / name) for name in ("any.paf", "query.fa", "target.fa")))
    beginnings = [case.score(columns) for columns in range(len(case.columns()) + 1)]
    ends_early = case.mode.ends_anywhere and beginnings[-1] <= max(beginnings[:-1])
    starts_late = case.mode.starts_anywhere and min(beginnings) < 0
    assert result.ok is not (ends_early or starts_late), str(result)
    assert all(
        f"tag tg: claims a{'n' * (case.mode == 'extend')} {case.mode} alignment" in problem.text
        for problem in result.problems
    )
    assert (result.alignments, result.columns, result.scores) == (1, len(case.columns()), 1)


@share_of_examples(0.5)
@given(
    problems(scorings=any_scorings, shortest=0), geometries, st.sampled_from(["lazy", "eager"]), st.booleans()
)
def test_whatever_a_run_finds_passes(
    tmp_path_factory: pytest.TempPathFactory,
    pair: Pair,
    geometry: Geometry,
    start_states: StartStates,
    is_known: bool,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    with small_geometry(geometry.chunk, geometry.group):
        resources = using(SmallTiles(geometry.tile, leaf=geometry.leaf))
        alignment = pair.run(resources, start_states=start_states).alignment
    assert alignment is not None
    for sequence in (alignment.query, alignment.target):
        (folder / f"{sequence.name}.fa").write_bytes(
            b">%s\n%s\n" % (sequence.name.encode(), sequence.letters)
        )
    with (folder / "any.paf").open("w") as file:
        write_paf(alignment, file)
    scoring = pair.scoring if is_known or pair.scoring.matrix else None
    result = verify_paf(*(str(folder / name) for name in ("any.paf", "query.fa", "target.fa")), scoring)
    assert result.ok, str(result)
    assert result.alignments == (alignment.columns > 0)


@pytest.mark.slow
def test_an_alignment_of_millions_of_columns_and_hundreds_of_thousands_of_runs(tmp_path: Path) -> None:
    """Written, read back and verified; its score and runs are those by which it was made."""
    query, target, ops, lengths = edited(4_000_000, 100_000, np.random.default_rng(0))
    columns = {op: int(lengths[ops == op].sum()) for op in Op}
    gaps = int(np.isin(ops, (Op.INSERTION, Op.DELETION)).sum())
    gap_letters = columns[Op.INSERTION] + columns[Op.DELETION]
    score = columns[Op.MATCH] - 3 * columns[Op.MISMATCH] - 3 * gaps - 2 * gap_letters
    sequences = [Sequence.from_letters(*side) for side in (("q", spell(query)), ("t", spell(target)))]
    runs = np.where(np.isin(ops, (Op.MATCH, Op.MISMATCH)), Op.DIAGONAL, ops), lengths
    alignment = Alignment.from_runs(*sequences, Scoring(), "global", score, (0, 0), *runs)
    alignment.check()
    assert (alignment.ops == ops).all()
    assert (alignment.lengths == lengths).all()
    for sequence in sequences:
        (tmp_path / f"{sequence.name}.fa").write_bytes(
            b">%s\n%s\n" % (sequence.name.encode(), sequence.letters)
        )
    with (tmp_path / "x.paf").open("w") as file:
        write_paf(alignment, file)
    (record,) = read_paf(tmp_path / "x.paf")
    assert record.cigar == alignment.cigar
    result = verify_paf(*(str(tmp_path / name) for name in ("x.paf", "q.fa", "t.fa")))
    assert str(result).endswith("OK: 1 alignment, 4000000 columns, 1 score checked")


@given(cases())
def test_a_wrong_score_never_passes(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    folder = tmp_path_factory.getbasetemp()
    for sequence in (case.query, case.target):
        (folder / f"{sequence.name}.fa").write_bytes(
            b">%s\n%s\n" % (sequence.name.encode(), sequence.letters)
        )
    (folder / "any.paf").write_text(format_paf(case.alignment(case.score() + 1)))
    result = verify_paf(*(str(folder / name) for name in ("any.paf", "query.fa", "target.fa")))
    assert str(result.problems[0]) == f"line 1: tag AS: claims {case.score() + 1}, is {case.score()}"
    assert all(problem.text.startswith("tag tg: claims a") for problem in result.problems[1:])


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        ("AS:i:-8", "AS:i:-7", ["tag AS: claims -7, is -8"]),
        ("NM:i:3", "NM:i:2", ["tag NM: claims 2, is 3"]),
        ("\t5\t8\t255", "\t6\t8\t255", ["column 10 (matches): claims 6, is 5"]),
        ("\t5\t8\t255", "\t5\t7\t255", ["column 11 (block length): claims 7, is 8"]),
        ("q\t8\t", "q\t9\t", ["column 2 (query length): claims 9, is 8"]),
        ("t\t8\t", "t\t9\t", ["column 7 (target length): claims 9, is 8"]),
        ("q\t8\t1\t8", "q\t8\t1\t7", ["cg consumes 7 query letters, but 1-7 has 6"]),
        (
            "t\t8\t1\t8",
            "t\t8\t0\t8",
            [
                "target 0-8 is not within the letters given, 1-8",
                "cg consumes 7 target letters, but 0-8 has 8",
            ],
        ),
        (
            "4=1D1=1I1X",
            "4=1D1=1I1=",
            ["cg has '=' at query 7 and target 7, where the letters differ (C and N)"],
        ),
        (
            "4=1D1=1I1X",
            "2=2X1D1=1I1X",
            ["cg has 'X' at query 3 and target 3, where the letters agree (G and G)"],
        ),
        (
            "4=1D1=1I1X",
            "5=1D1I1X",
            [
                "cg has '=' at query 5 and target 5, where the letters differ (A and T)",
                "column 10 (matches): claims 5, is 4",
                "tag NM: claims 3, is 4",
                "tag AS: claims -8, is -12",
            ],
        ),
        ("gap(k)=3+2k", "gap(k)=3+1k", ["tag AS: claims -8, is -6"]),
        ("\t255\t", "\t60\t", ["column 12 (mapping quality): claims 60, is 255"]),
        ("tp:A:P", "tp:A:S", ["tag tp: claims S, is P"]),
        (
            "mismatch=-3",
            "mismatch=-03",
            ["tag tg: claims " + TG.replace("-3", "-03") + ", is " + TG],
        ),
        (
            "tg:Z:global",
            "tg:Z:local",
            ["tag tg: claims a local alignment, but its score is -8, which is not positive"],
        ),
    ],
)
def test_false_claims_are_named(tmp_path: Path, old: str, new: str, problems: list[str]) -> None:
    assert LINE.count(old) == 1
    result = verify(tmp_path, f"{LINE}\n{LINE.replace(old, new)}\n")
    assert not result.ok
    assert [str(problem) for problem in result.problems] == [f"line 2: {text}" for text in problems]
    assert str(result).splitlines() == [f"{tmp_path}/x.paf: line 2: {text}" for text in problems]


def test_a_scoring_that_is_given_is_the_one_that_the_line_must_claim(tmp_path: Path) -> None:
    assert verify(tmp_path, LINE, Scoring()).ok
    assert [problem.text for problem in verify(tmp_path, LINE, Scoring(2, -3, 3, 2)).problems] == [
        f"tag tg: claims {TG}, is {TG.replace('match=1', 'match=2')}",
        "tag AS: claims -8, is -3",
    ]
    assert verify(
        tmp_path, LINE[: LINE.index("\ttg:Z")].replace("AS:i:-8", "AS:i:-3"), Scoring(2, -3, 3, 2)
    ).ok


def test_tags_that_are_not_checked_are_named(tmp_path: Path) -> None:
    result = verify(tmp_path, LINE + "\tdv:f:0.1\tcs:Z:anything")
    assert result.ok
    assert str(result).endswith("1 score checked; not checked: tags cs, dv")
    result = verify(tmp_path, LINE[: LINE.index("\ttg:Z")])  # so nothing says what AS means
    assert result.ok
    assert str(result).endswith("0 scores checked; not checked: tags AS")


@pytest.mark.parametrize(
    ("region", "problems"),
    [
        (":1-8", []),
        (
            "",
            [
                "query 1-8 is not all of the letters given, 0-8",
                "target 1-8 is not all of the letters given, 0-8",
            ],
        ),
        (":q:1-8", []),
    ],
)
def test_a_global_alignment_spans_what_was_given(tmp_path: Path, region: str, problems: list[str]) -> None:
    regions = (region, region.replace("q", "t"))
    verify(tmp_path, LINE)
    specs = (str(tmp_path / f"{name}.fa{region}") for name, region in zip("qt", regions, strict=True))
    found = verify_paf(str(tmp_path / "x.paf"), *specs).problems
    assert [problem.text for problem in found] == [
        f"tag tg: claims a global alignment, but {text}" for text in problems
    ]


#: Eight letters each, of which the line aligns four.
SOME = "q\t8\t{}\t{}\t+\tt\t8\t{}\t{}\t4\t4\t255\tAS:i:4\tcg:Z:4=\ttg:Z:{};match=1;mismatch=-3;gap(k)=3+2k"
BEGINS_INSIDE, ENDS_INSIDE = (
    f"it {verb} inside the letters given of both records" for verb in ("begins", "ends")
)


@pytest.mark.parametrize(
    ("mode", "span", "problems"),
    [
        ("semiglobal", (1, 5), [BEGINS_INSIDE, ENDS_INSIDE]),
        ("semiglobal;end=given", (1, 5), [BEGINS_INSIDE]),
        ("semiglobal:query-start,query-end", (1, 5), ["target 1-5 is not all of the letters given, 0-8"]),
        (
            "semiglobal:query-end,target-end",
            (1, 5),
            [
                *(
                    f"{side} 1-5 does not begin where the letters given do, 0-8"
                    for side in ("query", "target")
                ),
                ENDS_INSIDE,
            ],
        ),
        (
            "overlap",
            (1, 5),
            [
                "query 1-5 does not end where the letters given do, 0-8",
                "target 1-5 does not begin where the letters given do, 0-8",
            ],
        ),
        ("fit", (1, 5), ["query 1-5 is not all of the letters given, 0-8"]),
        (
            "extend",
            (1, 5),
            [f"{side} 1-5 does not begin where the letters given do, 0-8" for side in ("query", "target")],
        ),
    ],
)
def test_an_alignment_begins_and_ends_where_its_mode_lets_it(tmp_path, mode, span, problems):
    word = mode.partition(";")[0]
    article = "an" if word[0] in "oe" else "a"
    found = verify(tmp_path, SOME.format(*span, *span, mode), region="").problems
    assert [problem.text for problem in found] == [
        f"tag tg: claims {article} {word} alignment, but {text}" for text in problems
    ]


@pytest.mark.parametrize(
    ("mode", "region"),
    [
        ("overlap", ":1-5"),
        ("fit", ":1-5"),
        ("extend", ":1-8"),
        ("semiglobal:target-start,target-end", ":1-5"),
    ],
)
def test_an_alignment_on_the_edges_of_what_was_given_passes(tmp_path, mode, region):
    result = verify(tmp_path, SOME.format(1, 5, 1, 5, mode), region=region)
    assert result.ok, str(result)


@pytest.mark.parametrize(("region", "place"), [(":1-8", ENDS_INSIDE), (":0-5", BEGINS_INSIDE)])
def test_an_alignment_inside_what_was_given_is_a_false_claim(tmp_path, region, place):
    result = verify(tmp_path, SOME.format(1, 5, 1, 5, "semiglobal"), region=region)
    assert [problem.text for problem in result.problems] == [
        f"tag tg: claims a semiglobal alignment, but {place}"
    ]


def test_an_end_that_was_asked_for_need_not_be_the_last(tmp_path: Path) -> None:
    line = LINE.replace("global;", "global;end=given;")
    assert verify(tmp_path, line).ok
    shorter = "q\t8\t1\t5\t+\tt\t8\t1\t5\t4\t4\t255\ttp:A:P\tAS:i:4\tNM:i:0\tcg:Z:4=\ttg:Z:" + TG.replace(
        "global;", "global;end=given;"
    )
    assert verify(tmp_path, shorter).ok
    assert not verify(tmp_path, shorter.replace(";end=given", "")).ok
    assert [problem.text for problem in verify(tmp_path, shorter, region="").problems] == [
        f"tag tg: claims a global alignment, but {side} 1-5 does not begin where the letters given do, 0-8"
        for side in ("query", "target")
    ]


LOCAL = "q\t8\t{}\t{}\t+\tt\t8\t{}\t{}\t{}\t{}\t255\tAS:i:{}\tcg:Z:{}\ttg:Z:local{};{}"


@pytest.mark.parametrize(
    ("columns", "score", "cigar", "problem"),
    [
        ((1, 5, 1, 5, 4, 4), 4, "4=", None),
        ((1, 5, 0, 5, 4, 5), -1, "1D4=", "its score is -1, which is not positive"),
        ((0, 5, 1, 5, 4, 5), -1, "1I4=", "its score is -1, which is not positive"),
        ((1, 6, 1, 6, 4, 5), 1, "4=1X", "without its end it scores 4 instead of 1"),
    ],
)
@pytest.mark.parametrize("end", ["", ";end=given"])
def test_a_local_alignment_cannot_be_cut(tmp_path: Path, columns, score, cigar, problem, end) -> None:
    line = LOCAL.format(*columns, score, cigar, end, "match=1;mismatch=-3;gap(k)=3+2k")
    found = [problem.text for problem in verify(tmp_path, line, region="").problems]
    if end and problem is not None and "without its end" in problem:
        problem = None
    assert found == ([] if problem is None else [f"tag tg: claims a local alignment, but {problem}"])


def test_a_local_alignment_has_no_prefix_with_a_negative_score(tmp_path: Path) -> None:
    line = LOCAL.format(0, 5, 1, 5, 4, 5, 19, "1I4=", "", "match=6;mismatch=-3;gap(k)=3+2k")
    assert [problem.text for problem in verify(tmp_path, line, region="").problems] == [
        "tag tg: claims a local alignment, but its beginning scores -5 and can be cut off"
    ]


def test_without_a_scoring_all_else_is_checked(tmp_path: Path) -> None:
    bare = LINE[: LINE.index("\ttg:Z")].replace("AS:i:-8\t", "")
    result = verify(tmp_path, bare)
    assert (result.ok, result.scores) == (True, 0)
    assert verify(tmp_path, bare.replace("NM:i:3", "NM:i:4")).problems[0].text == "tag NM: claims 4, is 3"


def test_m_claims_nothing_but_letters(tmp_path: Path) -> None:
    assert verify(tmp_path, LINE.replace("4=1D1=1I1X", "4M1D1M1I1M")).ok


def test_a_gap_cut_in_two_runs_is_one_gap(tmp_path: Path) -> None:
    line = "q\t8\t0\t5\t+\tt\t8\t1\t4\t3\t5\t255\tAS:i:-4\tcg:Z:1=1I1I2X"
    result = verify(tmp_path, line, Scoring(), region="")
    true = "column 10 (matches): claims 3, is 1", "tag AS: claims -4, is -12"
    assert tuple(problem.text for problem in result.problems) == true


def test_the_reverse_strand_aligns_the_reverse_complement(tmp_path: Path) -> None:
    (tmp_path / "q.fa").write_text(">q\nGGNACGTTGG\n")  # reverse complement CC AACGTN CC
    (tmp_path / "t.fa").write_text(">t\nTTAACGGN\n")
    paf = tmp_path / "x.paf"

    def problems(cigar: str) -> list[str]:
        paf.write_text(f"q\t10\t2\t8\t-\tt\t8\t2\t8\t4\t6\t60\tNM:i:2\tcg:Z:{cigar}\n")
        return [p.text for p in verify_paf(str(paf), str(tmp_path / "q.fa"), str(tmp_path / "t.fa")).problems]

    assert problems("6M") == problems("4=2X") == []
    assert problems("5=1X") == ["cg has '=' at query 3 and target 6, where the letters differ (T and G)"]
    (tmp_path / "q.fa").write_text(">q\nGGRACGTTGG\n")
    assert problems("4=2X") == []
    assert problems("4=1X1=") == ["cg has '=' at query 2 and target 7, where the letters differ (Y and N)"]


@pytest.mark.parametrize(
    ("letters", "strand", "query", "target"),
    [
        ("ACGT", "plus", "UUACG", "UTACG"),
        ("ACGT", "minus", "UUACG", "CGTAA"),
        ("ACGU", "minus", "UUACG", "CGTAA"),
        ("ACGTU", "plus", "UUACG", "UTACG"),
        ("ACGTX!?", "plus", "AC!TT", "ACXTT"),
        ("ACGTX?", "plus", "XCG", "?CG"),
    ],
)
def test_letters_beside_the_bases(
    tmp_path: Path, letters: str, strand: Strand, query: str, target: str
) -> None:
    """Unknown letters, and signs, which have no complement and may be anything in a matrix."""
    matrix = SubstitutionMatrix(
        "m", letters, tuple(tuple(2 * (a == b) - 1 for a in letters) for b in letters)
    )
    scoring = Scoring(matrix=matrix, gap_open=2, gap_extend=1, unknown="mismatch")
    sides = [("q", query, tmp_path / "q.fa"), ("t", target, tmp_path / "t.fa")]
    for name, text, path in sides:
        path.write_text(f">{name}\n{text}\n")
    pair = [read_sequence(path, scoring.alphabet) for _, _, path in sides]
    pair[0] = pair[0].on(strand)
    one = Alignment.from_runs(*pair, scoring, "global", 0, (0, 0), [Op.DIAGONAL], [len(query)])
    one = replace(one, score=one.rescore())
    one.check()
    (tmp_path / "x.paf").write_text(format_paf(one) + "\n")
    result = verify_paf(str(tmp_path / "x.paf"), *(str(path) for *_, path in sides), scoring)
    assert result.ok, str(result)


def test_a_line_of_another_program_needs_no_score(tmp_path: Path) -> None:
    bare = LINE.replace("AS:i:-8\t", "")
    result = verify(tmp_path, bare.rpartition("\ttg")[0], Scoring())
    assert str(result) == f"{tmp_path}/x.paf: OK: 1 alignment, 8 columns, 0 scores checked"
    [problem] = verify(tmp_path, bare).problems
    assert problem.text == "tag AS: is missing"


def test_a_global_alignment_of_a_minus_strand_begins_where_the_query_ends(tmp_path: Path) -> None:
    (tmp_path / "q.fa").write_text(">q\nGGACGTTGG\n")
    (tmp_path / "t.fa").write_text(">t\nTTAACGTGG\n")
    paf, files = tmp_path / "x.paf", (str(tmp_path / "q.fa:2-7"), str(tmp_path / "t.fa:2-7"))

    def problems(query: str, letters: int, meaning: str) -> list[str]:
        line = f"q\t9\t{query}\t-\tt\t9\t2\t{2 + letters}\t{letters}\t{letters}\t255\tAS:i:{letters}"
        paf.write_text(f"{line}\tcg:Z:{letters}=\ttg:Z:{meaning};match=1;mismatch=-3;gap(k)=3+2k\n")
        return [problem.text for problem in verify_paf(str(paf), *files).problems]

    assert problems("2\t7", 5, "global") == problems("3\t7", 4, "global;end=given") == []
    assert problems("2\t7", 5, "local") == problems("3\t7", 4, "local;end=given") == []
    [query, target] = problems("3\t7", 4, "global")
    assert query == "tag tg: claims a global alignment, but query 3-7 is not all of the letters given, 2-7"
    assert "target 2-6" in target
    claims = problems("2\t6", 4, "global;end=given")
    assert "cg has '=' at query 4 and target 3, where the letters differ (C and A)"[:20] in claims[0]
    (tmp_path / "q.fa").write_text(">q\nGGACGTTAG\n")
    paf.write_text(paf.read_text().replace("q\t9\t2\t6", "q\t9\t3\t7"))
    [claim] = [p.text for p in verify_paf(str(paf), str(tmp_path / "q.fa:2-8"), files[1]).problems]
    assert claim == (
        "tag tg: claims a global alignment, but query 3-7 does not begin where the letters given do, 2-8"
    )


def test_lines_find_their_records(tmp_path: Path) -> None:
    (tmp_path / "q.fa").write_text(">a\nAAAA\n>b\nCCCC\n")
    (tmp_path / "t.fa").write_text(">c\nCCCC\n>d\nAAAA\n")
    paf = tmp_path / "x.paf"
    paf.write_text(
        "a\t4\t0\t4\t+\td\t4\t0\t4\t4\t4\t60\tcg:Z:4=\n" + "b\t4\t0\t4\t+\tc\t4\t0\t4\t4\t4\t60\tcg:Z:4M\n"
    )
    query, target = str(tmp_path / "q.fa"), str(tmp_path / "t.fa")
    result = verify_paf(str(paf), query, target)
    assert (result.ok, result.alignments) == (True, 2)
    assert [str(p) for p in verify_paf(str(paf), query + ":a", target).problems] == [
        "line 2: column 1 (query name): claims b, is a"
    ]


@pytest.mark.parametrize("is_piped", [False, True])
def test_a_record_that_a_file_lacks_is_a_false_claim_of_its_line(tmp_path: Path, *, is_piped: bool) -> None:
    (tmp_path / "t.fa").write_text(">t\nACGT\n")
    query, paf = tmp_path / "q.fa", tmp_path / "x.paf"
    letters = ">a\nACGT\n>b\nCCCC\n"

    def problems(names: str, selector: str = "") -> list[str]:
        lines = [f"{name}\t4\t0\t4\t+\tt\t4\t0\t4\t4\t4\t60\tcg:Z:4=\n" for name in names]
        paf.write_text("".join(lines))
        query.unlink(missing_ok=True)
        if is_piped:
            os.mkfifo(query)
            Thread(target=query.write_text, args=[letters], daemon=True).start()
        else:
            query.write_text(letters)
        result = verify_paf(paf, f"{query}{selector}", tmp_path / "t.fa")
        return [str(problem) for problem in result.problems]

    lacking = f"{query}: no record named 'z'; the file has a, b"
    differing = "cg has '=' at query 0 and target 0, where the letters differ (C and A)"
    assert problems("z") == [f"line 1: {lacking}"]
    assert problems("azb")[:2] == [f"line 2: {lacking}", f"line 3: {differing}"]
    assert [text for text in problems("zazzzzzza") if lacking not in text] == []
    with pytest.raises(InputError, match=f"^{re.escape(lacking)}$"):
        problems("a", ":z")  # no claim of the line: the user asks for this record


def test_what_both_files_lack_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "q.fa").write_text(">a\nACGT\n")
    (tmp_path / "t.fa").write_text(">t\nACGT\n")
    (tmp_path / "x.paf").write_text("y\t4\t0\t4\t+\tz\t4\t0\t4\t4\t4\t60\tcg:Z:4=\n" * 2)
    paf, query = tmp_path / "x.paf", tmp_path / "q.fa"
    problems = [str(problem) for problem in verify_paf(paf, query, tmp_path / "t.fa").problems]
    assert problems == [
        f"line {line}: {tmp_path / name}: no record named {record!r}; the file has {known}"
        for line in (1, 2)
        for name, record, known in (("q.fa", "y", "a"), ("t.fa", "z", "t"))
    ]
    with pytest.raises(InputError, match=r"^nowhere\.fa: no such file or directory$"):
        verify_paf(paf, query, "nowhere.fa")


@pytest.fixture
def names_read(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The names of the records that are read, one by one."""
    names = []

    def reading(path: str, name: str | None = None) -> Record:
        names.append(name)
        return read_record(path, name)

    monkeypatch.setattr("longalign.formats.verify.read_record", reading)
    return names


def test_a_record_that_is_missed_again_is_not_looked_for_again(
    tmp_path: Path, names_read: list[str | None]
) -> None:
    (tmp_path / "q.fa").write_text(">a\nACGT\n")
    (tmp_path / "x.paf").write_text("a\t4\t0\t4\t+\tz\t4\t0\t4\t4\t4\t60\tcg:Z:4=\n" * 3)
    assert len(verify_paf(tmp_path / "x.paf", *[tmp_path / "q.fa"] * 2).problems) == 3
    assert names_read == ["a", "z"]


def test_a_name_is_no_part_of_another_file(tmp_path: Path) -> None:
    """`FILE:NAME` is the name of a file beside the right one."""
    (tmp_path / "q.fa").write_text(">x\nACGT\n")
    (tmp_path / "q.fa:x").write_text(">x\nTTTT\n")
    (tmp_path / "x.paf").write_text("x\t4\t0\t4\t+\tx\t4\t0\t4\t4\t4\t60\tcg:Z:4=\n")
    assert verify_paf(tmp_path / "x.paf", *[tmp_path / "q.fa"] * 2).ok


def test_records_that_take_turns_are_read_once(tmp_path: Path, names_read: list[str | None]) -> None:
    names = "abcd"
    (tmp_path / "q.fa").write_text("".join(f">{name}\nACGT\n" for name in names))
    lines = [f"{name}\t4\t0\t4\t+\ta\t4\t0\t4\t4\t4\t255\tcg:Z:4=\n" for name in names]
    (tmp_path / "x.paf").write_text("".join(lines * 3))
    assert verify_paf(str(tmp_path / "x.paf"), *[str(tmp_path / "q.fa")] * 2).ok
    assert len(names_read) == len(names)


def test_a_file_that_is_not_there_is_blamed_on_no_line(tmp_path: Path) -> None:
    (tmp_path / "x.paf").write_text("a\t4\t0\t4\t+\ta\t4\t0\t4\t4\t4\t255\tcg:Z:4=\n")
    with pytest.raises(InputError, match=r"^nowhere\.fa: no such file or directory$"):
        verify_paf(str(tmp_path / "x.paf"), "nowhere.fa", "nowhere.fa")


def test_stdin_is_read_once_for_all_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.fa").write_text(">t\nACGT\n")
    letters = b">a\nACGT\n>b\nACGT\n"
    lines = [f"{name}\t4\t0\t4\t+\tt\t4\t0\t4\t4\t4\t255\tcg:Z:4=\n" for name in "ab"]
    paf = tmp_path / "x.paf"
    for text in (lines[0] * 6, lines[0] + lines[1]):
        paf.write_text(text)
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(letters)))
        assert verify_paf(str(paf), "-", str(tmp_path / "t.fa")).ok


def test_a_paf_on_stdin_is_named_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.fa").write_text(">x\nACGT\n")
    line = b"x\t4\t0\t4\t+\tx\t4\t0\t4\t4\t4\t255\tcg:Z:4=\n"
    for content in (line, gzip.compress(line)):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(BytesIO(content))))
        assert str(verify_paf("-", *[str(tmp_path / "x.fa")] * 2)).startswith("stdin: OK: 1 alignment")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(BytesIO(line.replace(b"x", b"y")))))
    assert str(verify_paf("-", *[str(tmp_path / "x.fa")] * 2)).startswith("stdin: line 1: ")


@pytest.mark.parametrize("locale", ["latin-1", "ascii"])
def test_a_paf_on_stdin_is_utf_8_in_every_locale(
    locale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.fa").write_text(">\xe9\nACGT\n", encoding="utf-8")
    line = "\xe9\t4\t0\t4\t+\t\xe9\t4\t0\t4\t4\t4\t255\tcg:Z:4=\n".encode()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(BytesIO(line)), encoding=locale))
    assert verify_paf("-", *[str(tmp_path / "x.fa")] * 2).ok


def test_the_records_of_a_pipe_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "t.fa").write_text(">t\nACGT\n")
    lines = [f"{name}\t4\t0\t4\t+\tt\t4\t0\t4\t4\t4\t255\tcg:Z:4=\n" for name in "aba"]
    (tmp_path / "x.paf").write_text("".join(lines))
    os.mkfifo(tmp_path / "q.fa")
    with ThreadPoolExecutor(1) as writing:
        writing.submit((tmp_path / "q.fa").write_text, ">a\nACGT\n>b\nACGT\n")
        assert verify_paf(*(str(tmp_path / name) for name in ("x.paf", "q.fa", "t.fa"))).ok


def test_regions_count_from_the_start_of_the_record(tmp_path: Path) -> None:
    query, target = tmp_path / "q.fa", tmp_path / "t.fa"
    query.write_text(">q\nTTTACGT\n")
    target.write_text(">t\nGACGTG\n")
    paf = tmp_path / "x.paf"
    paf.write_text("q\t7\t3\t7\t+\tt\t6\t1\t5\t4\t4\t255\tcg:Z:4=\n")
    for spec in (f"{query}", f"{query}:q:3-7", f"{query}:1-7"):
        assert verify_paf(str(paf), spec, str(target)).ok
    assert [p.text for p in verify_paf(str(paf), f"{query}:4-7", str(target)).problems] == [
        "query 3-7 is not within the letters given, 4-7"
    ]


def test_a_line_without_a_cigar_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.paf: line 1: no cg tag"):
        verify(tmp_path, LINE.replace("cg:Z:", "zz:Z:"))


def test_a_real_pair(tmp_path: Path) -> None:
    """The first 16,000 letters of two mitochondria, letter against letter."""
    specs = [str(DATA / f"{name}.fa.gz") for name in ("human_mito.NC_012920.1", "chimp_mito.NC_001643.1X")]
    query, target = (read_sequence(spec) for spec in specs)
    alignment = Alignment.from_runs(query, target, Scoring(), "local", 0, (0, 0), [Op.DIAGONAL], [16_000])
    paf = tmp_path / "x.paf"
    paf.write_text(format_paf(alignment))
    problem = verify_paf(str(paf), *specs).problems[0]
    assert problem.text == f"tag AS: claims 0, is {alignment.rescore()}"


# --- every claim of a line, changed in turn


DNA_PAIR = "ACGGTCATTGCAGGATCCATCAGTTAGCACGGTCATTGCAGGATC", "TTACGGTCATTGCAGGATCATCAGTTAGCACGGTCTTGCAGGATCAA"
#: The query lies in the target, except for its first and its last letter and one within.
CONTAINED = f"C{DNA_PAIR[0]}G", f"TTA{DNA_PAIR[0][:20]}{DNA_PAIR[0][21:]}CTT"
PROTEIN_PAIR = "MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSF", "MVHLTPEEKSAVTALWGKVNVDEVGGEALGRLLVVY"
BLOSUM = Scoring(gap_open=10, gap_extend=1, matrix=SubstitutionMatrix.load("BLOSUM62"))
RUNS: dict[str, tuple[tuple[str, str], Scoring, Mode]] = {
    "local": (DNA_PAIR, Scoring(), "local"),
    "global": (DNA_PAIR, Scoring(), "global"),
    "one gap": (("", "ACGT"), Scoring(), "global"),
    "protein": (PROTEIN_PAIR, BLOSUM, "local"),
    "global protein": (PROTEIN_PAIR, BLOSUM, "global"),
    "semiglobal": (CONTAINED, Scoring(), "semiglobal"),
    "one free end": (DNA_PAIR, Scoring(), "semiglobal:target-start"),
    "overlap": (DNA_PAIR, Scoring(), "overlap"),
    "fit": (CONTAINED, Scoring(), "fit"),
    "extend": (("C" + DNA_PAIR[0], "G" + DNA_PAIR[0][:20] + DNA_PAIR[0][21:40]), Scoring(), "extend"),
}


def changed_columns(fields: list[str]) -> Iterator[list[str]]:
    """The columns with one of them changed: another name, a number off by one or none, the other strand."""
    for column in range(12):
        old = fields[column]
        values = {0: ["z", ""], 4: ["-", "*", ""], 5: ["z", ""]}.get(column)
        if values is None:
            values = [
                str(int(old) + 1),
                str(int(old) - 1),
                str(int(old) * 10 + 7),
                f"{old}.0",
                f"+{old}",
                "",
                "x",
            ]
        yield from ([*fields[:column], value, *fields[column + 1 :]] for value in values)
    for one, other in combinations((1, 2, 3, 6, 7, 8, 9, 10, 11), 2):
        if fields[one] != fields[other]:
            swapped = list(fields)
            swapped[one], swapped[other] = fields[other], fields[one]
            yield swapped
    yield from ([*fields[:column], *fields[column + 1 :]] for column in range(12))


def changed_tags(tags: dict[str, str]) -> Iterator[str]:
    """The value of a tag, changed."""
    yield from (f"AS:i:{int(tags['AS']) + step}" for step in (-1, 1))
    yield from (f"NM:i:{int(tags['NM']) + step}" for step in (-1, 1))
    yield from (
        "AS:Z:1",
        "AS:i:",
        "AS:i:1.0",
        f"AS:i:{tags['AS']} ",
        f"AS:f:{tags['AS']}",
        f"NM:Z:{tags['NM']}",
    )
    yield from ("tp:A:S", "tp:A:", "tp:Z:P", "tp:A:PP", "tp:A")
    yield from (f"cg:Z:{cigar}" for cigar in changed_cigars(tags["cg"]))
    yield f"cg:A:{tags['cg']}"
    tg = tags["tg"]
    yield from (f"tg:{kind}:{tg}" for kind in "AiH")
    yield from (f"tg:Z:{text}" for text in changed_meanings(tg))


def changed_cigars(cigar: str) -> Iterator[str]:
    runs = re.findall(r"(\d+)(\D)", cigar)
    for k, (length, op) in enumerate(runs):
        before, after = ("".join(f"{n}{o}" for n, o in part) for part in (runs[:k], runs[k + 1 :]))
        for changed in (f"{int(length) + 1}{op}", f"{int(length) - 1}{op}", op, length, ""):
            yield before + changed + after
        yield from (f"{before}{length}{other}{after}" for other in "=XIDNSHP" if other != op)
    yield from (cigar[:place] + cigar[place + 1 :] for place in range(len(cigar)))
    yield from (cigar + rest for rest in ("1", "1=", " ", ",", "1D"))


def changed_meanings(tg: str) -> Iterator[str]:
    mode, rest = tg.split(";", 1)
    yield from (f"{other};{rest}" for other in ("local", "global", "semi", "Local", "") if other != mode)
    numbers = [found.span() for found in re.finditer(r"-?\d+(?![0-9a-f]*;gap)(?!.*:)", tg)]
    for start, stop in numbers:
        for value in (int(tg[start:stop]) + 1, int(tg[start:stop]) - 1, "", "x", "0" + tg[start:stop]):
            yield f"{tg[:start]}{value}{tg[stop:]}"
    yield from (tg + rest for rest in (";", ";end=given", ";x=1", " ", "k"))
    yield f"{mode};end=9;{rest}"
    if digest := re.search(r":([0-9a-f]{12});", tg):
        other = "0" * 12
        yield tg.replace(digest[1], other)
        yield tg.replace(digest[1], digest[1][:-1])
        yield tg.replace(digest[1], digest[1].upper() + "g")
        yield from (tg.replace("BLOSUM62", name) for name in ("BLOSUM45", "mine", ""))
        yield f"{mode};match=1;mismatch=-3;gap(k)=10+1k"
    else:
        yield re.sub(r"match=.*;gap", f"matrix=BLOSUM62:{BLOSUM.matrix.digest};gap", tg)


def changed_lines(line: str) -> Iterator[str]:
    fields = line.split("\t")
    columns, tags = fields[:12], fields[12:]
    values = {tag[:2]: tag[5:] for tag in tags}
    yield from ("\t".join([*changed, *tags]) for changed in changed_columns(columns))
    for new in changed_tags(values):
        yield "\t".join([*columns, *(new if tag[:2] == new[:2] else tag for tag in tags)])
    yield from (f"{line}\t{tag}" for tag in tags)  # twice
    yield from (f"{line}\t{rest}" for rest in ("", "x", "xx:i:", "xx:i:1.5", "xx:q:1", "1x:i:1"))
    yield from ("\t".join([*columns, *(tag for tag in tags if tag[:2] != name)]) for name in ("cg", "AS"))


@pytest.mark.parametrize(("pair", "scoring", "mode"), RUNS.values(), ids=RUNS.keys())
def test_no_changed_line_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str], scoring: Scoring, mode: Mode
) -> None:
    line = format_paf(Pair(*pair, scoring, mode).run().alignment)
    paf, files = tmp_path / "x.paf", [tmp_path / f"{name}.fa" for name in ("query", "target")]
    for file, letters in zip(files, pair, strict=True):
        file.write_text(f">{file.stem}\n{letters}\n")
    # Reading the sequences for each line again would take longer than verifying it.
    monkeypatch.setattr("longalign.formats.verify.read_sequence", cache(read_sequence))
    # Of a gap alone, only the scoring that was asked for tells what a match scores.
    asked = scoring if "" in pair else None

    def objections(text: str) -> list[str]:
        """What is said about the file, a line each."""
        paf.write_text(text)
        try:
            result = verify_paf(str(paf), *map(str, files), asked)
        except InputError as error:
            return [str(error)]
        return [] if result.ok else str(result).split("\n")

    assert objections(f"{line}\n{line}\n") == []
    changes = {changed for changed in changed_lines(line) if changed != line}
    if not pair[0]:
        changes.remove(line.replace("\t+\t", "\t-\t"))  # no letters on either strand
    assert len(changes) > 150
    for changed in sorted(changes):
        found = objections(f"{line}\n{changed}\n")
        assert found, changed
        assert all(text.startswith(f"{paf}: line 2: ") for text in found), (changed, found)


@pytest.mark.parametrize("missing", ["q.fa", "t.fa"])
def test_files_that_do_not_exist_are_noticed_although_there_is_no_line(tmp_path: Path, missing: str) -> None:
    (tmp_path / "x.paf").touch()
    for name in {"q.fa", "t.fa"} - {missing}:
        (tmp_path / name).write_text(">a\nACGT\n")
    with pytest.raises(InputError, match=missing):
        verify_paf(*(str(tmp_path / name) for name in ("x.paf", "q.fa", "t.fa")))
    (tmp_path / missing).write_text(">a\nACGT\n>b\nAC\n>b\nGT\n")  # of which a line may name the first
    assert verify_paf(*(str(tmp_path / name) for name in ("x.paf", "q.fa", "t.fa"))).ok
