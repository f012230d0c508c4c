"""Time the CPU sweep, parasail on the same pairs, and the first call of a process.

Sweeps whole DP matrices in local mode, with the end cell tracked and the bottom row and the right column
returned, on pairs of random DNA and on pairs that differ in 3 % of their letters. Each repeat runs every
contender once: a change of the machine's load then affects all of them. parasail computes the score and the
end cell with 32-bit numbers on one core.

    python experiments/cpu_sweep.py --lengths 20000          a quick look
    python experiments/cpu_sweep.py --cpu-name haswell       as compiled for a processor with AVX2 only
    python experiments/cpu_sweep.py --first-call             seconds until a 16 kbp pair is swept
    python experiments/cpu_sweep.py --out experiments/results/cpu_sweep.json
                                                             everything, with a report
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hardware import save_report

from longalign.backends.base import SweepJob
from longalign.backends.cpu import CpuBackend
from longalign.model.alphabet import Codes
from longalign.model.boundary import State, entry_edges, local_edges
from longalign.model.scoring import Scoring

SCORING = Scoring(match=1, mismatch=-3, gap_open=3, gap_extend=2)
WIDTHS = (8, 16)  # the kernels that a back end uses after a few 10^9 cells
MITOCHONDRION = 16_569


def random_pair(length: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    return rng.integers(0, 4, length, np.uint8), rng.integers(0, 4, length, np.uint8)


def diverged_pair(length: int, rng: np.random.Generator, rate: float = 0.03) -> tuple[Codes, Codes]:
    """A sequence and a copy of it: a third each of the changes are substitutions, insertions, deletions."""
    query = rng.integers(0, 4, length, np.uint8)
    change = rng.random(length)
    target = query.copy()
    substituted = change < rate / 3
    target[substituted] = (target[substituted] + rng.integers(1, 4, substituted.sum(), np.uint8)) % 4
    copies = np.ones(length, np.int64)
    copies[(rate / 3 <= change) & (change < 2 * rate / 3)] = 2
    copies[(2 * rate / 3 <= change) & (change < rate)] = 0
    return query, np.repeat(target, copies)


def spelled(codes: Codes) -> str:
    return np.frombuffer(b"ACGT", np.uint8)[codes].tobytes().decode()


PAIRS = {"random": random_pair, "3 % diverged": diverged_pair}


def whole_matrix(query: Codes, target: Codes) -> SweepJob:
    rows, cols = len(query), len(target)
    return SweepJob(query, target, SCORING, *local_edges(rows, cols), True, (rows,), (cols,))


def parasail_sweep(query: Codes, target: Codes) -> Callable[[], int]:
    """A parasail sweep. parasail charges the first gap letter open + extend; the scores must be equal."""
    import parasail

    matrix = parasail.matrix_create("ACGT", SCORING.match, SCORING.mismatch)
    texts = spelled(query), spelled(target)
    first = SCORING.gap_open + SCORING.gap_extend
    return lambda: int(parasail.sw_striped_32(*texts, first, SCORING.gap_extend, matrix).score)


def cpu_sweep(job: SweepJob, threads: int) -> Callable[[], int]:
    backend = CpuBackend(threads, widths=WIDTHS)
    return lambda: backend.sweep([job])[0].best.score


def small_jobs(length: int, local: bool, threads: int) -> tuple[int, Callable[[], object]]:
    """A call with many squares, as phases 2 and 3 make them, and the number of its cells."""
    rng = np.random.default_rng(length)
    jobs = []
    for _ in range(max(8, 30_000_000 // length**2)):
        job = whole_matrix(*random_pair(length, rng))
        if not local:
            top, left = entry_edges(State.H, length, length, SCORING)
            job = SweepJob(job.query, job.target, SCORING, top, left, False, job.rows, job.cols, False)
        jobs.append(job)
    backend = CpuBackend(threads, widths=WIDTHS)
    return sum(job.cells for job in jobs), lambda: backend.sweep(jobs)


def time_all(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each contender in each repeat; every repeat runs all contenders."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def measure_pair(
    kind: str, length: int, repeats: int, threads: list[int], peer: bool
) -> list[dict[str, object]]:
    query, target = PAIRS[kind](length, np.random.default_rng(length))
    job = whole_matrix(query, target)
    contenders = {f"longalign, threads {n}": cpu_sweep(job, n) for n in threads}
    if peer:
        contenders["parasail sw_striped_32"] = parasail_sweep(query, target)
    scores = {run() for run in contenders.values()}
    assert len(scores) == 1, f"contenders disagree on {kind} {length}: {scores}"
    seconds = time_all(contenders, repeats)
    return [row(f"{kind} {length}", name, job.cells, seconds[name]) for name in contenders]


def measure_small(length: int, repeats: int, threads: list[int]) -> list[dict[str, object]]:
    rows = []
    for local in (False, True):
        runs = {n: small_jobs(length, local, n) for n in threads}
        seconds = time_all({f"longalign, threads {n}": run for n, (_, run) in runs.items()}, repeats)
        case = f"many {'local' if local else 'global'} {length} x {length}"
        rows += [row(case, name, runs[threads[0]][0], seconds[name]) for name in seconds]
    return rows


def row(case: str, contender: str, cells: int, seconds: list[float]) -> dict[str, object]:
    best, median = cells / min(seconds) / 1e9, cells / statistics.median(seconds) / 1e9
    print(f"{case:28} {contender:24} {best:8.1f} {median:8.1f}", flush=True)
    return {
        "case": case,
        "contender": contender,
        "gcups_best": round(best, 2),
        "gcups_median": round(median, 2),
    }


FIRST_CALL = f"""
import sys, time
sys.path.insert(0, "experiments")
start = time.perf_counter()
import numpy as np
from cpu_sweep import CpuBackend, random_pair, whole_matrix
job = whole_matrix(*random_pair({MITOCHONDRION}, np.random.default_rng(0)))
imported = time.perf_counter()
CpuBackend(1).sweep([job])
print(imported - start, time.perf_counter() - imported)
"""


def measure_first_call() -> dict[str, dict[str, float]]:
    """Seconds of the first sweep of a process, 16 kbp a side: with no kernel on disk, and with them all."""
    times = {}
    with tempfile.TemporaryDirectory() as cache:
        for state in ("cold", "warm"):
            output = subprocess.run(
                [sys.executable, "-c", FIRST_CALL],
                env=os.environ | {"XDG_CACHE_HOME": cache},
                cwd=Path(__file__).parents[1],  # where a program given by -c looks for its modules first
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            imports, sweep = (round(float(word), 2) for word in output.split())
            times[state] = {"import_s": imports, "sweep_s": sweep}
            print(f"first call, {state}: import {imports} s, sweep {sweep} s", flush=True)
    return times


def circumstances() -> dict[str, object]:
    """The circumstances of the measurement: load, scoring and back end."""
    return {
        "load": [round(load, 2) for load in os.getloadavg()],
        "scoring": f"match {SCORING.match}, mismatch {SCORING.mismatch}, {SCORING.convention}",
        **CpuBackend().describe(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[100_000, 20_000])
    parser.add_argument("--small", type=int, nargs="*", default=[500, 1000, 4000], help="sides of small jobs")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-parasail", action="store_true")
    parser.add_argument("--first-call", action="store_true", help="time the first call only")
    parser.add_argument("--cpu-name", help="compile for this processor, by LLVM's name")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.cpu_name and os.environ.get("NUMBA_CPU_NAME") != options.cpu_name:
        # Numba reads these once, when it is imported. No features but those that the name implies.
        target = {"NUMBA_CPU_NAME": options.cpu_name, "NUMBA_CPU_FEATURES": ""}
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=os.environ | target, check=False).returncode)

    report: dict[str, object] = {"circumstances": circumstances()}
    if not options.first_call:
        print(f"{'case':28} {'contender':24} {'best':>8} {'median':>8}  GCUPS")
        table = []
        for length in options.lengths:
            for kind in PAIRS:
                peer = not options.no_parasail
                table += measure_pair(kind, length, options.repeats, options.threads, peer)
        for length in options.small:
            table += measure_small(length, options.repeats, options.threads)
        report["table"] = table
    report["first_call"] = measure_first_call()
    save_report(options.out, **report)


if __name__ == "__main__":
    main()
