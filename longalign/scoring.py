"""What an alignment is worth: letter scores, gap costs, and the range check that keeps 32 bits exact."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from longalign.errors import InputError

#: Stands for minus infinity on boundaries. One cell may lower it by alpha + beta before a finite
#: value replaces it; `LARGEST_PARAMETER` keeps that, and every finite value, inside 32 bits.
NEG_INF = -(1 << 31) + (1 << 27)

#: A boundary value below this is minus infinity, lowered by a gap or two or raised by a match; no finite
#: value lies here.
UNREACHABLE = NEG_INF + (1 << 26)

#: Letter scores and gap costs are at most this in size.
LARGEST_PARAMETER = 1 << 24

_HIGHEST = (1 << 31) - (1 << 27)
_LOWEST = NEG_INF + (1 << 27)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Match / mismatch scores with affine gaps: a gap of length k costs gap_open + k * gap_extend.

    Tools that charge "first base O, each further base E" map to gap_open = O - E, gap_extend = E.
    gap_open = 0 gives linear gaps. An ambiguous letter scores `mismatch` against every letter,
    itself included.

    Raises InputError if the numbers make no sense.
    """

    match: int = 1
    mismatch: int = -3
    gap_open: int = 3
    gap_extend: int = 2

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"scoring: {name} must be a whole number, not {value!r}")
            if abs(value) > LARGEST_PARAMETER:
                raise InputError(f"scoring: {name} {value} is larger in size than {LARGEST_PARAMETER}")
        if self.match <= 0:
            raise InputError(f"scoring: match must be positive, not {self.match}")
        if self.mismatch >= self.match:
            raise InputError(
                f"scoring: mismatch {self.mismatch} must be below match {self.match}, "
                "or letters that differ would score as well as letters that agree"
            )
        if self.gap_open < 0:
            raise InputError(f"scoring: gap_open is a cost and cannot be negative, not {self.gap_open}")
        if self.gap_extend < 0:
            raise InputError(f"scoring: gap_extend is a cost and cannot be negative, not {self.gap_extend}")

    @property
    def convention(self) -> str:
        """The gap convention in words, with its numbers: goes into every result and every store."""
        return f"a gap of length k costs {self.gap_open} + k*{self.gap_extend}"

    def check_range(self, query_length: int, target_length: int) -> None:
        """Refuse lengths at which a score could leave the 32 bits that the kernels compute in.

        Raises InputError. Every value of the matrix lies between the cost of a path made of two gaps
        and `match` times the shorter length.
        """
        highest = self.match * min(query_length, target_length)
        if highest > _HIGHEST:
            raise InputError(
                f"scoring: match {self.match} over {min(query_length, target_length)} letters could "
                f"score {highest}, beyond the 32-bit limit {_HIGHEST}: use smaller scores"
            )
        lowest = -2 * self.gap_open - self.gap_extend * (query_length + target_length)
        lowest += min(self.mismatch, 0)
        if lowest < _LOWEST:
            raise InputError(
                f"scoring: gap costs {self.gap_open} + k*{self.gap_extend} over "
                f"{query_length} + {target_length} letters could score {lowest}, beyond the 32-bit "
                f"limit {_LOWEST}: use smaller scores"
            )
