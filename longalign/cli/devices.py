"""`longalign devices`: which back ends work on this machine, and why others do not."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from time import perf_counter

from tqdm import tqdm

from longalign.api import default_memory
from longalign.backends import cuda
from longalign.backends.base import Backend
from longalign.backends.compilation import is_on_disk
from longalign.backends.compile_processes import compile_all, kernels_to_compile
from longalign.backends.cpu import CpuBackend
from longalign.backends.select import open_backends
from longalign.cli.progress import progress
from longalign.cli.scoring import SCORING_OPTIONS, scoring_of
from longalign.cli.stdin import refuse_two_stdins
from longalign.errors import UsageError
from longalign.fasta import read_sequence
from longalign.formats.output import STDOUT, open_output
from longalign.model.mode import LOCAL, choose_mode
from longalign.model.pruning import KnownBound
from longalign.model.scoring import Scoring
from longalign.phases.tile_step import sweep_job
from longalign.pruning import seeds
from longalign.run.bounds import find_bound
from longalign.run.cost_model import Budget, Cost, format_seconds, format_share
from longalign.run.outcome import Recorder
from longalign.run.planner import check_letters, plan, speed_model_of, store_budgets
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.run.three_phases import lattice_of, problems_of
from longalign.store import MemoryStore
from longalign.store.layout import first_store, is_store, refuse_taken
from longalign.system.sizes import format_size, round_size
from longalign.system.threads import processors

SCHEMA = "longalign.devices/1"

#: Smaller shares are shown as less than this: back ends compute whole blocks, so more cells than are needed.
_MIN_SHARE = 0.001

#: Options that only a plan depends on, and their defaults.
_OF_A_PLAN: dict[str, str | None] = {"mode": LOCAL, "strand": "plus"}
_OF_A_PLAN |= dict.fromkeys(("free", *sorted(SCORING_OPTIONS)))
_OF_A_PLAN |= dict.fromkeys(("threads", "mem", "store", "store_budget"))


def run_devices(options: Namespace) -> int:
    """Print a line for each device, first the one that `--backend auto` takes unless a pair is small.

    With --compile, kernels are compiled before.
    """
    if options.plan:
        refuse_two_stdins(QUERY=options.plan[0], TARGET=options.plan[1])
    elif given := [name for name, usual in _OF_A_PLAN.items() if getattr(options, name) != usual]:
        raise UsageError(f"--{given[0].replace('_', '-')} is for a plan: give --plan QUERY TARGET as well")
    found = [device.index for device in cuda.available()]
    reason = cuda.why_unavailable()
    usable = [
        *(open_backends("cuda", devices=found) if found else []),
        CpuBackend(options.threads or processors()),
    ]
    if options.compile:
        for backend in usable:
            _compile(backend)
        _compile_for_seeds()
    backends = [backend.describe() for backend in usable]
    plans, exit_code = _plans(usable, options) if options.plan else ({}, 0)
    with open_output(STDOUT) as file:
        if options.json:
            report = {"schema": SCHEMA, "backends": backends, "cuda_unusable": reason}
            print(json.dumps({**report, "plans": plans} if plans else report, indent=2), file=file)
        else:
            print(*_lines(backends, plans, reason), sep="\n", file=file)
    return exit_code


def _compile(backend: Backend) -> None:
    """Compile what is missing for a device, with a bar on stderr, and say there what was done.

    Raises BackendError if a kernel does not compile.
    """
    missing, there = kernels_to_compile(backend)
    with _compiling(backend.name, len(missing), there) as advance:
        if missing:
            compile_all(backend, missing, advance)


def _compile_for_seeds() -> None:
    """Compile the few small functions that find seeds, in this process, and say what was done."""
    kernels = seeds.kernels()
    missing = [kernel for kernel in kernels if not is_on_disk(kernel)]
    with _compiling("seeds", len(missing), len(kernels) - len(missing)) as advance:
        for kernel in missing:
            kernel.load()
            advance()


@contextmanager
def _compiling(name: str, missing: int, there: int) -> Iterator[Callable[[], object]]:
    """A bar on stderr for `missing` kernels, and then a line there. Yields what moves the bar by a kernel."""
    started = perf_counter()
    shape = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} kernels [{elapsed}<{remaining}]"
    tqdm.monitor_interval = 0  # no thread that redraws bars: the system may refuse another thread
    with tqdm(
        desc=name,
        total=missing,
        bar_format=shape,
        file=sys.stderr,
        leave=False,
        disable=None,  # no bar where stderr is not a terminal
    ) as bar:
        yield bar.update
    done = f"{missing} kernels compiled in {perf_counter() - started:.1f} s, " if missing else ""
    print(f"longalign: {name}: {done}{there} kernels already compiled", file=sys.stderr)


def _lines(
    backends: Sequence[dict[str, str]], plans: dict[str, dict[str, str]], reason: str | None
) -> Iterator[str]:
    for backend in backends:
        words = [f"{word} {value}" for word, value in backend.items() if word != "name"]
        yield f"{backend['name']}: {', '.join(words)}"
        for word, value in plans.get(backend["name"], {}).items():
            yield f"    {word}: {value}"
    if reason:
        yield f"cuda: not usable: {reason}"


def _plans(backends: Sequence[Backend], options: Namespace) -> tuple[dict[str, dict[str, str]], int]:
    """How each back end would cut a matrix and sweep the first tile of it, and what other budgets cost.

    The number is the exit code of a run: 0, or, if every back end would refuse it, that of the refusal. Seeds
    are looked for, as a run does, with a bar on stderr if it is a terminal.
    """
    mode, scoring = choose_mode(options.mode, options.free), scoring_of(options)
    query, target = (read_sequence(name, scoring.alphabet) for name in options.plan)
    store = Path(options.store) if options.store else None
    if store is not None and not is_store(first_store(store)):
        refuse_taken(store, options.strand)
    spec = RunSpec(query, target, scoring, mode, store=store, strand=options.strand)
    memory = default_memory() if options.mem is None else options.mem
    plans, refusals = {}, []
    for backend in backends:
        try:
            plans[backend.name] = _plan(Resources([backend], memory, options.store_budget), spec)
        except UsageError as refused:
            plans[backend.name] = {"refused": str(refused)}
            refusals.append(refused)
    return plans, refusals[0].exit_code if len(refusals) == len(backends) else 0


def _plan(using: Resources, spec: RunSpec) -> dict[str, str]:
    """The plan of one back end. Raises UsageError if the run would be refused."""
    [backend] = using.backends
    problems = problems_of(spec)
    check_letters(Request.of(spec), using, spec.prunes)
    with progress("auto", sys.stderr, quiet=False) as show:
        recorder = Recorder(show)
        known = find_bound(spec, problems, backend, [backend], recorder)
    request = Request.of(spec, known=known)
    grid, budgets = plan(request, using), store_budgets(request, using)
    if grid.cells == 0:
        return {"tile": "none: a sequence has no letters, so nothing is swept"}
    tile = grid.tile(0, 0)
    job = sweep_job(lattice_of(spec, problems, grid, MemoryStore(), known), tile)
    cost = speed_model_of(request, using).cost(grid)
    assert cost.phase_1 is not None
    kept = grid.stored_cells * request.kept_share
    return {
        "tile": f"{tile.i1} x {tile.j1}",
        "chunk": "{} x {}".format(*grid.chunk_shape),
        "boundaries": format_size(round_size(ceil(kept * request.cell_bytes))),
        **{phase.name: f"took {format_seconds(phase.seconds)} just now" for phase in recorder.finished},
        "pruning": _pruning(known, spec.scoring),
        "phase 1": _phase_1(cost.phase_1, known, backend.band_row_seconds * max(grid.rows, grid.cols)),
        **_phases_2_and_3(request, cost, budgets),
        **backend.explain(job),
    }


def _pruning(known: KnownBound | None, scoring: Scoring) -> str:
    if known is None:
        return "none: the matrix is small, or seeds find no alignment with which a run would be faster"
    share = f"about {format_share(known.share)}" if known.share >= _MIN_SHARE else "less than 0.1%"
    return f"seeds give an alignment of score {scoring.spell(known.score)}; {share} of the cells are needed"


def _phase_1(seconds: float, known: KnownBound | None, of_rows: float) -> str:
    """The time of phase 1; `of_rows` are the seconds that a pruned sweep takes besides its cells."""
    if known is None:
        return f"about {format_seconds(seconds)}"
    pruned = min(seconds, known.share * seconds + of_rows)
    return f"about {format_seconds(pruned)}, and {format_seconds(seconds)} without pruning"


def _phases_2_and_3(request: Request, cost: Cost, budgets: Sequence[Budget]) -> dict[str, str]:
    """What phases 2 and 3 take. In a narrow band that takes less than the model of unpruned runs predicts,
    and no store budget changes it."""
    if request.is_narrow:
        return {"phases 2 and 3": f"less than {format_seconds(cost.path)}"}
    return {
        "phases 2 and 3": f"about {_path(cost)} as many cells as phase 1",
        "with --store-budget": "; ".join(f"{budget.name} {_path(budget.cost)}" for budget in budgets),
    }


def _path(cost: Cost) -> str:
    """What phases 2 and 3 take: a time and a share."""
    return f"{format_seconds(cost.path)}, {format_share(cost.share)}"
