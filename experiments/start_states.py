"""Compare eager with lazy start states: seconds of each phase, bytes of the store.

    python experiments/start_states.py --genomes DIR [--backend cpu] [--threads N] [--repeats 3]
                                       [--longest 1200000] [--out experiments/results/start_states_cpu.json]

DIR holds NAME.fa.gz files. Each pair of PAIRS whose files exist and have at most `--longest` letters is
aligned with a store, alternately lazily and eagerly, without pruning, by whole `longalign` processes. The
medians over the repeats are reported. Both kinds have the same lattice and must agree on score and end cell.
The alignments that end in some cells are traced from the last eager store. The first pair is aligned once
before, to compile the kernels.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from hardware import save_report
from scripts import run_script, script_parser

from longalign import read_sequence

PAIRS = (
    ("human_mito.NC_012920.1", "chimp_mito.NC_001643.1X"),
    ("human_LPA_locus.chm13", "human_LPA_locus.HG002_hap0"),
    ("yeast_chrV.S288C", "yeast_paradoxus_chrV.CBS432"),
    ("chlamydia_trachomatis_A_HAR13.CP000051.1", "chlamydia_muridarum_Nigg.AE002160.2"),
    ("ecoli_K12_MG1655.NC_000913.2", "ecoli_O157H7_Sakai.BA000007.2"),
)
KINDS = ("lazy", "eager")

#: The end cells of traced alignments, as fractions of both lengths.
ENDS = (0.5, 0.75, 1.0)


def main() -> int:
    options = _parse()
    pairs = list(_pairs(options))
    if not pairs:
        sys.exit(f"{options.genomes}: no pair of at most {options.longest:,.0f} letters")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("local", "global"):
            for kind in KINDS:
                _align(pairs[0][0], mode, kind, Path(folder), options)
            for files, lengths in pairs:
                rows.append(_compare(files, lengths, mode, Path(folder), options))
                print(_line(rows[-1]), flush=True)
                save_report(options.out, backend=options.backend, threads=options.threads, pairs=rows)
    wrong = [row for row in rows if not row["agree"]]
    print(f"{len(rows) - len(wrong)} of {len(rows)} pairs agree on score and end cell")
    return 1 if wrong else 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--longest", type=float, default=1.2e6, help="letters of the longer sequence, at most"
    )
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _pairs(options: argparse.Namespace) -> Iterator[tuple[list[Path], list[int]]]:
    """The files and lengths of each pair to align."""
    for pair in PAIRS:
        files = [options.genomes / f"{name}.fa.gz" for name in pair]
        if all(file.exists() for file in files):
            lengths = [read_sequence(file).length for file in files]
            if max(lengths) <= options.longest:
                yield files, lengths


def _compare(
    files: list[Path], lengths: list[int], mode: str, folder: Path, options: argparse.Namespace
) -> dict[str, object]:
    runs: dict[str, list[dict[str, object]]] = {kind: [] for kind in KINDS}
    for _ in range(options.repeats):
        for kind in KINDS:
            runs[kind].append(_align(files, mode, kind, folder, options))
    lazy, eager = (_summary(runs[kind]) for kind in KINDS)
    answers = {json.dumps([run["score"], run["end"]]) for kind in KINDS for run in runs[kind]}
    return {
        "query": files[0].name,
        "target": files[1].name,
        "mode": mode,
        "cells": lengths[0] * lengths[1],
        "score": runs["lazy"][0]["score"],
        "agree": len(answers) == 1,
        "lazy": lazy,
        "eager": eager,
        "hardware": runs["eager"][0]["backend"],
        "traces": [_trace(lengths, part, folder / "store", options) for part in ENDS],
    }


def _align(
    files: list[Path], mode: str, kind: str, folder: Path, options: argparse.Namespace
) -> dict[str, object]:
    """The summary of a run, with the bytes of its store, which is left in `folder`."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    names = [*map(str, files), "--mode", mode, "--start-states", kind, "--prune", "off"]
    summary = _run(["align", *names, "--store", str(store)], folder, options)
    summary["bytes"] = sum(file.stat().st_size for file in (store / "tiles").iterdir())
    return summary


def _trace(lengths: list[int], part: float, store: Path, options: argparse.Namespace) -> dict[str, object]:
    """The seconds to trace the alignment that ends in a cell, if there is one."""
    cell = [max(1, int(length * part)) for length in lengths]
    summary = _run(
        ["trace", str(store), "--end", ",".join(map(str, cell))], store.parent, options, fails=True
    )
    phases = summary.get("phases", [])
    return {"cell": cell, "score": summary.get("score"), "seconds": {p["name"]: p["seconds"] for p in phases}}


def _run(
    arguments: list[str], folder: Path, options: argparse.Namespace, fails: bool = False
) -> dict[str, object]:
    """The summary of a `longalign` process; with `fails`, empty if it ends with an error."""
    summary = folder / "summary.json"
    command = [sys.executable, "-m", "longalign", *arguments, "--backend", options.backend, "--quiet"]
    command += ["-o", str(folder / "out.paf"), "--json", str(summary)]
    command += ["--threads", str(options.threads)] if options.threads else []
    done = subprocess.run(command, check=False)
    if done.returncode and not fails:
        sys.exit(f"longalign {arguments[0]} ended with exit code {done.returncode}")
    return json.loads(summary.read_text()) if done.returncode == 0 else {}


def _summary(runs: list[dict[str, object]]) -> dict[str, object]:
    """Medians over the repeats; the bytes of all repeats are equal."""
    seconds = [{phase["name"]: phase["seconds"] for phase in run["phases"]} for run in runs]
    return {
        "seconds": {name: median(one[name] for one in seconds) for name in seconds[0]},
        "store_bytes": runs[0]["bytes"],
    }


def _line(row: dict[str, object]) -> str:
    def kind(name: str) -> str:
        found = row[name]
        words = ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in found["seconds"].items())
        return f"{name}: {words}, {found['store_bytes']:,} bytes"

    ends = ", ".join(f"{sum(trace['seconds'].values()):.3f} s" for trace in row["traces"])
    return (
        f"{row['query']} x {row['target']} {row['mode']}, {row['score']}: {kind('lazy')}; {kind('eager')}; "
        f"traces {ends}"
    )


if __name__ == "__main__":
    run_script(main)
