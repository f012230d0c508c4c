"""The choice of the kernel that sweeps a list of rectangles, with the reasons, and the size of tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import NamedTuple

from longalign.backends.base import SweepJob
from longalign.backends.cuda.config import KernelConfig, LetterScoring, NumberFormat
from longalign.backends.cuda.device.letter_scores import (
    STRATEGIES,
    fits_bytes,
    letter_scoring_for,
)
from longalign.backends.cuda.device.strip_profile import max_warps
from longalign.backends.cuda.planning import packed_range, raised_range
from longalign.backends.cuda.planning.cost_model import Hardware, Strips, expected_seconds
from longalign.backends.cuda.planning.strips import ALL_ROWS, count_strips
from longalign.model.geometry import shared_tile_shape
from longalign.model.scoring import Scoring


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a `KernelConfig` that decide its speed, but not its results."""

    columns: int
    block_rows: int
    max_registers: int | None = None
    prefetch_edge: bool = False


#: The shapes to choose from. Wide strips spend less time on boundaries and synchronisation. Narrow strips
#: keep more warps busy on short rectangles. The shapes for the longest rectangles prefetch edges, because
#: there many warps share the pipes.
SHAPES: dict[NumberFormat, tuple[Shape, ...]] = {
    "packed": (
        *(Shape(32, 64, 255), Shape(24, 64, 255, prefetch_edge=True), Shape(20, 64, 255)),
        *(Shape(16, 64, 255), Shape(8, 64, 168), Shape(5, 64, 168)),
    ),
    "int32": (Shape(16, 32, 168, prefetch_edge=True), Shape(8, 32, 128)),
}

#: The shapes to choose from with a substitution matrix. Shared memory limits the number of resident warps and
#: the width of strips: no strip can be wider than the widest of these.
PROFILE_SHAPES: dict[NumberFormat, tuple[Shape, ...]] = {
    "packed": (Shape(16, 64, 168, prefetch_edge=True), Shape(8, 64, 168)),
    "int32": (Shape(8, 32, 168),),
}

#: The shapes where row blocks may be left out or pairs are excluded. To leave out a row block takes the same
#: time however wide it is. Around excluded pairs a strip is swept more slowly, and the strips to its right
#: wait for it, which does not take long with few columns. Narrower strips are faster where one strip is swept
#: at a time, and slower where many are.
SPECIAL_SHAPES: dict[NumberFormat, tuple[Shape, ...]] = {
    "packed": (Shape(16, 64, 255),),
    "int32": (Shape(8, 32, 168),),
}

#: The columns of the packed shapes to choose from without the floor of local mode: in phases 2 and 3, and in
#: phase 1 of other modes. Each kernel takes seconds to compile; 20 and 16 columns would gain little.
_COLUMNS_WITHOUT_FLOOR = (32, 24, 8, 5)

#: `local` and `track_best` of all kernels (see `SweepJob.finds_best`).
_MODES = ((True, True), (False, True), (False, False))

#: How letter pairs are scored, for users.
LETTER_SCORING_IN_WORDS: dict[LetterScoring, str] = {
    "bytes": "bytes: a target letter's four scores in a register",
    "compare": "compare: match or mismatch, in 32 bits",
    "profile": "profile: what each letter of the matrix scores against a strip, in shared memory",
}

#: The compute capability of Hopper, whose instructions packed arithmetic needs.
PACKED_CAPABILITY = (9, 0)

#: Cells of a tile, about half a minute of work at 4 TCUPS. A launch and its transfers take little time in
#: comparison, and the loss of a tile costs little.
TILE_CELLS = 1 << 47

#: Longer sequences are cut into about this many tiles, which are larger. The edges of all tiles then take
#: memory in proportion to the lengths, and a tile is less than 1 % of the run.
MAX_TILES = 128

#: From this many cells on, about 20 seconds of work, two tiles are swept at a time. If boundaries are stored,
#: a stop then loses less. The sweep of 1.2e14 cells took as long as one tile, that of 4.7e14 cells 4 % less,
#: and smaller ones longer (`checkpoints_cuda.json`).
_WORTH_TWO_AT_ONCE = 10**14

#: The same if tiles are small. The ten best alignments of 1.1e12 cells took 3.7 instead of 4.1 s
#: (`several_alignments_cuda.json`).
_WORTH_TWO_SMALL = 10**12

#: The least time of a tile besides its kernel, in seconds: for its edges and its file.
TILE_OVERHEAD = 0.1

#: The scoring for which tiles are cut, whatever the scoring of the run.
_USUAL = Scoring()

#: Device bytes of a tile for each letter of either side: 1 for the letter and 16 for boundaries. For a row
#: these are H and F with their tags, for a column H and E twice.
_BYTES_A_LETTER = 1 + 16


class Kind(NamedTuple):
    """The fields of a `KernelConfig` that a rectangle decides."""

    local: bool
    track_best: bool
    numbers: NumberFormat
    letter_scoring: LetterScoring
    prunes: bool
    excludes: bool

    @classmethod
    def of(cls, config: KernelConfig) -> Kind:
        """The kind of the rectangles that a kernel sweeps."""
        return cls(*(getattr(config, name) for name in cls._fields))


def shapes_of(kind: Kind) -> tuple[Shape, ...]:
    """The shapes to choose from for rectangles of a kind."""
    if kind.prunes or kind.excludes:
        return SPECIAL_SHAPES[kind.numbers]
    shapes = (PROFILE_SHAPES if kind.letter_scoring == "profile" else SHAPES)[kind.numbers]
    if kind.local or kind.letter_scoring == "profile" or kind.numbers == "int32":
        return shapes
    return tuple(shape for shape in shapes if shape.columns in _COLUMNS_WITHOUT_FLOOR)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Choices of the caller. None leaves a choice to this module."""

    numbers: NumberFormat | None = None
    columns: int | None = None
    block_rows: int | None = None
    warps: int = 4
    max_registers: int | None = None
    band_rows: int | None = None

    def shapes(self, kind: Kind) -> list[Shape]:
        """The shapes to choose from with these overrides, without duplicates."""
        columns = self.columns
        there = shapes_of(kind._replace(local=kind.local or columns is not None))
        if columns and kind.letter_scoring == "profile":
            columns = min(columns, max(shape.columns for shape in there))
        shapes = [shape for shape in there if columns in (None, shape.columns)]
        if columns and not shapes:
            shapes = [Shape(columns, 64 if kind.numbers == "packed" else 32)]
        requested_shapes = {
            replace(
                shape,
                block_rows=self.block_rows or shape.block_rows,
                max_registers=self.max_registers or shape.max_registers,
            ): None
            for shape in shapes
        }
        return list(requested_shapes)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A kernel, and why it was chosen.

    `why_numbers`: the reason for its number format. `seconds`: the expected time of each kernel that was
    considered. `only_whole`: only kernels were considered for which requested columns are multiples of the
    columns of a part.
    """

    config: KernelConfig
    why_numbers: str
    seconds: dict[KernelConfig, float]
    only_whole: bool

    @property
    def why_shape(self) -> str:
        """The reason for its shape."""
        why = f"expected to take {self.seconds[self.config]:.3g} s"
        if self.only_whole:
            why += ", of those with whole parts between requested columns"
        others = [
            f"{config.columns} columns: {time:.3g} s"
            for config, time in self.seconds.items()
            if config != self.config
        ]
        return f"{why} ({'; '.join(others)})" if others else why


def every_configuration() -> list[KernelConfig]:
    """Every configuration that may be chosen without overrides."""
    return [_config(kind, shape) for kind in _every_kind() for shape in shapes_of(kind)]


def _every_kind() -> Iterator[Kind]:
    for (local, track_best), numbers in product(_MODES, STRATEGIES):
        for letter_scoring in STRATEGIES[numbers]:
            kind = Kind(local, track_best, numbers, letter_scoring, False, False)
            yield kind
            if letter_scoring != "compare":
                yield kind._replace(prunes=True)
            if track_best:
                yield kind._replace(excludes=True)


def _config(kind: Kind, shape: Shape, warps: int = 4) -> KernelConfig:
    config = KernelConfig(
        kind.local, kind.track_best, shape.columns, kind.letter_scoring, shape.block_rows, warps,
        kind.numbers, shape.max_registers, shape.prefetch_edge, kind.prunes, kind.excludes,
    )  # fmt: skip
    if kind.letter_scoring == "profile":
        config = replace(config, warps=min(warps, max_warps(config)))
    return config


def choose(jobs: Sequence[SweepJob], hardware: Hardware, overrides: Overrides = Overrides()) -> list[Choice]:
    """A kernel for each rectangle, in order.

    Rectangles of the same `Kind` get the same kernel, so that one launch sweeps them all. It is the kernel
    with the shortest expected time for all of them.
    """
    groups: dict[Kind, list[int]] = {}
    reasons = {}
    for number, job in enumerate(jobs):
        kind, reasons[number] = _kind_of(job, hardware, overrides)
        groups.setdefault(kind, []).append(number)
    choices: dict[int, Choice] = {}
    for kind, members in groups.items():
        seconds, only_whole = _expected_times([jobs[k] for k in members], kind, hardware, overrides)
        fastest = min(seconds, key=seconds.__getitem__)
        choices.update({k: Choice(fastest, reasons[k], seconds, only_whole) for k in members})
    return [choices[k] for k in range(len(jobs))]


def _kind_of(job: SweepJob, hardware: Hardware, overrides: Overrides) -> tuple[Kind, str]:
    """The fastest way to score letters and the fastest number format that are exact, and why that format.

    A rectangle with excluded pairs is swept whole. There the kernel finds the best cell even if it is not
    needed: such rectangles are rare.
    """
    letter_scoring, excludes = letter_scoring_for(job.scoring), len(job.excluded) > 0
    prunes = raised_range.may_prune(job.scoring) and not excludes and job.is_prunable
    packed = Kind(job.local, job.finds_best or excludes, "packed", letter_scoring, prunes, excludes)
    numbers, why = _usual_numbers(job.scoring, packed, hardware, overrides)
    if numbers == "packed" and not prunes and not packed_range.has_smooth_edges(job):
        numbers, why = "int32", "the values on its edges jump"
    return packed._replace(numbers=numbers), why


def _usual_numbers(
    scoring: Scoring, packed: Kind, hardware: Hardware, overrides: Overrides
) -> tuple[NumberFormat, str]:
    """The fastest number format that is exact if the edges are those of a DP matrix, and the reason.

    `packed` is the kind of the rectangle if that is packed numbers.
    """
    if overrides.numbers == "int32":
        return "int32", "32 bits were asked for"
    if hardware.compute_capability < PACKED_CAPABILITY:
        return "int32", "packed arithmetic needs compute capability 9.0"
    if not fits_bytes(scoring):
        return "int32", "a score and the cost of a gap's first letter exceed 8 bits"
    if not _exact_kernels(scoring, packed, overrides):
        return "int32", "neighbouring values can differ by more than 16 bits hold"
    return "packed", "every value of a row block fits 16 bits"


def _fitting(jobs: Sequence[SweepJob], kind: Kind, overrides: Overrides) -> list[KernelConfig]:
    """The kernels to choose from that are exact for all these rectangles."""
    exact = [_exact_kernels(scoring, kind, overrides) for scoring in {job.scoring for job in jobs}]
    return [config for config in exact[0] if all(config in others for others in exact[1:])]


@lru_cache
def _exact_kernels(scoring: Scoring, kind: Kind, overrides: Overrides) -> list[KernelConfig]:
    """The kernels to choose from that are exact for a scoring."""
    shapes = overrides.shapes(kind)
    configs = [_config(kind, shape, overrides.warps) for shape in shapes]
    wide_enough = raised_range.wide_enough if kind.prunes else packed_range.wide_enough
    return [config for config in configs if kind.numbers == "int32" or wide_enough(scoring, config)]


def _expected_times(
    jobs: Sequence[SweepJob], kind: Kind, hardware: Hardware, overrides: Overrides
) -> tuple[dict[KernelConfig, float], bool]:
    """The expected seconds of each kernel to choose from, and whether some kernels were left out.

    If a requested column lies inside a part, its strip is ragged and slower, and all strips that follow wait
    for it. Kernels that make strips ragged are therefore left out, if others remain. Only the strip at the
    right edge of a single rectangle may be ragged: nothing waits for that one.
    """
    alphabet, alone = max(job.scoring.letters for job in jobs), len(jobs) == 1
    fitting = _fitting(jobs, kind, overrides)
    inside = {col for job in jobs for col in job.cols if not alone or col < len(job.target)}
    whole = [config for config in fitting if all(col % config.columns == 0 for col in inside)]
    seconds = {
        config: expected_seconds([_strips_of(job, config, alone) for job in jobs], config, hardware, alphabet)
        for config in whole or fitting
    }
    return seconds, len(seconds) < len(fitting)


def _strips_of(job: SweepJob, config: KernelConfig, alone: bool) -> Strips:
    needs_right_edge = bool(job.cols) and job.cols[-1] == len(job.target)
    last_is_ragged = alone and needs_right_edge and len(job.target) % config.columns > 0
    return Strips(len(job.query), count_strips(job, config), last_is_ragged)


def band_rows(
    jobs: Sequence[SweepJob], config: KernelConfig, resident_warps: int, overrides: Overrides
) -> int:
    """The rows of a band, or `ALL_ROWS` for a single band.

    Several bands are used only if there are more strips than resident warps. Without bands, many warps would
    then be idle while the last strips are swept. A band must have enough rows that its strips, each a *lag*
    behind its left neighbour, keep all warps busy. If no rectangle has more rows than that, bands would gain
    nothing and only interrupt strips.
    """
    if overrides.band_rows:
        return overrides.band_rows
    strips = sum(count_strips(job, config) for job in jobs)
    rows = 2 * resident_warps * config.strip_lag
    return rows if strips > resident_warps and any(len(job.query) > rows for job in jobs) else ALL_ROWS


def tile_shape(rows: int, cols: int, free_bytes: int, devices: int, hardware: Hardware) -> tuple[int, int]:
    """The largest tile (rows, columns) worth one launch, within half of `free_bytes` of device memory.

    A tile has the full width of the DP matrix, if memory allows. The pipeline of strips then fills and drains
    once for the whole width, and tiles follow one another from top to bottom. Otherwise tiles have nearly
    equal widths. If several `devices` share the DP matrix, tiles are narrower, so that all devices have work,
    unless the shorter pipelines would cost more than that gains.
    """
    letters = max(2, free_bytes // (2 * _BYTES_A_LETTER))
    width = _even_part(cols, letters // 2)
    cells = max(TILE_CELLS, rows * cols // MAX_TILES)
    height = min(rows, max(1, min(letters - width, cells // width)))
    return shared_tile_shape(rows, cols, (height, width), devices, partial(_tile_seconds, hardware))


def tiles_at_once(rows: int, cols: int, small: bool) -> int:
    """See `Backend.tiles_at_once`.

    When the last strips of a tile end, and the host fetches its boundaries and uploads the next ones, a
    device with one tile is idle. With two, each on half of its thread blocks, it sweeps the other one.
    """
    return 2 if rows * cols >= (_WORTH_TWO_SMALL if small else _WORTH_TWO_AT_ONCE) else 1


def strip_width(rows: int, cols: int, hardware: Hardware) -> int:
    """The columns of a strip in a tile of this size, for the fastest kernel and the default scoring."""
    return min((seconds, config.strip_width) for seconds, config in _kernels(rows, cols, hardware))[1]


def sweep_seconds(
    rows: int,
    cols: int,
    hardware: Hardware,
    scoring: Scoring,
    local: bool,
    overrides: Overrides = Overrides(),
) -> float:
    """The expected seconds of a rectangle with the fastest kernel, if letters and edges are usual ones."""
    if rows * cols == 0:
        return 0.0
    return min(seconds for seconds, _ in _kernels(rows, cols, hardware, scoring, local, overrides))


def _tile_seconds(hardware: Hardware, rows: int, cols: int) -> float:
    """The expected seconds of a tile for the default scoring."""
    return TILE_OVERHEAD + min(seconds for seconds, _ in _kernels(rows, cols, hardware))


def _kernels(
    rows: int,
    cols: int,
    hardware: Hardware,
    scoring: Scoring = _USUAL,
    local: bool = True,
    overrides: Overrides = Overrides(),
) -> Iterator[tuple[float, KernelConfig]]:
    """The expected seconds of a rectangle for each kernel that suits a scoring, and the kernel."""
    packed = Kind(local, True, "packed", letter_scoring_for(scoring), prunes=False, excludes=False)
    numbers, _ = _usual_numbers(scoring, packed, hardware, overrides)
    for config in _exact_kernels(scoring, packed._replace(numbers=numbers), overrides):
        strips = -(-cols // config.strip_width)
        yield expected_seconds([Strips(rows, strips)], config, hardware, scoring.letters), config


def _even_part(length: int, limit: int) -> int:
    """The size of the largest part if `length` is divided into nearly equal parts of at most `limit`."""
    return -(-length // -(-length // limit))
