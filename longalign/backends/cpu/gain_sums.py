"""The most that a path can gain from each place of a sequence on, summed up from its end.

`longalign.pruning.gains` says what is summed and proves that it is a bound.

How much a path can gain depends on its diagonal. It is kept as an upper bound for all of them: a *floor*, and
a few *hills* that rise above it. A hill is flat between two diagonals and falls evenly on both sides, by the
least that it costs to change the diagonal by one. A diagonal is the place in the other sequence minus the
place in this one, times that cost, so that a hill falls by 1 for each unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.absent_words import NO_SYMBOL
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray
from longalign.model.mode import FreeEnds
from longalign.model.pruning import SPACING, SideGains

#: Hills that are kept at a time. If there are more, the floor is raised to the lowest one.
_MAX_HILLS = 32

#: The columns of a table of hills.
_HEIGHT, _LOW, _HIGH = range(3)


class Moves(NamedTuple):
    """What it costs a path to change its diagonal, and how much wider hills become because of that.

    `slope` is the cost of changing the diagonal by one. A word widens a hill by `spread[0]` towards lower
    diagonals and by `spread[1]` towards higher ones; int64 of shape (2,). A letter moves its ends up, by
    `drift[0, code]` the lower one and by `drift[1, code]` the higher one; int64 of shape (2, 256).
    """

    slope: int
    spread: NDArray[np.int64]
    drift: NDArray[np.int64]

    @classmethod
    def free(cls) -> Moves:
        """Those that cost nothing: the gain does not depend on the diagonal."""
        return cls(0, np.zeros(2, np.int64), np.zeros((2, 256), np.int64))


class PathEnd(NamedTuple):
    """Where paths may end.

    `may_stop`: before the end of this sequence. `at_corner`: only where both sequences end, which is on the
    diagonal `corner`, counted in letters.
    """

    may_stop: bool
    at_corner: bool
    corner: int

    @classmethod
    def of(cls, may_stop: bool, ends: FreeEnds, letters: int, other_letters: int) -> PathEnd:
        """Where paths with these free ends may end, for a side of `letters` letters."""
        return cls(may_stop, not (ends.query_end or ends.target_end), other_letters - letters)

    def before_the_end(self) -> PathEnd:
        """The same for a part of this sequence, beyond which a path may go on."""
        return PathEnd(self.may_stop, False, 0)


def sum_gains(
    codes: Codes,
    symbols: NDArray[np.uint8],
    letter_gains: NDArray[np.int64],
    most: int,
    moves: Moves,
    stretches: NDArray[np.int64],
    end: PathEnd,
    charges: IntArray,
) -> tuple[SideGains, int]:
    """The most that can be gained from each place on, at most `most`. `charges` is overwritten by it.

    `letter_gains` and `symbols` are those of all 256 codes. A charge above 0 is that of an absent word. One
    below 0 is that of a placed word, which a row of `stretches` pairs as in `charge_placed_words`.

    The second result is for the whole sequence, as `SideGains.line` is, but limits paths that are far ahead
    in the other one: from place 0 here and place x there, a path gains no more than the higher one of the
    floor and this number less `moves.slope` * x.
    """
    hills, stretches = np.zeros((_MAX_HILLS, 3), np.int64), np.ascontiguousarray(stretches)
    floor, line = (np.empty(len(codes) // SPACING + 1, np.int32) for _ in range(2))
    falling = _kernel()(
        codes, symbols, letter_gains, most, *moves, *end, stretches, hills, charges, floor, line
    )  # fmt: skip
    return SideGains(charges, floor, line, moves.slope), int(falling)


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("sums of gains", _kernel)]


def _make_sum_gains() -> Callable[..., int]:
    never = np.int64(-1 << 40)  # below minus all letter gains together
    lowest, highest = np.int64(np.iinfo(np.int32).min), np.int64(np.iinfo(np.int32).max)

    @inline_by_llvm
    def beside(hills: Any, hill: Any, diagonal: Any) -> Any:
        """How far a diagonal is from the flat part of a hill."""
        return max(np.int64(0), max(hills[hill, _LOW] - diagonal, diagonal - hills[hill, _HIGH]))

    @inline_by_llvm
    def on_diagonal(hills: Any, count: Any, floor: Any, diagonal: Any) -> Any:
        """The most that can be gained on a diagonal."""
        height = floor
        for hill in range(count):
            height = max(height, hills[hill, _HEIGHT] - beside(hills, hill, diagonal))
        return height

    @inline_by_llvm
    def put(hills: Any, hill: Any, height: Any, low: Any, high: Any) -> None:
        hills[hill, _HEIGHT], hills[hill, _LOW], hills[hill, _HIGH] = height, low, high

    @inline_by_llvm
    def charge_hills(hills: Any, count: Any, charge: Any, spread: Any, floor: Any) -> Any:
        """Charge all hills for a word, and keep those above the floor. Returns their number."""
        kept = 0
        for hill in range(count):
            height = hills[hill, _HEIGHT] - charge
            if height > floor:
                put(hills, kept, height, hills[hill, _LOW] - spread[0], hills[hill, _HIGH] + spread[1])
                kept += 1
        return kept

    @inline_by_llvm
    def add_hill(hills: Any, count: Any, height: Any, diagonal: Any) -> Any:
        """Add a hill at one diagonal, and remove those that it covers. Returns the number of hills."""
        kept = 0
        for hill in range(count):
            farthest = max(diagonal - hills[hill, _LOW], hills[hill, _HIGH] - diagonal)
            if hills[hill, _HEIGHT] > height - farthest:
                put(hills, kept, hills[hill, _HEIGHT], hills[hill, _LOW], hills[hill, _HIGH])
                kept += 1
        put(hills, kept, height, diagonal, diagonal)
        return kept + 1

    @inline_by_llvm
    def remove_lowest(hills: Any, count: Any) -> Any:
        """Remove the lowest hill. Returns its height."""
        lowest = 0
        for hill in range(1, count):
            if hills[hill, _HEIGHT] < hills[lowest, _HEIGHT]:
                lowest = hill
        height = hills[lowest, _HEIGHT]
        put(hills, lowest, hills[count - 1, _HEIGHT], hills[count - 1, _LOW], hills[count - 1, _HIGH])
        return height

    @inline_by_llvm
    def move_hills(hills: Any, count: Any, up: Any, low: Any, high: Any) -> None:
        """Raise all hills by `up`, and move the ends of their flat parts by `low` and `high`."""
        for hill in range(count):
            put(hills, hill, hills[hill, _HEIGHT] + up, hills[hill, _LOW] + low, hills[hill, _HIGH] + high)

    @inline_by_llvm
    def highest_of(hills: Any, count: Any) -> Any:
        """The greatest height, and the height on diagonal 0 of a line that rises by 1 for each unit.

        No hill is above the line, which touches the low side of at least one.
        """
        height, line = never, never
        for hill in range(count):
            height = max(height, hills[hill, _HEIGHT])
            line = max(line, hills[hill, _HEIGHT] - hills[hill, _LOW])
        return height, line

    @inline_by_llvm
    def falling_line(hills: Any, count: Any) -> Any:
        """The height on diagonal 0 of a line that falls by 1 for each unit, and is nowhere below a hill."""
        line = never
        for hill in range(count):
            line = max(line, hills[hill, _HEIGHT] + hills[hill, _HIGH])
        return line

    @inline_by_llvm
    def record(floors: Any, lines: Any, place: Any, floor: Any, line: Any, most: Any) -> None:
        """Keep the floor and the line for the `SPACING` places to which `place` belongs.

        The scan meets the first of these places last, and its numbers are the highest.
        """
        floors[place // SPACING] = max(lowest, min(floor, most))
        lines[place // SPACING] = max(lowest, min(line, highest))

    def sum_gains(
        codes: Any,
        symbols: Any,
        letter_gains: Any,
        most: Any,
        slope: Any,
        spread: Any,
        drift: Any,
        may_stop: Any,
        at_corner: Any,
        corner: Any,
        stretches: Any,
        hills: Any,
        charges: Any,
        floors: Any,
        lines: Any,
    ) -> Any:
        letters, zero = codes.shape[0], np.int64(0)
        least = zero if may_stop else never  # what a path gains that ends here
        in_word = never  # what a path gains at most that ends before the next word to the right does
        floor, count, stretch = zero, 0, stretches.shape[0] - 1
        if at_corner and slope > 0:
            floor, count = never, add_hill(hills, 0, zero, slope * corner)
        up, low, high = zero, zero, zero  # what letters have done to all hills since the last word
        height, line = highest_of(hills, count)  # without that
        bound, highest_floor, highest_line = zero, floor, line - slope * letters
        charges[letters] = 0
        record(floors, lines, letters, highest_floor, highest_line, most)
        for k in range(letters - 1, -1, -1):
            code = codes[k]
            floor = max(least, floor + letter_gains[code])
            in_word = max(least, in_word + letter_gains[code])
            up, low, high = up + letter_gains[code], low + drift[0, code], high + drift[1, code]
            if charges[k] != 0:
                move_hills(hills, count, up, low, high)
                up, low, high = zero, zero, zero
                charge, on, diagonal = np.int64(abs(charges[k])), never, zero
                if charges[k] < 0:
                    while stretches[stretch, 0] > k:
                        stretch -= 1
                    diagonal = slope * (stretches[stretch, 2] - stretches[stretch, 0])
                    on = on_diagonal(hills, count, floor, diagonal)
                floor = max(floor - charge, in_word)
                count = charge_hills(hills, count, charge, spread, floor)
                if on > floor:
                    if count == hills.shape[0]:
                        floor = max(floor, remove_lowest(hills, count))
                        count -= 1
                    count = add_hill(hills, count, on, diagonal)
                in_word = never
                height, line = highest_of(hills, count)
            elif symbols[code] == NO_SYMBOL:
                in_word = never
            bound = max(bound, max(floor, height + up))
            charges[k] = min(bound, most)
            highest_floor = max(highest_floor, floor)
            highest_line = max(highest_line, line + up - low - slope * k)
            record(floors, lines, k, highest_floor, highest_line, most)
        return falling_line(hills, count) + up + high

    return sum_gains


@compiled_once
def _kernel() -> Callable[..., int]:
    """The compiled function, from disk if it is there. Thread-safe."""
    codes, numbers, table = np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
    values = np.zeros(1, np.int32)
    examples = [codes, codes, numbers, 1, 1, numbers, table, True, True, 1, table, table, *[values] * 3]
    return compile_entry(_make_sum_gains(), "sums of gains", examples)
