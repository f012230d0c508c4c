"""The scoring that the options of a command mean."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from longalign.errors import UsageError
from longalign.matrix import SubstitutionMatrix
from longalign.scoring import COST_FIELDS, PAIR_FIELDS, Scoring


def scoring_of(options: Namespace) -> Scoring:
    """The scoring of a run: what is not given is as usual, but for a matrix there are no usual gap costs.

    Raises UsageError for options that do not go together, InputError for numbers that make no sense.
    """
    given = _given(options)
    if options.matrix is None:
        return Scoring(**given)
    return _with_matrix(options.matrix, given)


def complete_scoring(options: Namespace) -> Scoring | None:
    """The scoring that a PAF file is to be verified by: None if nothing of it is given. Raises the same."""
    given = _given(options)
    if options.matrix is not None:
        return _with_matrix(options.matrix, given)
    if not given:
        return None
    if len(given) < len(PAIR_FIELDS) + len(COST_FIELDS):
        raise UsageError(
            "give all of --match, --mismatch, --gap-open and --gap-extend, or none of them, "
            "or --matrix with the last two"
        )
    return Scoring(**given)


def _given(options: Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in (*PAIR_FIELDS, *COST_FIELDS)}
    return {name: value for name, value in values.items() if value is not None}


def _with_matrix(name: str, given: dict[str, Any]) -> Scoring:
    if not given.keys().isdisjoint(PAIR_FIELDS):
        raise UsageError("--matrix says what letters score: --match and --mismatch do not go with it")
    if len(given) < len(COST_FIELDS):
        raise UsageError(
            "--matrix wants --gap-open and --gap-extend as well, on the matrix's scale "
            "(for BLOSUM62, say, 10 and 1)"
        )
    return Scoring(**given, matrix=SubstitutionMatrix.load(name))
