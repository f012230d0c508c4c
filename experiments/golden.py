"""Align pairs of known score with the command line; check scores, end cells and alignments.

    python experiments/golden.py --genomes DIR [--golden FILE] [--backend auto] [--threads N]
                                 [--shortest 0] [--longest 1200000] [--command align]
                                 [--prune auto|off|both] [--out FILE]

DIR holds NAME.fa.gz files; FILE (default: DIR/GOLDEN.tsv) has a row for each pair, mode and scoring, with
the score and the 1-based end of query and target. If the `ambiguous_rule` of a row says that letters were
compared as bytes, N against N was a match, and its score may be higher than that of longalign.

Each pair is aligned by a whole `longalign` process, so the wall time includes start-up and compilation. With
`--prune both`, a pair is right if it has the same PAF file with and without pruning. Matrices of any size are
then pruned, if seeds find a bound with which the back end is expected to be faster: `left_out` of a phase
says how many cells were left out. The report keeps the SHA-256 of each PAF file, to compare back ends.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hardware import DeviceMemory, save_report
from scripts import run_script, script_parser

from longalign import read_sequence

#: `python -m longalign`, and the same with small matrices pruned as well.
_USUAL = ("-m", "longalign")
_PRUNES_SMALL = (
    "-c",
    "from longalign.run import bounds; bounds.MIN_CELLS = 0; "
    "import sys; from longalign.__main__ import main; sys.exit(main())",
)

#: The words of an `ambiguous_rule` under which N against N was a match.
COMPARED_AS_BYTES = "compared as bytes"

#: The number of letters N in such a query, which bounds the columns of N against N.
QUERY_NS = {"human_chr22_epo_concat": 18}


def main() -> int:
    options = _parse()
    rows = list(csv.DictReader(options.golden.open(), delimiter="\t"))
    results = []
    for row in rows:
        files = [options.genomes / f"{row[side]}.fa.gz" for side in ("query", "target")]
        if not all(file.exists() for file in files) or not (
            options.shortest <= _letters(files) <= options.longest
        ):
            continue
        results.append(_run(row, files, options))
        print(_line(results[-1]), flush=True)
        how = {name: getattr(options, name) for name in ("command", "backend", "threads", "prune")}
        save_report(options.out, **how, pairs=results)
    wrong = [result for result in results if not result["ok"]]
    print(f"{len(results) - len(wrong)} of {len(results)} pairs have the known result")
    return 1 if wrong or not results else 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--golden", type=Path)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--command", choices=("align", "score"), default="align")
    parser.add_argument("--prune", choices=("auto", "off", "both"), default="auto")
    parser.add_argument(
        "--longest", type=float, default=1.2e6, help="letters of the longer sequence, at most"
    )
    parser.add_argument("--shortest", type=float, default=0, help="letters of the longer sequence, at least")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.prune == "both" and options.command == "score":
        parser.error("--prune both compares PAF files, which only align writes")
    options.golden = options.golden or options.genomes / "GOLDEN.tsv"
    if not options.golden.is_file():
        sys.exit(f"{options.golden}: no such file")
    return options


def _letters(files: list[Path]) -> int:
    """Letters of the longer sequence."""
    return max(read_sequence(file).length for file in files)


def _run(row: dict[str, str], files: list[Path], options: argparse.Namespace) -> dict[str, object]:
    if options.prune != "both":
        return _align(row, files, options, options.prune, _USUAL)
    whole = _align(row, files, options, "off", _USUAL)
    pruned = _align(row, files, options, "auto", _PRUNES_SMALL)
    same = pruned["paf_sha256"] == whole["paf_sha256"]
    return {**pruned, "ok": pruned["ok"] and whole["ok"] and same, "unpruned_seconds": whole["wall_seconds"]}


def _align(
    row: dict[str, str], files: list[Path], options: argparse.Namespace, prune: str, program: tuple[str, ...]
) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        paf, summary = Path(folder, "out.paf"), Path(folder, "summary.json")
        command = [sys.executable, *program, options.command, *map(str, files), "--quiet"]
        command += ["--mode", row["mode"], "--match", row["match"], "--mismatch", row["mismatch"]]
        command += ["--gap-open", row["gap_open_alpha"], "--gap-extend", row["gap_extend_beta"]]
        command += ["--backend", options.backend, "-o", str(paf), "--json", str(summary), "--prune", prune]
        command += ["--threads", str(options.threads)] if options.threads else []
        with DeviceMemory() as device:
            seconds, peak, code = _timed(command)
        found = json.loads(summary.read_text()) if code == 0 else {"score": None, "end": None, "phases": []}
        written = hashlib.sha256(paf.read_bytes()).hexdigest() if code == 0 else None
        verified = None
        if code == 0 and options.command == "align":
            verify = [sys.executable, "-m", "longalign", "verify", str(paf), *map(str, files)]
            verified = subprocess.run(verify, stdout=subprocess.DEVNULL, check=False).returncode == 0
    golden = int(row["score"])
    end = found["end"] or {}
    same_score = found["score"] == golden
    same_end = (end.get("query"), end.get("target")) == (
        int(row["end_query_1based"]), int(row["end_target_1based"])
    )  # fmt: skip
    if COMPARED_AS_BYTES in row["ambiguous_rule"] and found["score"] is not None:
        # Each such column is a mismatch here: the score may be lower than the golden one, never higher.
        most = (int(row["match"]) - int(row["mismatch"])) * QUERY_NS.get(row["query"], 0)
        same_score = golden - most <= found["score"] <= golden
    return {
        "query": row["query"], "target": row["target"], "mode": row["mode"],
        "score": found["score"], "golden_score": golden, "end": end, "same_end": same_end,
        "verified": verified, "ok": same_score and same_end and verified is not False,
        "wall_seconds": seconds, "peak_bytes": peak, "peak_device_bytes": device.peak,
        "phases": found["phases"], "paf_sha256": written,
        "alignment": found.get("alignment"), "hardware": found.get("backend"),
    }  # fmt: skip


def _timed(command: list[str]) -> tuple[float, int, int]:
    """Wall seconds, peak resident bytes, and exit code of a process."""
    started = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - started, usage.ru_maxrss * 1024, process.returncode


def _line(result: dict[str, object]) -> str:
    phases = ", ".join(
        f"{phase['name']} {phase['seconds']:.2f} s"
        + (f" {phase['gcups']:.1f} GCUPS" if phase["gcups"] else "")
        for phase in result["phases"]  # type: ignore[attr-defined]
    )
    return (
        f"{'ok ' if result['ok'] else 'BAD'} {result['query']} x {result['target']} {result['mode']}: "
        f"{result['score']} (golden {result['golden_score']}) {result['wall_seconds']:.2f} s, "
        f"{int(result['peak_bytes']) >> 20} MiB, "  # type: ignore[call-overload]
        f"device {int(result['peak_device_bytes'] or 0) >> 20} MiB, {phases}"  # type: ignore[call-overload]
    )


if __name__ == "__main__":
    run_script(main)
