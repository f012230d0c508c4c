"""Karlin-Altschul parameters of alignments with gaps, as NCBI BLAST uses them.

The values are those of `blast_stat.c` in the NCBI C++ toolkit (public domain). They were estimated by
simulation: Altschul and Gish, Methods Enzymol. 266:460, 1996; Altschul, Bundschuh, Olsen and Hwa, Nucleic
Acids Res. 29:351, 2001. A gap of k letters costs existence + k * extension, so existence is `gap_open` and
extension is `gap_extend` of a `Scoring`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Existence and extension costs of a gap. An extension cost may be half of a whole number.
Gap = tuple[float, float]

#: Lambda, K and H.
Values = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Table:
    """The published parameters for some letter scores, by gap costs.

    If both gap costs are at least those in `beyond`, the parameters of alignments without gaps hold. With
    `even`, scores are to be rounded down to even numbers.
    """

    rows: Mapping[Gap, Values]
    beyond: Gap | None = None
    even: bool = False


def table_of_nucleotides(match: int, mismatch: int) -> Table | None:
    """The table for match and mismatch scores without a common divisor, if there is one."""
    if (match, mismatch) not in _NUCLEOTIDES:
        return None
    beyond, even, text = _NUCLEOTIDES[match, mismatch]
    rows = _rows(text)
    if (0, 0) in rows:  # linear gaps, as in megablast: each letter costs match / 2 - mismatch
        rows[0, match / 2 - mismatch] = rows.pop((0, 0))
    return Table(rows, beyond, even)


def _rows(text: str) -> dict[Gap, Values]:
    """The rows of a table: existence, extension, lambda, K, H."""
    numbers = [tuple(map(float, row.split())) for row in text.split(",")]
    return {(existence, extension): (lam, k, h) for existence, extension, lam, k, h in numbers}


#: The tables for substitution matrices, each with lambda, K and H of alignments without gaps.
TABLES_OF_MATRICES: tuple[tuple[Values, Table], ...] = tuple(
    (values, Table(_rows(text)))
    for values, text in (
        (  # BLOSUM45
            (0.2291, 0.0924, 0.2514),
            "13 3 .207 .049 .14, 12 3 .199 .039 .11, 11 3 .190 .031 .095, 10 3 .179 .023 .075, "
            "16 2 .210 .051 .14, 15 2 .203 .041 .12, 14 2 .195 .032 .10, 13 2 .185 .024 .084, "
            "12 2 .171 .016 .061, 19 1 .205 .040 .11, 18 1 .198 .032 .10, 17 1 .189 .024 .079, "
            "16 1 .176 .016 .063",
        ),
        (  # BLOSUM50
            (0.2318, 0.112, 0.3362),
            "13 3 .212 .063 .19, 12 3 .206 .055 .17, 11 3 .197 .042 .14, 10 3 .186 .031 .11, "
            "9 3 .172 .022 .082, 16 2 .215 .066 .20, 15 2 .210 .058 .17, 14 2 .202 .045 .14, "
            "13 2 .193 .035 .12, 12 2 .181 .025 .095, 19 1 .212 .057 .18, 18 1 .207 .050 .15, "
            "17 1 .198 .037 .12, 16 1 .186 .025 .10, 15 1 .171 .015 .063",
        ),
        (  # BLOSUM62
            (0.3176, 0.134, 0.4012),
            "11 2 .297 .082 .27, 10 2 .291 .075 .23, 9 2 .279 .058 .19, 8 2 .264 .045 .15, "
            "7 2 .239 .027 .10, 6 2 .201 .012 .061, 13 1 .292 .071 .23, 12 1 .283 .059 .19, "
            "11 1 .267 .041 .14, 10 1 .243 .024 .10, 9 1 .206 .010 .052",
        ),
        (  # BLOSUM80
            (0.3430, 0.177, 0.6568),
            "25 2 .342 .17 .66, 13 2 .336 .15 .57, 9 2 .319 .11 .42, 8 2 .308 .090 .35, "
            "7 2 .293 .070 .27, 6 2 .268 .045 .19, 11 1 .314 .095 .35, 10 1 .299 .071 .27, "
            "9 1 .279 .048 .20",
        ),
        (  # BLOSUM90
            (0.3346, 0.190, 0.7547),
            "9 2 .310 .12 .46, 8 2 .300 .099 .39, 7 2 .283 .072 .30, 6 2 .259 .048 .22, "
            "11 1 .302 .093 .39, 10 1 .290 .075 .28, 9 1 .265 .044 .20",
        ),
        (  # PAM250
            (0.2252, 0.0868, 0.2223),
            "15 3 .205 .049 .13, 14 3 .200 .043 .12, 13 3 .194 .036 .10, 12 3 .186 .029 .085, "
            "11 3 .174 .020 .070, 17 2 .204 .047 .12, 16 2 .198 .038 .11, 15 2 .191 .031 .087, "
            "14 2 .182 .024 .073, 13 2 .171 .017 .059, 21 1 .205 .045 .11, 20 1 .199 .037 .10, "
            "19 1 .192 .029 .083, 18 1 .183 .021 .070, 17 1 .171 .014 .052",
        ),
        (  # PAM30
            (0.3400, 0.283, 1.754),
            "7 2 .305 .15 .87, 6 2 .287 .11 .68, 5 2 .264 .079 .45, 10 1 .309 .15 .88, 9 1 .294 .11 .61, "
            "8 1 .270 .072 .40",
        ),
        (  # PAM70
            (0.3345, 0.229, 1.029),
            "8 2 .301 .12 .54, 7 2 .286 .093 .43, 6 2 .264 .064 .29, 11 1 .305 .12 .52, "
            "10 1 .291 .091 .41, 9 1 .270 .060 .28",
        ),
    )
)

#: By match and mismatch: `beyond`, `even`, and the rows.
_NUCLEOTIDES: dict[tuple[int, int], tuple[Gap, bool, str]] = {
    (1, -5): ((3, 3), False, "0 0 1.39 .747 1.38, 3 3 1.39 .747 1.38"),
    (1, -4): (
        (2, 2),
        False,
        "0 0 1.383 .738 1.36, 1 2 1.36 .67 1.2, 0 2 1.26 .43 .90, 2 1 1.35 .61 1.1, 1 1 1.22 .35 .72",
    ),
    (2, -7): (
        (4, 4),
        True,
        "0 0 .69 .73 1.34, 2 4 .68 .67 1.2, 0 4 .63 .43 .90, 4 2 .675 .62 1.1, 2 2 .61 .35 .72",
    ),
    (1, -3): (
        (2, 2),
        False,
        "0 0 1.374 .711 1.31, 2 2 1.37 .70 1.2, 1 2 1.35 .64 1.1, 0 2 1.25 .42 .83, 2 1 1.34 .60 1.1, "
        "1 1 1.21 .34 .71",
    ),
    (2, -5): (
        (4, 4),
        True,
        "0 0 .675 .65 1.1, 2 4 .67 .59 1.1, 0 4 .62 .39 .78, 4 2 .67 .61 1.0, 2 2 .56 .32 .59",
    ),
    (1, -2): (
        (2, 2),
        False,
        "0 0 1.28 .46 .85, 2 2 1.33 .62 1.1, 1 2 1.30 .52 .93, 0 2 1.19 .34 .66, 3 1 1.32 .57 1.0, "
        "2 1 1.29 .49 .92, 1 1 1.14 .26 .52",
    ),
    (2, -3): (
        (6, 4),
        True,
        "0 0 .55 .21 .46, 4 4 .63 .42 .84, 2 4 .615 .37 .72, 0 4 .55 .21 .46, 3 3 .615 .37 .68, "
        "6 2 .63 .42 .84, 5 2 .625 .41 .78, 4 2 .61 .35 .68, 2 2 .515 .14 .33",
    ),
    (3, -4): (
        (6, 3),
        True,
        "6 3 .389 .25 .56, 5 3 .375 .21 .47, 4 3 .351 .14 .35, 6 2 .362 .16 .45, 5 2 .330 .092 .28, "
        "4 2 .281 .046 .16",
    ),
    (4, -5): (
        (12, 8),
        False,
        "0 0 .22 .061 .22, 6 5 .28 .21 .47, 5 5 .27 .17 .39, 4 5 .25 .10 .31, 3 5 .23 .065 .25",
    ),
    (1, -1): (
        (4, 2),
        False,
        "3 2 1.09 .31 .55, 2 2 1.07 .27 .49, 1 2 1.02 .21 .36, 0 2 .80 .064 .17, 4 1 1.08 .28 .54, "
        "3 1 1.06 .25 .46, 2 1 .99 .17 .30",
    ),
    (3, -2): ((5, 5), False, "5 5 .208 .030 .072"),
    (5, -4): ((25, 10), False, "10 6 .163 .068 .16, 8 6 .146 .039 .11"),
}
