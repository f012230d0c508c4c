"""What many tests align: files, letters, and a scoring of proteins."""

from __future__ import annotations

from pathlib import Path

from longalign.matrix import SubstitutionMatrix
from longalign.scoring import Scoring

DATA = Path(__file__).parent / "data"
BODY = "ACGGTCATTGCAGGATCCATCAGTTAGC"
PROTEIN = Scoring(gap_open=10, gap_extend=1, matrix=SubstitutionMatrix.load("BLOSUM62"))
