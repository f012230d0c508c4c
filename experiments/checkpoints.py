"""What checkpoints cost: phase 1 with a store, cut into one tile and into several.

    python experiments/checkpoints.py [--backend cpu] [--genomes DIR] [--pair QUERY TARGET]
                                      [--letters 200000 200000] [--tiles 1x1 2x1 4x1 8x1] [--repeats 3]
                                      [--threads N] [--out FILE]

Scores the beginnings of two genomes without pruning. `--tiles` are numbers of rows and columns of tiles, or
"default" for those that a run has. The cuts take turns, so that a load on the machine slows all of them.
Reported are the least wall time and the least processor time of each, and, where all tiles are as wide as the
matrix, what a tile adds to the processor time between the cuts with the fewest and the most tiles
(`tile_overhead` of the CPU back end).
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Sequence as Items
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hardware import save_report
from scripts import genome, run_script, script_parser

from longalign.backends.cpu import CpuBackend
from longalign.backends.cuda.backend import CudaBackend
from longalign.fasta import read_sequence
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.run import pipeline
from longalign.run.request import Resources
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore

PAIR = "human_LPA_locus.chm13", "human_LPA_locus.HG002_hap0"


#: The rows and columns of tiles, or None for those that the planner chooses.
Cut = tuple[int, int] | None


class _Cuts:
    """What a back end with tiles of a given shape overrides."""

    cut: Cut = None

    @property
    def tile_overhead(self) -> float:
        return super().tile_overhead if self.cut is None else 1e9  # so that no plan makes tiles lower

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        if self.cut is None:
            return super().tile_shape(rows, cols, devices)
        return -(-rows // self.cut[0]), -(-cols // self.cut[1])


class CpuCuts(_Cuts, CpuBackend):
    pass


class CudaCuts(_Cuts, CudaBackend):
    pass


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--genomes", type=Path, default=Path("tests/data"))
    parser.add_argument("--pair", nargs=2, default=PAIR, metavar=("QUERY", "TARGET"))
    parser.add_argument("--letters", type=int, nargs=2, default=[200_000, 200_000])
    parser.add_argument("--tiles", type=cut_of, nargs="+", default=[(1, 1), (2, 1), (4, 1), (8, 1)])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sides = zip(options.pair, options.letters, strict=True)
    pair = [first_letters(genome(options.genomes, name), letters) for name, letters in sides]
    backend = CudaCuts() if options.backend == "cuda" else CpuCuts(options.threads)
    measured: dict[Cut, list[Run]] = {cut: [] for cut in options.tiles}
    measure(backend, [replace(one, letters=one.letters[:50_000]) for one in pair], (1, 1))  # compiles
    for _ in range(options.repeats):
        for cut in options.tiles:
            measured[cut].append(measure(backend, pair, cut))
    runs = [
        {
            "chosen": cut is None,
            "tiles": found[0].tiles,
            "wall": [run.wall for run in found],
            "processor": [run.processor for run in found],
            "score": found[0].score,
        }
        for cut, found in measured.items()
    ]
    for run in runs:
        shape = "x".join(map(str, run["tiles"]))
        print(f"{shape} tiles: {min(run['wall']):.2f} s, processors {min(run['processor']):.2f} s")
    overhead = None
    fewest, most = (choose(runs, key=lambda run: run["tiles"]) for choose in (min, max))
    more = most["tiles"][0] - fewest["tiles"][0]
    if more and all(run["tiles"][1] == 1 for run in runs):
        overhead = (min(most["processor"]) - min(fewest["processor"])) / more
        print(f"a tile takes {1000 * overhead:.0f} ms of a processor besides its sweep")
    save_report(
        options.out, backend=backend.describe(), pair=options.pair, letters=[one.length for one in pair],
        runs=runs, seconds_of_a_tile=overhead,
    )  # fmt: skip
    return 0


def cut_of(text: str) -> Cut:
    """Rows and columns of tiles from "16x2"; None for "default"."""
    if text == "default":
        return None
    rows, cols = map(int, text.split("x"))
    return rows, cols


def first_letters(file: Path, letters: int) -> Sequence:
    whole = read_sequence(str(file))
    return replace(whole, letters=whole.letters[:letters])


class Run(NamedTuple):
    """Wall time of phase 1 and processor time of the run, in seconds; its tiles and its score."""

    wall: float
    processor: float
    tiles: tuple[int, int]
    score: float


def measure(backend: CpuCuts | CudaCuts, pair: Items[Sequence], cut: Cut) -> Run:
    backend.cut = cut
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        spec = RunSpec(*pair, Scoring(), command="score", store=store, prune="off")
        before = processor_seconds()
        outcome = pipeline.run(spec, Resources([backend], 16 << 30))
        used = processor_seconds() - before
        with DirectoryStore.open(store) as stored:
            return Run(outcome.phases[0].seconds, used, stored.manifest.grid.shape, outcome.score)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run_script(main)
