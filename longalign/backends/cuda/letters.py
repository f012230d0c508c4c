"""How a kernel scores a letter pair: interchangeable strategies with the same four device functions.

- `column(code, ...)`: what a lane keeps of a target letter;
- `row(code)`: what is handed through the warp for a query letter;
- `background(mismatch)`: a number that all letters share;
- `add(total, column, row, ...)`: `total` plus the score of the pair.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from longalign.backends.base import SweepJob
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.config import Letters
from longalign.backends.cuda.ptx import dot_bytes, permute_bytes

_UNAMBIGUOUS = 4

#: All strategies, the fastest first.
STRATEGIES: tuple[Letters, ...] = get_args(Letters)


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


@cuda.jit(device=True)
def _one_hot(code):
    """A one in byte `code`; codes above 3 cannot be told apart and are not allowed here."""
    return np.int32(np.int64(1) << np.int64(8 * code))


@cuda.jit(device=True)
def _add_dot(total, column, row, background, match, mismatch):
    return dot_bytes(column, row, total)


LETTER_SCORES: dict[Letters, LetterScores] = {
    "compare": LetterScores(_column_code, _same, _same, _add_compared),
    "bytes": LetterScores(_column_bytes, _byte_selector, _four_times, _add_selected),
    "dot": LetterScores(_column_bytes, _one_hot, _four_times, _add_dot),
}


def letters_for(jobs: Sequence[SweepJob], preferred: Letters = "dot") -> Letters:
    """The first strategy, from `preferred` on, that is exact for all these rectangles."""
    return next(
        letters
        for letters in STRATEGIES[STRATEGIES.index(preferred) :]
        if all(_exact(letters, job) for job in jobs)
    )


def _exact(letters: Letters, job: SweepJob) -> bool:
    """Whether a strategy can score a rectangle.

    Two need scores of 8 bits, to which the kernel adds the cost of a gap's first letter (see `kernel`),
    and letters beyond A C G T that match nothing; "dot" needs a query without such letters.
    """
    if letters == "compare":
        return True
    opening = job.scoring.gap_open + job.scoring.gap_extend
    if job.scoring.mismatch + opening < -128 or job.scoring.match + opening > 127:
        return False
    ambiguous = [set(np.flatnonzero(np.bincount(side)[_UNAMBIGUOUS:])) for side in (job.query, job.target)]
    return not (ambiguous[0] if letters == "dot" else ambiguous[0] & ambiguous[1])
