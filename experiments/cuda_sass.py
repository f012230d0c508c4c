"""What bounds the sweep on an H200, read from machine code: the inner loop of each kernel, without a GPU.

    python experiments/cuda_sass.py [--kernels 'local_best_*' ...] [--out FILE]

Compiles the sweep kernels that the back end picks by itself on sm_90, disassembles them, and finds the loop
in which nothing special happens (`make_sweep_row_block` in `longalign.backends.cuda.device.row_block`); of a
kernel that may watch every second row only, the loop that does, as it is the shorter one. Counts its
instructions by opcode, by pipe and by purpose, for a cell, or for two where numbers are packed; `loop_mix`
says on what grounds. From
that: how many cells a second there would be if a pipe were always busy, or the issue of instructions, on 132
SMs at 1.98 GHz; and what share of the lowest bound has been measured for a kernel of that shape, in
`results/cuda_sweep.json`.

Nothing is measured here. A bound leaves out latency, strips that wait and all other code; and what the driver
loads on a GPU is assembled by its own ptxas. Needs ptxas and nvdisasm: exits with 2 where there are none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from hardware import save_report
from loop_mix import ASSUMED_NAMES, MAXIMA, PURPOSES, bounds, pipe_of, purposes
from sass import Listing, shortest_loop
from scripts import script_parser

from longalign.backends.cuda.config import LANES, KernelConfig

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))

from cubins import compile_kernel, find_program, program_version, sweep_kernel, sweep_name

RESULTS = Path(__file__).parent / "results"
NO_TOOLKIT = USAGE = 2
ARCH, MULTIPROCESSORS, QUARTERS, CLOCK = 90, 132, 4, 1.98e9
MEASURED = "cuda_sweep.json"

#: What the result files call the fields of a `KernelConfig` that have had other names.
KEYS = {"block_rows": "batch", "letter_scoring": "letters", "prefetch_edge": "ahead"}

#: Maxima that every cell takes: those of E, F and H.
_MIN_MAXIMA = 3

HEADER = (
    f"{'':30}  instructions for a cell of a lane: by pipe, by purpose                       bounds, TCUPS\n"
    f"{'kernel':30} {'all':>6} {'alu':>6} {'fma':>6} {'other':>6}  "
    f"{'recur.':>6} {'score':>6} {'best':>6} {'copies':>6} {'edges':>6} {'loop':>6}  "
    f"{'issue':>6} {'alu':>6}  measured, share of the lowest bound"
)


def measured_rates() -> Iterator[tuple[KernelConfig, dict[str, object]]]:
    """The rates of kernels alone that `cuda_sweep.py` has left, and of what kernels."""
    from cuda_sweep import PAIRS

    names = {KEYS.get(field.name, field.name): field.name for field in fields(KernelConfig)}
    report = json.loads((RESULTS / MEASURED).read_text())
    for run in report["runs"]:
        # A global job asks for its bottom row, a local one for its best cell.
        local = run["pair"] not in PAIRS or PAIRS[run["pair"]].local
        config = KernelConfig(local, local, **{names[key]: run[key] for key in names.keys() & run.keys()})
        rate = {
            "file": MEASURED, "commit": run.get("commit", report["commit"]), "gpu": report["gpu"],
            "pair": run["pair"], "lattice": run["lattice"], "kernel_tcups": run["kernel_gcups"] / 1e3,
        }  # fmt: skip
        yield config, rate


def examine(config: KernelConfig, programs: dict[str, str], folder: Path) -> dict[str, object]:
    """Compile and disassemble a kernel: what its inner loop consists of, and how fast it can be."""
    from longalign.backends.cuda.device.row_block import rows_of_pass

    cubin, _ = compile_kernel(sweep_kernel(config), ARCH, programs["ptxas"], folder)
    command = [programs["nvdisasm"], "-c", str(cubin)]
    listing = Listing.parse(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    cells = rows_of_pass(config) * config.columns
    loop = shortest_loop(listing, MAXIMA, _MIN_MAXIMA * cells)
    cycles, mix = bounds(loop), Counter(purposes(loop))
    turns = MULTIPROCESSORS * QUARTERS * CLOCK  # a second, if one took a cycle
    tcups = {name: turns / count * cells * config.halves * LANES / 1e12 for name, count in cycles.items()}
    return {
        "kernel": sweep_name(config),
        **{KEYS.get(name, name): value for name, value in asdict(config).items()},
        "cells_of_a_lane": cells, "cells_in_a_number": config.halves, "instructions": len(loop),
        "opcodes": dict(Counter(instruction.opcode for instruction in loop).most_common()),
        "pipes": dict(Counter(map(pipe_of, loop)).most_common()),
        "assumed": sum(instruction.name in ASSUMED_NAMES for instruction in loop),
        "purposes": {name: mix[name] for name in PURPOSES},
        "cycles": cycles, "bound_tcups": tcups, "bound_by": max(cycles, key=cycles.__getitem__),
    }  # fmt: skip


def examine_all(configs: list[KernelConfig], programs: dict[str, str]) -> Iterator[dict[str, object]]:
    """Each kernel beside the rates that were measured of it, printed as well."""
    rates = list(measured_rates())
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor() as pool:
        rows = pool.map(partial(examine, programs=programs, folder=Path(folder)), configs)
        for config, row in zip(configs, rows, strict=True):
            lowest = row["bound_tcups"][row["bound_by"]]
            row["measured"] = [
                {**rate, "share_of_bound": rate["kernel_tcups"] / lowest}
                for measured, rate in rates
                if measured == config
            ]
            print(_line(row), flush=True)
            yield row


def main() -> int:
    options = _parse()
    programs = {name: find_program(name) for name in ("ptxas", "nvdisasm")}
    missing = " and no ".join(name for name, program in programs.items() if program is None)
    if missing:
        print(f"no {missing}: install the extra cuda13, and Triton or a CUDA toolkit", file=sys.stderr)
        return NO_TOOLKIT
    try:
        from longalign.backends.cuda.planning.kernel_shape import every_configuration
    except ImportError as error:
        print(f"no CUDA package: {error}", file=sys.stderr)
        return NO_TOOLKIT

    configs = [
        config
        for config in every_configuration()
        if any(fnmatch(sweep_name(config), pattern) for pattern in options.kernels)
    ]
    if not configs:
        print(f"no kernel is named like {' or '.join(options.kernels)}", file=sys.stderr)
        return USAGE
    print(HEADER)
    save_report(
        options.out,
        measured_on="nothing: counted in machine code, compiled without a GPU",
        arch=f"sm_{ARCH}",
        multiprocessors=MULTIPROCESSORS,
        clock_hz=CLOCK,
        programs={name: program_version(program) for name, program in programs.items()},
        assumed=sorted(ASSUMED_NAMES),
        kernels=[*examine_all(configs, programs)],
    )
    return 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--kernels", nargs="+", default=["*"], metavar="PATTERN", help="names of kernels")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _line(row: dict[str, object]) -> str:
    every, pipes, tcups = row["instructions"], row["pipes"], row["bound_tcups"]
    counts = [every, pipes["alu"], pipes["fma"], every - pipes["alu"] - pipes["fma"]]
    by_pipe, by_purpose = (
        " ".join(f"{count / row['cells_of_a_lane']:6.2f}" for count in some)
        for some in (counts, row["purposes"].values())
    )
    fastest = max(row["measured"], key=lambda rate: rate["kernel_tcups"], default=None)
    measured = "-"
    if fastest:
        measured = f"{fastest['kernel_tcups']:.2f}, {fastest['share_of_bound']:.0%} ({fastest['pair']})"
    return (
        f"{row['kernel']:30} {by_pipe}  {by_purpose}  {tcups['issue']:6.2f} {tcups['alu']:6.2f}  {measured}"
    )


if __name__ == "__main__":
    sys.exit(main())
