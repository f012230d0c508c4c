"""How a kernel scores a letter pair: one strategy for each kind of numbers and scores.

A strategy (`LetterScores`) consists of these device functions:

- `column(code, match, mismatch)` and `background(code, mismatch)` return the words (int32) that a lane keeps
  for a target letter.
- `row(code, above)` returns the *row letter*, an int32 that represents the query letter of a row. `above` is
  the code of the letter a step above, where the high half of a packed number is at work.
- `plain_row(code, above)` returns the same faster, if neither letter is ambiguous.
- `blank(row, low, high)` returns a row letter without a letter in the low half (if `low`) or in the high half
  (if `high`). Such a half scores at most 0 with any target letter.
- `read(profile, row, lane_at)` loads what a lane needs for a row letter, a step before it sweeps the row.
- `begin(letters, row)` prepares the lane for a row, before its first column.
- `add(total, letters, k, columns, row, match, mismatch)` returns `total` plus the score in column k.
  `letters` holds the words of the lane: `columns` of them for the low half or for `column`, then those of the
  high half or of `background`. With a profile they are the words that `read` has loaded.
- `add_any` is `add` for all query letters, if `add` is exact for A, C, G and T only.

**Bytes.** A target letter has four scores, against A, C, G and T, and none against an ambiguous query letter.
Such a query letter, which equals no target letter (see `Rectangle`), scores the lower of the scores against A
and against C. This is its mismatch, because a target letter equals at most one of A and C.

**Profile.** With a substitution matrix, a lane keeps no target letters. `fill` writes a profile of the strip
(see `strip_profile`) to shared memory, and each row is read from the profile. No letter is ambiguous then.

**Beyond the target.** Kernels add alpha + beta to every score. Columns beyond the target have the code
NO_LETTER, for which this sum is 0 with any letter. A letter pair there is thus worth no more than opening a
gap; `kernels.sweep` says why the best cell never lies in such columns.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from longalign.backends.cuda.config import KernelConfig, LetterScoring, NumberFormat
from longalign.backends.cuda.device import strip_profile
from longalign.backends.cuda.device.ptx import add_pairs, dot_bytes, minimum_signed_pairs, permute_bytes
from longalign.backends.cuda.numba_api import cuda
from longalign.model.scoring import Scoring

#: Codes below this are A, C, G and T. Codes from this on are ambiguous, unless there is a matrix.
UNAMBIGUOUS = 4

#: Words with a one in each byte, and in the bytes of A and C.
_ALL_HOT, _TWO_HOT = 0x01010101, 0x00000101

#: A code that no letter has. It stands for columns beyond the target.
NO_LETTER = 255


@cuda.jit(device=True)
def _nothing(letters, row):
    pass


@dataclass(frozen=True, slots=True)
class LetterScores:
    """The device functions of one strategy, for one kernel; None for those that it does not have."""

    #: The number of words (int32) that a lane keeps.
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
    """The score of a target letter against all other letters."""
    return np.int32(0 if code == NO_LETTER else mismatch)


@cuda.jit(device=True)
def _add_compared(total, letters, k, columns, row, match, mismatch):
    return np.int32(total + (match if letters[k] == row else letters[columns + k]))


@cuda.jit(device=True)
def _column_bytes(code, match, mismatch):
    """The scores of a target letter against A, C, G and T, as four signed bytes, A in the lowest.

    An ambiguous letter matches none of them.
    """
    if code == NO_LETTER:
        return np.int32(0)
    scores = np.int64(mismatch & 255) * np.int64(_ALL_HOT)
    if code < UNAMBIGUOUS:
        scores ^= np.int64((match ^ mismatch) & 255) << np.int64(8 * code)
    return np.int32(scores)


@cuda.jit(device=True)
def _one_hot(code, above):
    """A word with a one in byte `code`, or in the bytes of A and C if the letter is ambiguous."""
    return np.int32(np.int64(1) << np.int64(8 * code) if code < UNAMBIGUOUS else np.int64(_TWO_HOT))


@cuda.jit(device=True)
def _add_dot(total, letters, k, columns, row, match, mismatch):
    """This is one instruction, and it uses another pipe than the rest of the cell."""
    return dot_bytes(letters[k], row, total)


@cuda.jit(device=True)
def _add_dot_any(total, letters, k, columns, row, match, mismatch):
    first = np.int32(row & -row)
    second = np.int32(row ^ first) if row != first else first
    return min(dot_bytes(letters[k], first, total), dot_bytes(letters[k], second, total))


@cuda.jit(device=True)
def _selecting(low, high):
    """A selector of `permute_bytes` that picks byte `low` of its first word and byte `high` of its second.

    Each byte is extended by its sign to 16 bits.
    """
    return np.int32(np.int32(low | high << 8) * 0x11 + 0xC480)


@cuda.jit(device=True)
def _selector(code, above):
    """Two selectors, each 16 bits, that pick the scores of a row from the words of two target letters.

    They pick byte `code` for the low half and byte `above` for the high half. For an ambiguous letter, one
    selector picks byte A and the other byte C. For other letters both pick the same byte.
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
    """The same as `_selector`, if neither letter is ambiguous."""
    return np.int32(_selecting(np.int32(code), np.int32(above)) * 0x10001)


@cuda.jit(device=True)
def _without(selector, low, high):
    """The selectors without a letter in a half: there they pick the sign of the score, twice.

    A score plus alpha + beta thus becomes 0, or -1 if it is negative.
    """
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
    """The score is byte k % 4 of word k // 4 of each half, extended to 16 bits."""
    words = (columns + 3) // 4
    selector = np.int32(0xC480 + k % 4 * 0x1111)
    return add_pairs(total, permute_bytes(letters[k // 4], letters[words + k // 4], selector))


#: The strategies for each kind of numbers.
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
    layout = strip_profile.ProfileLayout.of(config)
    add = _add_bytes if config.numbers == "packed" else _add_word
    return LetterScores(
        layout.words * layout.halves, strip_profile.make_row_offset(config), add,
        read=strip_profile.make_read(config), begin=strip_profile.make_spread(config),
        fill=strip_profile.make_fill(config),
    )  # fmt: skip


def has_blank_rows(config: KernelConfig) -> bool:
    """Whether parts may sweep on above and below their rectangle, through rows without letters.

    Such rows are harmless in local mode only; see `kernels.sweep`.
    """
    return config.local and letter_scores(config).blank is not None


def fits_bytes(scoring: Scoring) -> bool:
    """Whether 8 bits hold every score plus alpha + beta, which the kernel adds to it."""
    opening = scoring.opening
    return scoring.lowest + opening >= -128 and scoring.highest + opening <= 127


def letter_scoring_for(scoring: Scoring) -> LetterScoring:
    """The fastest strategy that is exact for a scoring."""
    if scoring.table is not None:
        return "profile"
    return "bytes" if fits_bytes(scoring) else "compare"
