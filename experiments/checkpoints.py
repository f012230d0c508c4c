"""What checkpoints cost: phase 1 with a store, cut into one tile and into several rows of tiles.

    python experiments/checkpoints.py [--genomes DIR] [--letters 200000] [--tiles 1 2 4 8] [--repeats 3]
                                      [--threads N] [--out FILE]

Scores the beginnings of two genomes on the CPU. The cuts take turns, so that a load on the machine slows all
of them. Reported are the least wall time and the least processor time of each, and the processor time that a
tile adds (`tile_overhead` of the back end).
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from hardware import save_report
from scripts import genome, run_script

from longalign.backends.cpu import CpuBackend
from longalign.fasta import read_sequence
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.run import pipeline
from longalign.run.planner import Resources
from longalign.run.spec import RunSpec

PAIR = "human_LPA_locus.chm13", "human_LPA_locus.HG002_hap0"


class Cut(CpuBackend):
    """A back end with tiles of a given height."""

    height = sys.maxsize
    tile_overhead = 1e9  # so that no plan makes tiles lower

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        return min(rows, self.height), cols


def main() -> int:
    parser = argparse.ArgumentParser(description="What checkpoints cost on the CPU.")
    parser.add_argument("--genomes", type=Path, default=Path("tests/data"))
    parser.add_argument("--letters", type=int, default=200_000)
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    query, target = (first_letters(genome(options.genomes, name), options.letters) for name in PAIR)
    backend = Cut(options.threads)
    seconds: dict[int, list[tuple[float, float]]] = {count: [] for count in options.tiles}
    measure(backend, query, target, 1)  # compiles
    for _ in range(options.repeats):
        for count in options.tiles:
            seconds[count].append(measure(backend, query, target, count))
    runs = [
        {"tiles": count, "wall": min(wall for wall, _ in both), "processor": min(used for _, used in both)}
        for count, both in seconds.items()
    ]
    first, last = runs[0], runs[-1]
    overhead = (last["processor"] - first["processor"]) / max(1, last["tiles"] - first["tiles"])
    for run in runs:
        print("{tiles} tiles: {wall:.2f} s, processors {processor:.2f} s".format(**run))
    print(f"a tile takes {1000 * overhead:.0f} ms of a processor besides its sweep")
    save_report(options.out, letters=options.letters, runs=runs, seconds_of_a_tile=overhead)
    return 0


def first_letters(file: Path, letters: int) -> Sequence:
    whole = read_sequence(str(file))
    return replace(whole, letters=whole.letters[:letters], record_length=whole.record_length)


def measure(backend: Cut, query: Sequence, target: Sequence, tiles: int) -> tuple[float, float]:
    """Wall time of phase 1 and processor time of the run, in seconds."""
    backend.height = -(-query.length // tiles)
    with tempfile.TemporaryDirectory() as folder:
        spec = RunSpec(query, target, Scoring(), command="score", store=Path(folder) / "store")
        before = processor_seconds()
        outcome = pipeline.run(spec, Resources([backend], 16 << 30))
        return outcome.phases[0].seconds, processor_seconds() - before


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run_script(main)
