"""How a kernel scores a letter pair: strategies with the same device functions.

- `column(code, match, mismatch)`: what a lane keeps of a target letter, and `background` what else, if
  anything;
- `row(code, above)`: what a lane reads of the query letter of its row and the one above on which the other
  half of a packed number is at work, a step behind;
- `add(total, letters, k, columns, row, match, mismatch)`: `total` plus the score in column k, given what is
  kept of the target letters, those of the other half's columns after the first `columns`;
- `ambiguity(row)`: bit 0 if the query letter of what `row` gave is ambiguous, bit 1 if that of the other half
  is; and `masked(mismatch)`: what a lane keeps of a target letter instead while the query's is ambiguous.

Letters come with four scores, against A C G T, and an ambiguous query letter has none of its own. As such
letters come in runs, a lane exchanges what it keeps for mismatches where a run begins, and back where it
ends (see `masks`). Strategies that compare codes have no need of it, and no `masked`.

A target goes on with the code NO_LETTER beyond its end, which scores 0 with any other. As the kernel adds
alpha + beta to every score, a letter pair there is worth no more than opening a gap: see `kernel` for why
that keeps such columns from being best.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from longalign.backends.base import SweepJob
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.config import Letters, Numbers
from longalign.backends.cuda.ptx import add_pairs, dot_bytes, permute_bytes

UNAMBIGUOUS = 4

_ALL_HOT = 0x01010101

#: A code that stands for no letter, and that no letter has.
NO_LETTER = 255


@dataclass(frozen=True, slots=True)
class LetterScores:
    """The device functions of one strategy."""

    #: Words that a lane keeps for each of its columns.
    words: int
    column: Any
    background: Any
    row: Any
    add: Any
    ambiguity: Any
    masked: Any


@cuda.jit(device=True)
def _column_code(code, match, mismatch):
    return np.int32(code)


@cuda.jit(device=True)
def _row_code(code, above):
    return np.int32(code)


@cuda.jit(device=True)
def _never(row):
    return np.int32(0)


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
    """A one in byte `code`, or in all if ambiguous."""
    return np.int32(np.int64(1) << np.int64(8 * code) if code < UNAMBIGUOUS else np.int64(_ALL_HOT))


@cuda.jit(device=True)
def _all_hot(row):
    return np.int32(row == _ALL_HOT)


@cuda.jit(device=True)
def _one_byte(mismatch):
    """All bytes of a row of ones make the mismatch."""
    return np.int32(mismatch & 255)


@cuda.jit(device=True)
def _add_dot(total, letters, k, columns, row, match, mismatch):
    """One instruction, outside the pipe that the rest of a cell keeps busy."""
    return dot_bytes(letters[k], row, total)


@cuda.jit(device=True)
def _selector(code, above):
    """Nibbles that pick byte `code` of the low half's column and byte `above` of the high half's, extended.

    An ambiguous letter picks any byte, and leaves a bit above the nibbles.
    """
    low, high, ambiguous = np.int32(code), np.int32(above), np.int32(0)
    if code >= UNAMBIGUOUS:
        low, ambiguous = np.int32(0), np.int32(1)
    if above >= UNAMBIGUOUS:
        high, ambiguous = np.int32(0), np.int32(ambiguous | 2)
    return np.int32(low * 0x11 + 0x80 + (high * 0x11 + 0xC4 << 8) | ambiguous << 16)


@cuda.jit(device=True)
def _bits_above_selector(row):
    return np.int32(row >> 16)


@cuda.jit(device=True)
def _four_bytes(mismatch):
    """Whatever byte a selector picks, it is the mismatch."""
    return np.int32(np.int64(mismatch & 255) * np.int64(_ALL_HOT))


@cuda.jit(device=True)
def _add_selected(total, letters, k, columns, row, match, mismatch):
    return add_pairs(total, permute_bytes(letters[k], letters[columns + k], row))


LETTER_SCORES: dict[tuple[Numbers, Letters], LetterScores] = {
    ("int32", "compare"): LetterScores(2, _column_code, _mismatch_of, _row_code, _add_compared, _never, None),
    ("int32", "bytes"): LetterScores(1, _column_bytes, None, _one_hot, _add_dot, _all_hot, _one_byte),
    ("packed", "bytes"): LetterScores(
        2, _column_bytes, None, _selector, _add_selected, _bits_above_selector, _four_bytes
    ),
}


def letters_for(job: SweepJob) -> Letters:
    """The fastest strategy that is exact for a rectangle.

    Bytes hold scores of 8 bits, to which the kernel adds the cost of a gap's first letter (see `kernel`),
    and letters beyond A C G T must match nothing.
    """
    opening = job.scoring.gap_open + job.scoring.gap_extend
    if job.scoring.mismatch + opening < -128 or job.scoring.match + opening > 127:
        return "compare"
    if job.query.max() < UNAMBIGUOUS or job.target.max() < UNAMBIGUOUS:
        return "bytes"
    ambiguous = [set(np.flatnonzero(np.bincount(side)[UNAMBIGUOUS:])) for side in (job.query, job.target)]
    return "compare" if ambiguous[0] & ambiguous[1] else "bytes"
