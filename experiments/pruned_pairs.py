"""Compare alignments of random related pairs with and without pruning: score, coordinates and CIGAR.

    python experiments/pruned_pairs.py [--pairs 20000] [--first 0] [--longest 3000] [--seed 1]
                                       [--backend cpu] [--out FILE]

Targets are copies of the query with changes at a rate of 0 to 20 %, of which parts may be cut out, repeated,
inverted, moved, masked by N or lengthened. Modes, scorings and strands take turns. Matrices of this size are
usually not pruned: here they are, if seeds find a bound with which the back end leaves out cells. Half of the
matrices are cut into tiles of `TILE` letters a side. Half of those with tiles, and half of the others, are
pruned as large ones are: gains are computed again with anchors, and with the limits of rows where those can
be found; and where there are tiles, several places of the band are swept at once, below guessed rows. A
difference is printed, with what repeats it, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from hardware import save_report
from scripts import run_script, script_parser

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "helpers"))

from related_pairs import CHANGES  # noqa: E402

import longalign  # noqa: E402
from longalign import Alignment, Scoring  # noqa: E402
from longalign.backends.cpu import CpuBackend  # noqa: E402
from longalign.backends.select import open_backends  # noqa: E402
from longalign.events import BoundFound, Event, PhaseFinished  # noqa: E402
from longalign.model.alphabet import Codes  # noqa: E402
from longalign.model.mode import MODES  # noqa: E402
from longalign.model.pruning import RowLimits  # noqa: E402
from longalign.phases import guessed_lines, score  # noqa: E402
from longalign.phases.problem import Problem  # noqa: E402
from longalign.pruning import row_limits  # noqa: E402
from longalign.pruning.gains import Gains  # noqa: E402
from longalign.pruning.row_limits import Sections  # noqa: E402
from longalign.run import bounds  # noqa: E402
from longalign.run.request import Request  # noqa: E402
from longalign.testing.inputs import mutated  # noqa: E402

TILE = 700

#: The letters of the query for which the limit of a row is looked for, at least.
UNIT = 200

#: How far above a guessed row its sweep begins, besides half the width of the band (see `guessed_lines`).
DISTANCE = 200

RATES = (0.0, 0.001, 0.01, 0.05, 0.2)
SCORINGS = (
    Scoring(),
    Scoring(1, -1, 0, 1),
    Scoring(2, -3, 5, 2),
    Scoring(5, -4, 10, Decimal("0.5")),
    Scoring(1, -4, 6, 1),
)
STRANDS = ("plus", "both")
CASES = list(product(MODES, SCORINGS, STRANDS, (False, True)))


def main() -> int:
    options = _parse()
    bounds.MIN_CELLS = 0
    counts: Counter[str] = Counter()
    started, report_due = time.perf_counter(), 0.0
    last = options.first + options.pairs - 1
    for number in range(options.first, last + 1):
        compare(number, options, counts)
        seconds = time.perf_counter() - started
        if seconds >= report_due or number == last:
            report_due = seconds + 30
            print(f"{counts['pairs']:,} pairs, {seconds:.0f} s: {dict(counts)}", flush=True)
            how = {name: getattr(options, name) for name in ("backend", "seed", "first", "longest")}
            save_report(options.out, **how, seconds=round(seconds, 1), **counts)
    return 1 if counts["differences"] else 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first pair")
    parser.add_argument("--longest", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def compare(number: int, options: argparse.Namespace, counts: Counter[str]) -> None:
    """Align one pair both ways, and count it and what pruning did."""
    rng = np.random.default_rng([options.seed, number])
    mode, scoring, strand, has_tiles = CASES[number % len(CASES)]
    query, target = draw_pair(rng, options.longest)
    events: list[Event] = []

    def align(prune: str) -> Alignment:
        return longalign.align(
            query, target, scoring=scoring, mode=mode, strand=strand, prune=prune, backend=options.backend,
            emit=events.append if prune == "auto" else longalign.events.ignore,
        )  # fmt: skip

    as_large = number // len(CASES) % 2 == 1
    with _small_tiles(options.backend, has_tiles):
        with _pruned_as_large(options.backend, as_large, counts):
            pruned = align("auto")
        whole = align("off")
    counts["pairs"] += 1
    counts["bounds_found"] += any(isinstance(event, BoundFound) for event in events)
    [swept] = (event for event in events if isinstance(event, PhaseFinished) and event.name == "score")
    counts["with_cells_left_out"] += swept.left_out > 0
    counts["cells"] += swept.cells
    counts["cells_left_out"] += swept.left_out
    differ = _outcome(pruned) != _outcome(whole)
    counts["differences"] += differ
    if differ:
        print(
            f"--pairs 1 --first {number} --seed {options.seed} --longest {options.longest} "
            f"--backend {options.backend}: "
            f"{mode}, {scoring}, {strand}, tiles {has_tiles}, as large {as_large}: "
            f"{_outcome(pruned)} with pruning, {_outcome(whole)} without",
            flush=True,
        )


@cache
def _class_of(backend: str) -> type:
    [opened] = open_backends(backend)
    return type(opened)


@contextmanager
def _small_tiles(backend: str, wanted: bool) -> Iterator[None]:
    with ExitStack() as patches:
        if wanted:
            shape = patch.object(_class_of(backend), "tile_shape", lambda *_: (TILE, TILE))
            patches.enter_context(shape)
        yield


@contextmanager
def _pruned_as_large(backend: str, wanted: bool, counts: Counter[str]) -> Iterator[None]:
    """Anchors, row limits and guesses are used, and counted. A CPU then sweeps several tiles at once, too."""
    find_difference, find_gains, find_limits = score.difference, Problem.gains, Sections.limits

    def difference(*arguments: Any) -> int | None:
        added = find_difference(*arguments)
        counts["wrong_guesses" if added is None else "right_guesses"] += 1
        return added

    def gains(problem: Problem, *findings: Any) -> Gains:
        counts["gains_with_anchors"] += len(findings)
        return find_gains(problem, *findings)

    def limits(sections: Sections, _: float, *arguments: Any) -> RowLimits:
        found = find_limits(sections, float("inf"), *arguments)
        counts["row_limits"] += len(found) > 0
        return found

    with ExitStack() as patches:
        if wanted:
            patches.enter_context(patch.object(bounds._Closer, "_saves", lambda *_: True))
            patches.enter_context(patch.object(bounds, "_MAX_SHARE_FOR_LIMITS", 1.0))
            patches.enter_context(patch.object(Problem, "gains", gains))
            patches.enter_context(patch.object(Sections, "limits", limits))
            patches.enter_context(patch.object(row_limits, "_UNIT", UNIT))
            patches.enter_context(patch.object(score, "difference", difference))
            patches.enter_context(patch.object(guessed_lines, "_LONGEST_REPEAT", DISTANCE))
            patches.enter_context(patch.object(Request, "is_narrow", True))
            if _class_of(backend) is CpuBackend:
                patches.enter_context(patch.object(CpuBackend, "parts", _parts))
        yield


def _parts(backend: CpuBackend, most: int, cells: int, *, streams: bool) -> list[CpuBackend]:
    return [CpuBackend(1) for _ in range(most)]


def draw_pair(rng: np.random.Generator, longest: int) -> tuple[str, str]:
    """A query and a target, spelled; neither is empty."""
    length = int(rng.integers(longest // 10, longest))
    query = rng.integers(0, 4, length, np.uint8)
    target = mutated(query, length, float(rng.choice(RATES)), rng)
    for change in rng.choice(len(CHANGES), int(rng.integers(0, 4))):
        query, target = CHANGES[change](query, target, rng)
        if rng.random() < 0.5:
            query, target = target, query
    return _spelled(query), _spelled(target)


def _spelled(codes: Codes) -> str:
    letters = np.frombuffer(b"ACGTN", np.uint8)
    return bytes(letters[np.minimum(codes, 4)]).decode() or "A"


def _outcome(found: Alignment) -> tuple[object, ...]:
    ends = found.query_start, found.query_end, found.target_start, found.target_end
    return found.score, found.strand, *ends, found.cigar


if __name__ == "__main__":
    run_script(main)
