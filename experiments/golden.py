"""Align pairs of known score with the command line; check scores, end cells and alignments.

    python experiments/golden.py --genomes DIR [--golden FILE] [--backend auto] [--threads N]
                                 [--shortest 0] [--longest 1200000] [--command align] [--out FILE]

DIR holds NAME.fa.gz files; FILE (default: DIR/GOLDEN.tsv) has a row for each pair, mode and scoring, with
the score and the 1-based end of query and target. If the `ambiguous_rule` of a row says that letters were
compared as bytes, N against N was a match, and its score may be higher than that of longalign.

Each pair is aligned by a whole `longalign` process, so the wall time includes start-up and compilation.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hardware import DeviceMemory, save_report
from scripts import run_script

from longalign import read_sequence

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
        how = {"command": options.command, "backend": options.backend, "threads": options.threads}
        save_report(options.out, **how, pairs=results)
    wrong = [result for result in results if not result["ok"]]
    print(f"{len(results) - len(wrong)} of {len(results)} pairs have the known result")
    return 1 if wrong or not results else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--golden", type=Path)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--command", choices=("align", "score"), default="align")
    parser.add_argument(
        "--longest", type=float, default=1.2e6, help="letters of the longer sequence, at most"
    )
    parser.add_argument("--shortest", type=float, default=0, help="letters of the longer sequence, at least")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.golden = options.golden or options.genomes / "GOLDEN.tsv"
    if not options.golden.is_file():
        sys.exit(f"{options.golden}: no such file")
    return options


def _letters(files: list[Path]) -> int:
    """Letters of the longer sequence."""
    return max(read_sequence(file).length for file in files)


def _run(row: dict[str, str], files: list[Path], options: argparse.Namespace) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        paf, summary = Path(folder, "out.paf"), Path(folder, "summary.json")
        command = [sys.executable, "-m", "longalign", options.command, *map(str, files), "--quiet"]
        command += ["--mode", row["mode"], "--match", row["match"], "--mismatch", row["mismatch"]]
        command += ["--gap-open", row["gap_open_alpha"], "--gap-extend", row["gap_extend_beta"]]
        command += ["--backend", options.backend, "-o", str(paf), "--json", str(summary)]
        command += ["--threads", str(options.threads)] if options.threads else []
        with DeviceMemory() as device:
            seconds, peak, code = _timed(command)
        found = json.loads(summary.read_text()) if code == 0 else {"score": None, "end": None, "phases": []}
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
        "phases": found["phases"],
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
