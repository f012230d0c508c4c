"""Substitution matrices: which are read and refused, and their effect on sequences, scorings and files."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from inputs import PROTEIN

from longalign.backends.substitution_tables import PITCH, lay_out
from longalign.errors import InputError
from longalign.fasta import read_sequence
from longalign.formats.paf import format_meaning, parse_meaning
from longalign.model.alphabet import DNA
from longalign.model.scoring import LARGEST_PARAMETER, Scoring
from longalign.model.sequence import Sequence
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.testing.inputs import (
    matrix_of,
    matrix_scorings,
)

BLOSUM62 = SubstitutionMatrix.load("BLOSUM62")
SMALL = """\
# a comment

   a  C  *
C -1  5  0
A  4 +2 -3
* -9 -9  1
"""


def made(tmp_path, text: str) -> str:
    path = tmp_path / "my matrix.txt"
    path.write_text(text)
    return str(path)


# --- sources of matrices


def test_a_matrix_by_name():
    place = BLOSUM62.letters.index
    assert BLOSUM62.letters == "ARNDCQEGHILKMFPSTWYVBZX*"
    assert (BLOSUM62.highest, BLOSUM62.lowest) == (11, -4)
    assert BLOSUM62.scores[place("W")][place("W")] == 11
    assert BLOSUM62.scores[place("E")][place("Z")] == 4
    assert SubstitutionMatrix.load("PAM250").scores != BLOSUM62.scores


def test_a_matrix_from_a_file_has_its_rows_in_the_order_of_its_columns(tmp_path):
    matrix = SubstitutionMatrix.load(made(tmp_path, SMALL))
    assert (matrix.name, matrix.letters) == ("my_matrix.txt", "AC*")
    assert matrix.scores == ((4, 2, -3), (-1, 5, 0), (-9, -9, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 letters, not 2 to 32"),
        ("A C\nA 1 0\n", "no row for 'C'"),
        ("A C\nA 1 0\nC 1\n", "line 3: 1 scores for 2 columns"),
        ("A C\nA 1 0\nG 1 0\n", "line 3: a row for 'G', which is not among the columns"),
        ("A C\nA 1 0\nA 1 0\n", "line 3: a row for 'A', a second time"),
        ("A C\nA 1 0\nC 0 1\nAC 9 9\n", "line 4: a row for 'AC', which is not among the columns"),
        ("A C\nA 1 x\nC 0 1\n", "line 2: the score 'x' is not a number"),
        ("AA C\nAA 1 0\nC 0 1\n", "line 1: want the letters of the columns, one by one"),
        ("A a\nA 1 0\n", "the letter 'A' stands there twice"),
        ("A -\nA 1 0\n- 0 1\n", "'-' is not an upper-case letter or a sign"),
        ("A C\nA -1 -1\nC -1 -2\n", "all scores are negative"),
        ("A \N{LATIN SMALL LETTER E WITH ACUTE}\n", "byte 3 is not ASCII"),
    ],
)
def test_a_file_that_is_no_matrix_is_refused_in_a_line(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        SubstitutionMatrix.load(made(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path}/my matrix.txt: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "BLOSUM63",
            "BLOSUM63: there is no such file, and no such matrix in Biopython, did you mean BLOSUM62?",
        ),
        ("/", "/: is a directory"),
        (5, "matrix: want a name or a file, not 5"),
        (None, "matrix: want a name or a file, not None"),
        ("", "matrix: want a name or a file, not ''"),
        ("a\0b", "matrix: want a name or a file, not 'a\\x00b'"),
        (Path("/no/such"), "/no/such: there is no such file"),
        ("SCHNEIDER", "matrix SCHNEIDER: it scores AAA and the like, not single letters"),
    ],
)
def test_a_name_that_means_no_matrix_is_refused_in_a_line(name, message):
    with pytest.raises(InputError) as caught:
        SubstitutionMatrix.load(name)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("letters", "scores", "message"),
    [
        ("A", ((1,),), "1 letters, not 2 to 32"),
        (bytes(range(33, 66)).decode(), ((1,),), "33 letters, not 2 to 32"),
        ("AC", None, "want rows of scores, not None"),
        ("AC", [1, 2], r"want rows of scores, not \[1, 2\]"),
        ("AC", ((1, 2),), "2 letters need 2 rows of 2 scores"),
        ("AC", ((1, 2), (3,)), "2 letters need 2 rows of 2 scores"),
        ("AC", ((1, 2), (3, 4.0)), "scores must be whole numbers, Fractions or Decimals, not 4.0"),
        ("ac", ((1, 2), (3, 4)), "'a' is not an upper-case letter or a sign"),
        (["A", "C"], ((1, 2), (3, 4)), "its letters are a text, not "),
    ],
)
def test_what_is_no_matrix_is_refused(letters, scores, message):
    with pytest.raises(InputError, match=message):
        SubstitutionMatrix("made", letters, scores)


def test_matrices_are_equal_by_what_they_say():
    again = SubstitutionMatrix("BLOSUM62", BLOSUM62.letters, tuple(map(tuple, np.array(BLOSUM62.scores))))
    assert (again, hash(again), again.digest) == (BLOSUM62, hash(BLOSUM62), BLOSUM62.digest)
    assert replace(again, name="other").digest == BLOSUM62.digest
    assert replace(again, letters=again.letters[::-1]).digest != BLOSUM62.digest


# --- scorings


def test_bounds_and_letters_of_a_scoring():
    assert (PROTEIN.highest, PROTEIN.lowest, PROTEIN.letters) == (11, -4, 24)
    assert (Scoring().highest, Scoring().lowest, Scoring().letters) == (1, -3, 0)
    assert PROTEIN.alphabet.letters == BLOSUM62.letters
    assert Scoring().alphabet is DNA


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matrix": BLOSUM62, "match": 2}, "match and mismatch have no meaning beside a matrix"),
        ({"matrix": "BLOSUM62"}, "matrix must be a SubstitutionMatrix, not str"),
        ({"matrix": BLOSUM62}, "a substitution matrix needs gap_open and gap_extend as well"),
        ({"matrix": BLOSUM62, "gap_open": 10}, "a substitution matrix needs gap_open and gap_extend as well"),
        (
            {"matrix": matrix_of([[1, -LARGEST_PARAMETER - 1], [0, 0]]), "gap_open": 1, "gap_extend": 1},
            "matrix made has a score of size 16777217, larger than 16777216",
        ),
    ],
)
def test_scorings_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(InputError, match=f"^scoring: {message}"):
        Scoring(**arguments)


def test_rows_may_come_one_by_one():
    rows = map(iter, [(1, -1), (-1, 1)])
    assert SubstitutionMatrix("made", "AC", rows) == SubstitutionMatrix("made", "AC", ((1, -1), (-1, 1)))


def test_lengths_at_which_a_matrix_could_leave_32_bits_are_refused():
    large = Scoring(gap_open=3, gap_extend=2, matrix=matrix_of([[1 << 20, 0], [0, 1]]))
    large.check_range(2000, 1900)
    with pytest.raises(InputError, match=r"the highest score of made, 1048576 over 2000 letters"):
        large.check_range(2000, 2000)


@given(matrix_scorings(100, 100))
def test_a_scoring_comes_back_from_json(scoring):
    assert Scoring.from_json(json.loads(json.dumps(scoring.to_json()))) == scoring


def test_the_meaning_of_a_paf_line_names_the_matrix_and_its_content():
    text = format_meaning("global", PROTEIN)
    assert text == f"global;matrix=BLOSUM62:{BLOSUM62.digest};gap(k)=10+1k"
    assert parse_meaning(text) == ("global", PROTEIN, False)
    assert parse_meaning(format_meaning("local", PROTEIN, end_given=True)) == ("local", PROTEIN, True)
    other = replace(PROTEIN, matrix=replace(BLOSUM62, letters=BLOSUM62.letters[::-1]))
    with pytest.raises(
        InputError, match=r"the matrix BLOSUM62 \([0-9a-f]{12}\) does not come with Biopython"
    ):
        parse_meaning(format_meaning("local", other))


# --- sequences


def test_codes_are_places_in_the_letters_on_both_sides():
    sequence = Sequence.from_letters("x", "arX*", alphabet=BLOSUM62.alphabet)
    assert sequence.letters.tobytes() == b"ARX*"
    assert sequence.as_query().tolist() == sequence.as_target().tolist() == [0, 1, 22, 23]


def test_a_letter_that_the_matrix_does_not_have_is_named(tmp_path):
    path = tmp_path / "p.fa"
    path.write_text(">p\nMKV\nJL\n")
    with pytest.raises(InputError) as caught:
        read_sequence(path, BLOSUM62.alphabet)
    assert str(caught.value) == (
        f"{path}: record 'p': letter 4 (counting from 1) is 'J', not one of ARNDCQEGHILKMFPSTWYVBZX* "
        "in either case, the letters of BLOSUM62; --unknown mismatch admits such letters"
    )


def test_a_sequence_under_another_alphabet():
    sequence = Sequence.from_letters("x", "ACGT")
    protein = sequence.under(BLOSUM62.alphabet)
    assert protein.sha256 == sequence.sha256
    assert protein.as_query().tolist() == [0, 4, 7, 16]
    assert sequence.under(DNA) is sequence
    with pytest.raises(InputError, match=r"letter 3 .* is 'U', not one of .*, the letters of BLOSUM62"):
        Sequence.from_letters("x", "ACU").under(BLOSUM62.alphabet)


# --- tables for compiled code


def test_matrices_are_laid_out_once_each():
    small = Scoring(gap_open=3, gap_extend=2, matrix=matrix_of([[1, 2], [3, 4]]))
    flat, begins = lay_out([PROTEIN, Scoring(), small, PROTEIN, replace(small, gap_open=9)])
    assert begins == [0, 0, PITCH * PITCH, 0, PITCH * PITCH]
    assert flat.shape == (2 * PITCH * PITCH,)
    assert flat.dtype == np.int32
    tables = flat.reshape(2, PITCH, PITCH)
    assert tables[0, :24, :24].tolist() == [list(row) for row in BLOSUM62.scores]
    assert tables[1, :2, :2].tolist() == [[1, 2], [3, 4]]
    assert not tables[1, 2:].any()
    assert lay_out([Scoring()])[0].shape == (PITCH * PITCH,)


# --- names in any case, and the files of other programs

LASTZ = """\
# a scores file
bad_score          = X:-1000  # used for sub['X'][*]
fill_score         = -100
O=400 E=30

      A     C     G     T
{}   91  -114   -31  -123
{} -114   100  -125   -31   # the second row
{}  -31  -125   100  -114
{} -123   -31  -114    91
"""


@pytest.mark.parametrize("labels", ["ACGT", "    "], ids=["lastz", "blastz"])
def test_a_scores_file_of_lastz(tmp_path, labels):
    matrix = SubstitutionMatrix.load(made(tmp_path, LASTZ.format(*labels)))
    hoxd70 = SubstitutionMatrix.load("HOXD70")
    assert (matrix.letters, matrix.scores) == (hoxd70.letters, hoxd70.scores)


def test_fractional_scores_are_exact(tmp_path):
    matrix = SubstitutionMatrix.load(made(tmp_path, "A C\nA 0.1 -1/3\nC 0 2.50\n"))
    assert matrix.scores == ((Fraction(1, 10), Fraction(-1, 3)), (0, Fraction(5, 2)))
    assert SubstitutionMatrix.load("BENNER22").highest == Fraction(157, 10)


def test_names_in_any_case_and_files_before_them(tmp_path, monkeypatch):
    assert SubstitutionMatrix.load("blosum62") == SubstitutionMatrix.load("Blosum62") == BLOSUM62
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blosum62").write_text("A C\nA 1 0\nC 0 1\n")
    assert SubstitutionMatrix.load("blosum62").letters == "AC"
    assert SubstitutionMatrix.load("BLOSUM62") == BLOSUM62


@pytest.mark.parametrize(
    ("name", "meant"),
    [("blosum26", "BLOSUM62"), ("PAM-250", "PAM250"), ("hoxd", "HOXD70"), ("EDNAfull", "NUC.4.4")],
)
def test_a_misspelt_name_gets_a_suggestion(name, meant):
    with pytest.raises(InputError, match=f"did you mean {meant}"):
        SubstitutionMatrix.load(name)
