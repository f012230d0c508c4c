"""Time what follows the search for a path of chromosome length: build, check, write and verify an alignment.

    python experiments/long_alignments.py [--columns 20000000] [--runs 1000000] [--repeats 3] [--out FILE]

The alignment is synthetic: random letters with substitutions, insertions and deletions of a few letters each,
with about RUNS runs of =, X, I and D. The steps of a repeat are: split the runs of letter pairs into = and X
(build), re-score the alignment and compare its CIGAR with the letters (check), write it as PAF (write), and
read and compare PAF and FASTA as `longalign verify` does (verify). The least seconds of the repeats are
reported.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hardware import save_report
from scripts import script_parser

from longalign.formats.paf import write_paf
from longalign.formats.verify import verify_paf
from longalign.model.alignment import Alignment, Op
from longalign.model.alphabet import Codes
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.testing.inputs import edited

_LETTERS = np.frombuffer(b"ACGT", np.uint8)


def main() -> int:
    options = _parse()
    codes, ops, lengths = _synthetic(options.columns, options.runs)
    pairs = np.isin(ops, (Op.MATCH, Op.MISMATCH))
    runs = np.where(pairs, Op.DIAGONAL, ops), lengths
    with tempfile.TemporaryDirectory() as folder:
        files = [_write_fasta(Path(folder, f"{name}.fa"), name, side) for name, side in codes.items()]
        repeats = [_measure(codes, runs, files, Path(folder, "x.paf")) for _ in range(options.repeats)]
    seconds = {step: round(min(repeat[step] for repeat in repeats), 3) for step in repeats[0]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{options.columns:,} columns, {len(ops):,} runs, {peak >> 20:,} MiB: ", end="")
    print(", ".join(f"{step} {value:.2f} s" for step, value in seconds.items()))
    save_report(options.out, columns=options.columns, runs=len(ops), seconds=seconds, peak_bytes=peak)
    return 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--columns", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _synthetic(columns: int, runs: int) -> tuple[dict[str, Codes], np.ndarray, np.ndarray]:
    query, target, ops, lengths = edited(columns, runs // 2, np.random.default_rng(0))
    return {"query": query, "target": target}, ops, lengths


def _write_fasta(file: Path, name: str, codes: Codes) -> str:
    file.write_bytes(b">%s\n%s\n" % (name.encode(), _LETTERS[codes].tobytes()))
    return str(file)


def _measure(
    codes: dict[str, Codes], runs: tuple[np.ndarray, np.ndarray], files: list[str], paf: Path
) -> dict[str, float]:
    """Seconds that each step takes."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[step] = time.perf_counter() - started

    pair = [Sequence.from_letters(name, _LETTERS[side]) for name, side in codes.items()]
    unscored = Alignment.from_runs(*pair, Scoring(), "global", 0, (0, 0), *runs)
    score = unscored.rescore()
    with timed("build"):
        alignment = Alignment.from_runs(*pair, Scoring(), "global", score, (0, 0), *runs)
    with timed("check"):
        alignment.check()
    with timed("write"), paf.open("w") as file:
        write_paf(alignment, file)
    with timed("verify"):
        found = verify_paf(str(paf), *files)
    if not found.ok:
        raise SystemExit(str(found))
    return seconds


if __name__ == "__main__":
    sys.exit(main())
