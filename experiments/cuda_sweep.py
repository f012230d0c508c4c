"""Time phase 1 on a GPU: one sweep of a whole pair, without and with a lattice, and check known scores.

    python experiments/cuda_sweep.py --genomes DIR [--pairs mito random chlamydia ecoli] [--columns 0 ...]
                                     [--repeats 3] [--letters dot] [--batch 32] [--warps 4]
                                     [--lattice-of chlamydia] [--out FILE]

DIR holds NAME.fa.gz files. A time is that of a whole `CudaBackend.sweep` call, transfers included, after
the kernel has been compiled; the median of the repeats counts. GCUPS are query x target letters by
seconds. `--columns` lists columns a lane to try, 0 being what the back end chooses by itself; for the
other ways to sweep see `longalign.backends.cuda.config`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from hardware import describe_machine

from longalign.backends.base import SweepJob
from longalign.backends.cuda import planning
from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.letters import STRATEGIES, letters_for
from longalign.boundary import BestCell, local_edges
from longalign.scoring import Scoring

LATTICE_LINES = 64
QUERY_N, TARGET_N = 4, 5


@dataclass(frozen=True)
class Pair:
    """Two FASTA files and the best local cell under the default scoring, from other programs."""

    query: str
    target: str
    best: BestCell


PAIRS = {
    "mito": Pair("human_mito.NC_012920.1", "chimp_mito.NC_001643.1X", BestCell(10637, 16569, 16548)),
    "chlamydia": Pair(
        "chlamydia_trachomatis_A_HAR13.CP000051.1",
        "chlamydia_muridarum_Nigg.AE002160.2",
        BestCell(88353, 722725, 1072950),
    ),
    "ecoli": Pair(
        "ecoli_K12_MG1655.NC_000913.2",
        "ecoli_O157H7_Sakai.BA000007.2",
        BestCell(1367086, 4488125, 5345693),
    ),
}
RANDOM = "random"  # 100,000 x 100,000 letters, of no known score


def main() -> int:
    options = _parse()
    runs = []
    for name in options.pairs:
        for columns in options.columns:
            runs.append(measure(name, columns, options, lattice=False))
            print(_line(runs[-1]), flush=True)
        if name in options.lattice_of:
            runs.append(measure(name, options.columns[0], options, lattice=True))
            print(_line(runs[-1]), flush=True)
    report = {**describe_machine(), "device": _backend(None).describe(), "runs": runs}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(run["ok"] for run in runs) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--pairs", nargs="+", choices=[*PAIRS, RANDOM], default=[*PAIRS, RANDOM])
    parser.add_argument("--columns", nargs="+", type=int, default=[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--letters", choices=STRATEGIES, default=STRATEGIES[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--warps", type=int, default=4)
    parser.add_argument("--lattice-of", nargs="*", default=[], help="pairs to time with a lattice as well")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def measure(name: str, columns: int, options: argparse.Namespace, lattice: bool) -> dict[str, object]:
    """Seconds and GCUPS of one pair; `columns` 0 leaves the choice to the back end."""
    query, target, known = read_pair(name, options.genomes)
    job = local_job(query, target)
    if lattice:
        job = replace(job, rows=_lines(len(query)), cols=_lines(len(target)))
    columns = columns or planning.columns_a_lane([job], _multiprocessors())
    backend = _backend(columns, letters=options.letters, batch=options.batch, warps=options.warps)
    started = time.perf_counter()
    backend.sweep([local_job(query[:100], target[:100])])  # the same kernel on little work: compiles it
    compilation = time.perf_counter() - started

    seconds = []
    for _ in range(options.repeats):
        started = time.perf_counter()
        [swept] = backend.sweep([job])
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    return {
        "pair": name, "rows": len(query), "cols": len(target), "columns_a_lane": columns,
        "letters": letters_for([job], options.letters), "batch": options.batch, "warps": options.warps,
        "lattice": f"{LATTICE_LINES} x {LATTICE_LINES}" if lattice else None,
        "seconds": seconds, "median_seconds": median, "gcups": job.cells / median / 1e9,
        "compile_seconds": compilation, "score": swept.best.score, "end": [swept.best.i, swept.best.j],
        "ok": known is None or swept.best == known,
    }  # fmt: skip


@cache
def read_pair(name: str, genomes: Path) -> tuple[np.ndarray, np.ndarray, BestCell | None]:
    """Codes of query and target, and the best cell where it is known."""
    if name == RANDOM:
        query, target = np.random.default_rng(0).integers(0, 4, (2, 100_000), np.uint8)
        return query, target, None
    pair = PAIRS[name]
    query = read_codes(genomes / f"{pair.query}.fa.gz", QUERY_N)
    return query, read_codes(genomes / f"{pair.target}.fa.gz", TARGET_N), pair.best


def read_codes(file: Path, ambiguous: int) -> np.ndarray:
    """The codes of a gzipped FASTA file of one record: A C G T as 0-3, every other letter `ambiguous`."""
    table = np.full(256, ambiguous, np.uint8)
    for code, letter in enumerate("ACGT"):
        table[[ord(letter), ord(letter.lower())]] = code
    with gzip.open(file) as lines:
        next(lines)
        return table[np.frombuffer(b"".join(line.strip() for line in lines), np.uint8)]


def local_job(query: np.ndarray, target: np.ndarray) -> SweepJob:
    """The whole matrix in local mode: only the best cell is wanted."""
    return SweepJob(query, target, Scoring(), *local_edges(len(query), len(target)), True)


def _lines(length: int) -> tuple[int, ...]:
    return tuple(length * k // LATTICE_LINES for k in range(1, LATTICE_LINES + 1))


@cache
def _backend(columns: int | None, **how: object) -> CudaBackend:
    return CudaBackend(columns=columns, **how)


def _multiprocessors() -> int:
    return int(_backend(None).describe()["multiprocessors"])


def _line(run: dict[str, object]) -> str:
    lattice = f" lattice {run['lattice']}" if run["lattice"] else ""
    return (
        f"{'ok ' if run['ok'] else 'BAD'} {run['pair']:10} {run['rows']} x {run['cols']}{lattice}, "
        f"{run['columns_a_lane']} columns a lane, {run['letters']}: "
        f"{run['median_seconds']:.4f} s, {run['gcups']:.1f} GCUPS, "
        f"score {run['score']} at {run['end']} (compiled in {run['compile_seconds']:.1f} s)"
    )


if __name__ == "__main__":
    sys.exit(main())
