"""How a kernel scores a letter pair: strategies with the same device functions.

- `column(code, match, mismatch)`: what a lane keeps of a target letter, and `background` what else, if
  anything;
- `row(code, above)`: what stands for the query letter of a row and the one above on which the other half of a
  packed number is at work, a step behind;
- `plain_row`, if there is `add_any` and anything to gain: the same where no letter is ambiguous;
- `blank(row, low, high)`, if there is such a thing: what stands for the letter of a row, but without one in
  the low half, or in the high one, where it scores no more than 0 with any target letter;
- `read(profile, row, lane_at)`: what a lane makes of that, a step before it is at the row;
- `begin(letters, row)`: what it does with that at the row, before its first column;
- `add(total, letters, k, columns, row, match, mismatch)`: `total` plus the score in column k, given what is
  kept of the target letters, those of the other half's columns after the first `columns`;
- `add_any`, if `add` is exact for query letters A C G T only: the same for all.

Letters come with four scores, against A C G T, and an ambiguous query letter has none of its own. It is worth
the lower of those against A and against C: a target letter equals one of these at most.

With a matrix a lane keeps nothing of target letters: `fill` writes a profile of the strip (see
`strip_profile`) to shared memory, and of that a row is read. There are no ambiguous letters then.

A target goes on with the code NO_LETTER beyond its end, which scores 0 with any other. As the kernel adds
alpha + beta to every score, a letter pair there is worth no more than opening a gap: see `kernels.sweep` for
why that keeps such columns from being best.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from longalign.backends.base import SweepJob
from longalign.backends.cuda.config import KernelConfig, LetterScoring, NumberFormat
from longalign.backends.cuda.device import strip_profile
from longalign.backends.cuda.device.ptx import add_pairs, dot_bytes, minimum_signed_pairs, permute_bytes
from longalign.backends.cuda.numba_api import cuda
from longalign.model.alphabet import Codes
from longalign.model.scoring import Scoring

UNAMBIGUOUS = 4

_ALL_HOT, _TWO_HOT = 0x01010101, 0x00000101

#: Letters that are looked at together.
_PIECE = 1 << 16

#: A code that stands for no letter, and that no letter has.
NO_LETTER = 255


@cuda.jit(device=True)
def _nothing(letters, row):
    pass


@dataclass(frozen=True, slots=True)
class LetterScores:
    """The device functions of one strategy, for one kernel; None where it has none."""

    #: Words that a lane keeps.
    words: int
    row: Any
    add: Any
    column: Any = None
    background: Any = None
    add_any: Any = None
    plain_row: Any = None
    blank: Any = None
    read: Any = None
    begin: Any = _nothing
    fill: Any = None


@cuda.jit(device=True)
def _column_code(code, match, mismatch):
    return np.int32(code)


@cuda.jit(device=True)
def _row_code(code, above):
    return np.int32(code)


@cuda.jit(device=True)
def _mismatch_of(code, mismatch):
    """What a target letter scores against all others."""
    return np.int32(0 if code == NO_LETTER else mismatch)


@cuda.jit(device=True)
def _add_compared(total, letters, k, columns, row, match, mismatch):
    return np.int32(total + (match if letters[k] == row else letters[columns + k]))


@cuda.jit(device=True)
def _column_bytes(code, match, mismatch):
    """The scores against A, C, G, T as four signed bytes; an ambiguous letter matches none."""
    if code == NO_LETTER:
        return np.int32(0)
    scores = np.int64(mismatch & 255) * np.int64(_ALL_HOT)
    if code < UNAMBIGUOUS:
        scores ^= np.int64((match ^ mismatch) & 255) << np.int64(8 * code)
    return np.int32(scores)


@cuda.jit(device=True)
def _one_hot(code, above):
    """A one in byte `code`, or in two bytes if ambiguous."""
    return np.int32(np.int64(1) << np.int64(8 * code) if code < UNAMBIGUOUS else np.int64(_TWO_HOT))


@cuda.jit(device=True)
def _add_dot(total, letters, k, columns, row, match, mismatch):
    """One instruction, outside the pipe that the rest of a cell keeps busy."""
    return dot_bytes(letters[k], row, total)


@cuda.jit(device=True)
def _add_dot_any(total, letters, k, columns, row, match, mismatch):
    first = np.int32(row & -row)
    second = np.int32(row ^ first) if row != first else first
    return min(dot_bytes(letters[k], first, total), dot_bytes(letters[k], second, total))


@cuda.jit(device=True)
def _selecting(low, high):
    """Nibbles that pick byte `low` of one word and byte `high` of another, each followed by its sign."""
    return np.int32(np.int32(low | high << 8) * 0x11 + 0xC480)


@cuda.jit(device=True)
def _selector(code, above):
    """Nibbles that pick byte `code` of the low half's column and byte `above` of the high half's, extended.

    An ambiguous letter picks two, one in the lower 16 bits and one in the upper; others the same in both.
    """
    low, low_too = np.int32(code), np.int32(code)
    high, high_too = np.int32(above), np.int32(above)
    if code >= UNAMBIGUOUS:
        low, low_too = np.int32(0), np.int32(1)
    if above >= UNAMBIGUOUS:
        high, high_too = np.int32(0), np.int32(1)
    return np.int32(_selecting(low, high) | _selecting(low_too, high_too) << 16)


@cuda.jit(device=True)
def _plain_selector(code, above):
    """The same where neither is ambiguous."""
    return np.int32(_selecting(np.int32(code), np.int32(above)) * 0x10001)


@cuda.jit(device=True)
def _without(selector, low, high):
    """Nibbles that pick twice the sign of what they picked: of a score and a cost, it is 0, or -1."""
    return np.int32(selector | (0x00880088 if low else 0) | (-0x77FF7800 if high else 0))


@cuda.jit(device=True)
def _add_selected(total, letters, k, columns, row, match, mismatch):
    return add_pairs(total, permute_bytes(letters[k], letters[columns + k], row))


@cuda.jit(device=True)
def _add_selected_any(total, letters, k, columns, row, match, mismatch):
    first = permute_bytes(letters[k], letters[columns + k], row)
    second = permute_bytes(letters[k], letters[columns + k], np.int32(row >> 16))
    return add_pairs(total, minimum_signed_pairs(first, second))


@cuda.jit(device=True)
def _add_word(total, letters, k, columns, row, match, mismatch):
    return np.int32(total + letters[k])


@cuda.jit(device=True)
def _add_bytes(total, letters, k, columns, row, match, mismatch):
    """Byte k % 4 of a low half's word and of a high half's, extended."""
    words = (columns + 3) // 4
    selector = np.int32(0xC480 + k % 4 * 0x1111)
    return add_pairs(total, permute_bytes(letters[k // 4], letters[words + k // 4], selector))


#: The strategies that there are for each kind of numbers.
STRATEGIES: dict[NumberFormat, tuple[LetterScoring, ...]] = {
    "int32": ("compare", "bytes", "profile"),
    "packed": ("bytes", "profile"),
}


@cache
def letter_scores(config: KernelConfig) -> LetterScores:
    """The strategy of a kernel."""
    columns = config.columns
    match config.numbers, config.letter_scoring:
        case "int32", "compare":
            return LetterScores(2 * columns, _row_code, _add_compared, _column_code, _mismatch_of)
        case "int32", "bytes":
            return LetterScores(columns, _one_hot, _add_dot, _column_bytes, add_any=_add_dot_any)
        case "packed", "bytes":
            return LetterScores(
                2 * columns, _selector, _add_selected, _column_bytes, add_any=_add_selected_any,
                plain_row=_plain_selector, blank=_without,
            )  # fmt: skip
    where, add = (
        strip_profile.ProfileLayout.of(config),
        _add_bytes if config.numbers == "packed" else _add_word,
    )
    return LetterScores(
        where.words * where.halves, strip_profile.make_row_offset(config), add,
        read=strip_profile.make_read(config), begin=strip_profile.make_spread(config),
        fill=strip_profile.make_fill(config),
    )  # fmt: skip


def has_blank_rows(config: KernelConfig) -> bool:
    """Whether parts may sweep on above and below their rectangle, through rows without letters; see
    `kernels.sweep`.

    Only in local mode does no such row come to anything.
    """
    return config.local and letter_scores(config).blank is not None


def fits_bytes(scoring: Scoring) -> bool:
    """Whether 8 bits hold every score and the cost of a gap's first letter, which the kernel adds."""
    opening = scoring.gap_open + scoring.gap_extend
    return scoring.lowest + opening >= -128 and scoring.highest + opening <= 127


def usual_letter_scoring(scoring: Scoring) -> LetterScoring:
    """The fastest strategy that is exact for letters that are not ambiguous: bytes hold scores of 8 bits."""
    if scoring.matrix is not None:
        return "profile"
    return "bytes" if fits_bytes(scoring) else "compare"


def letter_scoring_for(job: SweepJob) -> LetterScoring:
    """The fastest strategy that is exact for a rectangle.

    Where it is bytes, letters beyond A C G T must match nothing.
    """
    letters = usual_letter_scoring(job.scoring)
    if letters != "bytes":
        return letters
    if job.query.max() < UNAMBIGUOUS or job.target.max() < UNAMBIGUOUS:
        return "bytes"
    return "compare" if _ambiguous(job.query) & _ambiguous(job.target) else "bytes"


def _ambiguous(codes: Codes) -> set[int]:
    """The codes beyond A C G T that there are; most pieces of a sequence have none."""
    pieces = (codes[start : start + _PIECE] for start in range(0, len(codes), _PIECE))
    counted = (np.bincount(piece)[UNAMBIGUOUS:] for piece in pieces if piece.max() >= UNAMBIGUOUS)
    return {int(code) for counts in counted for code in np.flatnonzero(counts)}
