"""Inputs that many tests share: the folder of sequences, some letters, and a scoring of proteins."""

from __future__ import annotations

from pathlib import Path

from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix

DATA = Path(__file__).parents[1] / "data"
BODY = "ACGGTCATTGCAGGATCCATCAGTTAGC"
PROTEIN = Scoring(gap_open=10, gap_extend=1, matrix=SubstitutionMatrix.load("BLOSUM62"))
