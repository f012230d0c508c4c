"""Letter scores, gap costs, and the range check that keeps 32-bit arithmetic exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longalign.errors import InputError
from longalign.model.alphabet import DNA, Alphabet
from longalign.model.json_fields import Fields
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.system.integers import as_whole

#: Stands for minus infinity on boundaries. One cell may lower it by alpha + beta before a finite
#: value replaces it; `LARGEST_PARAMETER` keeps that, and every finite value, inside 32 bits.
NEG_INF = -(1 << 31) + (1 << 27)

#: Every boundary value below this stands for minus infinity, lowered by a gap or two or raised by a match. No
#: finite value is as low.
UNREACHABLE = NEG_INF + (1 << 26)

#: The largest absolute value of a letter score or gap cost.
LARGEST_PARAMETER = 1 << 24

#: Sequences must have fewer letters than this: kernels count rows and columns in 32 bits, their sum
#: included, and start states in 30 (see `boundary.start_code`).
TOO_MANY_LETTERS = 1 << 30

_MATCH, _MISMATCH = 1, -3

#: Names of the parameters: those that a substitution matrix replaces, and the gap costs.
PAIR_FIELDS, COST_FIELDS = ("match", "mismatch"), ("gap_open", "gap_extend")

_HIGHEST = (1 << 31) - (1 << 27)
_LOWEST = NEG_INF + (1 << 27)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Letter scores and affine gap costs (Gotoh, J. Mol. Biol. 162:705, 1982). All numbers are integers.

    A gap of length k costs `gap_open` + k * `gap_extend`; both are at least 0. Tools that charge O for the
    first letter of a gap and E for each further one map to gap_open = O - E, gap_extend = E. gap_open = 0
    gives linear gaps.

    Without a `matrix`, sequences are DNA: equal letters score `match`, which is positive, and all other pairs
    `mismatch`, which is lower. An ambiguous letter is a mismatch against every letter, itself included. A
    substitution `matrix` defines the alphabet and the score of each pair; `match` and `mismatch` must then
    keep their defaults.

    Raises InputError if a number is not whole, out of these ranges, or larger than 2**24 in absolute value,
    or if `match` or `mismatch` is given besides a matrix.
    """

    match: int = _MATCH
    mismatch: int = _MISMATCH
    gap_open: int = 3
    gap_extend: int = 2
    matrix: SubstitutionMatrix | None = None

    def __post_init__(self) -> None:
        for name in (*PAIR_FIELDS, *COST_FIELDS):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, as_whole(value))
            except TypeError:
                raise InputError(f"scoring: {name} must be a whole number, not {value!r}") from None
        if self.matrix is None:
            self._check_pairs()
        else:
            self._check_matrix(self.matrix)
        for name in (*PAIR_FIELDS, *COST_FIELDS):
            value = getattr(self, name)
            if abs(value) > LARGEST_PARAMETER:
                raise InputError(f"scoring: {name} {value} is larger in size than {LARGEST_PARAMETER}")
        if self.gap_open < 0:
            raise InputError(f"scoring: gap_open is a cost and cannot be negative, not {self.gap_open}")
        if self.gap_extend < 0:
            raise InputError(f"scoring: gap_extend is a cost and cannot be negative, not {self.gap_extend}")

    def _check_pairs(self) -> None:
        if self.match <= 0:
            raise InputError(f"scoring: match must be positive, not {self.match}")
        if self.mismatch >= self.match:
            raise InputError(
                f"scoring: mismatch {self.mismatch} must be below match {self.match}, "
                "or letters that differ would score as well as letters that agree"
            )

    def _check_matrix(self, matrix: SubstitutionMatrix) -> None:
        if not isinstance(matrix, SubstitutionMatrix):
            raise InputError(f"scoring: matrix must be a SubstitutionMatrix, not {matrix!r}")
        # Otherwise scorings with the same meaning could compare as different.
        if (self.match, self.mismatch) != (_MATCH, _MISMATCH):
            raise InputError("scoring: match and mismatch have no meaning beside a matrix: leave them out")
        size = max(matrix.highest, -matrix.lowest)
        if size > LARGEST_PARAMETER:
            raise InputError(
                f"scoring: matrix {matrix.name} has a score of size {size}, larger than {LARGEST_PARAMETER}"
            )

    @property
    def highest(self) -> int:
        """The highest score of a pair of letters; it is positive."""
        return self.match if self.matrix is None else self.matrix.highest

    @property
    def lowest(self) -> int:
        """The lowest score of a pair of letters."""
        return self.mismatch if self.matrix is None else self.matrix.lowest

    @property
    def difference_bytes(self) -> int:
        """Width in bytes (1, 2 or 4) of signed integers that hold two kinds of differences: between H in
        neighbouring cells of a row or column, and between H and a gap state (E or F) of one cell.

        Let g be the cost of a gap of one letter and s the highest score. From a cell to its right neighbour,
        H falls by at most g, since a gap leads there. It rises by at most g + s: a path to the neighbour
        leaves the cell's column in the cell's row, or in the row above, where the value is at most H + g, and
        gains at most s; or it leaves further up and pays for a vertical gap as well. E is at least H of the
        cell above minus g, so it is at most 2g + s below H. The same holds for columns and for F.
        """
        furthest = 2 * (self.gap_open + self.gap_extend) + self.highest
        return next(size for size in (1, 2, 4) if furthest < 1 << (8 * size - 1))

    @property
    def alphabet(self) -> Alphabet:
        """The letters that sequences may have, with their codes."""
        return DNA if self.matrix is None else self.matrix.alphabet

    @property
    def letters(self) -> int:
        """Number of letters of the substitution matrix; 0 without one."""
        return 0 if self.matrix is None else len(self.matrix.letters)

    @property
    def letter_scores(self) -> str:
        """The letter scores in words."""
        if self.matrix is None:
            return f"match {self.match}, mismatch {self.mismatch}"
        return f"matrix {self.matrix}"

    @property
    def convention(self) -> str:
        """The gap costs as a sentence; every result and every store contains it."""
        return f"a gap of length k costs {self.gap_open} + k*{self.gap_extend}"

    def check_range(self, query_length: int, target_length: int) -> None:
        """Raise InputError if a score or a coordinate could leave the 32-bit range of the kernels.

        Every value of the DP matrix lies between minus the cost of a path of two gaps and `highest` times the
        shorter length.
        """
        longest = max(query_length, target_length)
        if longest >= TOO_MANY_LETTERS:
            raise InputError(
                f"a sequence of {longest:,} letters is too long: at most "
                f"{TOO_MANY_LETTERS - 1:,} can be aligned"
            )
        highest = self.highest * min(query_length, target_length)
        if highest > _HIGHEST:
            what = "match" if self.matrix is None else f"the highest score of {self.matrix.name},"
            raise InputError(
                f"scoring: {what} {self.highest} over {min(query_length, target_length)} letters could "
                f"score {highest}, beyond the 32-bit limit {_HIGHEST}: use smaller scores"
            )
        lowest = -2 * self.gap_open - self.gap_extend * (query_length + target_length)
        lowest += min(self.lowest, 0)
        if lowest < _LOWEST:
            raise InputError(
                f"scoring: gap costs {self.gap_open} + k*{self.gap_extend} over "
                f"{query_length} + {target_length} letters could score {lowest}, beyond the 32-bit "
                f"limit {_LOWEST}: use smaller scores"
            )

    def to_json(self) -> dict[str, Any]:
        """The parameters in use as JSON-ready values, the argument of `from_json`."""
        costs = {name: getattr(self, name) for name in COST_FIELDS}
        if self.matrix is None:
            return {**{name: getattr(self, name) for name in PAIR_FIELDS}, **costs}
        matrix = {name: getattr(self.matrix, name) for name in ("name", "letters", "scores")}
        return {"matrix": matrix, **costs}

    @classmethod
    def from_json(cls, data: Any) -> Scoring:
        """The inverse of `to_json`. Raises InputError, naming the field, for any other value."""
        fields = Fields(data, "scoring")
        has_matrix = fields.has("matrix")
        names = COST_FIELDS if has_matrix else (*PAIR_FIELDS, *COST_FIELDS)
        fields.only(*names, *(["matrix"] if has_matrix else []))
        numbers = {name: fields.whole(name, -LARGEST_PARAMETER, LARGEST_PARAMETER) for name in names}
        matrix = SubstitutionMatrix.from_json(fields.any("matrix")) if has_matrix else None
        return cls(**numbers, matrix=matrix)
