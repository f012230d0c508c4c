"""Compare what users may ask for with what it should cost: strands, modes, several alignments, many pairs.

    python experiments/product_bars.py --genomes DIR [--backend cpu] [--limit N] [--side 100000]
                                       [--pairs 1000] [--repeats 3] [--only strands top ...] [--out FILE]

DIR holds NAME.fa.gz files. The genomes are the *Chlamydia* pair of `cuda_sweep.py`, cut to N letters each.
`strands` also aligns a pair of which hardly any cell is computed, ENm001.
`modes` also sweeps two made pairs of `--side` letters: random ones, and ones with 3 % differences. All calls
of one comparison are made in this process, in turn, after one call of each that loads the kernels; seconds
are medians. `modes` compares the seconds of phase 1. `many` compares `align_many` and `score_many` for pairs
of 1,000 letters with parasail's vectorised functions, called by one thread for each pair. `process` is
a whole `longalign align` of two mitochondria with compiled kernels, from its start to its end, by default and
with `--backend`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import parasail
from cpu_sweep import diverged_pair, random_pair, spelled
from cuda_sweep import PAIRS
from hardware import save_report
from scripts import genome, run_script, script_parser

import longalign
from longalign.events import Event, PhaseFinished
from longalign.model.alphabet import Codes

#: The most that each comparison may cost, as a multiple of its base; for `process`, in seconds.
BARS = {"strands": 2.05, "top": 3.0, "modes": 1.03, "many": 2.5, "process": 1.2}

ENDS_FREE = ("semiglobal", "overlap", "fit", "extend")
LETTERS_OF_MANY = 1000

ROOT = Path(__file__).resolve().parents[1]
MITO = PAIRS["mito"]
CHLAMYDIA = PAIRS["chlamydia"].query, PAIRS["chlamydia"].target
SIMILAR = "ENm001_human", "ENm001_chimp"

#: Seconds of one call.
Timed = Callable[[], float]
Genome = longalign.Sequence | Codes
Row = dict[str, object]


def main() -> int:
    options = _parse()
    rows: list[Row] = []
    for name in options.only:
        for row in MEASURES[name](options):
            rows.append({"comparison": name, **row, "bar": BARS[name]})
            print(_line(rows[-1]), flush=True)
            how = {"backend": options.backend, "limit": options.limit, "repeats": options.repeats}
            save_report(options.out, **how, rows=rows)
    return 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--limit", type=int, help="letters of each genome; by default all")
    parser.add_argument("--side", type=int, default=100_000, help="letters of the made pairs of `modes`")
    parser.add_argument("--pairs", type=int, default=1000, help="pairs of `many`")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def strands(options: argparse.Namespace) -> Iterator[Row]:
    """Both strands of the query, against one."""
    pairs = {"chlamydia": _genomes(options, *CHLAMYDIA), "enm001": _genomes(options, *SIMILAR)}

    def align(pair: tuple[Genome, Genome], strand: str) -> object:
        return longalign.align(*pair, strand=strand, backend=options.backend)

    for name, pair in pairs.items():
        calls = {strand: _wall(partial(align, pair, strand)) for strand in ("plus", "both")}
        yield _against("plus", _medians(calls, options.repeats), name)


def top(options: argparse.Namespace) -> Iterator[Row]:
    """The ten best alignments, against the best one."""
    pair = _genomes(options, *CHLAMYDIA)

    def align(count: int) -> object:
        return longalign.best_alignments(*pair, count, backend=options.backend)

    calls = {f"top {count}": _wall(partial(align, count)) for count in (1, 10)}
    yield _against("top 1", _medians(calls, options.repeats), "chlamydia")


def modes(options: argparse.Namespace) -> Iterator[Row]:
    """Phase 1 of the modes with free ends, against those of local and of global; every cell is swept."""
    rng = np.random.default_rng(1)
    pairs = {
        "random": _spelled(random_pair(options.side, rng)),
        "3 % differences": _spelled(diverged_pair(options.side, rng)),
        "chlamydia": _genomes(options, *CHLAMYDIA),
    }

    def phase_1(pair: tuple[object, object], mode: str) -> float:
        finished: list[PhaseFinished] = []

        def note(event: Event) -> None:
            if isinstance(event, PhaseFinished):
                finished.append(event)

        longalign.score(*pair, mode=mode, backend=options.backend, prune="off", emit=note)
        return next(phase.seconds for phase in finished if phase.name == "score")

    for name, pair in pairs.items():
        calls = {mode: partial(phase_1, pair, mode) for mode in ("local", "global", *ENDS_FREE)}
        seconds = _medians(calls, options.repeats)
        for base in ("local", "global"):
            yield _against(base, {mode: seconds[mode] for mode in (base, *ENDS_FREE)}, name)


def many(options: argparse.Namespace) -> Iterator[Row]:
    """Many small pairs, against parasail's functions for the same. Scores are compared as well."""
    rng = np.random.default_rng(1)
    pairs = [_spelled(diverged_pair(LETTERS_OF_MANY, rng, 0.07)) for _ in range(options.pairs)]
    usual = longalign.Scoring()
    matrix = parasail.matrix_create("ACGT", int(usual.match), int(usual.mismatch))
    costs = int(usual.gap_open + usual.gap_extend), int(usual.gap_extend)

    def by_parasail(function: Callable[..., parasail.Result]) -> list[int]:
        return [function(query, target, *costs, matrix).score for query, target in pairs]

    def by_longalign(function: Callable[..., Iterator[object]]) -> list[int]:
        return [found.score for found in function(pairs, backend=options.backend)]

    for call, rival in (("align_many", "sw_trace_striped_16"), ("score_many", "sw_striped_16")):
        both = {
            rival: partial(by_parasail, getattr(parasail, rival)),
            call: partial(by_longalign, getattr(longalign, call)),
        }
        if len({tuple(scores()) for scores in both.values()}) > 1:
            sys.exit(f"{call} and parasail's {rival} find different scores")
        calls = {name: _wall(scores) for name, scores in both.items()}
        yield _against(rival, _medians(calls, options.repeats), f"{options.pairs:,} pairs")


def process(options: argparse.Namespace) -> Iterator[Row]:
    """A whole command, with the default back end and with the one given; the bar is in seconds.

    Python may write bytecode, as pip does when it installs a package.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    files = [str(ROOT / "tests" / "data" / f"{side}.fa.gz") for side in (MITO.query, MITO.target)]
    command = [sys.executable, "-m", "longalign", "align", *files, "--quiet", "-o", os.devnull]

    def run(backend: str) -> None:
        subprocess.run([*command, "--backend", backend], cwd=ROOT, env=environment, check=True)

    for backend in dict.fromkeys(("auto", options.backend)):
        seconds = _medians({"align": _wall(partial(run, backend))}, options.repeats)
        yield {"of": f"mitochondria, {backend}", "seconds": seconds, "largest": round(seconds["align"], 3)}


MEASURES: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "strands": strands, "top": top, "modes": modes, "many": many, "process": process,
}  # fmt: skip


def _genomes(options: argparse.Namespace, *names: str) -> tuple[Genome, Genome]:
    """Two genomes, cut to the limit."""
    query, target = (longalign.read_sequence(genome(options.genomes, name)) for name in names)
    if options.limit is None:
        return query, target
    return query.letters[: options.limit].copy(), target.letters[: options.limit].copy()


def _spelled(pair: tuple[Codes, Codes]) -> tuple[str, str]:
    query, target = map(spelled, pair)
    return query, target


def _wall(call: Callable[[], object]) -> Timed:
    def seconds() -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    return seconds


def _medians(calls: dict[str, Timed], repeats: int) -> dict[str, float]:
    """The median seconds of each call; the calls take turns, and the first turn does not count."""
    turns = [{name: call() for name, call in calls.items()} for _ in range(repeats + 1)][1:]
    return {name: statistics.median(turn[name] for turn in turns) for name in calls}


def _against(base: str, seconds: dict[str, float], of: str) -> Row:
    """The seconds, and the largest as a multiple of those of `base`."""
    others = [value for name, value in seconds.items() if name != base]
    return {"of": of, "base": base, "seconds": seconds, "largest": round(max(others) / seconds[base], 3)}


def _line(row: Row) -> str:
    shown = ", ".join(f"{name} {value:.3f} s" for name, value in row["seconds"].items())
    ok = "ok  " if row["largest"] <= row["bar"] else "OVER"
    return f"{ok} {row['comparison']:8} {row['of']:16} {row['largest']:7.3f} of {row['bar']}: {shown}"


if __name__ == "__main__":
    run_script(main)
