"""The scoring that the options of a command mean."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from longalign.errors import InputError, UsageError
from longalign.model.scoring import COST_FIELDS, PAIR_FIELDS, Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix

_FIELD = re.compile(rf"\b({'|'.join((*PAIR_FIELDS, *COST_FIELDS))})\b")


def scoring_of(options: Namespace) -> Scoring:
    """The scoring of a run: what is not given is as usual, but for a matrix there are no usual gap costs.

    Raises UsageError for options that do not go together or numbers that make no sense, InputError for a
    matrix that cannot be used.
    """
    given = _given(options)
    if options.matrix is None:
        return _of_numbers(given)
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
    return _of_numbers(given)


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
    _of_numbers(given)  # what is wrong with them is no fault of the matrix
    return Scoring(**given, matrix=SubstitutionMatrix.load(name))


def _of_numbers(given: dict[str, Any]) -> Scoring:
    """A scoring without a matrix. Raises UsageError, naming the option, for numbers that make no sense."""
    try:
        return Scoring(**given)
    except InputError as error:
        raise UsageError(_FIELD.sub(_option, str(error).removeprefix("scoring: "))) from error


def _option(field: re.Match[str]) -> str:
    return f"--{field[0].replace('_', '-')}"
