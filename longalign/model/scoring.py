"""Letter scores, gap costs, and the range check that keeps 32-bit arithmetic exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

from longalign.errors import InputError
from longalign.model import pair_table
from longalign.model.alphabet import DNA, Alphabet, is_nucleotides, nucleotides, nucleotides_told_apart
from longalign.model.json_fields import Fields, shown
from longalign.model.pair_table import PairTable
from longalign.model.presets import PRESETS
from longalign.model.substitution_matrix import LARGEST_ALPHABET, SubstitutionMatrix
from longalign.system.integers import as_whole
from longalign.system.rationals import Number, as_number, common_denominator, spell

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

_MATCH, _MISMATCH, _GAP_OPEN, _GAP_EXTEND = 1, -3, 3, 2

#: Names of the parameters: those that a substitution matrix replaces, the gap costs, and the gap costs in the
#: other convention.
PAIR_FIELDS, COST_FIELDS, FIRST_FIELDS = (
    ("match", "mismatch"),
    ("gap_open", "gap_extend"),
    ("gap_first", "gap_next"),
)

#: How an IUPAC ambiguity letter scores, and a letter that a substitution matrix lacks.
Ambiguous = Literal["mismatch", "zero", "average"]
Unknown = Literal["error", "x", "mismatch"]

#: Names of the rules for letters, each with the rule that holds if none is given.
RULES: dict[str, Any] = {"ambiguous": "mismatch", "unknown": "error", "softmask": False}

_HIGHEST = (1 << 31) - (1 << 27)
_LOWEST = NEG_INF + (1 << 27)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Scoring:
    """Letter scores and affine gap costs (Gotoh, J. Mol. Biol. 162:705, 1982).

    Numbers are given as integers, Fractions or Decimals, never as floats. They are held as whole numbers in
    units of 1/`scale`, which is 1 if all of them are whole, so that all arithmetic is exact; `unscaled`
    converts back. Defaults are match 1, mismatch -3, gap_open 3, gap_extend 2.

    - `match`, `mismatch`: what equal letters score, at least 0, and all other pairs, which is lower.
      Sequences are nucleotides then. match 0 and mismatch -1 make the score minus a distance.
    - `matrix`: a substitution matrix instead. It defines the alphabet and the score of each pair. Gap costs
      must be given with it.
    - `gap_open`, `gap_extend`: a gap of length k costs `gap_open` + k * `gap_extend`; both are at least 0.
      gap_open = 0 gives linear gaps.
    - `gap_first`, `gap_next`: the same in the other convention, where the first letter of a gap costs
      `gap_first` and each further one `gap_next`: gap_open = gap_first - gap_next, gap_extend = gap_next.
    - `preset`: the name of a well-known scoring in `longalign.model.presets`; what else is given replaces
      parts of it. Its gap costs do not hold for another matrix.
    - `ambiguous`: what an IUPAC ambiguity letter scores without a matrix, with every letter, itself included:
      like a mismatch, 0 ("zero"), or the mean over all bases that both letters stand for ("average").
    - `unknown`: what becomes of a letter that the matrix lacks. It is refused ("error"), read as X ("x"), or
      scores the lowest score of the matrix with every letter, itself included ("mismatch").
    - `softmask`: a lower-case letter is read as N, or as X if the matrix is one of proteins.
    - `scale`: the numbers above but for `preset` are in units of 1/`scale`. This is for scorings that were
      scaled before, as the fields are, and so for `dataclasses.replace` too. Scores of `matrix` are never
      scaled.

    `table` holds the scores by codes, scaled, for whatever is more than match and mismatch; `alphabet` says
    which letters sequences may have. Raises InputError if a number is out of its range, or scaled larger than
    2**24 in absolute value, and for parameters that exclude one another.
    """

    match: int
    mismatch: int
    gap_open: int
    gap_extend: int
    matrix: SubstitutionMatrix | None
    ambiguous: Ambiguous
    unknown: Unknown
    softmask: bool
    scale: int
    table: PairTable | None = field(init=False, compare=False)
    alphabet: Alphabet = field(init=False, compare=False)

    def __init__(
        self,
        match: Any = None,
        mismatch: Any = None,
        gap_open: Any = None,
        gap_extend: Any = None,
        matrix: SubstitutionMatrix | None = None,
        *,
        gap_first: Any = None,
        gap_next: Any = None,
        preset: str | None = None,
        ambiguous: Ambiguous = "mismatch",
        unknown: Unknown = "error",
        softmask: bool = False,
        scale: int = 1,
    ) -> None:
        scale = _scale(scale)
        parameters = {"match": match, "mismatch": mismatch, "gap_open": gap_open, "gap_extend": gap_extend}
        parameters |= {"gap_first": gap_first, "gap_next": gap_next}
        given = {name: _number(name, value, scale) for name, value in parameters.items() if value is not None}
        if matrix is not None and not isinstance(matrix, SubstitutionMatrix):
            raise InputError(
                f"scoring: matrix must be a SubstitutionMatrix, not {type(matrix).__name__}: "
                'SubstitutionMatrix.load("BLOSUM62") reads one'
            )
        pair, matrix, costs = _with_preset(preset, given, matrix)
        _check_rules(ambiguous, unknown, softmask, matrix)
        if matrix is None:
            _check_pair(*pair)
            rows, alphabet = _nucleotide_rows(*pair, ambiguous, softmask)
        else:
            rows, alphabet = _matrix_rows(matrix, unknown, softmask)
        alpha, beta = _gap_costs(given, costs)
        of_pair = pair if matrix is None else ()
        of_rows = () if rows is None else pair_table.numbers_of(rows)
        scale = common_denominator([alpha, beta, *of_pair, *of_rows])
        usual: dict[str, Number] = {"match": _MATCH, "mismatch": _MISMATCH}  # without effect beside a matrix
        scaled = {"match": pair[0], "mismatch": pair[1]} if matrix is None else {}
        scaled |= {"gap_open": alpha, "gap_extend": beta}
        _check_sizes(scaled, matrix, scale)
        values: dict[str, Any] = {name: int(value * scale) for name, value in (usual | scaled).items()}
        values |= {"matrix": matrix, "ambiguous": ambiguous, "unknown": unknown, "softmask": softmask}
        values |= {"scale": scale, "alphabet": alphabet}
        values["table"] = None if rows is None else PairTable.scaled(rows, scale)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def unscaled(self, score: int) -> Number:
        """A score in the units that the user gave: an int if `scale` is 1, otherwise a Fraction."""
        return score if self.scale == 1 else Fraction(score, self.scale)

    def reaches(self, value: int, least: Number | None) -> bool:
        """Whether a scaled score is at least `least`, in the units that the user gave. None is no limit."""
        return least is None or self.unscaled(value) >= least

    def spell(self, score: int) -> str:
        """A scaled score as an exact text in the units that the user gave."""
        return spell(self.unscaled(score))

    @property
    def highest(self) -> int:
        """The highest score of a pair of letters, scaled; it is at least 0."""
        return self.match if self.table is None else self.table.highest

    @property
    def lowest(self) -> int:
        """The lowest score of a pair of letters, scaled."""
        return self.mismatch if self.table is None else self.table.lowest

    @property
    def opening(self) -> int:
        """alpha + beta, the scaled cost of a gap's first letter."""
        return self.gap_open + self.gap_extend

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
        furthest = 2 * self.opening + self.highest
        return next(size for size in (1, 2, 4) if furthest < 1 << (8 * size - 1))

    @property
    def letters(self) -> int:
        """Number of codes of `table`; 0 without one."""
        return 0 if self.table is None else len(self.table)

    @property
    def rules(self) -> dict[str, Any]:
        """Those of `ambiguous`, `unknown` and `softmask` that do not have their defaults."""
        return {name: getattr(self, name) for name, usual in RULES.items() if getattr(self, name) != usual}

    @property
    def letter_scores(self) -> str:
        """The letter scores in words."""
        scores = f"matrix {self.matrix}"
        if self.matrix is None:
            scores = f"match {self.spell(self.match)}, mismatch {self.spell(self.mismatch)}"
        rules = [name if value is True else f"{name} {value}" for name, value in self.rules.items()]
        return ", ".join([scores, *rules])

    @property
    def convention(self) -> str:
        """The gap costs as a sentence; every result and every store contains it."""
        return f"a gap of length k costs {self.spell(self.gap_open)} + k*{self.spell(self.gap_extend)}"

    def __repr__(self) -> str:
        matrix = {"matrix": self.matrix} if self.matrix else {}
        values: dict[str, object] = {**self.given(), **matrix, **self.rules}
        return f"Scoring({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def given(self) -> dict[str, Number]:
        """The numbers in use, but for those of a matrix, in the units that the user gave."""
        names = _names_of_numbers(self.matrix)
        return {name: as_number(Fraction(getattr(self, name), self.scale)) for name in names}

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
        units = f" in units of 1/{self.scale}" if self.scale > 1 else ""
        if highest > _HIGHEST:
            what = "match" if self.matrix is None else f"the highest score of {self.matrix.name},"
            raise InputError(
                f"scoring: {what} {self.highest} over {min(query_length, target_length)} letters could "
                f"score {highest}{units}, beyond the 32-bit limit {_HIGHEST}: use smaller scores"
            )
        lowest = -2 * self.gap_open - self.gap_extend * (query_length + target_length)
        lowest += min(self.lowest, 0)
        if lowest < _LOWEST:
            raise InputError(
                f"scoring: gap costs {self.gap_open} + k*{self.gap_extend} over "
                f"{query_length} + {target_length} letters could score {lowest}{units}, beyond the 32-bit "
                f"limit {_LOWEST}: use smaller scores"
            )

    def to_json(self) -> dict[str, Any]:
        """The parameters in use as JSON-ready values, the argument of `from_json`.

        All numbers are scaled. Stores know a scoring by these values, and have not always known rules and
        scale. These are therefore left out where they have their defaults.
        """
        added = self.rules | ({"scale": self.scale} if self.scale > 1 else {})
        numbers = {name: getattr(self, name) for name in _names_of_numbers(self.matrix)}
        if self.matrix is None:
            return {**numbers, **added}
        scores = [[int(score * self.scale) for score in row] for row in self.matrix.scores]
        matrix = {"name": self.matrix.name, "letters": self.matrix.letters, "scores": scores}
        return {"matrix": matrix, **numbers, **added}

    @classmethod
    def from_json(cls, data: Any) -> Scoring:
        """The inverse of `to_json`. Raises InputError, naming the field, for any other value."""
        fields = Fields(data, "scoring")
        has_matrix = fields.has("matrix")
        names = _names_of_numbers(has_matrix)
        fields.only(*names, *(["matrix"] if has_matrix else []), *RULES, "scale")
        scale = fields.whole("scale", 1, LARGEST_PARAMETER) if fields.has("scale") else 1
        matrix = SubstitutionMatrix.from_json(fields.any("matrix"), scale) if has_matrix else None
        numbers: dict[str, Any] = {
            name: fields.whole(name, -LARGEST_PARAMETER, LARGEST_PARAMETER) for name in names
        }
        rules = {name: _rule_of_json(fields, name) for name in RULES if fields.has(name)}
        scoring = cls(**numbers, matrix=matrix, **rules, scale=scale)
        if scoring.scale != scale:
            raise InputError(
                f"{fields.name('scale')}: must be {scoring.scale} for these numbers, not {scale}"
            )
        return scoring


def _names_of_numbers(has_matrix: object) -> tuple[str, ...]:
    return COST_FIELDS if has_matrix else (*PAIR_FIELDS, *COST_FIELDS)


def _rule_of_json(fields: Fields, name: str) -> Any:
    if name == "softmask":
        return fields.truth(name)
    return fields.choice(name, get_args(Ambiguous if name == "ambiguous" else Unknown))


def _scale(value: object) -> int:
    try:
        scale = as_whole(value)
    except TypeError:
        scale = 0
    if not 1 <= scale <= LARGEST_PARAMETER:
        raise InputError(
            f"scoring: scale must be a whole number from 1 to {LARGEST_PARAMETER}, not {shown(value)}"
        )
    return scale


def _number(name: str, value: object, scale: int) -> Number:
    try:
        return as_number(Fraction(as_number(value), scale))
    except TypeError:
        raise InputError(
            f"scoring: {name} must be a whole number, a Fraction or a Decimal, not {value!r}"
        ) from None


def _with_preset(
    name: str | None, given: dict[str, Number], matrix: SubstitutionMatrix | None
) -> tuple[tuple[Number, Number], SubstitutionMatrix | None, tuple[Number, Number] | None]:
    """Match and mismatch, the matrix if there is one, and the gap costs that hold where none are given."""
    pair: tuple[Number, Number] = (_MATCH, _MISMATCH)
    costs: tuple[Number, Number] | None = None if matrix else (_GAP_OPEN, _GAP_EXTEND)
    if name is not None:
        if not isinstance(name, str) or name.lower() not in PRESETS:
            raise InputError(f"scoring: there is no preset {name!r}: choose from {', '.join(PRESETS)}")
        preset = PRESETS[name.lower()]
        if matrix is None:  # the costs are on the scale of the preset's own scores
            costs = preset.gap_open, preset.gap_extend
        if preset.pair is not None:
            pair = preset.pair
        elif matrix is None and given.keys().isdisjoint(PAIR_FIELDS):
            matrix = SubstitutionMatrix.load(preset.matrix)
        elif matrix is None and not given.keys() >= {*PAIR_FIELDS}:
            raise InputError(
                f"scoring: match and mismatch replace the matrix of preset {name!r} together only"
            )
    asked = given.get("match", pair[0]), given.get("mismatch", pair[1])
    # A matrix with the default match and mismatch is allowed, because `dataclasses.replace` gives these.
    if matrix is not None and asked not in (pair, (_MATCH, _MISMATCH)):
        raise InputError("scoring: match and mismatch have no meaning beside a matrix: leave them out")
    return asked, matrix, costs


def _gap_costs(given: dict[str, Number], costs: tuple[Number, Number] | None) -> tuple[Number, Number]:
    """gap_open and gap_extend from either convention; `costs` are those of which a part may be given."""
    in_parts, by_letter = given.keys() & {*COST_FIELDS}, given.keys() & {*FIRST_FIELDS}
    if in_parts and by_letter:
        raise InputError(
            "scoring: gap_open and gap_extend are one convention, gap_first and gap_next another: "
            "they cannot be mixed"
        )
    if costs is None:
        if len(in_parts) < 2 and len(by_letter) < 2:
            raise InputError(
                "scoring: a substitution matrix needs gap_open and gap_extend as well (or gap_first and "
                "gap_next), on the scale of the matrix: for example 10 and 1 for BLOSUM62"
            )
        costs = 0, 0
    for name in (*COST_FIELDS, *FIRST_FIELDS):
        if given.get(name, 0) < 0:
            raise InputError(f"scoring: {name} is a cost and cannot be negative, not {spell(given[name])}")
    if not by_letter:
        return given.get("gap_open", costs[0]), given.get("gap_extend", costs[1])
    first, following = given.get("gap_first", costs[0] + costs[1]), given.get("gap_next", costs[1])
    if first < following:
        raise InputError(
            f"scoring: gap_first {spell(first)} must be at least gap_next {spell(following)}: the cost of a "
            "letter that opens a gap includes that of the letter"
        )
    return as_number(Fraction(first - following)), following


def _check_pair(match: Number, mismatch: Number) -> None:
    if match < 0:
        raise InputError(f"scoring: match cannot be negative, not {spell(match)}")
    if mismatch >= match:
        raise InputError(
            f"scoring: mismatch {spell(mismatch)} must be below match {spell(match)}, "
            "or letters that differ would score as well as letters that agree"
        )


def _check_rules(
    ambiguous: object, unknown: object, softmask: object, matrix: SubstitutionMatrix | None
) -> None:
    for name, value, choices in (
        ("ambiguous", ambiguous, get_args(Ambiguous)),
        ("unknown", unknown, get_args(Unknown)),
        ("softmask", softmask, (False, True)),
    ):
        if value not in choices or type(value) is not type(choices[0]):
            raise InputError(f"scoring: {name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    if matrix is None and unknown != "error":
        raise InputError(
            "scoring: unknown is for letters that a substitution matrix lacks: there is no matrix"
        )
    if matrix is not None and ambiguous != "mismatch":
        raise InputError(
            "scoring: ambiguous has no effect beside a matrix, which has scores for these letters itself"
        )


def _nucleotide_rows(
    match: Number, mismatch: Number, ambiguous: Ambiguous, softmask: bool
) -> tuple[pair_table.Rows | None, Alphabet]:
    """The scores by codes, or None where match and mismatch say all, and the alphabet with these codes."""
    masked = "N" * softmask
    if ambiguous == "average":
        return pair_table.with_averages(match, mismatch), nucleotides_told_apart(masked)
    rows = pair_table.with_zeros(match, mismatch) if ambiguous == "zero" else None
    return rows, nucleotides(masked) if masked else DNA


def _matrix_rows(
    matrix: SubstitutionMatrix, unknown: Unknown, softmask: bool
) -> tuple[pair_table.Rows, Alphabet]:
    """The scores by codes, and the alphabet that has these codes."""
    letters = matrix.letters
    masked = ("N" if is_nucleotides(letters) else "X") * softmask
    if unknown == "mismatch":
        if len(letters) + 2 > LARGEST_ALPHABET:
            raise InputError(
                f"scoring: matrix {matrix.name} has {len(letters)} letters; unknown letters that score as "
                f"mismatches need a matrix of at most {LARGEST_ALPHABET - 2}"
            )
        return pair_table.with_unknown(matrix.scores), Alphabet.with_unknown(matrix.name, letters, masked)
    for rule, letter in (("unknown 'x'", "X" * (unknown == "x")), ("softmask", masked)):
        if letter and letter not in letters and not (unknown == "x" and "X" in letters):
            raise InputError(
                f"scoring: {rule}: matrix {matrix.name} has no letter {letter}: unknown 'mismatch' lets it in"
            )
    if unknown == "x":
        masked = masked if masked in letters else "X"
        return matrix.scores, Alphabet.of_letters(matrix.name, letters, masked, "X")
    return matrix.scores, Alphabet.of_letters(matrix.name, letters, masked) if masked else matrix.alphabet


def _size(value: Number) -> Number:
    return value if value >= 0 else -value  # of `abs`, mypy does not know the type


def _check_sizes(numbers: dict[str, Number], matrix: SubstitutionMatrix | None, scale: int) -> None:
    """Raise InputError for a number that is too large when scaled, and for a scale that is too large."""
    if scale > LARGEST_PARAMETER:
        raise InputError(
            f"scoring: the numbers are multiples of 1/{spell(scale)}, and the smallest unit is "
            f"1/{LARGEST_PARAMETER}: round them to fewer decimals"
        )
    units = f" in units of 1/{scale}" if scale > 1 else ""
    for name, value in numbers.items():
        if _size(value) * scale > LARGEST_PARAMETER:
            raise InputError(
                f"scoring: {name} {spell(value)} is larger in size than {LARGEST_PARAMETER}{units}"
            )
    if matrix is not None:
        extremes: list[Number] = [matrix.highest, matrix.lowest]
        for score in extremes:
            if _size(score) * scale > LARGEST_PARAMETER:
                raise InputError(
                    f"scoring: matrix {matrix.name} has a score of size {spell(_size(score))}, larger than "
                    f"{LARGEST_PARAMETER}{units}"
                )
