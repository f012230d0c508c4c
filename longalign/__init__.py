"""Exact pairwise alignment of two very long sequences.

>>> import longalign
>>> alignment = longalign.align("ACGTTACGT", "ACGTACGT")
>>> alignment.score, alignment.cigar
(5, '5=')
"""

# Not from `typing`: the command line installs its signal handlers before it imports any other module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from longalign._version import __version__
    from longalign.api import align, align_many, best_alignments, resume, score, score_many, trace
    from longalign.errors import (
        BackendError,
        InputError,
        InternalError,
        LongalignError,
        StoreError,
        UsageError,
    )
    from longalign.fasta import read_sequence
    from longalign.formats.biopython import to_biopython
    from longalign.formats.paf import write_paf
    from longalign.formats.verify import Verification, verify_paf
    from longalign.model.alignment import Alignment, Op
    from longalign.model.boundary import BestCell
    from longalign.model.scoring import Scoring
    from longalign.model.sequence import Sequence
    from longalign.model.statistics import Statistics, statistics
    from longalign.model.substitution_matrix import SubstitutionMatrix

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
    "Statistics",
    "StoreError",
    "SubstitutionMatrix",
    "UsageError",
    "Verification",
    "__version__",
    "align",
    "align_many",
    "best_alignments",
    "read_sequence",
    "resume",
    "score",
    "score_many",
    "statistics",
    "to_biopython",
    "trace",
    "verify_paf",
    "write_paf",
]

#: The public names of each module. They are imported at first use: NumPy and the compiler take a while.
_NAMES_OF = {
    "_version": ("__version__",),
    "api": ("align", "align_many", "best_alignments", "resume", "score", "score_many", "trace"),
    "errors": (
        *("BackendError", "InputError", "InternalError", "LongalignError", "StoreError", "UsageError"),
    ),
    "fasta": ("read_sequence",),
    "formats.biopython": ("to_biopython",),
    "formats.paf": ("write_paf",),
    "formats.verify": ("Verification", "verify_paf"),
    "model.alignment": ("Alignment", "Op"),
    "model.boundary": ("BestCell",),
    "model.scoring": ("Scoring",),
    "model.sequence": ("Sequence",),
    "model.statistics": ("Statistics", "statistics"),
    "model.substitution_matrix": ("SubstitutionMatrix",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"longalign.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return __all__
