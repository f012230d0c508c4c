"""Compile every CUDA kernel that the back end can launch, without a GPU or a driver, and weigh it.

    python tools/cuda_kernels.py [--arch 90 ...] [--json FILE] [--keep DIR]

Prints registers, stack, spills and shared memory of each, as ptxas reports them. Exits with 1 if a kernel
uses local memory or spills: an array that has left the registers costs most of the speed. Also exits with 1
if a kernel's registers on sm_90 leave a multiprocessor too few for the warps that it should hold. Exits with
2 where the CUDA toolkit's packages are not installed. `--keep` keeps PTX and cubins for a disassembler.
"""

from __future__ import annotations

import gc
import re
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from cubins import Kernel, compile_kernel, every_kernel, find_program, program_version

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))

from hardware import save_report
from scripts import script_parser

NO_TOOLKIT = 2

#: Where there are limits to registers, of which a multiprocessor has 65,536.
LIMITED_ARCH = 90

_NUMBERS = {
    "registers": r"Used (\d+) registers",
    "stack_bytes": r"(\d+) bytes stack frame",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
    "shared_bytes": r"Used(?:.*?(\d+) bytes smem)?",  # not mentioned where there is none
}


@dataclass(frozen=True)
class Weight:
    """What a kernel takes of a multiprocessor, for one thread (shared memory: for one block)."""

    arch: int
    kernel: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int

    def faults(self, registers_allowed: int) -> list[str]:
        """What is wrong with it, in words."""
        found = []
        if self.stack_bytes or self.spill_store_bytes or self.spill_load_bytes:
            found.append("uses local memory")
        if self.arch == LIMITED_ARCH and self.registers > registers_allowed:
            found.append(f"takes {self.registers} registers, more than {registers_allowed}")
        return [f"{self.kernel}, sm_{self.arch}: {fault}" for fault in found]


def weigh(kernel: Kernel, arch: int, ptxas: str, folder: Path) -> Weight:
    """Compile one kernel to `folder` and read the assembler's report."""
    _, report = compile_kernel(kernel, arch, ptxas, folder)
    return Weight(arch, kernel.name, **{key: _number(pattern, report) for key, pattern in _NUMBERS.items()})


def _number(pattern: str, report: str) -> int:
    return int(re.search(pattern, report)[1] or 0)


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--arch", type=int, nargs="+", default=[90], help="such as 75 80 90")
    parser.add_argument("--json", type=Path, help="write the table here as well")
    parser.add_argument("--keep", type=Path, help="folder for PTX and cubins")
    options = parser.parse_args()

    ptxas = find_program("ptxas")
    try:
        kernels = list(every_kernel())
    except ImportError as error:
        print(f"no CUDA package: {error}", file=sys.stderr)
        return NO_TOOLKIT
    if ptxas is None:
        print("no ptxas: install the extra cuda13", file=sys.stderr)
        return NO_TOOLKIT

    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        assert len({kernel.name for kernel in kernels}) == len(kernels), "files are named after kernels"
        work = [(kernel, arch) for arch in options.arch for kernel in kernels if arch >= kernel.min_arch]
        weights, faults = [], []
        print(f"{'kernel':32} {'arch':>5} {'registers':>9} {'stack':>6} {'spills':>7} {'shared':>7}")
        # Compiling allocates many long-lived objects. Fewer collections save a tenth of the time.
        with ProcessPoolExecutor(initializer=gc.set_threshold, initargs=(100_000, 20, 100)) as pool:
            found = pool.map(partial(weigh, ptxas=ptxas, folder=folder), *zip(*work, strict=True))
            for (kernel, _), weight in zip(work, found, strict=True):
                weights.append(weight)
                faults += weight.faults(kernel.registers_allowed)
                print(_line(weight), flush=True)
    save_report(options.json, ptxas=program_version(ptxas), kernels=[asdict(weight) for weight in weights])
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


def _line(weight: Weight) -> str:
    spills = weight.spill_store_bytes + weight.spill_load_bytes
    return (
        f"{weight.kernel:32} sm_{weight.arch} {weight.registers:9} {weight.stack_bytes:6} {spills:7} "
        f"{weight.shared_bytes:7}"
    )


if __name__ == "__main__":
    sys.exit(main())
