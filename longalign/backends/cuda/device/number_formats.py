"""The numbers that a lane computes with: two sets of device functions with the same names and meanings.

`INT32` holds one cell in a 32-bit number. All finite values and NEG_INF fit.

`PACKED` holds two cells in the halves of a 32-bit number, as unsigned 16-bit numbers relative to a *base*.
The base is a 32-bit number that all lanes of a warp share, and it changes from row block to row block.
`packed_range.py` proves for which scores and strips every value of a row block lies above the base by less
than 2^16. No sum of a value and a score or a cost therefore leaves 16 bits. This has four consequences:

- Costs are kept negated, modulo 2^16, because one instruction adds and takes a maximum.
- A pair of equal costs may be subtracted as one 32-bit number, since the low half never borrows from the high
  half. This subtraction uses another pipe than the maxima.
- Minus infinity has no number and needs none. An E below H - alpha is raised to H - alpha. This changes no
  value computed from it, because the next E is max(E - beta, H - alpha - beta) in both cases. The same holds
  for F. Rectangles with minus infinity among the H of their edges are swept in 32 bits.
- In local mode no value is negative. If the floor 0 lies below the base, it thus lies below all values, and
  any number that is not above them can represent it. The number 0 does.
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
from longalign.model.scoring import NEG_INF

_HIGHEST_HALF = 0xFFFF
_HIGHEST_32 = np.int32((1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The device functions of one number format.

    `x` and `y` are int32 numbers of this format, `value` and `base` plain int32. A number has one half in
    `INT32`, a low and a high half in `PACKED`; `half` is 0 or 1.

    - `highest`: the number that no other exceeds, in both halves.
    - `lowest`: a number that exceeds no reachable value, in both halves. It is not for sums.
    - `maximum(x, y)`, `subtract(x, cost)`: arithmetic in each half separately.
    - `lower(x, amount)`: the same as `subtract`, for an `amount` that is `number(amount, 0)`. It must not
      exceed x in the low half, which would borrow from the high half.
    - `cost(amount)`: a cost, or the difference of two bases, as the second argument of `subtract`.
    - `base(value, below)`: the base that lies `below` below a value.
    - `number(value, base)`: the number of a value that is not below the base, in both halves.
    - `raised(gap, h, gap_open)`: a gap state, raised to one that has a number.
    - `moved(x, by)`: the number relative to a base that is higher by `by`, an int64. Where it would be below
      the new base, it is 0. No result may exceed 16 bits.
    - `value(x, half, base)`: the value of one half, the inverse of `number`.
    - `join(low, high)`: the low half of the first argument and the high half of the second.
    - `halves(low, high)`: a mask with all bits of the low half if `low`, and of the high half if `high`.
    - `select(mask, x, y)`: the bits of x where the mask has ones, those of y elsewhere.
    - `link(open, gap, which)`: the right edge of one part, in as few bits as possible. `which` is
      `first_part` or `second_part`, the part of the lane.
    - `from_link(link, open, gap)`: the values (open, gap) left of a lane's parts. For the first part they are
      those of `link`. For the second part they are those of the first part, given in `open` and `gap`.
    - `unlink(link, base)`: the two values of a link.
    - `store_link(words, at, link)`, `load_link(words, at)`: store or load a link in an array of int32, where
      it takes `KernelConfig.link_words` elements.
    - `part(x, half)`: one half as an integer. These integers have the order of the values.
    """

    highest: Any
    lowest: Any
    maximum: Any
    subtract: Any
    lower: Any
    cost: Any
    base: Any
    number: Any
    raised: Any
    moved: Any
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
    #: The Numba type of a link in shared memory.
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
def _unmoved(x, by):
    return x


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
    highest=_HIGHEST_32, lowest=np.int32(NEG_INF), maximum=_maximum, subtract=_subtract, moved=_unmoved,
    lower=_subtract, cost=_itself, base=_no_base, number=_first, raised=_gap_itself, value=_value,
    join=_first, halves=_all_if, select=_select, link=_pack, from_link=_unpack_for, unlink=_unpack,
    store_link=_store_words, load_link=_load_words, part=_first, first_part=np.int32(0),
    second_part=np.int32(0), link_type=int64,
)  # fmt: skip


@cuda.jit(device=True)
def _pair(number):
    """An int32 from 0 to 65535 in both halves."""
    return np.int32(number | np.int32(number << 16))


@cuda.jit(device=True)
def _negated_pair(amount):
    return _pair(np.int32(-amount & _HIGHEST_HALF))


@cuda.jit(device=True)
def _base_below(value, below):
    return np.int32(value - below)


@cuda.jit(device=True)
def _relative_pair(value, base):
    """Values outside the 16 bits above the base (thresholds, the floor) become the nearer end of these."""
    return _pair(np.int32(min(max(value, base), np.int32(base + _HIGHEST_HALF)) - base))


@cuda.jit(device=True)
def _raised_gap(gap, h, gap_open):
    return max(gap, np.int32(h - gap_open))


@cuda.jit(device=True)
def _moved_pair(x, by):
    by = np.int32(min(by, np.int64(_HIGHEST_HALF)))
    return add_pairs(maximum_pairs(x, _pair(max(by, np.int32(0)))), _negated_pair(by))


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
    """The half of `opened` that the selector `which` picks and, above it, the same half of `gap`."""
    return permute_bytes(opened, gap, which)


@cuda.jit(device=True)
def _from_halves(link, own_open, own_gap):
    """The low halves come from the link. The high halves are the low halves of the lane's own edge."""
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
    highest=np.int32(-1), lowest=np.int32(0), maximum=maximum_pairs, subtract=add_pairs,
    lower=_subtract, cost=_negated_pair, base=_base_below, number=_relative_pair, raised=_raised_gap,
    moved=_moved_pair, value=_half_value, join=_join_halves, halves=_halves_if, select=_select,
    link=_link_halves,
    from_link=_from_halves, unlink=_link_values, store_link=_store_word, load_link=_load_word, part=_half,
    first_part=np.int32(0x5410), second_part=np.int32(0x7632), link_type=int32,
)  # fmt: skip

ARITHMETIC: dict[configuration.NumberFormat, Arithmetic] = {"packed": PACKED, "int32": INT32}
