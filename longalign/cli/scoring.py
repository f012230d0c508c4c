"""The scoring that the options of a command describe."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from longalign.errors import InputError, UsageError
from longalign.model.scoring import COST_FIELDS, PAIR_FIELDS, Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix

_FIELD = re.compile(rf"\b({'|'.join((*PAIR_FIELDS, *COST_FIELDS))})\b")


def scoring_of(options: Namespace) -> Scoring:
    """The scoring of a run. Options that are not given take their defaults.

    With a substitution matrix there are no default gap costs. Raises UsageError for options that exclude each
    other and for numbers out of range, InputError for a matrix that cannot be used.
    """
    given = _given(options)
    if options.matrix is None:
        return _of_numbers(given)
    return _with_matrix(options.matrix, given)


def complete_scoring(options: Namespace) -> Scoring | None:
    """The scoring to verify a PAF file with, or None if no scoring option is given.

    Raises the same errors as `scoring_of`.
    """
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
    return _of_numbers(given)


def _given(options: Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in (*PAIR_FIELDS, *COST_FIELDS)}
    return {name: value for name, value in values.items() if value is not None}


def _with_matrix(name: str, given: dict[str, Any]) -> Scoring:
    if not given.keys().isdisjoint(PAIR_FIELDS):
        raise UsageError(
            "--matrix excludes --match and --mismatch: the matrix has the scores of all letter pairs"
        )
    if len(given) < len(COST_FIELDS):
        raise UsageError(
            "--matrix needs --gap-open and --gap-extend as well, on the scale of the matrix "
            "(for example 10 and 1 for BLOSUM62)"
        )
    _of_numbers(given)  # checked first, so that the message names the option and not the matrix
    return Scoring(**given, matrix=SubstitutionMatrix.load(name))


def _of_numbers(given: dict[str, Any]) -> Scoring:
    """A scoring without a matrix. Raises UsageError, naming the option, for a number out of range."""
    try:
        return Scoring(**given)
    except InputError as error:
        raise UsageError(_FIELD.sub(_option, str(error).removeprefix("scoring: "))) from error


def _option(field: re.Match[str]) -> str:
    return f"--{field[0].replace('_', '-')}"
