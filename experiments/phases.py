"""Time whole alignments, phase by phase, in a process that has loaded its kernels, and measure their memory.

    python experiments/phases.py --genomes DIR [--pairs chlamydia ecoli ...] [--backend auto] [--repeats 3]
                                 [--after PAIR] [--store-in DIR] [--with-score] [--prune off]
                                 [--out FILE]

DIR holds NAME.fa.gz files. Each pair has its own process, which runs `longalign align` once to load the
kernels and then REPEATS times; medians are reported. For a pair that takes too long, align another pair first
and count the first run: `--after ecoli --repeats 0`. `seconds` are those from the command to the PAF file;
they include the reading of the FASTA files, but not the start of Python. With `--store-in` the boundaries go
to a store in that folder. Also reported: the peak host memory of the process, the peak device memory, and the
bytes per boundary cell of a store that is not pruned. Known scores are checked, and every alignment is
checked by `longalign verify`. `--with-score` alternates with `longalign score`, which keeps no lattice:
`lattice_share` is the share of time that the lattice, with its files if there is a store, adds to phase 1.
`--prune` is that of `longalign`.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from cuda_sweep import PAIRS, Pair
from hardware import DeviceMemory
from scripts import genome, in_new_process, report_runs, run_script, script_parser

from longalign.cli import main as longalign
from longalign.store import DirectoryStore


def main() -> int:
    options = _parse()
    return report_runs((_watched(name, options) for name in options.pairs), _line, options.out)


def _watched(name: str, options: argparse.Namespace) -> dict[str, object]:
    """What is reported of one pair, the peak device memory included."""
    with DeviceMemory() as device:
        found = in_new_process(measure, name, options)
    return {**found, "peak_device_bytes": device.peak}


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=["chlamydia", "ecoli"])
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--repeats", type=int, default=3, help="0: the first run counts")
    parser.add_argument(
        "--after", choices=PAIRS, help="a pair to align first, to load the kernels of its mode"
    )
    parser.add_argument("--store-in", type=Path)
    parser.add_argument("--with-score", action="store_true")
    parser.add_argument("--prune", choices=("auto", "off"), default="auto")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.store_in is not None:
        options.store_in.mkdir(parents=True, exist_ok=True)
    return options


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Time and memory of one pair. Runs in a child process."""
    pair = PAIRS[name]
    with tempfile.TemporaryDirectory() as folder:
        paf, summary = Path(folder, "out.paf"), Path(folder, "summary.json")
        command = [*_command(pair, options, paf), "--json", str(summary)]
        seconds, summaries, store_bytes, alone = [], [], None, []
        if options.after is not None:
            _load_kernels(options)
        for _ in range(options.repeats + 1):
            with tempfile.TemporaryDirectory(dir=options.store_in) as parent:
                store = Path(parent, "store")
                started = time.perf_counter()
                code = longalign([*command, *(["--store", str(store)] if options.store_in else [])])
                seconds.append(time.perf_counter() - started)
                if code:
                    sys.exit(f"{name}: longalign ended with exit code {code}")
                summaries.append(json.loads(summary.read_text()))
                has_all_tiles = options.store_in and options.prune == "off"
                store_bytes = _bytes_a_cell(store) if has_all_tiles else None
            if options.with_score:
                alone.append(_score_seconds(pair, options, Path(folder, "score.json")))
        verified = longalign(["verify", str(paf), *_files(pair, options)]) == 0
    counted = slice(min(1, options.repeats), None)
    found, best = summaries[-1], pair.best
    phases = _median_phases([summary["phases"] for summary in summaries[counted]])
    score_alone = statistics.median(alone[counted]) if alone else None
    return {
        "pair": name, "after": options.after, "prune": options.prune, "backend": found["backend"],
        "score": found["score"], "end": found["end"],
        "verified": verified,
        "ok": verified
        and (best is None or (found["score"], *found["end"].values()) == (best.score, best.i, best.j)),
        "first_seconds": seconds[0], "seconds": seconds[counted],
        "median_seconds": statistics.median(seconds[counted]),
        "phases": phases, "score_alone_seconds": score_alone,
        "lattice_share": phases["score"] / score_alone - 1 if score_alone else None,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "store_bytes_a_cell": store_bytes,
    }  # fmt: skip


def _load_kernels(options: argparse.Namespace) -> None:
    """Align the pair of `--after`, which loads the kernels."""
    pair = PAIRS[options.after]
    with tempfile.TemporaryDirectory() as folder:
        if longalign(_command(pair, options, Path(folder, "out.paf"))):
            sys.exit(f"{options.after}: not aligned")


def _score_seconds(pair: Pair, options: argparse.Namespace, summary: Path) -> float:
    """The seconds of phase 1 of `longalign score`."""
    _, *rest = _command(pair, options, summary.with_suffix(".txt"))
    if longalign(["score", *rest, "--json", str(summary)]):
        sys.exit("not scored")
    phases = {phase["name"]: phase["seconds"] for phase in json.loads(summary.read_text())["phases"]}
    return float(phases["score"])


def _files(pair: Pair, options: argparse.Namespace) -> list[str]:
    return [str(genome(options.genomes, side)) for side in (pair.query, pair.target)]


def _command(pair: Pair, options: argparse.Namespace, output: Path) -> list[str]:
    how = ["--backend", options.backend, "--mode", "local" if pair.local else "global"]
    how += ["--prune", options.prune, "--quiet"]
    return ["align", *_files(pair, options), *how, "-o", str(output)]


def _median_phases(runs: list[list[dict[str, object]]]) -> dict[str, float]:
    """Median seconds of each phase, and the ratio of phases 2 and 3 to phase 1."""
    phases = {
        phase["name"]: statistics.median(run[k]["seconds"] for run in runs) for k, phase in enumerate(runs[0])
    }
    return {**phases, "share": (phases["stitch"] + phases["recompute"]) / phases["score"]}


def _bytes_a_cell(path: Path) -> float:
    """Bytes of the tile files per boundary cell."""
    with DirectoryStore.open(path) as store:
        records = [store.get_tile(tile) for tile in store.manifest.grid.tiles()]
        cells = sum(lines.steps[:].size for record in records for lines in (record.rows, record.cols))
    return sum(file.stat().st_size for file in path.glob("tiles/*.h5")) / cells


def _line(run: dict[str, object]) -> str:
    phases = ", ".join(f"{name} {value:.3f}" for name, value in run["phases"].items())
    return (
        f"{'ok ' if run['ok'] else 'BAD'} {run['pair']:14} {run['median_seconds']:.3f} s (first "
        f"{run['first_seconds']:.1f} s): {phases}; host {run['peak_bytes'] >> 20} MiB, device "
        f"{(run['peak_device_bytes'] or 0) >> 20} MiB, {run['store_bytes_a_cell']} bytes a cell, "
        f"lattice {run['lattice_share']}"
    )


if __name__ == "__main__":
    if shutil.which("nvidia-smi") is None:
        print("no nvidia-smi: device memory is not watched", file=sys.stderr)
    run_script(main)
