"""What the CPU sweep is compiled for, told apart from what it is given at run time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SweepGeometry:
    """How a rectangle is cut for one core: lanes side by side in a strip, blocks of rows down it.

    A SIMD *lane* owns `columns` neighbouring columns and works one row behind the lane to its left;
    `lanes` of them make the widest strip. Lanes are switched on and off by the `group`, so that a
    narrow strip, and the ramps at the top and the bottom of a block, cost only the groups they need.
    `columns`, `lanes` and `group` are compiled into the kernel.

    A strip is swept in blocks of at most `block_rows` rows, each with its own base and number width.
    Where a block must end earlier, to fit a width or to keep several threads busy, it is not made
    shorter than `least_rows` if that can be helped.
    """

    columns: int = 8
    lanes: int = 256
    group: int = 64
    block_rows: int = 3072
    least_rows: int = 256

    def __post_init__(self) -> None:
        if self.lanes % self.group:
            raise ValueError(f"{self.lanes} lanes are not whole groups of {self.group}")

    @property
    def strip(self) -> int:
        """Columns of the widest strip."""
        return self.columns * self.lanes

    def kernel(self, bits: int, local: bool, track: bool, matrix: bool = False) -> KernelConfig:
        """The kernel of this geometry for numbers of so many bits, a mode, and with what else is asked."""
        return KernelConfig(bits, local, track, matrix, self.columns, self.lanes, self.group)


#: W = 256 lanes of K = 8 columns: four 64-byte vectors of 8-bit lanes hide the latency of a cell, and
#: the state of the widest kernel (32 bit) still fits a first-level cache of 48 KiB.
DEFAULT_GEOMETRY = SweepGeometry()


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """One specialisation of the kernel.

    `bits` of the numbers in its lanes; `local` for the floor of 0, in the rectangles that have one;
    `track` for the best cell; the rest as in `SweepGeometry`. So one with both sweeps any rectangle, but
    others may be faster. `matrix` for letter pairs scored by a matrix, instead of by match and mismatch.
    """

    bits: int
    local: bool
    track: bool
    matrix: bool
    columns: int
    lanes: int
    group: int
