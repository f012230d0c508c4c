"""Everything to try on a machine with a GPU, in one go: tests, known scores, speed.

    python tools/gpu_check.py --genomes DIR --out DIR [--steps device tests ...] [--columns 8 16 24 32]

Each step is a process with a time limit of its own, so that a kernel that hangs costs that step only; if
one of the first two fails, the others are not tried. A log of each and the results as JSON go to --out; a
table comes last. Exits with 1 if a step failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "experiments")]

from hardware import save_report  # noqa: E402
from scripts import script_parser  # noqa: E402

_TAIL = 4_000


@dataclass(frozen=True)
class Step:
    """A command, the seconds it may take, and whether the others make no sense without it."""

    name: str
    command: tuple[str, ...]
    limit: int
    essential: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a step went; exit_code is None if it ran out of time."""

    name: str
    exit_code: int | None
    seconds: float


def steps(genomes: Path, out: Path, columns: Sequence[int]) -> list[Step]:
    """All steps in their order, the cheapest and most telling first."""
    python = sys.executable
    pytest = (
        python,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-x",
        "-n",
        "8",
        "-p",
        "no:benchmark",  # that plugin warns if tests run in parallel, and warnings are errors
        "--durations=15",
        "tests/backends/cuda/test_cuda_gpu.py",
    )
    golden = (python, "experiments/golden.py", "--genomes", str(genomes), "--backend", "cuda")
    starts = (python, "experiments/start_states.py", "--genomes", str(genomes), "--backend", "cuda")
    phases = (python, "experiments/phases.py", "--genomes", str(genomes), "--with-score", "--prune", "off")
    stored = ("--store-in", str(out), "--out", str(out / "phases_stored.json"))
    startup = (python, "experiments/startup.py", "--backend", "cuda", "--out", str(out / "startup.json"))
    product = (python, "experiments/product_bars.py", "--genomes", str(genomes), "--backend", "cuda")
    pruning = (python, "experiments/pruning.py", "--genomes", str(genomes), "--backend", "cuda")
    campaign = (python, "tools/campaign.py", "--backend", "cuda", "--seconds", "500", "--jobs", "13")
    return [
        Step("device", (python, "-c", _DEVICE), 60, essential=True),
        Step("first", _sweep(genomes, out, "first", "--pairs", "mito", "--repeats", "5"), 60, essential=True),
        Step("ops", (*pytest, "-k", "arithmetic or lengths_around"), 120),
        Step("speed", _sweep(genomes, out, "speed"), 180),
        Step("lattice", _sweep(genomes, out, "lattice", "--pairs", *_LATTICE, "--lattice-of", *_LATTICE), 90),
        Step("phases", (*phases, "--out", str(out / "phases.json")), 150),
        Step("phases_stored", (*phases, *stored), 150),
        Step("startup", startup, 150),
        *_shapes(genomes, out, columns),
        Step("tests", pytest, 560),
        Step("start_states", (*starts, "--longest", "1.2e6", "--out", str(out / "start_states.json")), 300),
        Step("resume", (*pytest[:-1], "tests/run/test_resume.py"), 240),
        Step("more", _sweep(genomes, out, "more", "--pairs", "n_runs", "ecoli_large_scores"), 150),
        Step("chr22", _sweep(genomes, out, "chr22", "--pairs", "chr22", "--repeats", "1"), 400),
        Step("golden", (*golden, "--longest", "6e6", "--out", str(out / "golden.json")), 200),
        Step(
            "chromosome",
            (*golden, "--shortest", "6e6", "--longest", "1e9", "--out", str(out / "chromosome.json")),
            560,
        ),
        Step("product", (*product, "--only", *_PRODUCT, "--out", str(out / "product.json")), 120),
        Step("pruning", (*pruning, *_PRUNED, "--out", str(out / "pruning.json")), 240),
        Step("campaign", (*campaign, "--seed", "1", "--out", str(out / "campaign.json")), 560),
    ]


#: Comparisons of product_bars.py; ten alignments of one pair take minutes.
_PRODUCT = ("strands", "modes", "many", "process")

#: What to align with pruning: once to load the kernels, and once more.
_PRUNED = ("--pairs", "yeast-strains", "enm001", "ecoli", "chr22", "--repeats", "1")

#: Pairs to sweep with a lattice as well.
_LATTICE = ("chlamydia", "ecoli")


def _shapes(genomes: Path, out: Path, columns: Sequence[int]) -> list[Step]:
    """Steps that try what the back end would not choose: for the table of shapes in its planning."""
    long = ("--pairs", "ceiling", "chlamydia", "--columns", *map(str, columns), "--repeats", "2")
    short = ("--pairs", "mito", "random", "yeast", "--columns", "4", "8", "16", "--repeats", "3")
    return [
        Step("columns", _sweep(genomes, out, "columns", *long), 120),
        *(
            Step(f"batch{rows}", _sweep(genomes, out, f"batch{rows}", *short, "--block-rows", rows), 60)
            for rows in ("64", "32")
        ),
    ]


def _sweep(genomes: Path, out: Path, name: str, *arguments: str) -> tuple[str, ...]:
    script = (sys.executable, "experiments/cuda_sweep.py", "--genomes", str(genomes))
    return (*script, *arguments, "--out", str(out / f"{name}.json"))


_DEVICE = """
from longalign.backends.cuda import available, why_unavailable
print(available(), why_unavailable())
from longalign.backends.cuda.backend import CudaBackend
for name, value in CudaBackend().describe().items():
    print(f"{name}: {value}")
"""


def run(step: Step, out: Path) -> Outcome:
    """Run a step to its end or its time limit; its output goes to a log."""
    environment = {**os.environ, "LONGALIGN_REQUIRE_GPU": "1", "PYTHONPATH": _python_path()}
    started = time.monotonic()
    with (out / f"{step.name}.log").open("wb") as log:
        process = subprocess.Popen(
            step.command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(step.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
    return Outcome(step.name, code, time.monotonic() - started)


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def main() -> int:
    options, wanted = _parse()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    outcomes = []
    for step in wanted:
        print(f"== {step.name}", flush=True)
        outcomes.append(run(step, out))
        print((out / f"{step.name}.log").read_text(errors="replace")[-_TAIL:], flush=True)
        if step.essential and outcomes[-1].exit_code != 0:
            break
    save_report(out / "steps.json", steps=[asdict(outcome) for outcome in outcomes])
    for outcome in outcomes:
        word = {0: "ok", None: "TIME LIMIT"}.get(outcome.exit_code, f"exit code {outcome.exit_code}")
        print(f"{outcome.name:10} {word:12} {outcome.seconds:7.1f} s")
    return 0 if all(outcome.exit_code == 0 for outcome in outcomes) else 1


def _parse() -> tuple[argparse.Namespace, list[Step]]:
    """What is asked for, and the steps to take."""
    parser = script_parser(__doc__)
    parser.add_argument("--genomes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", nargs="+", help="only these")
    parser.add_argument("--columns", nargs="+", type=int, default=[8, 16, 24, 32])
    options = parser.parse_args()
    known = steps(options.genomes.resolve(), options.out.resolve(), options.columns)
    names = [step.name for step in known]
    if unknown := set(options.steps or ()) - set(names):
        parser.error(f"no step is called {' or '.join(sorted(unknown))}: there are {', '.join(names)}")
    return options, [step for step in known if not options.steps or step.name in options.steps]


if __name__ == "__main__":
    sys.exit(main())
