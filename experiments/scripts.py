"""Helpers of the scripts: parse options, find genomes, measure in new processes, state errors in one line."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from hardware import save_report

from longalign.errors import LongalignError

Result = TypeVar("Result")


def script_parser(docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose help shows the docstring of a script as it is."""
    return argparse.ArgumentParser(
        description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def genome(folder: Path, name: str) -> Path:
    """The file of a genome. Raises SystemExit if there is none."""
    file = folder / f"{name}.fa.gz"
    if not file.is_file():
        sys.exit(f"{folder}: no {file.name}")
    return file


def in_new_process(call: Callable[..., Result], *arguments: object) -> Result:
    """The result of a call in a process of its own, which has loaded no kernels.

    Raises what `call` raises.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(call, *arguments).result()


def report_runs(
    runs: Iterable[Mapping[str, Any]], line: Callable[[Mapping[str, Any]], str], out: Path | None
) -> int:
    """Print the line of each run and save the report, as the runs come.

    Returns the exit code: 1 if one of the runs is not "ok".
    """
    done: list[Mapping[str, Any]] = []
    for run in runs:
        done.append(run)
        print(line(run), flush=True)
        save_report(out, runs=done)
    return 0 if all(run["ok"] for run in done) else 1


def run_script(main: Callable[[], int]) -> NoReturn:
    """Run a script and exit with its code, or with the message of a LongalignError."""
    try:
        sys.exit(main())
    except LongalignError as error:
        sys.exit(str(error))
