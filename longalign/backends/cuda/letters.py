"""How a kernel scores a letter pair: two interchangeable strategies with the same four device functions.

- `column(code, ...)`: what a lane keeps of a target letter;
- `row(code)`: what is handed through the warp for a query letter;
- `background(mismatch)`: a number that all letters share;
- `add(total, column, row, ...)`: `total` plus the score of the pair.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.config import Letters
from longalign.backends.cuda.ptx import permute_bytes
from longalign.scoring import Scoring

_UNAMBIGUOUS = 4


@dataclass(frozen=True, slots=True)
class LetterScores:
    """The device functions of one strategy."""

    column: Any
    row: Any
    background: Any
    add: Any


@cuda.jit(device=True)
def _same(code):
    return np.int32(code)


@cuda.jit(device=True)
def _column_code(code, match, mismatch):
    return np.int32(code)


@cuda.jit(device=True)
def _add_compared(total, column, row, background, match, mismatch):
    return np.int32(total + (match if column == row else mismatch))


@cuda.jit(device=True)
def _four_times(score):
    return np.int32(np.int64(score & 255) * np.int64(0x01010101))


@cuda.jit(device=True)
def _column_bytes(code, match, mismatch):
    """The scores against A, C, G, T as four signed bytes; an ambiguous letter matches none."""
    scores = np.int64(mismatch & 255) * np.int64(0x01010101)
    if code < _UNAMBIGUOUS:
        scores ^= np.int64((match ^ mismatch) & 255) << np.int64(8 * code)
    return np.int32(scores)


@cuda.jit(device=True)
def _byte_selector(code):
    """Byte `code` of a column's scores, sign-extended; byte 4, of the background, if ambiguous."""
    byte = np.int32(min(code, _UNAMBIGUOUS))
    return np.int32(byte + (byte + 8) * 0x1110)


@cuda.jit(device=True)
def _add_selected(total, column, row, background, match, mismatch):
    return np.int32(total + permute_bytes(column, background, row))


LETTER_SCORES: dict[Letters, LetterScores] = {
    "compare": LetterScores(_column_code, _same, _same, _add_compared),
    "bytes": LetterScores(_column_bytes, _byte_selector, _four_times, _add_selected),
}


def bytes_suffice(scoring: Scoring, query_codes: set[int], target_codes: set[int]) -> bool:
    """Whether "bytes" can score this: shifted scores of 8 bits, and no equal letters beyond A, C, G, T.

    The kernel folds the cost of the first gap letter into the scores (see `kernel`).
    """
    opening = scoring.gap_open + scoring.gap_extend
    fits = scoring.mismatch + opening >= -128 and scoring.match + opening <= 127
    return fits and all(code < _UNAMBIGUOUS for code in query_codes & target_codes)
