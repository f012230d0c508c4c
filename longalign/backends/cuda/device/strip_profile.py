"""The profile of a strip in shared memory: the score of every letter against the strip's columns.

Each lane writes and reads the scores of its own columns only, so no synchronisation is needed. For a query
letter, these are some words for each half of a lane's numbers. A word holds four columns as bytes where
numbers are packed, and one column otherwise. The words lie in *pieces*, each of which one instruction loads.
The same piece of all lanes is contiguous. Whatever rows the lanes are at, their loads therefore use different
banks of shared memory.

    address of a word = start of the letter's row
                      + offset of the half in the row
                      + offset of the piece in the half
                      + offset of the lane in the piece
                      + 4 * index of the word in the lane's piece

As everywhere in the kernel, alpha + beta is added to a score. Beyond the strip's end the sum is 0.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import int32

from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.ptx import (
    load_shared_quad,
    load_shared_single,
    load_shared_two,
    store_shared,
)
from longalign.backends.cuda.numba_api import cuda
from longalign.backends.substitution_tables import PITCH
from longalign.model.substitution_matrix import LARGEST_ALPHABET

#: Bytes of a word.
_WORD = 4

#: The profiles of a thread block begin at a multiple of this many bytes, the size of the largest piece.
ALIGNMENT = 16

#: Bytes of shared memory that a thread block may have without a request to the driver, and the bytes of these
#: that are left for rounding.
_BLOCK_BYTES, _RESERVED = 48 << 10, 256

#: Stands for the letter of a column beyond the strip's end.
_NO_COLUMN = -1

_LOADS = {1: load_shared_single, 2: load_shared_two, 4: load_shared_quad}


@dataclass(frozen=True, slots=True)
class ProfileLayout:
    """The layout of a warp's profile.

    In the row of a letter, a lane has `words` words for each of its `halves`, in pieces of `piece` words. A
    word holds `columns_a_word` columns.
    """

    columns_a_word: int
    words: int
    piece: int
    halves: int

    @classmethod
    def of(cls, config: KernelConfig) -> ProfileLayout:
        """The layout of a kernel's profiles."""
        columns_a_word = _WORD if config.numbers == "packed" else 1
        words = -(-config.columns // columns_a_word)
        piece = next(size for size in (4, 2, 1) if words % size == 0)
        return cls(columns_a_word, words, piece, config.halves)

    @property
    def lane_bytes(self) -> int:
        """Bytes from a lane's piece to the same piece of the next lane."""
        return self.piece * _WORD

    @property
    def half_bytes(self) -> int:
        """Bytes from the low half's part of a row to that of the high half."""
        return self.words * _WORD * LANES

    @property
    def row_bytes(self) -> int:
        """Bytes from the row of a letter to that of the next letter."""
        return self.halves * self.half_bytes


def profile_bytes(config: KernelConfig, letters: int) -> int:
    """Bytes of dynamic shared memory of a thread block, for matrices of at most `letters` letters."""
    if config.letter_scoring != "profile":
        return 0
    return config.warps * letters * ProfileLayout.of(config).row_bytes + ALIGNMENT


def max_warps(config: KernelConfig) -> int:
    """The most warps of a thread block for which shared memory suffices, whatever the matrix."""
    per_warp = LARGEST_ALPHABET * ProfileLayout.of(config).row_bytes + config.mailbox_bytes
    return (_BLOCK_BYTES - _RESERVED) // per_warp


def make_fill(config: KernelConfig) -> Any:
    """A device function that writes the part of a strip's profile that belongs to a lane."""
    columns, layout = config.columns, ProfileLayout.of(config)
    columns_a_word, words, piece, halves = (
        layout.columns_a_word, layout.words, layout.piece, layout.halves,
    )  # fmt: skip
    half_bytes, row_bytes = layout.half_bytes, layout.row_bytes
    width, mask = 32 // columns_a_word, (1 << 32 // columns_a_word) - 1

    @cuda.jit(device=True)
    def fill(profile, lane_at, matrices, target, jobs, job, first, end):
        """`lane_at` is the address of the lane's first piece, `first` its first column, `end` the strip's."""
        codes = cuda.local.array(columns_a_word, int32)
        opening, letters = jobs[job, work_tables.OPENING], jobs[job, work_tables.LETTERS]
        target_at, matrix_at = jobs[job, work_tables.TARGET_AT], jobs[job, work_tables.MATRIX_AT]
        for half in range(halves):
            for word in range(words):
                for place in range(columns_a_word):
                    k = word * columns_a_word + place
                    column = first + half * columns + k
                    codes[place] = np.int32(_NO_COLUMN)
                    if k < columns and column < end:
                        codes[place] = np.int32(target[target_at + column])
                address = lane_at + half * half_bytes
                address += word // piece * (piece * _WORD * LANES) + word % piece * _WORD
                for letter in range(letters):
                    row_at, packed = matrix_at + letter * PITCH, np.int64(0)
                    for place in range(columns_a_word):
                        if codes[place] != _NO_COLUMN:
                            score = np.int64(matrices[row_at + codes[place]] + opening)
                            packed |= (score & mask) << np.int64(width * place)
                    store_shared(profile, np.int32(address + letter * row_bytes), np.int32(packed))

    return fill


def _make_load(words: int, piece: int) -> Any:
    """A device function that loads a lane's words of one half in a letter's row, as a tuple."""
    load_piece, piece_bytes = _LOADS[piece], piece * _WORD * LANES
    if words == piece:
        return load_piece
    load_others = _make_load(words - piece, piece)

    @cuda.jit(device=True)
    def load(profile, address):
        return load_piece(profile, address) + load_others(profile, np.int32(address + piece_bytes))

    return load


def make_read(config: KernelConfig) -> Any:
    """A device function that loads all words of a lane for a row, as a tuple, low half first.

    Its second argument is the result of `make_row_offset` for the row.
    """
    layout = ProfileLayout.of(config)
    load, half_bytes, halves = _make_load(layout.words, layout.piece), layout.half_bytes, layout.halves

    @cuda.jit(device=True)
    def read_packed(profile, offsets, lane_at):
        low = np.int32(lane_at + (offsets & 0xFFFF))
        high = np.int32(lane_at + half_bytes + np.int32(np.uint32(offsets) >> np.uint32(16)))
        return load(profile, low) + load(profile, high)

    @cuda.jit(device=True)
    def read(profile, offset, lane_at):
        return load(profile, np.int32(lane_at + offset))

    return read_packed if halves == 2 else read


def make_row_offset(config: KernelConfig) -> Any:
    """A device function that returns the offset in bytes at which a letter's row begins, as an int32.

    Where numbers are packed, it is two 16-bit offsets: of the low half's letter, and of `above`, the high
    half's letter.
    """
    row_bytes, halves = ProfileLayout.of(config).row_bytes, config.halves

    @cuda.jit(device=True)
    def row_offset(code, above):
        offset = np.int32(code) * row_bytes
        if halves == 2:
            offset |= np.int32(above) * row_bytes << 16
        return np.int32(offset)

    return row_offset


def make_spread(config: KernelConfig) -> Any:
    """A device function that copies the words of a row, a tuple, to the array `letters`."""
    layout = ProfileLayout.of(config)
    return _make_spread(layout.words * layout.halves - 1)


def _make_spread(last: int) -> Any:
    """The same for the words up to index `last`. It recurs because only constants may index a tuple."""
    if last < 0:
        return _nothing
    others = _make_spread(last - 1)

    @cuda.jit(device=True)
    def spread(letters, words):
        letters[last] = words[last]
        others(letters, words)

    return spread


@cuda.jit(device=True)
def _nothing(letters, words):
    pass
