"""Which kernel sweeps a work list, and why; and how large a tile is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product

from longalign.backends.base import SweepJob
from longalign.backends.cuda.config import LANES, KernelConfig, Letters, Numbers
from longalign.backends.cuda.device.letter_scores import (
    STRATEGIES,
    fits_bytes,
    has_blanks,
    letters_for,
    usual_letters,
)
from longalign.backends.cuda.device.strip_profile import most_warps, profile_bytes, warp_bytes
from longalign.backends.cuda.planning import packed_range
from longalign.backends.cuda.planning.strips import ALL_ROWS, count_strips
from longalign.model.geometry import share
from longalign.model.scoring import Scoring


@dataclass(frozen=True, slots=True)
class Shape:
    """The part of a configuration that decides its speed; the words are those of `KernelConfig`."""

    columns: int
    batch: int
    max_registers: int | None = None
    ahead: bool = False


#: Shapes to choose from. Wide strips spend less on boundaries and synchronisation, narrow ones keep more
#: warps busy on short rectangles. Those that sweep the longest ones read ahead: there, many warps share the
#: pipes.
SHAPES: dict[Numbers, tuple[Shape, ...]] = {
    "packed": (
        *(Shape(32, 64, 255), Shape(24, 64, 255, ahead=True), Shape(20, 64, 255)),
        *(Shape(16, 64, 255), Shape(8, 64, 168), Shape(5, 64, 168)),
    ),
    "int32": (Shape(16, 32, 168, ahead=True), Shape(8, 32, 128)),
}

#: With a matrix, shared memory bounds how many warps there is room for, and how wide strips can be: no wider
#: than the widest here.
PROFILE_SHAPES: dict[Numbers, tuple[Shape, ...]] = {
    "packed": (Shape(16, 64, 168, ahead=True), Shape(8, 64, 168)),
    "int32": (Shape(8, 32, 168),),
}

#: Columns of packed shapes to choose from where all paths enter at a corner. So they do in phases 2 and 3,
#: which sweep rectangles of all sizes: two kernels will do, as each takes seconds to compile.
_COLUMNS_FROM_A_CORNER = (24, 8)

#: How letter pairs are scored: for people.
LETTERS_IN_WORDS: dict[Letters, str] = {
    "bytes": "bytes: a target letter's four scores in a register",
    "compare": "compare: match or mismatch, in 32 bits",
    "profile": "profile: what each letter of the matrix scores against a strip, in shared memory",
}

#: What packed arithmetic needs: Hopper's instructions.
PACKED_CAPABILITY = (9, 0)

#: About half a minute at 4 TCUPS: long beside a launch and its transfers, short enough to lose.
TILE_CELLS = 1 << 47

#: Seconds that a tile takes beside its kernel, at least: its edges, its file.
_TILE_OVERHEAD = 0.1

#: What tiles are cut for, whatever is to be swept.
_USUAL = Scoring()

#: What a tile takes on the device for a letter of either side: the letter, and the boundary beside it with
#: its tags, or twice above it.
_BYTES_A_LETTER = 1 + 16


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a choice depends on."""

    multiprocessors: int
    compute_capability: tuple[int, int]
    #: Shared memory of a multiprocessor.
    shared_bytes: int = 228 << 10
    #: Cycles of a multiprocessor in a second.
    clock: float = 1.98e9


def shapes_of(numbers: Numbers, letters: Letters, local: bool) -> tuple[Shape, ...]:
    """The shapes that there are for a kind of numbers and a strategy for letters."""
    shapes = (PROFILE_SHAPES if letters == "profile" else SHAPES)[numbers]
    if local or letters == "profile" or numbers == "int32":
        return shapes
    return tuple(shape for shape in shapes if shape.columns in _COLUMNS_FROM_A_CORNER)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is not left to this module: None where it is."""

    numbers: Numbers | None = None
    columns: int | None = None
    batch: int | None = None
    warps: int = 4
    max_registers: int | None = None
    band_rows: int | None = None

    def shapes(self, numbers: Numbers, letters: Letters, local: bool) -> list[Shape]:
        """The shapes that are left to choose from."""
        columns = self.columns
        there = shapes_of(numbers, letters, local or columns is not None)
        if columns and letters == "profile":
            columns = min(columns, max(shape.columns for shape in there))
        shapes = [shape for shape in there if columns in (None, shape.columns)]
        if columns and not shapes:
            shapes = [Shape(columns, 64 if numbers == "packed" else 32)]
        wished = {
            replace(
                shape,
                batch=self.batch or shape.batch,
                max_registers=self.max_registers or shape.max_registers,
            ): None
            for shape in shapes
        }
        return list(wished)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A kernel, and why this one: a sentence for its numbers, and the seconds that shapes are expected to
    take; `only_whole` if only those with whole parts between wanted columns were looked at."""

    config: KernelConfig
    why_numbers: str
    seconds: dict[KernelConfig, float]
    only_whole: bool

    @property
    def why_shape(self) -> str:
        """A sentence for its strips."""
        why = f"expected to take {self.seconds[self.config]:.3g} s"
        if self.only_whole:
            why += ", of those with whole parts between wanted columns"
        others = [
            f"{config.columns} columns: {time:.3g} s"
            for config, time in self.seconds.items()
            if config != self.config
        ]
        return f"{why} ({'; '.join(others)})" if others else why


def every_configuration() -> list[KernelConfig]:
    """Every kernel that `CudaBackend` may choose by itself."""
    return [
        _config(local, track_best, numbers, letters, shape)
        for local, track_best, numbers in product((True, False), (True, False), STRATEGIES)
        for letters in STRATEGIES[numbers]
        for shape in shapes_of(numbers, letters, local)
    ]


def _config(
    local: bool, track_best: bool, numbers: Numbers, letters: Letters, shape: Shape, warps: int = 4
) -> KernelConfig:
    config = KernelConfig(
        local, track_best, shape.columns, letters, shape.batch, warps, numbers, shape.max_registers,
        shape.ahead,
    )  # fmt: skip
    return replace(config, warps=min(warps, most_warps(config))) if letters == "profile" else config


def choose(jobs: Sequence[SweepJob], hardware: Hardware, wishes: Wishes = Wishes()) -> list[Choice]:
    """A kernel for each rectangle; those that one kernel can sweep share its launch, and so their choice."""
    groups: dict[tuple[bool, bool, Numbers, Letters], list[int]] = {}
    reasons = {}
    for number, job in enumerate(jobs):
        letters, numbers, reasons[number] = _numbers(job, hardware, wishes)
        groups.setdefault((job.local, job.track_best, numbers, letters), []).append(number)
    choices: dict[int, Choice] = {}
    for (_, _, numbers, letters), members in groups.items():
        only_whole, seconds = _strips([jobs[k] for k in members], numbers, letters, hardware, wishes)
        fastest = min(seconds, key=seconds.__getitem__)
        choices.update({k: Choice(fastest, reasons[k], seconds, only_whole) for k in members})
    return [choices[k] for k in range(len(jobs))]


def _numbers(job: SweepJob, hardware: Hardware, wishes: Wishes) -> tuple[Letters, Numbers, str]:
    """The fastest exact way to score letters, the fastest exact numbers, and why these."""
    letters = letters_for(job)
    numbers, why = _numbers_for(job, letters, hardware, wishes)
    return letters, numbers, why


def _numbers_for(job: SweepJob, letters: Letters, hardware: Hardware, wishes: Wishes) -> tuple[Numbers, str]:
    numbers, why = _usual_numbers(job.scoring, job.local, job.track_best, letters, hardware, wishes)
    if numbers == "packed" and not packed_range.has_smooth_edges(job):
        return "int32", "the values on its edges jump"
    return numbers, why


def _usual_numbers(
    scoring: Scoring, local: bool, track_best: bool, letters: Letters, hardware: Hardware, wishes: Wishes
) -> tuple[Numbers, str]:
    """The fastest numbers that are exact where the edges are those of a matrix."""
    if wishes.numbers == "int32":
        return "int32", "32 bits were asked for"
    if hardware.compute_capability < PACKED_CAPABILITY:
        return "int32", "packed arithmetic needs compute capability 9.0"
    if letters == "compare" or not fits_bytes(scoring):
        return "int32", "a score and the cost of a gap's first letter exceed 8 bits"
    if not _exact_kernels(scoring, local, track_best, "packed", letters, wishes):
        return "int32", "neighbouring values can differ by more than 16 bits hold"
    return "packed", "every value of a batch fits 16 bits"


def _fitting(
    jobs: Sequence[SweepJob], numbers: Numbers, letters: Letters, wishes: Wishes
) -> list[KernelConfig]:
    """The kernels that are exact for all these rectangles."""
    local, track_best = jobs[0].local, jobs[0].track_best
    exact = [
        _exact_kernels(scoring, local, track_best, numbers, letters, wishes)
        for scoring in {job.scoring for job in jobs}
    ]
    return [config for config in exact[0] if all(config in others for others in exact[1:])]


@lru_cache
def _exact_kernels(
    scoring: Scoring, local: bool, track_best: bool, numbers: Numbers, letters: Letters, wishes: Wishes
) -> list[KernelConfig]:
    """The kernels that are exact for a scoring."""
    configs = [
        _config(local, track_best, numbers, letters, shape, wishes.warps)
        for shape in wishes.shapes(numbers, letters, local)
    ]
    return [config for config in configs if numbers == "int32" or packed_range.wide_enough(scoring, config)]


def _strips(
    jobs: Sequence[SweepJob], numbers: Numbers, letters: Letters, hardware: Hardware, wishes: Wishes
) -> tuple[bool, dict[KernelConfig, float]]:
    """How many seconds each shape takes, and whether these are fewer shapes than there are: if some will do,
    only those with whole parts between wanted columns.

    Where a wanted column lies inside a part, its strip is swept more slowly, and all that follow wait for it.
    """
    alphabet = max(job.scoring.letters for job in jobs)
    fitting, cols = _fitting(jobs, numbers, letters, wishes), {col for job in jobs for col in job.cols}
    whole = [config for config in fitting if all(col % config.columns == 0 for col in cols)]
    return len(whole or fitting) < len(fitting), {
        config: expected_seconds(
            [(len(job.query), count_strips(job, config)) for job in jobs], config, hardware, alphabet
        )
        for config in whole or fitting
    }


# The model behind the choice of columns, in cycles. A row of a lane takes so long however few warps there
# are, and so much of the pipes that the warps of a multiprocessor's quarter share; so do batches. A strip
# starts when its left neighbour is a `lag` ahead, mostly in partial batches if there are such. Measured on an
# NVIDIA H200.
_QUARTERS, _REGISTERS = 4, 65536
_BLOCK_SHARED = 1 << 10  # shared memory that a block takes beside what it asks for
_ROW_LATENCY, _COLUMN_LATENCY, _BATCH_LATENCY = 39, 12.2, 1_800
_NARROW_LATENCY = 28  # by which a row takes less where strips are narrow
_ROW_ISSUE, _COLUMN_ISSUE, _BATCH_ISSUE = 15, 13, 800
_ROOMY, _CROWDED_ISSUE = 24, 2  # columns for which there are registers in plenty; more of them take longer
_PARTIAL, _STRIP_LATENCY = 1.15, 3_800


@lru_cache
def resident_warps(config: KernelConfig, hardware: Hardware, alphabet: int = 0) -> int:
    """How many warps the device runs at a time: by its registers, and by its shared memory for a matrix of so
    many letters."""
    threads = config.warps * LANES
    blocks = _REGISTERS // (threads * (config.max_registers or _REGISTERS // threads))
    shared = _BLOCK_SHARED + config.warps * warp_bytes(config) + profile_bytes(config, alphabet)
    return max(1, min(blocks, hardware.shared_bytes // shared)) * config.warps * hardware.multiprocessors


@dataclass(frozen=True, slots=True)
class _SpeedModel:
    """What the model says of a kernel on a device.

    `latency` and `issue` are cycles of a row of a lane: by itself, and of the pipes that warps share. A strip
    starts `lag` rows after its left neighbour, `resident` warps have room at a time.
    """

    latency: float
    issue: float
    lag: float
    resident: int


@lru_cache
def _speed_model(config: KernelConfig, hardware: Hardware, alphabet: int) -> _SpeedModel:
    columns, batch = config.columns, config.batch
    latency = _ROW_LATENCY + _COLUMN_LATENCY * columns + _BATCH_LATENCY / batch
    issue = _ROW_ISSUE + _COLUMN_ISSUE * columns + _BATCH_ISSUE / batch
    return _SpeedModel(
        latency - config.narrow * _NARROW_LATENCY,
        issue + _CROWDED_ISSUE * max(0, columns - _ROOMY),
        (1 if has_blanks(config) else _PARTIAL) * (config.lag + config.ahead * batch),
        resident_warps(config, hardware, alphabet),
    )


def expected_seconds(
    rectangles: Sequence[tuple[int, int]], config: KernelConfig, hardware: Hardware, alphabet: int = 0
) -> float:
    """How long the kernel will take for rectangles of so many rows and strips each, roughly.

    Of a low rectangle, few strips are under way at a time: each ends soon after it has let the next one
    start, and how soon it does so is what counts.
    """
    speed, lag = _speed_model(config, hardware, alphabet), config.lag
    strips = [count for _, count in rectangles]
    under_way = sum([min(count, 1 + rows // lag) for rows, count in rectangles])
    warps = min(under_way, speed.resident)
    row = max(speed.latency, -(-warps // (_QUARTERS * hardware.multiprocessors)) * speed.issue)
    work = sum([rows * count for rows, count in rectangles])
    start = speed.lag * row + _STRIP_LATENCY
    busy = work / warps * row + min(max(strips), warps) * start
    in_turn = [_in_turn(rows, count, config, speed) for rows, count in rectangles if count > warps]
    return max([busy, *in_turn]) / hardware.clock


def _in_turn(rows: int, strips: int, config: KernelConfig, speed: _SpeedModel) -> float:
    """Cycles until the last strip has swept a rectangle, if each starts when its left neighbour is a lag
    ahead, or at its end."""
    lag = min(speed.lag, rows + config.span)  # a strip's last part ends a span after its first
    return (strips * lag + rows) * speed.latency + strips * _STRIP_LATENCY


def band_rows(jobs: Sequence[SweepJob], config: KernelConfig, resident_warps: int, wishes: Wishes) -> int:
    """Rows of a band: all, unless there are more strips than warps, the last of which would leave many idle.

    A band must be so high that its strips, each a `lag` behind its neighbour, keep all warps busy: where no
    rectangle is higher, bands would only interrupt.
    """
    if wishes.band_rows:
        return wishes.band_rows
    strips = sum(count_strips(job, config) for job in jobs)
    rows = 2 * resident_warps * config.lag
    return rows if strips > resident_warps and any(len(job.query) > rows for job in jobs) else ALL_ROWS


def tile_shape(rows: int, cols: int, free_bytes: int, devices: int, hardware: Hardware) -> tuple[int, int]:
    """The largest tile (rows, columns) worth one launch within this much device memory.

    Full width where memory allows: the pipeline of strips then fills and empties once for the whole
    width, and tiles follow one another from top to bottom. Tiles are of nearly equal width. Where `devices`
    share the matrix, there are columns for all of them, as far as short pipelines do not cost more.
    """
    letters = max(2, free_bytes // (2 * _BYTES_A_LETTER))
    width = _even_part(cols, letters // 2)
    height = min(rows, max(1, min(letters - width, TILE_CELLS // width)))
    return share(rows, cols, (height, width), devices, partial(_tile_seconds, hardware))


def strip_width(rows: int, cols: int, hardware: Hardware) -> int:
    """Columns of a strip in a tile of this size, with the kernel that suits it best, of those for usual
    scorings."""
    return min((seconds, config.strip_width) for seconds, config in _kernels(rows, cols, hardware))[1]


def sweep_seconds(
    rows: int,
    cols: int,
    hardware: Hardware,
    scoring: Scoring,
    local: bool,
    wishes: Wishes = Wishes(),
) -> float:
    """How long a rectangle takes with the kernel that suits it best, if letters and edges are usual ones."""
    return min(seconds for seconds, _ in _kernels(rows, cols, hardware, scoring, local, wishes))


def _tile_seconds(hardware: Hardware, rows: int, cols: int) -> float:
    """How long a tile takes, for usual scorings."""
    return _TILE_OVERHEAD + min(seconds for seconds, _ in _kernels(rows, cols, hardware))


def _kernels(
    rows: int,
    cols: int,
    hardware: Hardware,
    scoring: Scoring = _USUAL,
    local: bool = True,
    wishes: Wishes = Wishes(),
) -> Iterator[tuple[float, KernelConfig]]:
    """The kernels for a scoring, by default a usual one, and how long each takes for a rectangle."""
    letters = usual_letters(scoring)
    numbers, _ = _usual_numbers(scoring, local, True, letters, hardware, wishes)
    for config in _exact_kernels(scoring, local, True, numbers, letters, wishes):
        strips = -(-cols // config.strip_width)
        yield expected_seconds([(rows, strips)], config, hardware, scoring.letters), config


def _even_part(length: int, limit: int) -> int:
    """The size of nearly equal parts of at most `limit`."""
    return -(-length // -(-length // limit))
