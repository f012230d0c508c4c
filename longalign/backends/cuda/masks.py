"""What a lane keeps of the target letters, and its exchange where ambiguous query letters begin or end."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.letters import NO_LETTER, letter_scores
from longalign.backends.cuda.ptx import here


@cache
def make_load_letters(config: KernelConfig) -> Any:
    """A device function that loads what a lane keeps of the target letters of one half's columns."""
    columns = config.columns
    scores = letter_scores(config)
    column_letter, background, masked_letter = scores.column, scores.background, scores.masked

    @cuda.jit(device=True)
    def load_letters(letters, half, masked, first, width, target, target_at, match, mismatch):
        """The lane has `width` columns from `first` on; `masked` if the query letter is ambiguous."""
        first, width = here(first), here(width)
        for k in range(columns):
            column = half * columns + k
            code = target[np.uint64(target_at + first + column)] if column < width else np.uint8(NO_LETTER)
            if column_letter is not None:
                letter = column_letter(code, match, mismatch)
                if masked_letter is not None and masked and column < width:
                    letter = masked_letter(mismatch)
                letters[column] = letter
            if background is not None:
                letters[columns + k] = background(code, mismatch)

    return load_letters


def make_exchange(config: KernelConfig) -> Any:
    """A device function that fits what a lane keeps of the target to the query letter of a row."""
    halves = config.halves
    ambiguity = letter_scores(config).ambiguity
    load_letters = make_load_letters(config)

    @cuda.jit(device=True)
    def exchange(letters, letter, row, rows, masked, place, target, jobs, costs):
        """Returns which halves' letters are masked now, as two bits; `row` is that of the first part."""
        differs = np.int32(ambiguity(letter) ^ masked)
        if differs:
            target_at = jobs[place.job, layout.TARGET_AT]
            for half in range(halves):
                if differs & (1 << half) and half * STEP_ROWS <= row < half * STEP_ROWS + rows:
                    masked = np.int32(masked ^ (1 << half))
                    load_letters(
                        letters, half, masked & (1 << half), place.first, place.width, target, target_at,
                        costs.match, costs.mismatch,
                    )  # fmt: skip
        return masked

    return exchange
