"""What a lane computes in: two sets of device functions with the same names and meanings.

`INT32` holds one cell in a 32-bit number, and there is nothing to prove: all finite values and NEG_INF fit.

`PACKED` holds two cells in the halves of a 32-bit number, as unsigned 16-bit numbers relative to a *base*, a
32-bit number that all lanes of a warp share and that follows the sweep from row block to row block.
`packed_range.py` proves for which scores and strips every value of a row block lies above the base, and less
than 2^16 above. So no sum of a value and a score or a cost ever leaves 16 bits, and therefore

- costs are kept negated, modulo 2^16: there is an instruction that adds and takes a maximum;
- a pair of costs can be subtracted as one 32-bit number, on another pipe than the maxima keep busy: the low
  half never borrows from the high one;
- minus infinity has no number, and needs none: E below H - alpha is raised to H - alpha, which changes no
  value computed from it, the next E being max(E - beta, H - alpha - beta) either way. So is F. Rectangles
  with minus infinity among the H of their edges are swept in 32 bits;
- the floor of local mode, if it lies below the base, lies below all values too (none is negative), and any
  number not above them stands for it: 0 does.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import int32, int64

from longalign.backends.cuda import config as configuration
from longalign.backends.cuda.device.ptx import add_pairs, maximum_pairs, permute_bytes
from longalign.backends.cuda.device.work_tables import high_of, low_of, pack
from longalign.backends.cuda.numba_api import cuda

_HIGHEST_HALF = 0xFFFF
_HIGHEST_32 = np.int32((1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The device functions of one kind of number; "x" and "y" are such numbers, "value" is 32 bits wide.

    - `highest`: no number is above, in both halves;
    - `maximum(x, y)`, `subtract(x, cost)`: arithmetic, in each half on its own;
    - `lower(x, amount)`: the same as `subtract`, where no low half is less: `amount` is `number(amount, 0)`;
    - `cost(amount)`: a cost or the difference of two bases, as `subtract` takes it;
    - `base(value, below)`: the base that lies `offset` below a value;
    - `number(value, base)`: the number of a value not below the base, in both halves;
    - `raised(gap, h, gap_open)`: a gap state for which there is a number;
    - `value(x, half, base)`: back again;
    - `join(low, high)`: the low half of one and the high half of the other;
    - `halves(low, high)`: all bits of the low half if `low`, of the high half if `high`;
    - `select(mask, x, y)`: x where the mask has bits, else y;
    - `link(open, gap, which)`: the edge of one part in as few bits as it takes: of the first or the second
      part of the lane, as `first_part` or `second_part` says, if it has two;
    - `from_link(link, open, gap)`: what stands left of the parts of a lane: of the first one the edge in
      `link`, of the second one that of the first, which is in `open` and `gap`;
    - `unlink(link, base)`: the two values of a link;
    - `store_link(words, at, link)`, `load_link(words, at)`: a link in an array of int32, which takes
      `KernelConfig.link_words` of these;
    - `part(x, half)`: one half as an integer, in the order of the values.
    """

    highest: Any
    maximum: Any
    subtract: Any
    lower: Any
    cost: Any
    base: Any
    number: Any
    raised: Any
    value: Any
    join: Any
    halves: Any
    select: Any
    link: Any
    from_link: Any
    unlink: Any
    store_link: Any
    load_link: Any
    part: Any
    first_part: np.int32
    second_part: np.int32
    #: In what links lie, in shared memory.
    link_type: Any


@cuda.jit(device=True)
def _maximum(x, y):
    return max(x, y)


@cuda.jit(device=True)
def _subtract(x, y):
    return np.int32(x - y)


@cuda.jit(device=True)
def _itself(value):
    return np.int32(value)


@cuda.jit(device=True)
def _no_base(value, below):
    return np.int32(0)


@cuda.jit(device=True)
def _first(x, y):
    return x


@cuda.jit(device=True)
def _gap_itself(gap, h, gap_open):
    return gap


@cuda.jit(device=True)
def _value(x, half, base):
    return x


@cuda.jit(device=True)
def _all_if(low, high):
    return np.int32(-1 if low else 0)


@cuda.jit(device=True)
def _select(mask, x, y):
    return np.int32((x & mask) | (y & ~mask))


@cuda.jit(device=True)
def _pack(opened, gap, which):
    return pack(opened, gap)


@cuda.jit(device=True)
def _unpack_for(link, own_open, own_gap):
    return low_of(link), high_of(link)


@cuda.jit(device=True)
def _unpack(link, base):
    return low_of(link), high_of(link)


@cuda.jit(device=True)
def _store_words(words, at, link):
    words[np.uint64(at)] = low_of(link)
    words[np.uint64(at + 1)] = high_of(link)


@cuda.jit(device=True)
def _load_words(words, at):
    return pack(words[np.uint64(at)], words[np.uint64(at + 1)])


INT32 = Arithmetic(
    highest=_HIGHEST_32, maximum=_maximum, subtract=_subtract,
    lower=_subtract, cost=_itself, base=_no_base, number=_first, raised=_gap_itself, value=_value,
    join=_first, halves=_all_if, select=_select, link=_pack, from_link=_unpack_for, unlink=_unpack,
    store_link=_store_words, load_link=_load_words, part=_first, first_part=np.int32(0),
    second_part=np.int32(0), link_type=int64,
)  # fmt: skip


@cuda.jit(device=True)
def _pair(number):
    """A number from 0 to 65535, of type int32, in both halves."""
    return np.int32(number | np.int32(number << 16))


@cuda.jit(device=True)
def _negated_pair(amount):
    return _pair(np.int32(-amount & _HIGHEST_HALF))


@cuda.jit(device=True)
def _base_below(value, below):
    return np.int32(value - below)


@cuda.jit(device=True)
def _relative_pair(value, base):
    """Values that lie beyond either end (thresholds, the floor) become that end."""
    return _pair(np.int32(min(max(value, base), np.int32(base + _HIGHEST_HALF)) - base))


@cuda.jit(device=True)
def _raised_gap(gap, h, gap_open):
    return max(gap, np.int32(h - gap_open))


@cuda.jit(device=True)
def _half(x, half):
    return np.int32((x >> np.int32(16 * half)) & _HIGHEST_HALF)


@cuda.jit(device=True)
def _half_value(x, half, base):
    return np.int32(_half(x, half) + base)


@cuda.jit(device=True)
def _join_halves(low, high):
    return permute_bytes(low, high, np.int32(0x7610))


@cuda.jit(device=True)
def _halves_if(low, high):
    return np.int32((_HIGHEST_HALF if low else 0) | (-1 - _HIGHEST_HALF if high else 0))


@cuda.jit(device=True)
def _link_halves(opened, gap, which):
    """Two halves, picked by a selector of bytes: one of `opened` and, above it, the same one of `gap`."""
    return permute_bytes(opened, gap, which)


@cuda.jit(device=True)
def _from_halves(link, own_open, own_gap):
    """What is in the link comes low, and above it the low half of what is the lane's own."""
    return (
        permute_bytes(link, own_open, np.int32(0x5410)),
        permute_bytes(link, own_gap, np.int32(0x5432)),
    )


@cuda.jit(device=True)
def _link_values(link, base):
    return _half_value(link, np.int32(0), base), _half_value(link, np.int32(1), base)


@cuda.jit(device=True)
def _store_word(words, at, link):
    words[np.uint64(at)] = link


@cuda.jit(device=True)
def _load_word(words, at):
    return words[np.uint64(at)]


PACKED = Arithmetic(
    highest=np.int32(-1), maximum=maximum_pairs, subtract=add_pairs,
    lower=_subtract, cost=_negated_pair, base=_base_below, number=_relative_pair, raised=_raised_gap,
    value=_half_value, join=_join_halves, halves=_halves_if, select=_select, link=_link_halves,
    from_link=_from_halves, unlink=_link_values, store_link=_store_word, load_link=_load_word, part=_half,
    first_part=np.int32(0x5410), second_part=np.int32(0x7632), link_type=int32,
)  # fmt: skip

ARITHMETIC: dict[configuration.NumberFormat, Arithmetic] = {"packed": PACKED, "int32": INT32}
