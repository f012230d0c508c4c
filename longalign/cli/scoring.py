"""The scoring that the options of a command describe."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from longalign.errors import InputError, UsageError
from longalign.model.scoring import COST_FIELDS, FIRST_FIELDS, PAIR_FIELDS, RULES, Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix

_FIELDS = (*PAIR_FIELDS, *COST_FIELDS, *FIRST_FIELDS, *RULES, "preset")
#: The options that together say what the scoring is.
SCORING_OPTIONS = frozenset((*_FIELDS, "matrix"))
#: A field in a message of `Scoring`; where one is a value, it stands in quotation marks.
_FIELD = re.compile(rf"(?<!')\b({'|'.join(_FIELDS)})\b")


def scoring_of(options: Namespace) -> Scoring:
    """The scoring of a run. Options that are not given take their defaults.

    With a substitution matrix there are no default gap costs. Raises UsageError for options that exclude each
    other and for numbers out of range, InputError for a matrix that cannot be used.
    """
    given = _given(options)
    if options.matrix is None:
        return _scoring(given)
    if not given.keys().isdisjoint(PAIR_FIELDS):
        raise UsageError(
            "--matrix excludes --match and --mismatch: the matrix has the scores of all letter pairs"
        )
    if not _has_gap_costs(given):
        raise UsageError(
            "--matrix needs --gap-open and --gap-extend as well (or --gap-first and --gap-next), on the "
            "scale of the matrix (for example 10 and 1 for BLOSUM62)"
        )
    _scoring({name: value for name, value in given.items() if name not in RULES})  # so as to name the option
    return _scoring({**given, "matrix": SubstitutionMatrix.load(options.matrix)})


def complete_scoring(options: Namespace) -> Scoring | None:
    """The scoring to verify a PAF file with, or None if no scoring option is given.

    Raises the same errors as `scoring_of`.
    """
    given = _given(options)
    if not given and options.matrix is None:
        return None
    if (
        options.matrix is None
        and "preset" not in given
        and not (given.keys() >= {*PAIR_FIELDS} and _has_gap_costs(given))
    ):
        rules = ", ".join(f"--{name}" for name in RULES if name in given)
        alone = f"{rules} without a scoring: " if given.keys() <= RULES.keys() else ""
        raise UsageError(
            f"{alone}give all of --match, --mismatch, --gap-open and --gap-extend, or none of them, "
            "or --matrix with the last two, or --preset"
        )
    return scoring_of(options)


def _given(options: Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in _FIELDS}
    return {name: value for name, value in values.items() if value is not None}


def _has_gap_costs(given: dict[str, Any]) -> bool:
    """Whether both gap costs of a convention are given."""
    return given.keys() >= {*COST_FIELDS} or given.keys() >= {*FIRST_FIELDS}


def _scoring(given: dict[str, Any]) -> Scoring:
    """The scoring of these parameters. Raises UsageError, naming the options, if they cannot be used."""
    try:
        return Scoring(**given)
    except InputError as error:
        raise UsageError(_FIELD.sub(_option, str(error).removeprefix("scoring: "))) from error


def _option(field: re.Match[str]) -> str:
    return f"--{field[0].replace('_', '-')}"
