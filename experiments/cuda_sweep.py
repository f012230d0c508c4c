"""Time phase 1 on a GPU: one sweep of a whole pair, without and with a lattice, and check known scores.

    python experiments/cuda_sweep.py --genomes DIR [--pairs mito random chlamydia ecoli ...] [--columns 0 ...]
                                     [--numbers int32] [--block-rows 32] [--warps 4]
                                     [--registers 128]
                                     [--repeats 3] [--lattice-of chlamydia] [--starts] [--out FILE]

DIR holds NAME.fa.gz files. Two times are reported, each the median of the repeats: that of a whole
`CudaBackend.sweep` call after compilation, with its transfers, and that of the kernel alone. GCUPS are query
times target letters per second / 10^9. The time of a sweep with a lattice ends when the whole lattice is
packed. `device_bytes` is the device memory that the process then holds, which is the largest need of any pair
so far. `--columns` lists the columns per part of a strip to try; 0 leaves the choice to the back end. The
other options of the kernel are described in `longalign.backends.cuda.config`. `--starts` adds the
measurements of startup.py.

The pair "ceiling" is one rectangle per resident warp of an H200. No strip waits for another, which shows the
speed of the inner loop. The pair "protein" is scored by BLOSUM62, with gap costs of 10 + k. The expected
results of the lopsided pairs come from the CPU back end.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
from hardware import device_memory_used, save_report
from scripts import genome, run_script, script_parser
from startup import measure_both

from longalign.backends.base import Sinks, SweepJob
from longalign.backends.cpu import CpuBackend
from longalign.backends.cuda.backend import CudaBackend
from longalign.model.boundary import BestCell, State, entry_edges, local_edges
from longalign.model.geometry import LINE_STEP, line_steps
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.phases.packing import Packer

LATTICE_LINES = 64
LONG_CELLS = 10**11  # above this, a small part is swept to load the kernel
QUERY_N, TARGET_N = 4, 5
LARGE_SCORES = Scoring(match=500, mismatch=-400, gap_open=1000, gap_extend=300)


@dataclass(frozen=True)
class Pair:
    """Two FASTA files, and the end cell under the default scoring as other programs found it."""

    query: str
    target: str
    best: BestCell | None = None
    scoring: Scoring = field(default_factory=Scoring)
    local: bool = True


ECOLI = Pair(
    "ecoli_K12_MG1655.NC_000913.2", "ecoli_O157H7_Sakai.BA000007.2", BestCell(1367086, 4488125, 5345693)
)
PAIRS = {
    "mito": Pair("human_mito.NC_012920.1", "chimp_mito.NC_001643.1X", BestCell(10637, 16569, 16548)),
    "yeast": Pair("yeast_chrV.S288C", "yeast_paradoxus_chrV.CBS432", BestCell(186696, 574302, 559270)),
    "chlamydia": Pair(
        "chlamydia_trachomatis_A_HAR13.CP000051.1",
        "chlamydia_muridarum_Nigg.AE002160.2",
        BestCell(88353, 722725, 1072950),
    ),
    "ecoli": ECOLI,
    "ecoli_global": replace(ECOLI, best=None, local=False),
    "ecoli_large_scores": replace(ECOLI, best=None, scoring=LARGE_SCORES),
    "chr22": Pair("human_chr22_epo_concat", "chimp_chr22_epo_concat"),
}


def random_letters(_: Path) -> list[SweepJob]:
    """100,000 x 100,000 letters."""
    query, target = np.random.default_rng(0).integers(0, 4, (2, 100_000), np.uint8)
    return [whole(query, target)]


def runs_of_n(_: Path) -> list[SweepJob]:
    """1,000,000 x 1,000,000 related letters, a fifth of each in runs of N."""
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 1_000_000, np.uint8)
    target = np.where(rng.random(len(query)) < 0.05, rng.integers(0, 4, len(query), np.uint8), query)
    for side, ambiguous in ((query, QUERY_N), (target, TARGET_N)):
        for start in rng.integers(0, len(side) - 2_000, 110):
            side[start : start + 2_000] = ambiguous
    return [whole(query, target)]


def independent_strips(_: Path) -> list[SweepJob]:
    """One rectangle per resident warp of 132 multiprocessors, each a few full strips wide."""
    rng = np.random.default_rng(2)
    query, target = rng.integers(0, 4, 50_000, np.uint8), rng.integers(0, 4, 6_144, np.uint8)
    return [whole(query, target)] * (132 * 16)


#: How often each amino acid occurs in UniProtKB/Swiss-Prot, in per cent, in the order of BLOSUM62's letters.
AMINO_ACIDS = np.array(
    [8.3, 5.5, 4.1, 5.5, 1.4, 3.9, 6.7, 7.1, 2.3, 5.9, 9.7, 5.8, 2.4, 3.9, 4.7, 6.6, 5.4, 1.1, 2.9, 6.9]
)


def proteins(_: Path) -> list[SweepJob]:
    """200,000 x 200,000 letters of proteins, half of the second a copy of the first that has diverged."""
    rng = np.random.default_rng(3)
    query, target = rng.choice(20, (2, 200_000), p=AMINO_ACIDS / AMINO_ACIDS.sum()).astype(np.uint8)
    copied = np.where(rng.random(100_000) < 0.4, target[:100_000], query[50_000:150_000])
    target[60_000:160_000] = copied
    scoring = Scoring(gap_open=10, gap_extend=1, matrix=SubstitutionMatrix.load("BLOSUM62"))
    return [replace(whole(query, target), scoring=scoring)]


def lopsided(rows: int, cols: int) -> Callable[[Path], list[SweepJob]]:
    """A random query of `rows` letters, and a target of `cols` letters with a mutated copy in its middle."""

    def make(_: Path) -> list[SweepJob]:
        rng = np.random.default_rng(4)
        query, target = rng.integers(0, 4, rows, np.uint8), rng.integers(0, 4, cols, np.uint8)
        copied = np.where(rng.random(rows) < 0.05, rng.integers(0, 4, rows, np.uint8), query)
        middle = (cols - rows) // 2
        target[middle : middle + rows] = copied
        return [whole(query, target)]

    return make


#: Pairs whose expected result comes from the CPU back end: rows and columns.
LOPSIDED = {
    "one_row": (1, 10_000_000),
    "flat": (200, 50_000_000),
    "low": (3_000, 10_000_000),
    "thin": (1_000, 2_000_000),
    "broad": (100_000, 10_000_000),
    "tiny": (10, 10),
}

MADE: dict[str, Callable[[Path], list[SweepJob]]] = {
    **{name: lopsided(*shape) for name, shape in LOPSIDED.items()},
    "random": random_letters,
    "n_runs": runs_of_n,
    "ceiling": independent_strips,
    "protein": proteins,
}
DEFAULT_PAIRS = ["mito", "random", "yeast", "chlamydia", "ecoli", "ecoli_global"]


def main() -> int:
    options = _parse()
    starts = {"starts": measure_both("cuda", options.repeats)} if options.starts else {}
    before = device_memory_used()
    device, runs = CudaBackend().describe(), []
    wanted = [(name, columns, False) for name in options.pairs for columns in options.columns]
    # Last, as lattices take more memory.
    wanted += [(name, options.columns[0], True) for name in options.pairs if name in options.lattice_of]
    for name, columns, lattice in wanted:
        run = measure(name, columns, options, lattice)
        runs.append({**run, "device_bytes": None if before is None else device_memory_used() - before})
        print(_line(runs[-1]), flush=True)
        save_report(options.out, device=device, runs=runs, **starts)
    return 0 if all(run["ok"] for run in runs) else 1


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--pairs", nargs="+", choices=[*PAIRS, *MADE], default=DEFAULT_PAIRS)
    parser.add_argument("--columns", nargs="+", type=int, default=[0])
    parser.add_argument("--numbers", choices=("packed", "int32"))
    parser.add_argument("--block-rows", type=int)
    parser.add_argument("--warps", type=int, default=4)
    parser.add_argument("--registers", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lattice-of", nargs="*", default=[], help="pairs to time with a lattice as well")
    parser.add_argument("--starts", action="store_true", help="time how a command begins, too")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def measure(name: str, columns: int, options: argparse.Namespace, lattice: bool) -> dict[str, object]:
    """Seconds and GCUPS of one pair; `columns` 0 leaves the choice to the back end."""
    jobs = read_jobs(name, options.genomes)
    if lattice:
        jobs = [_with_lattice(job) for job in jobs]
    choice = _chosen(options, columns).choices(jobs)[0]
    backend = _chosen(options, choice.config.columns)
    started = time.perf_counter()
    # The first call compiles and loads the kernel. For long sweeps a small job does that, if it uses the same
    # kernel.
    small = _small(jobs[0]) if sum(job.cells for job in jobs) > LONG_CELLS else jobs
    backend.sweep(small if backend.choices(small)[0].config == choice.config else jobs)
    compilation = time.perf_counter() - started

    seconds, kernel_seconds, work = [], [], jobs
    for _ in range(options.repeats):
        kernel_before = backend.kernel_seconds
        work = jobs  # frees the packed boundaries of the previous repeat before the clock starts
        started = time.perf_counter()
        work = [_packing(job) for job in jobs] if lattice else jobs
        swept = backend.sweep(work)[0]
        seconds.append(time.perf_counter() - started)
        kernel_seconds.append(backend.kernel_seconds - kernel_before)
    median = statistics.median(seconds)
    known = PAIRS[name].best if name in PAIRS else None
    if name in LOPSIDED:
        known = CpuBackend().sweep(jobs)[0].best
    cells, config = sum(job.cells for job in jobs), choice.config
    return {
        "pair": name, "rows": len(jobs[0].query), "cols": len(jobs[0].target), "jobs": len(jobs),
        "numbers": config.numbers, "columns": config.columns, "batch": config.block_rows,
        "warps": config.warps, "max_registers": config.max_registers, "ahead": config.prefetch_edge,
        "letters": config.letter_scoring,
        "lattice": f"{LATTICE_LINES} x {LATTICE_LINES}" if lattice else None,
        "seconds": seconds, "median_seconds": median, "gcups": cells / median / 1e9,
        "kernel_seconds": kernel_seconds, "kernel_gcups": cells / statistics.median(kernel_seconds) / 1e9,
        "compile_seconds": compilation, "score": swept.best.score, "end": [swept.best.i, swept.best.j],
        "ok": known is None or swept.best == known,
    }  # fmt: skip


def _packing(job: SweepJob) -> SweepJob:
    """The job with sinks that pack its boundaries as they arrive, as for a tile in memory."""
    rows = Packer(job.rows, job.left.h_at(job.rows), len(job.target))
    cols = Packer(job.cols, job.top.h_at(job.cols), len(job.query))
    return replace(job, sinks=Sinks(rows, cols))


def _small(job: SweepJob) -> list[SweepJob]:
    query, target = job.query[:100], job.target[:100]
    top, left = job.top.part(0, len(target)), job.left.part(0, len(query))
    return [replace(job, query=query, target=target, top=top, left=left, rows=(), cols=())]


@cache
def read_jobs(name: str, genomes: Path) -> list[SweepJob]:
    """The rectangles to sweep for a pair: usually one, the whole DP matrix."""
    if name in MADE:
        return MADE[name](genomes)
    pair = PAIRS[name]
    query = read_codes(genome(genomes, pair.query), QUERY_N)
    target = read_codes(genome(genomes, pair.target), TARGET_N)
    if pair.local:
        return [replace(whole(query, target), scoring=pair.scoring)]
    edges = entry_edges(State.H, len(query), len(target), pair.scoring)
    return [SweepJob(query, target, pair.scoring, *edges, False, (len(query),), (len(target),), False)]


def whole(query: np.ndarray, target: np.ndarray) -> SweepJob:
    """The whole DP matrix in local mode, for its best cell only."""
    return SweepJob(query, target, Scoring(), *local_edges(len(query), len(target)), True)


def read_codes(file: Path, ambiguous: int) -> np.ndarray:
    """The codes of a gzipped FASTA file of one record: A C G T as 0-3, every other letter `ambiguous`."""
    table = np.full(256, ambiguous, np.uint8)
    for code, letter in enumerate("ACGT"):
        table[[ord(letter), ord(letter.lower())]] = code
    with gzip.open(file) as lines:
        next(lines)
        return table[np.frombuffer(b"".join(line.strip() for line in lines), np.uint8)]


def _with_lattice(job: SweepJob) -> SweepJob:
    """The job with the lattice lines that a local run would plan."""
    rows, cols = len(job.query), len(job.target)
    strip_width = CudaBackend().strip_width(rows, cols)
    return replace(job, rows=_lines(rows), cols=_lines(cols, strip_width))


def _lines(length: int, wide_step: int = LINE_STEP) -> tuple[int, ...]:
    step = line_steps(length, LATTICE_LINES, wide_step)[0]
    return tuple(length * k // LATTICE_LINES // step * step for k in range(1, LATTICE_LINES))


def _chosen(options: argparse.Namespace, columns: int) -> CudaBackend:
    """A back end with the kernel options of the command line; `columns` 0 leaves them to the back end."""
    return _backend(
        numbers=options.numbers, columns=columns or None, block_rows=options.block_rows, warps=options.warps,
        max_registers=options.registers,
    )  # fmt: skip


@cache
def _backend(**how: object) -> CudaBackend:
    return CudaBackend(**how)


def _line(run: dict[str, object]) -> str:
    lattice = f" lattice {run['lattice']}" if run["lattice"] else ""
    return (
        f"{'ok ' if run['ok'] else 'BAD'} {run['pair']:18} {run['rows']} x {run['cols']}{lattice}, "
        f"{run['numbers']} {run['columns']} columns, batch {run['batch']}: "
        f"{run['median_seconds']:.4f} s, {run['gcups']:.1f} GCUPS (kernel {run['kernel_gcups']:.1f}), "
        f"score {run['score']} at {run['end']} (first call {run['compile_seconds']:.1f} s)"
    )


if __name__ == "__main__":
    run_script(main)
