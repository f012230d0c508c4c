"""The profile of a strip: what every letter of a matrix scores against the strip's columns, in shared memory.

Each lane writes and reads what belongs to its own columns, so nobody has to wait for anybody. For a query
letter, that is some words for each half of a packed number: four columns in the bytes of a word, or one
column in 32 bits. They lie in pieces that one instruction loads, the same piece of all lanes side by side:
whatever rows the lanes are at, their loads then meet different banks.

    address of a word = a letter's row + a half's part + a piece's part + a lane's piece + 4 * its place there

As everywhere in the kernel, alpha + beta is added to a score; and it is 0 with it beyond the strip's end.
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

_WORD = 4

#: The profiles of a block begin at a multiple of this: the largest piece.
ALIGNMENT = 16

#: What a block may have without asking the driver for more; a little is left for rounding.
_BLOCK_BYTES, _RESERVED = 48 << 10, 256

_NO_COLUMN = -1

_LOADS = {1: load_shared_single, 2: load_shared_two, 4: load_shared_quad}


@dataclass(frozen=True, slots=True)
class ProfileLayout:
    """Where things lie; sizes are in bytes unless they count words.

    A lane has `words` of each half in the row of a letter, in pieces of `piece` words.
    """

    columns_a_word: int
    words: int
    piece: int
    halves: int

    @classmethod
    def of(cls, config: KernelConfig) -> ProfileLayout:
        """That of a kernel."""
        columns_a_word = _WORD if config.numbers == "packed" else 1
        words = -(-config.columns // columns_a_word)
        piece = next(size for size in (4, 2, 1) if words % size == 0)
        return cls(columns_a_word, words, piece, config.halves)

    @property
    def lane_bytes(self) -> int:
        """From a lane's piece to that of the next one."""
        return self.piece * _WORD

    @property
    def half_bytes(self) -> int:
        """From the low half's part of a row to the high half's."""
        return self.words * _WORD * LANES

    @property
    def row_bytes(self) -> int:
        """From a letter's row to the next one."""
        return self.halves * self.half_bytes


def warp_bytes(config: KernelConfig) -> int:
    """Shared memory of a warp beside its profile."""
    return config.mailbox_bytes


def profile_bytes(config: KernelConfig, letters: int) -> int:
    """Dynamic shared memory of a block, for matrices of at most so many letters."""
    if config.letter_scoring != "profile":
        return 0
    return config.warps * letters * ProfileLayout.of(config).row_bytes + ALIGNMENT


def most_warps(config: KernelConfig) -> int:
    """Warps that a block may have, whatever the matrix."""
    per_warp = LARGEST_ALPHABET * ProfileLayout.of(config).row_bytes + warp_bytes(config)
    return (_BLOCK_BYTES - _RESERVED) // per_warp


def make_fill(config: KernelConfig) -> Any:
    """A device function that writes a lane's part of a strip's profile."""
    columns, at_most = config.columns, ProfileLayout.of(config)
    columns_a_word, words, piece, halves = (
        at_most.columns_a_word, at_most.words, at_most.piece, at_most.halves,
    )  # fmt: skip
    half_bytes, row_bytes = at_most.half_bytes, at_most.row_bytes
    width, mask = 32 // columns_a_word, (1 << 32 // columns_a_word) - 1

    @cuda.jit(device=True)
    def fill(profile, lane_at, matrices, target, jobs, job, first, end):
        """`lane_at` is the address of the lane's first piece, `first` and `end` those columns of `target`."""
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
    """A device function that loads a lane's words of a half, as a tuple."""
    load_piece, piece_bytes = _LOADS[piece], piece * _WORD * LANES
    if words == piece:
        return load_piece
    load_others = _make_load(words - piece, piece)

    @cuda.jit(device=True)
    def load(profile, address):
        return load_piece(profile, address) + load_others(profile, np.int32(address + piece_bytes))

    return load


def make_read(config: KernelConfig) -> Any:
    """A device function that loads what a row needs, all words of the lane as a tuple, low half first.

    It is given what `make_row_offset` makes of the row's letters.
    """
    where = ProfileLayout.of(config)
    load, half_bytes, halves = _make_load(where.words, where.piece), where.half_bytes, where.halves

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
    """A device function for where the rows of two letters begin: 16 bits each, or of the first one 32."""
    row_bytes, halves = ProfileLayout.of(config).row_bytes, config.halves

    @cuda.jit(device=True)
    def row_offset(code, above):
        offset = np.int32(code) * row_bytes
        if halves == 2:
            offset |= np.int32(above) * row_bytes << 16
        return np.int32(offset)

    return row_offset


def make_spread(config: KernelConfig) -> Any:
    """A device function that puts the words of a row where columns find them by their number."""
    where = ProfileLayout.of(config)
    return _make_spread(where.words * where.halves - 1)


def _make_spread(last: int) -> Any:
    """Only a constant may index a tuple."""
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
