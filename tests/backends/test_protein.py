"""Alignments by a substitution matrix, from FASTA to PAF: compared with other programs, and refused input."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inputs import DATA, PROTEIN
from oracles import MODE_OF, biopython_score, parasail_score, spell
from runs import Pair, SmallTiles, small_geometry, using

import longalign
from longalign.backends.cpu import CpuBackend
from longalign.errors import InputError, StoreError
from longalign.formats.verify import verify_paf
from longalign.model.alignment import Op
from longalign.model.mode import GLOBAL, LOCAL
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.store.manifest import Manifest
from longalign.testing.inputs import any_scorings, matrix_of, mutated, pairs
from longalign.testing.reference import ReferenceBackend
from longalign.testing.sweep_jobs import whole_matrix

HBA, HBB = str(DATA / "hba_human.P69905.fa"), str(DATA / "hbb_human.P68871.fa")
COSTS = ("--gap-open", "10", "--gap-extend", "1")
BLOSUM = ("--matrix", "BLOSUM62", *COSTS)
SCORE = 288

KNOWN = [
    PROTEIN,
    Scoring(gap_open=0, gap_extend=4, matrix=SubstitutionMatrix.load("BLOSUM45")),
    Scoring(gap_open=30, gap_extend=0, matrix=SubstitutionMatrix.load("PAM30")),
    Scoring(gap_open=7, gap_extend=2, matrix=SubstitutionMatrix.load("PAM250")),
]
LENGTHS = [1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257]


# --- compared with other programs


def random_pair(rng: np.random.Generator):
    """Related or unrelated proteins of edge lengths or other lengths, with a few B, Z, X and *."""
    rows, cols = (rng.choice(LENGTHS) if rng.random() < 0.5 else rng.integers(1, 300) for _ in range(2))
    query = rng.integers(0, 20, rows, np.uint8)
    if rng.random() < 0.6:
        target = mutated(query[rng.integers(0, rows) // 2 :], cols, rng.choice([0.02, 0.2, 0.5]), rng, 20)
    else:
        target = rng.integers(0, 20, cols, np.uint8)
    for side in (query, target):
        side[rng.random(len(side)) < 0.02] = rng.integers(20, 24)
    return query, target


@pytest.mark.parametrize("widths", [None, (8, 16), ()], ids=["general", "8", "32"])
def test_scores_equal_parasail(widths):
    rng = np.random.default_rng(11)
    work = []
    for number in range(520):
        scoring = KNOWN[number % len(KNOWN)]
        work.append(whole_matrix(*random_pair(rng), scoring, local=number % 3 > 0))
    for number, (job, swept) in enumerate(zip(work, CpuBackend(2, widths=widths).sweep(work), strict=True)):
        kernel = "scan_32" if number % 2 else ""
        want = parasail_score(job.query, job.target, job.scoring, MODE_OF[job.local], kernel)
        got = swept.best.score if job.local else swept.rows[0].h[-1]
        assert got == want, (spell(job.query, PROTEIN), spell(job.target, PROTEIN), job.scoring, job.local)


@pytest.mark.parametrize("local", [True, False])
def test_wide_sequences_equal_parasail(local):
    rng = np.random.default_rng(12)
    query = rng.integers(0, 24, 3_000, np.uint8)
    work = [
        whole_matrix(query, mutated(query, cols, rate, rng, 24), scoring, local)
        for scoring, cols, rate in zip(KNOWN, (2047, 2049, 5_000, 4_096), (0.05, 0.4, 0.1, 0.6), strict=True)
    ]
    for job, swept in zip(work, CpuBackend(2).sweep(work), strict=True):
        got = swept.best.score if local else swept.rows[0].h[-1]
        assert got == parasail_score(job.query, job.target, job.scoring, MODE_OF[local], "scan_32")


@given(st.data())
def test_the_reference_equals_biopython_on_matrices_that_are_not_symmetric(data):
    scores = data.draw(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=3, max_size=3))
    scores[0][0] = 9
    costs = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 4)))
    scoring = Scoring(gap_open=costs[0], gap_extend=costs[1], matrix=matrix_of(scores))
    sides = (data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=12)) for _ in range(2))
    query, target = (np.array(side, np.uint8) for side in sides)
    in_local, in_global = ReferenceBackend().sweep(
        [whole_matrix(query, target, scoring, local) for local in (True, False)]
    )
    assert in_local.best.score == biopython_score(query, target, scoring, LOCAL)
    assert in_global.rows[0].h[-1] == biopython_score(query, target, scoring, GLOBAL)


# --- whole runs


@pytest.mark.parametrize("inner", [ReferenceBackend(), CpuBackend(1)], ids=["reference", "cpu"])
def test_runs_over_many_tiles_and_chunks(inner):
    @given(st.data())
    def check(data):
        scoring = data.draw(any_scorings(60, 60))
        query, target = data.draw(
            pairs(data.draw(st.integers(1, 45)), data.draw(st.integers(1, 45)), scoring)
        )
        texts = spell(query, scoring), spell(target, scoring)
        pair = Pair(*texts, scoring, data.draw(st.sampled_from(["local", "global"])))
        with small_geometry():
            pair.check(pair.run(using(SmallTiles(inner=inner))))

    check()


def test_columns_of_the_same_letter_are_matches_whatever_they_score():
    scoring = Scoring(gap_open=9, gap_extend=9, matrix=matrix_of([[-1, 2, 0], [3, 5, 0], [0, 0, 0]]))
    alignment = longalign.align("ABA", "ABB", mode="global", scoring=scoring, backend="cpu")
    assert (alignment.cigar, alignment.score) == ("2=1X", -1 + 5 + 2)
    assert (alignment.matches, alignment.mismatches) == (2, 1)
    assert longalign.align("BBA", "ABA", mode="global", scoring=scoring, backend="cpu").score == 3 + 5 - 1
    assert "(matrix made (" in str(alignment)


def test_an_alignment_that_is_worth_something_else_is_an_internal_error():
    alignment = longalign.align("MKVWW", "MKIWW", scoring=PROTEIN, backend="cpu")
    alignment.check()
    with pytest.raises(longalign.InternalError, match="re-scores to 35"):
        replace(alignment, score=36).check()
    wrong = np.array([Op.MATCH], np.uint8), np.array([5], np.int64)
    with pytest.raises(longalign.InternalError, match="disagree on = or X in column 2"):
        replace(alignment, ops=wrong[0], lengths=wrong[1]).check()


def test_sequences_read_as_dna_are_checked_by_the_matrix():
    dna = longalign.Sequence.from_letters("x", "ACGT")
    assert longalign.align(dna, "ACGT", scoring=PROTEIN, backend="cpu").score == 4 + 9 + 6 + 5
    with pytest.raises(InputError, match=r"'query': letter 4 .* is 'J'"):
        longalign.align("MKVJ", "MKV", scoring=PROTEIN, backend="cpu")


# --- stores


def test_a_store_is_gone_on_with_by_its_matrix_only(tmp_path):
    store, pair = tmp_path / "store", Pair("MKVLAAGIVWPLA", "MKVAAGIVWWPLA", PROTEIN)
    first = pair.run(using(CpuBackend(1)), store)
    manifest = json.loads((store / "manifest.json").read_text())
    assert manifest["alphabet"] == "the letters of BLOSUM62"
    assert Manifest.read(store / "manifest.json").scoring == PROTEIN
    again = pair.run(using(CpuBackend(1)), store)
    assert (again.end, again.alignment.cigar) == (first.end, first.alignment.cigar)
    resumed = longalign.resume(store, backend="cpu")
    assert resumed.cigar == first.alignment.cigar
    altered = replace(PROTEIN.matrix, scores=((5, *PROTEIN.matrix.scores[0][1:]), *PROTEIN.matrix.scores[1:]))
    others = [
        (replace(PROTEIN, matrix=altered), f"matrix is {PROTEIN.matrix} in the store and {altered} now"),
        (replace(PROTEIN, gap_open=11), "gap_open is 10 in the store and 11 now"),
    ]
    for scoring, reason in others:
        with pytest.raises(StoreError) as caught:
            replace(pair, scoring=scoring).run(using(CpuBackend(1)), store)
        assert str(caught.value) == f"{store}: the store belongs to another run: {reason}"


def test_a_store_without_a_matrix_is_not_gone_on_with_by_one(tmp_path):
    pair = Pair("ACGTTACGTACGT", "ACGTACGTACGT")
    pair.run(using(CpuBackend(1)), tmp_path / "store")
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert manifest["scoring"] == {"match": 1, "mismatch": -3, "gap_open": 3, "gap_extend": 2}
    with pytest.raises(
        StoreError, match=r"another run: matrix is none in the store and BLOSUM62 \(\w{12}\) now"
    ):
        replace(pair, scoring=PROTEIN).run(using(CpuBackend(1)), tmp_path / "store")


# --- the command line


def test_two_proteins_from_fasta_to_a_verified_paf(run, tmp_path):
    paf, summary = tmp_path / "out.paf", tmp_path / "out.json"
    code, _, err = run(
        "align", HBA, HBB, *BLOSUM, "--backend", "cpu", "-o", paf, "--json", summary,
        "--store", tmp_path / "store",
    )  # fmt: skip
    assert (code, err.count("\n")) == (0, 1)
    tags = dict(field.split(":", 1) for field in paf.read_text().split()[12:])
    assert tags["AS"] == f"i:{SCORE}"
    assert tags["tg"] == f"Z:local;matrix={PROTEIN.matrix.name}:{PROTEIN.matrix.digest};gap(k)=10+1k"
    assert json.loads(summary.read_text())["scoring"]["matrix"]["name"] == "BLOSUM62"
    verdict = f"{paf}: OK: 1 alignment, 145 columns, 1 score checked\n"
    assert run("verify", paf, HBA, HBB)[:2] == (0, verdict)
    assert run("verify", paf, HBA, HBB, *BLOSUM)[:2] == (0, verdict)
    code, out, _ = run("verify", paf, HBA, HBB, "--matrix", "BLOSUM45", *COSTS)
    assert code == 1
    assert f"line 1: tag AS: claims {SCORE}, is " in out
    assert (
        "line 1: tag tg: claims local;matrix=BLOSUM62:086168af2b7a;gap(k)=10+1k, is local;matrix=BLOSUM45:"
        in out
    )
    code, out, _ = run("inspect", tmp_path / "store")
    assert f"scoring  matrix {PROTEIN.matrix}, a gap of length k costs 10 + k*1\n" in out
    code, out, _ = run("resume", tmp_path / "store", "--backend", "cpu", "-o", "-")
    assert (code, out) == (0, paf.read_text())


@pytest.mark.parametrize("mode", ["local", "global"])
def test_any_cell_of_two_proteins_can_be_traced(run, tmp_path, mode):
    store, paf, cpu = tmp_path / "store", tmp_path / "out.paf", ("--backend", "cpu", "-q")
    options = (*BLOSUM, "--mode", mode)
    code, out, err = run("score", HBA, HBB, *options, "--start-states", "eager", "--store", store, *cpu)
    assert (code, err) == (0, "")
    end = ",".join(out.split()[4:6])
    code, out, _ = run("trace", store, "--end", end, *cpu)
    assert (code, out.replace(";end=given", "")) == run("align", HBA, HBB, *options, *cpu)[:2]
    code, out, _ = run("trace", store, "--end", "93,92", "-o", paf, *cpu)
    assert code == 0
    assert run("verify", paf, HBA, HBB)[0] == 0
    query, target = (longalign.read_sequence(file, PROTEIN.alphabet) for file in (HBA, HBB))
    want = whole_matrix(query.as_query()[:93], target.as_target()[:92], PROTEIN, mode == "local")
    [result] = ReferenceBackend().sweep([want])
    assert f"AS:i:{result.rows[0].h[-1]}\t" in paf.read_text()


def test_the_score_alone_by_a_matrix_in_a_file(run, tmp_path):
    matrix = tmp_path / "mine"
    letters, scores = PROTEIN.matrix.letters, PROTEIN.matrix.scores
    rows = (f"{a} {' '.join(map(str, row))}" for a, row in zip(letters, scores, strict=True))
    matrix.write_text("\n".join([" ".join(letters), *rows]))
    options = ("--matrix", matrix, *COSTS, "--backend", "cpu", "-q")
    code, out, err = run("score", HBA, HBB, *options)
    assert (code, err) == (0, "")
    assert out.split("\t")[2:4] == ["local", str(SCORE)]
    code, out, _ = run("align", HBA, HBB, *options, "-o", tmp_path / "out.paf")
    code, _, err = run("verify", tmp_path / "out.paf", HBA, HBB)
    assert code == 1
    assert "the matrix mine (" in err
    assert run("verify", tmp_path / "out.paf", HBA, HBB, "--matrix", matrix, *COSTS)[0] == 0


def test_a_plan_says_how_letters_are_scored(run):
    code, out, _ = run("devices", "--plan", HBA, HBB, *BLOSUM)
    assert code == 0
    assert "letters: a profile of each strip" in out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--matrix", "BLOSUM62"), 2, "--matrix needs --gap-open and --gap-extend as well"),
        ((*BLOSUM, "--match", "2"), 2, "--matrix excludes --match and --mismatch"),
        (("--matrix", "BLOSUM63", *COSTS), 1, "BLOSUM63: there is no such file, and no such matrix"),
        ((), 1, "record 'P69905': letter 3 (counting from 1) is 'L', not one of ACGTURYSWKMBDHVN"),
        (("--matrix", "HOXD70", *COSTS), 1, "is 'M', not one of ACGTU in either case, the letters of HOXD70"),
    ],
)
@pytest.mark.parametrize("command", ["align", "score"])
def test_what_is_wrong_is_said_in_a_line(run, command, options, code, message):
    failed, out, err = run(command, HBA, HBB, *options, "--backend", "cpu")
    assert (failed, out, err.count("\n")) == (code, "", 1)
    assert message in err


# --- verification


PAF = "q\t5\t0\t5\t{strand}\tt\t5\t0\t5\t4\t5\t255\tAS:i:{score}\tcg:Z:{cigar}\n"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"score": 34}, "tag AS: claims 34, is 35"),
        ({"cigar": "5="}, "cg has '=' at query 2 and target 2, where the letters differ (V and I)"),
        ({"strand": "-"}, "column 5 (strand): '-' is a reverse complement, which BLOSUM62 does not have"),
    ],
)
def test_false_claims_about_proteins_are_found(tmp_path, changes, problem):
    (tmp_path / "q.fa").write_text(">q\nMKVWW\n")
    (tmp_path / "t.fa").write_text(">t\nmkiww\n")
    line = PAF.format(**{"strand": "+", "score": 35, "cigar": "2=1X2=", **changes})
    (tmp_path / "x.paf").write_text(line)
    found = verify_paf(*(str(tmp_path / name) for name in ("x.paf", "q.fa", "t.fa")), PROTEIN)
    assert [found.text for found in found.problems] == ([] if problem is None else [problem])
