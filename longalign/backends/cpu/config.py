"""The parameters of the CPU sweep: its geometry, and the configuration that a kernel is compiled for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SweepGeometry:
    """How a rectangle is cut for a thread: into strips of lanes, and each strip into blocks of rows.

    A SIMD *lane* owns `columns` neighbouring columns and is one row behind the lane to its left. The widest
    strip has `lanes` lanes. Lanes are computed in groups of `group`: a narrow strip, and the first and last
    steps of a block, compute only the groups that they need. `columns`, `lanes` and `group` are compiled into
    the kernel.

    A strip is swept in blocks of at most `block_rows` rows, each with its own base and number width. Blocks
    with fewer rows, to fit a number width or to occupy several threads, have at least `min_rows` where
    possible.

    Raises ValueError if `lanes` is not a multiple of `group`.
    """

    columns: int = 8
    lanes: int = 256
    group: int = 64
    block_rows: int = 3072
    min_rows: int = 256

    def __post_init__(self) -> None:
        if self.lanes % self.group:
            raise ValueError(f"{self.lanes} lanes are not whole groups of {self.group}")

    @property
    def strip(self) -> int:
        """Columns of the widest strip."""
        return self.columns * self.lanes

    def kernel(self, bits: int, local: bool, track: bool, matrix: bool = False) -> KernelConfig:
        """The kernel configuration with this geometry; the arguments are fields of `KernelConfig`."""
        return KernelConfig(bits, local, track, matrix, self.columns, self.lanes, self.group)


#: 256 lanes of 8 columns: four 64-byte vectors of 8-bit lanes hide the latency of a cell, and the state of
#: the 32-bit kernel fits a first-level cache of 48 KiB.
DEFAULT_GEOMETRY = SweepGeometry()


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """One specialisation of the sweep kernel.

    `bits` is the number width of its lanes. `local` supports the floor of 0, `track` the best cell: a kernel
    with both can sweep any rectangle, but kernels without may be faster. `matrix` means that letter pairs are
    scored by a substitution matrix instead of match and mismatch. The other fields are those of
    `SweepGeometry`.
    """

    bits: int
    local: bool
    track: bool
    matrix: bool
    columns: int
    lanes: int
    group: int
