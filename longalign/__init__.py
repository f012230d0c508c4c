"""Exact pairwise alignment of two very long sequences.

>>> import longalign
>>> alignment = longalign.align("ACGTTACGT", "ACGTACGT")
>>> alignment.score, alignment.cigar
(5, '5=')
"""

from longalign._version import __version__
from longalign.alignment import Alignment, Op
from longalign.api import align, resume, score
from longalign.boundary import BestCell
from longalign.errors import (
    BackendError,
    InputError,
    InternalError,
    LongalignError,
    StoreError,
    UsageError,
)
from longalign.scoring import Scoring
from longalign.sequence import Sequence, read_sequence

__all__ = [
    "Alignment",
    "BackendError",
    "BestCell",
    "InputError",
    "InternalError",
    "LongalignError",
    "Op",
    "Scoring",
    "Sequence",
    "StoreError",
    "UsageError",
    "__version__",
    "align",
    "read_sequence",
    "resume",
    "score",
]
