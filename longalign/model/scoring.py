"""What an alignment is worth: letter scores, gap costs, and the range check that keeps 32 bits exact."""

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

#: A boundary value below this is minus infinity, lowered by a gap or two or raised by a match; no finite
#: value lies here.
UNREACHABLE = NEG_INF + (1 << 26)

#: Letter scores and gap costs are at most this in size.
LARGEST_PARAMETER = 1 << 24

#: So many letters of one sequence cannot be aligned: kernels count rows and columns in 32 bits, their sum
#: included, and start states in 30 (see `boundary.start_code`).
TOO_MANY_LETTERS = 1 << 30

_MATCH, _MISMATCH = 1, -3

#: The parameters by name: what a matrix replaces, and what gaps cost.
PAIR_FIELDS, COST_FIELDS = ("match", "mismatch"), ("gap_open", "gap_extend")

_HIGHEST = (1 << 31) - (1 << 27)
_LOWEST = NEG_INF + (1 << 27)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Letter scores, and affine gaps: a gap of length k costs gap_open + k * gap_extend.

    Tools that charge "first base O, each further base E" map to gap_open = O - E, gap_extend = E.
    gap_open = 0 gives linear gaps.

    Without a `matrix`, sequences are DNA: equal letters score `match`, others `mismatch`, and so does an
    ambiguous letter against every letter, itself included. With one, it says what letters there are and
    what each pair scores; `match` and `mismatch` have no meaning then.

    Raises InputError if the numbers make no sense, or if there is a match or a mismatch besides a matrix.
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
        # Were they free, scorings that mean the same would differ.
        if (self.match, self.mismatch) != (_MATCH, _MISMATCH):
            raise InputError("scoring: match and mismatch have no meaning beside a matrix: leave them out")
        size = max(matrix.highest, -matrix.lowest)
        if size > LARGEST_PARAMETER:
            raise InputError(
                f"scoring: matrix {matrix.name} has a score of size {size}, larger than {LARGEST_PARAMETER}"
            )

    @property
    def highest(self) -> int:
        """The most that a pair of letters scores; it is positive."""
        return self.match if self.matrix is None else self.matrix.highest

    @property
    def lowest(self) -> int:
        """The least that a pair of letters scores."""
        return self.mismatch if self.matrix is None else self.matrix.lowest

    @property
    def difference_bytes(self) -> int:
        """Bytes of integers that hold how far apart H is at two neighbours of a row or column, and how far a
        gap state is below H: 1, 2 or 4.

        H falls by no more than a gap of one letter costs. It rises by no more than that and the highest
        score: a path to the right neighbour crosses the column before it in this row, or in the row above,
        which is worth no more than H here and such a gap, and gains the score; or further up, and then it
        pays for a gap as well. E is no lower than H above less such a gap, so two gaps and the score below H.
        """
        furthest = 2 * (self.gap_open + self.gap_extend) + self.highest
        return next(size for size in (1, 2, 4) if furthest < 1 << (8 * size - 1))

    @property
    def alphabet(self) -> Alphabet:
        """What sequences are made of."""
        return DNA if self.matrix is None else self.matrix.alphabet

    @property
    def letters(self) -> int:
        """How many letters the matrix has; 0 where there is none."""
        return 0 if self.matrix is None else len(self.matrix.letters)

    @property
    def letter_scores(self) -> str:
        """What letter pairs score, in words."""
        if self.matrix is None:
            return f"match {self.match}, mismatch {self.mismatch}"
        return f"matrix {self.matrix}"

    @property
    def convention(self) -> str:
        """The gap convention in words, with its numbers: goes into every result and every store."""
        return f"a gap of length k costs {self.gap_open} + k*{self.gap_extend}"

    def check_range(self, query_length: int, target_length: int) -> None:
        """Refuse lengths at which a score, or a place, could leave the 32 bits that the kernels compute in.

        Raises InputError. Every value of the matrix lies between the cost of a path made of two gaps
        and `highest` times the shorter length.
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
        """The numbers that have a meaning, as `from_json` takes them."""
        costs = {name: getattr(self, name) for name in COST_FIELDS}
        if self.matrix is None:
            return {**{name: getattr(self, name) for name in PAIR_FIELDS}, **costs}
        matrix = {name: getattr(self.matrix, name) for name in ("name", "letters", "scores")}
        return {"matrix": matrix, **costs}

    @classmethod
    def from_json(cls, data: Any) -> Scoring:
        """The scoring that `to_json` was made of, also after a way through a file.

        Raises InputError, naming the field, for anything else.
        """
        fields = Fields(data, "scoring")
        has_matrix = fields.has("matrix")
        names = COST_FIELDS if has_matrix else (*PAIR_FIELDS, *COST_FIELDS)
        fields.only(*names, *(["matrix"] if has_matrix else []))
        numbers = {name: fields.whole(name, -LARGEST_PARAMETER, LARGEST_PARAMETER) for name in names}
        matrix = SubstitutionMatrix.from_json(fields.any("matrix")) if has_matrix else None
        return cls(**numbers, matrix=matrix)
