"""Time whole alignments with and without pruning, from FASTA to PAF, and plot which tiles were computed.

    python experiments/pruning.py --genomes DIR [--pairs NAME ...] [--backend auto] [--repeats 3] [--unpruned]
                                  [--minimap2] [--plots FOLDER] [--out FILE]

DIR holds NAME.fa.gz files; `simulated_pair.py` writes those of the pair `simulated`. The sequences of
`random-100k` and `random-1m` are made here. Each pair has its own process, which runs `longalign align` once
to load the kernels and then REPEATS times; medians are reported. `seconds` are those from the command to the
PAF file; they include the reading of the FASTA files, but not the start of Python. For each pair: the share
of the cells that was computed, seconds and cells of each phase, the bound that seeds found beside the score,
the peak host memory.
`--unpruned` alternates with `--prune off`, and compares the two PAF files. `--minimap2` times minimap2 (the
package mappy, preset asm20, one thread for each processor) on the same pair, base-level alignments included.
Known scores are checked. `--plots` needs matplotlib. `pip install --group experiments` installs mappy and
matplotlib.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cpu_sweep import random_pair, spelled
from scripts import genome, in_new_process, report_runs, run_script, script_parser

from longalign.cli import main as longalign


class Pair(NamedTuple):
    """Two sequences by the names of their files, and how to align them."""

    query: str
    target: str
    score: int | None = None
    options: tuple[str, ...] = ()
    #: The length of two random sequences, which are made for the measurement. None: the files exist.
    random: int | None = None


PROTEIN = ("--matrix", "BLOSUM62", "--gap-open", "10", "--gap-extend", "1")

PAIRS = {
    "yeast-strains": Pair("yeast_chrV.S288C", "yeast_chrV.SK1"),
    "yeast-species": Pair("yeast_chrV.S288C", "yeast_paradoxus_chrV.CBS432", 186_696),
    "yeast-species-global": Pair(
        "yeast_chrV.S288C", "yeast_paradoxus_chrV.CBS432", options=("--mode", "global")
    ),
    "lpa": Pair("human_LPA_locus.chm13", "human_LPA_locus.HG002_hap0"),
    "enm001": Pair("ENm001_human", "ENm001_chimp"),
    "chlamydia": Pair("chlamydia_trachomatis_A_HAR13.CP000051.1", "chlamydia_muridarum_Nigg.AE002160.2"),
    "ecoli": Pair("ecoli_K12_MG1655.NC_000913.2", "ecoli_O157H7_Sakai.BA000007.2"),
    "dmel": Pair("dmel_chr2R.dm3", "dmel_chr2R.dm6", 21_146_251),
    "chr22": Pair("human_chr22_epo_concat", "chimp_chr22_epo_concat"),
    "protein": Pair("prot_MDN1_YLR106C.S288C", "prot_MDN1_YLR106C.CBS432", options=PROTEIN),
    "random-100k": Pair("query", "target", random=100_000),
    "random-1m": Pair("query", "target", random=1_000_000),
    "simulated": Pair("simulated_query", "simulated_target"),
}

#: `simulated_pair.py` makes the sequences of this pair.
SIMULATED = "simulated"


def main() -> int:
    options = _parse()
    for option, package in (("plots", "matplotlib"), ("minimap2", "mappy")):
        if getattr(options, option) and find_spec(package) is None:
            sys.exit(f"--{option} needs {package}: pip install --group experiments")
    runs = (in_new_process(measure, name, options) for name in options.pairs)
    return report_runs(runs, _line, options.out)


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument(
        "--pairs", nargs="+", choices=PAIRS, default=[name for name in PAIRS if name != SIMULATED]
    )
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--repeats", type=int, default=3, help="0: the first run counts")
    parser.add_argument("--unpruned", action="store_true")
    parser.add_argument("--minimap2", action="store_true")
    parser.add_argument("--plots", type=Path)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Everything that is reported of one pair. Runs in a child process."""
    pair = PAIRS[name]
    pruned, others = [], []
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        files = _files(pair, options.genomes, folder)
        for _ in range(options.repeats + 1):
            pruned.append(_run(pair, files, options, folder, "auto"))
            if options.unpruned:
                others.append(_run(pair, files, options, folder, "off"))
        minimap2 = _minimap2(files) if options.minimap2 else None
    counted = slice(min(1, options.repeats), None)
    last = pruned[-1]
    if options.plots is not None:
        _plot(options.plots / f"{name}.png", name, last)
    computed = last.cells - last.left_out
    return {
        "pair": name,
        "score": last.score,
        "ok": pair.score in (None, last.score) and all(run.paf == last.paf for run in (*pruned, *others)),
        "cells": last.cells,
        "share_computed": computed / last.cells,
        "bound": last.bound,
        "first_seconds": pruned[0].seconds,
        "median_seconds": statistics.median(run.seconds for run in pruned[counted]),
        "phases": last.phases,
        "effective_gcups": last.cells / statistics.median(run.seconds for run in pruned[counted]) / 1e9,
        "unpruned_seconds": statistics.median(run.seconds for run in others[counted]) if others else None,
        "minimap2_seconds": minimap2,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "backend": last.backend,
        "paf_sha256": hashlib.sha256(last.paf).hexdigest(),
    }


def _files(pair: Pair, genomes: Path, folder: Path) -> list[Path]:
    """The FASTA files of query and target. Random sequences are written into `folder`."""
    if pair.random is None:
        return [genome(genomes, name) for name in (pair.query, pair.target)]
    files = []
    sequences = random_pair(pair.random, np.random.default_rng(1))
    for name, codes in zip((pair.query, pair.target), sequences, strict=True):
        files.append(folder / f"{name}.fa")
        files[-1].write_text(f">{name}\n{spelled(codes)}\n")
    return files


class Run(NamedTuple):
    """One alignment: what it took, what it found, and the tiles that it computed."""

    seconds: float
    score: float
    cells: int
    left_out: int
    bound: int | None
    phases: list[dict[str, object]]
    backend: dict[str, str]
    tiles: list[dict[str, int]]
    paf: bytes


def _run(pair: Pair, files: list[Path], options: argparse.Namespace, folder: Path, prune: str) -> Run:
    paf, summary, log = folder / "out.paf", folder / "out.json", folder / "log"
    how = [*pair.options, "--backend", options.backend, "--prune", prune, "--progress", "json"]
    with log.open("w") as stderr, redirect_stderr(stderr):
        started = time.perf_counter()
        code = longalign(["align", *map(str, files), *how, "-o", str(paf), "--json", str(summary)])
        seconds = time.perf_counter() - started
    if code:
        sys.exit(f"longalign ended with exit code {code}: {log.read_text().splitlines()[-1]}")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    found = json.loads(summary.read_text())
    [score] = [phase for phase in found["phases"] if phase["name"] == "score"]
    return Run(
        seconds=seconds,
        score=found["score"],
        cells=score["cells"],
        left_out=score["left_out"],
        bound=next((event["score"] for event in events if event["event"] == "bound_found"), None),
        phases=found["phases"],
        backend=found["backend"],
        tiles=[event for event in events if event["event"] == "tile_finished"],
        paf=paf.read_bytes(),
    )


def _minimap2(files: list[Path]) -> float:
    """Seconds of minimap2 from FASTA to records in memory, base-level alignments included."""
    import mappy

    query, target = map(str, files)
    started = time.perf_counter()
    index = mappy.Aligner(target, preset="asm20", n_threads=os.cpu_count())
    for _, letters, _ in mappy.fastx_read(query):
        list(index.map(letters))
    return time.perf_counter() - started


def _plot(file: Path, name: str, run: Run) -> None:
    """The tiles of the matrix, each in the shade of the share of its cells that was computed.

    The scale is not linear: a share of one in a thousand is still visible.
    """
    from matplotlib import pyplot as plt
    from matplotlib.colors import PowerNorm

    rows, cols = (max(tile[side] for tile in run.tiles) + 1 for side in ("row", "col"))
    shares = np.zeros((rows, cols))
    for tile in run.tiles:
        shares[tile["row"], tile["col"]] = 1 - tile["left_out"] / tile["cells"]
    file.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 7))
    image = axes.imshow(shares, norm=PowerNorm(1 / 4, 0, 1), cmap="Greys", interpolation="nearest")
    axes.set(title=f"{name}: share of the cells computed", xlabel="tile column", ylabel="tile row")
    figure.colorbar(image, shrink=0.7)
    figure.savefig(file, dpi=120, bbox_inches="tight")
    plt.close(figure)


def _line(run: dict[str, object]) -> str:
    phases = ", ".join(f"{phase['name']} {phase['seconds']:.2f}" for phase in run["phases"])
    bound = "no bound" if run["bound"] is None else f"bound {run['bound'] / run['score']:.3%} of the score"
    return (
        f"{'ok ' if run['ok'] else 'BAD'} {run['pair']:20} {run['median_seconds']:.2f} s, "
        f"{run['share_computed']:.2%} of the cells, {run['effective_gcups']:,.0f} GCUPS, {bound}; {phases}; "
        f"unpruned {run['unpruned_seconds']}, minimap2 {run['minimap2_seconds']}, "
        f"{run['peak_bytes'] >> 20} MiB"
    )


if __name__ == "__main__":
    run_script(main)
