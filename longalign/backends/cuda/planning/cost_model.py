"""The cost model: the seconds that a kernel is expected to take for rectangles of given sizes.

The unit of the constants is a clock cycle of a multiprocessor. A row of a lane has a *latency*, the time that
it takes however few warps run. It also has an *issue cost*, the time for which it occupies the pipes that the
warps of a quarter of a multiprocessor share. Each row block adds to both. A strip starts when its left
neighbour is a *lag* ahead. Where parts may not sweep on outside the rectangle, most of these rows are in
MASKED row blocks, which are slower. The rows of a ragged strip are slower as well. The constants were
measured on an NVIDIA H200.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device.letter_scores import has_blank_rows
from longalign.backends.cuda.device.strip_profile import profile_bytes

_QUARTERS, _REGISTERS = 4, 65536  # of a multiprocessor
_BLOCK_SHARED = 1 << 10  # bytes of shared memory that a thread block takes in addition to its request
_ROW_LATENCY, _COLUMN_LATENCY, _BLOCK_LATENCY = 39, 12.2, 1_800
_NARROW_LATENCY = 28  # the latency that a row saves in narrow strips
_ROW_ISSUE, _COLUMN_ISSUE, _BLOCK_ISSUE = 15, 13, 800
_ROOMY, _CROWDED_ISSUE = 24, 2  # columns of a part for which registers suffice; added for each column beyond
_MASKED_SLOWDOWN, _STRIP_LATENCY = 1.15, 3_800
_RAGGED_SLOWDOWN = 2.0
_RAGGED_DOUBT = 1.1  # what ragged strips cost is only roughly known, so others are preferred


@dataclass(frozen=True, slots=True)
class Hardware:
    """The properties of a device that the choice of a kernel depends on."""

    multiprocessors: int
    compute_capability: tuple[int, int]
    #: Shared memory of a multiprocessor, in bytes.
    shared_bytes: int = 228 << 10
    #: Clock of a multiprocessor, in Hz.
    clock: float = 1.98e9


class Strips(NamedTuple):
    """The `number` of strips of a rectangle of `rows` rows, and whether the last one is ragged."""

    rows: int
    number: int
    last_is_ragged: bool = False


@lru_cache
def resident_warps(config: KernelConfig, hardware: Hardware, alphabet: int = 0) -> int:
    """The warps that the device runs at a time.

    Registers and shared memory limit their number. A substitution matrix of `alphabet` letters takes shared
    memory.
    """
    threads = config.warps * LANES
    blocks = _REGISTERS // (threads * (config.max_registers or _REGISTERS // threads))
    shared = _BLOCK_SHARED + config.warps * config.mailbox_bytes + profile_bytes(config, alphabet)
    return max(1, min(blocks, hardware.shared_bytes // shared)) * config.warps * hardware.multiprocessors


@dataclass(frozen=True, slots=True)
class _SpeedModel:
    """The parameters of the model for one kernel on one device.

    `latency` is the number of cycles that a row of a lane takes by itself. `issue` is the number of cycles
    for which it occupies the shared pipes. A strip starts `lag` rows after its left neighbour. `resident`
    warps run at a time.
    """

    latency: float
    issue: float
    lag: float
    resident: int


@lru_cache
def _speed_model(config: KernelConfig, hardware: Hardware, alphabet: int) -> _SpeedModel:
    columns, block_rows = config.columns, config.block_rows
    latency = _ROW_LATENCY + _COLUMN_LATENCY * columns + _BLOCK_LATENCY / block_rows
    issue = _ROW_ISSUE + _COLUMN_ISSUE * columns + _BLOCK_ISSUE / block_rows
    return _SpeedModel(
        latency - config.narrow * _NARROW_LATENCY,
        issue + _CROWDED_ISSUE * max(0, columns - _ROOMY),
        (1 if has_blank_rows(config) else _MASKED_SLOWDOWN)
        * (config.strip_lag + config.prefetch_edge * block_rows),
        resident_warps(config, hardware, alphabet),
    )


def expected_seconds(
    rectangles: Sequence[Strips], config: KernelConfig, hardware: Hardware, alphabet: int = 0
) -> float:
    """The seconds that the kernel is expected to take for `rectangles`.

    In a rectangle of few rows, few strips run at a time, because each ends soon after the next one has
    started. The time from the start of one strip to the start of the next then decides.
    """
    speed, lag = _speed_model(config, hardware, alphabet), config.strip_lag
    under_way = sum([min(one.number, 1 + one.rows // lag) for one in rectangles])
    warps = min(under_way, speed.resident)
    row = max(speed.latency, -(-warps // (_QUARTERS * hardware.multiprocessors)) * speed.issue)
    work = sum([one.rows * one.number for one in rectangles])
    start = speed.lag * row + _STRIP_LATENCY
    busy = work / warps * row + min(max(one.number for one in rectangles), warps) * start
    in_turn = [_in_turn(one, config, speed) for one in rectangles if one.number > warps or one.last_is_ragged]
    doubt = _RAGGED_DOUBT if any(one.last_is_ragged for one in rectangles) else 1
    return doubt * max([busy, *in_turn]) / hardware.clock


def _in_turn(strips: Strips, config: KernelConfig, speed: _SpeedModel) -> float:
    """The cycles until the last strip of a rectangle ends.

    Each strip starts when its left neighbour is a lag ahead, or ends.
    """
    rows, number, last_is_ragged = strips
    lag = min(speed.lag, rows + config.span)  # a strip's last part ends a span after its first
    last = rows * (_RAGGED_SLOWDOWN if last_is_ragged else 1)
    return (number * lag + last) * speed.latency + number * _STRIP_LATENCY
