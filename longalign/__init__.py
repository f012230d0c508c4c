"""Exact pairwise alignment of two very long sequences.

>>> import longalign
>>> alignment = longalign.align("ACGTTACGT", "ACGTACGT")
>>> alignment.score, alignment.cigar
(5, '5=')
"""

from typing import TYPE_CHECKING

from longalign._version import __version__
from longalign.alignment import Alignment, Op
from longalign.boundary import BestCell
from longalign.errors import (
    BackendError,
    InputError,
    InternalError,
    LongalignError,
    StoreError,
    UsageError,
)
from longalign.matrix import SubstitutionMatrix
from longalign.scoring import Scoring
from longalign.sequence import Sequence, read_sequence

if TYPE_CHECKING:
    from longalign.api import align, resume, score, trace

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
    "SubstitutionMatrix",
    "UsageError",
    "__version__",
    "align",
    "read_sequence",
    "resume",
    "score",
    "trace",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import these functions when they are first used: they bring a compiler along."""
        if name in ("align", "resume", "score", "trace"):
            from longalign import api

            return getattr(api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return __all__
