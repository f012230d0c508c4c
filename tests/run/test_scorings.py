"""Whole runs under scorings as people give them, against other programs and plain dynamic programming."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import parasail
import pytest
from Bio.Align import PairwiseAligner, substitution_matrices
from hypothesis import given
from hypothesis import strategies as st
from inputs import DATA
from runs import CPU, Interrupts, Pair, small_geometry, using

import longalign
from longalign.errors import StoreError
from longalign.fasta import read_sequence
from longalign.formats.paf import format_paf, parse_meaning
from longalign.formats.verify import verify_paf
from longalign.model.mode import MODES
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.run import pipeline
from longalign.run.spec import RunSpec

Run = Callable[..., tuple[int, str, str]]

EMBOSS = Scoring(matrix=SubstitutionMatrix.load("BLOSUM62"), gap_first=10, gap_next=Decimal("0.5"))
proteins = st.text("ARNDCQEGHILKMFPSTWYV", min_size=1, max_size=30)
nucleotides = st.text("ACGT", max_size=25)
words = st.text("ACGTACGTNRB", min_size=1, max_size=20)
fractions = st.fractions(0, 6, max_denominator=12)


def edit_distance(a: str, b: str) -> int:
    """Levenshtein's distance, row by row."""
    row = [*range(len(b) + 1)]
    for i, x in enumerate(a, start=1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


def best_global(a: str, b: str, scoring: Scoring) -> Fraction:
    """The global score in fractions, by three states a cell, from what was given and nothing scaled."""
    given, never = scoring.given(), Fraction(-(10**9))
    alpha, beta = given["gap_open"], given["gap_extend"]
    states = {(0, 0): (Fraction(0), never, never)}
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if i or j:
                up, left, corner = (
                    states.get(place, (never,) * 3) for place in ((i - 1, j), (i, j - 1), (i - 1, j - 1))
                )
                e = max(up[1] - beta, up[0] - alpha - beta)
                f = max(left[2] - beta, left[0] - alpha - beta)
                pair = mean_score(a[i - 1], b[j - 1], given) if i and j else 0
                states[i, j] = max(corner[0] + pair, e, f), e, f
    return states[len(a), len(b)][0]


def mean_score(a: str, b: str, given: dict[str, Fraction]) -> Fraction:
    meanings = {"N": "ACGT", "R": "AG", "B": "CGT"}
    bases = [(x, y) for x in meanings.get(a, a) for y in meanings.get(b, b)]
    return sum((Fraction(given["match" if x == y else "mismatch"]) for x, y in bases), Fraction(0)) / len(
        bases
    )


def check(pair: Pair) -> Fraction | int:
    """The score of a run in small pieces, which the alignment has and its letters give."""
    with small_geometry():
        outcome = pair.run()
    outcome.alignment.check()
    assert outcome.score == outcome.best.score == outcome.alignment.score == outcome.alignment.rescore()
    return outcome.score


@given(nucleotides, nucleotides)
def test_the_edit_preset_is_minus_the_edit_distance(a: str, b: str) -> None:
    assert check(Pair(a, b, Scoring(preset="edit"), MODES["global"])) == -edit_distance(a, b)


def test_without_a_positive_score_nothing_aligns_locally() -> None:
    outcome = Pair("ACGT", "ACGT", Scoring(preset="edit")).run()
    assert outcome.is_empty
    assert (outcome.alignment.score, outcome.alignment.cigar) == (0, "")


@given(proteins, proteins, st.sampled_from(["local", "global"]))
def test_scores_of_emboss_equal_those_of_biopython(a: str, b: str, mode: str) -> None:
    aligner = PairwiseAligner(mode=mode, open_gap_score=-10, extend_gap_score=-0.5)
    aligner.substitution_matrix = substitution_matrices.load("BLOSUM62")
    score = check(Pair(a, b, EMBOSS, MODES[mode]))
    assert isinstance(score, Fraction)
    assert score == Fraction(aligner.score(a, b))  # halves are exact in binary, too


@given(words, words, st.tuples(fractions, fractions, fractions, fractions))
def test_averages_and_fractions_are_exact(a: str, b: str, numbers: tuple[Fraction, ...]) -> None:
    match, below, alpha, beta = numbers
    scoring = Scoring(match, match - below - Fraction(1, 12), alpha, beta, ambiguous="average")
    pair = Pair(a, b, scoring, MODES["global"])
    assert check(pair) == best_global(a, b, scoring)


def test_the_lastz_preset_equals_parasail_on_real_genomes() -> None:
    query, target = (
        str(DATA / f"{name}.fa.gz") for name in ("hiv1_MB2059.AF133821.1", "hiv1_SF33.AY352275.1")
    )
    scoring = Scoring(preset="lastz", unknown="mismatch")
    a, b = (read_sequence(path, scoring.alphabet) for path in (query, target))
    matrix = parasail.matrix_create("ACGTN", 0, -125)
    for i, row in enumerate(SubstitutionMatrix.load("HOXD70").scores):
        for j, score in enumerate(row):
            matrix[i, j] = score
    spelled = [x.letters.tobytes().decode() for x in (a, b)]
    expected = parasail.sw_scan_32(*spelled, 430, 30, matrix).score
    assert longalign.score(a, b, scoring=scoring, backend="cpu").score == expected


# --- what is written is read again

RULES = [
    EMBOSS,
    Scoring(ambiguous="average"),
    Scoring(ambiguous="zero", gap_extend=Fraction(1, 3)),
    Scoring(preset="megablast", softmask=True),
    Scoring(preset="lastz", unknown="mismatch", softmask=True),
    Scoring(
        matrix=SubstitutionMatrix.load("BLOSUM62"), gap_open=10, gap_extend=1, unknown="x", softmask=True
    ),
]


@pytest.mark.parametrize("scoring", RULES, ids=repr)
@pytest.mark.parametrize("mode", MODES.values())
def test_what_is_written_verifies_and_what_is_changed_does_not(
    tmp_path: Path, scoring: Scoring, mode: str
) -> None:
    texts = ["GATTACAGATTACARNKacgtACGTACGAATTACAGATT", "GATTACAGATTACARNKACGTAGTAacgatTACAGATT"]
    files = [tmp_path / name for name in ("query.fa", "target.fa")]
    for file, text in zip(files, texts, strict=True):
        file.write_text(f">{file.stem}\n{text}\n")
    sequences = [read_sequence(file, scoring.alphabet) for file in files]
    outcome = pipeline.run(RunSpec(*sequences, scoring, MODES[mode]), using(CPU))
    line, paf = format_paf(outcome.alignment), tmp_path / "x.paf"
    fields = dict(tag.split(":", 1) for tag in line.split("\t")[12:])
    assert fields["AS"].startswith("i:" if scoring.scale == 1 else "f:")
    assert parse_meaning(fields["tg"].removeprefix("Z:")) == (mode, scoring, False)
    paf.write_text(line + "\n")
    assert verify_paf(str(paf), *map(str, files)).problems == []
    assert verify_paf(str(paf), *map(str, files), scoring).problems == []
    kind, score = fields["AS"].split(":")
    other = {"i": "f", "f": "i"}[kind]
    whole = score.split(".")[0]
    for changed in (f"AS:{kind}:{int(whole) + 7}", f"AS:{other}:{whole}", f"AS:{kind}:{whole}000"):
        paf.write_text(line.replace(f"AS:{kind}:{score}", changed) + "\n")
        assert not verify_paf(str(paf), *map(str, files)).ok


@pytest.mark.parametrize(
    "scoring", [*RULES[:2], *(pytest.param(rule, marks=pytest.mark.slow) for rule in RULES[2:])], ids=repr
)
def test_a_store_is_resumed_with_its_own_scoring(tmp_path: Path, scoring: Scoring) -> None:
    files = [tmp_path / name for name in ("query.fa", "target.fa")]
    for file, text in zip(files, ("GATTacaGATTACAN" * 4, "GATTACAGacTACAN" * 4), strict=True):
        file.write_text(f">{file.stem}\n{text}\n")
    sequences = [read_sequence(file, scoring.alphabet) for file in files]
    spec = RunSpec(*sequences, scoring, MODES["global"], store=tmp_path / "store")
    with small_geometry():
        whole = pipeline.run(RunSpec(*sequences, scoring, MODES["global"]), using())
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(spec, using(), Interrupts(9))
        resumed = pipeline.resume(tmp_path / "store", using())
    assert (resumed.score, resumed.alignment.cigar) == (whole.score, whole.alignment.cigar)
    assert resumed.spec.scoring == scoring
    assert resumed.spec.query.letters.tobytes() == sequences[0].letters.tobytes()
    other = Scoring(matrix=scoring.matrix, gap_open=77, gap_extend=Fraction(1, 7), softmask=scoring.softmask,
                    unknown=scoring.unknown)  # fmt: skip
    again = [read_sequence(file, other.alphabet) for file in files]
    with pytest.raises(
        StoreError, match=r"gap_open is [\d.]+ in the store and 77 now; gap_extend is .* and 1/7 now"
    ):
        pipeline.run(RunSpec(*again, other, MODES["global"], store=tmp_path / "store"), using())


# --- the command line


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "a.fa").write_text(">a\nMKVLAAGIWNDRRK\n")
    (tmp_path / "b.fa").write_text(">b\nMKVLAGIWNERRK\n")
    return [str(tmp_path / "a.fa"), str(tmp_path / "b.fa")]


def test_fractions_are_printed_as_they_are(files: list[str], run: Run) -> None:
    options = [*files, "--matrix", "blosum62", "--gap-first", "10", "--gap-next", "0.5", "--backend", "cpu"]
    alignment = longalign.align(
        *(read_sequence(file, EMBOSS.alphabet) for file in files),
        scoring=EMBOSS,
        mode="global",
        backend="cpu",
    )
    score = str(float(alignment.score))
    assert score.endswith(".5") or score.endswith(".0")
    spelled = score.removesuffix(".0")
    code, out, err = run("score", *options, "--mode", "global", "--json", "-", "-o", f"{files[0]}.tsv")
    assert code == 0
    assert json.loads(out)["score"] == alignment.score
    assert json.loads(out)["scoring"]["gap_extend"] == 0.5
    assert json.loads(out)["scoring"]["scale"] == 2
    assert f"global score {spelled}, " in err
    code, out, _ = run("score", *options, "--mode", "global")
    assert out.split("\t")[3] == spelled
    code, out, _ = run("align", *options, "--mode", "global", "--format", "tsv")
    header, values = (line.split("\t") for line in out.splitlines())
    assert dict(zip(header, values, strict=True))["score"] == spelled
    _, out, _ = run("align", *options, "--mode", "global")
    assert f"\tAS:f:{spelled}\t" in out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ("--gap-open", "3", "--gap-next", "1"),
            2,
            "--gap-open and --gap-extend are one convention, --gap-first",
        ),
        (("--match", "-1"), 2, "--match cannot be negative"),
        (("--preset", "blast"), 2, "invalid choice: 'blast'"),
        (("--matrix", "BLOSUM62", "--gap-open", "3"), 2, "--matrix needs --gap-open and --gap-extend"),
        (("--matrix", "blosum26", "--gap-open", "3", "--gap-extend", "1"), 1, "did you mean BLOSUM62?"),
        (("--unknown", "x"), 2, "--unknown is for letters that a substitution matrix lacks"),
        ((), 1, "a protein needs --matrix BLOSUM62 --gap-open 10 --gap-extend 1"),
    ],
)
def test_messages_name_the_options(
    files: list[str], run: Run, options: tuple[str, ...], code: int, message: str
) -> None:
    found, out, err = run("align", *files, *options)
    assert (found, out) == (code, "")
    assert message in err


def test_a_run_that_finds_nothing_says_what_may_be_wrong(tmp_path: Path, run: Run) -> None:
    letters_of = {"p": "MKVWHYMKRR", "d": "ACGTACGT", "e": "MKVWHYMKRK", "m": "acgtacgt"}
    for name, letters in letters_of.items():
        (tmp_path / f"{name}.fa").write_text(f">{name}\n{letters}\n")
    path = {name: str(tmp_path / f"{name}.fa") for name in letters_of}
    _, _, err = run("align", path["p"], path["e"], "--backend", "cpu")
    assert "if the sequences are proteins, give --matrix BLOSUM62" in err
    _, _, err = run("align", path["d"], path["d"], "--preset", "edit", "--backend", "cpu")
    assert "no letter pair has one: --mode global aligns by costs alone" in err
    _, _, err = run("align", path["d"], path["m"], "--softmask", "--backend", "cpu")
    assert "no alignment has a positive score, because all letters of m are masked or ambiguous" in err


def test_dna_under_a_matrix_of_proteins_is_noticed(tmp_path: Path, run: Run) -> None:
    (tmp_path / "d.fa").write_text(f">d\n{'ACGTTGCAN' * 4}\n")
    (tmp_path / "p.fa").write_text(f">p\n{'MARNDCSTVWYHKGACM' * 2}\n")
    for name, is_advised in {"d": True, "p": False}.items():
        path = str(tmp_path / f"{name}.fa")
        matrix = ["--matrix", "BLOSUM62", "--gap-open", "10", "--gap-extend", "1"]
        code, _, err = run("align", path, path, *matrix, "--backend", "cpu")
        assert code == 0
        assert ("; if the sequences are DNA, BLOSUM62 is not for them" in err) == is_advised
    path = str(tmp_path / "d.fa")
    assert "are DNA" not in run("align", path, path, "--preset", "lastz", "--unknown", "mismatch")[2]


@pytest.mark.parametrize("mode", ["local", "global"])
def test_a_protein_of_letters_that_nucleotides_have_as_well_is_noticed(
    tmp_path: Path, run: Run, mode: str
) -> None:
    (tmp_path / "p.fa").write_text(">p\nMARNDCSTVWYHKGACM\n")
    (tmp_path / "d.fa").write_text(">d\nACGTACGTNNRYACGTG\n")
    for name, is_advised in {"p": True, "d": False}.items():
        path = str(tmp_path / f"{name}.fa")
        code, _, err = run("align", path, path, "--mode", mode, "--backend", "cpu")
        assert code == 0
        assert ("; if the sequences are proteins, give --matrix BLOSUM62" in err) == is_advised
