"""The command line: `longalign COMMAND`. Every failure is one line on stderr and an exit code.

Where options are wrong, argparse shows above this line how the command is used.

0 done; 1 input or store; 2 usage; 3 back end or internal; 130 interrupted (Ctrl-C or SIGTERM).
"""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from longalign.cli.interrupts import Interrupts
from longalign.cli.parser import build_parser
from longalign.errors import BackendError, InternalError, LongalignError

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. argparse exits by itself, with 2, on bad usage."""
    if sys.stderr is None:  # closed by whoever started us: what would be printed there must not go to stdout
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the process lives
    interrupts = Interrupts()
    with interrupts.caught():
        return _run(arguments, interrupts)


def _run(arguments: Sequence[str] | None, interrupts: Interrupts) -> int:
    options = Namespace()
    try:
        options = build_parser().parse_args(arguments, Namespace(interrupts=interrupts))
        return int(options.run(options))
    except KeyboardInterrupt:
        return _fail(_how_to_resume(options), _INTERRUPTED)
    except Exception as error:
        # An interrupt that strikes inside a library can come out of it as another error.
        return _fail(_how_to_resume(options), _INTERRUPTED) if interrupts.struck else _failed(error)


def _failed(error: Exception) -> int:
    """Say what is wrong; returns the exit code."""
    match error:
        case InternalError():
            return _fail(f"internal error: {error}", error.exit_code)
        case LongalignError():
            return _fail(str(error), error.exit_code)
        case BrokenPipeError():
            # Whoever read our output has gone; keep the interpreter from complaining when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        case RuntimeError() if "start new thread" in str(error):
            text = "the system lets this process have no more threads (ulimit -u, or a batch system's limit)"
            return _fail(text, BackendError.exit_code)
        case MemoryError():
            return _fail("out of memory: a smaller --mem or --store-budget needs less", 1)
    if os.environ.get("LONGALIGN_DEBUG"):
        traceback.print_exception(error)
    text = f"internal error: {type(error).__name__}: {error} (LONGALIGN_DEBUG=1 shows where)"
    return _fail(text, InternalError.exit_code)


def _how_to_resume(options: Namespace) -> str:
    if not hasattr(options, "cluster"):  # not a run
        return "interrupted"
    if options.store is None:
        return "interrupted; with --store DIR a run can be resumed"
    if not (Path(options.store) / "manifest.json").is_file():
        return "interrupted; nothing was stored yet"
    store = f"./{options.store}" if options.store.startswith("-") else options.store  # no option
    again = ["--cluster", options.cluster] if options.cluster else []
    if (
        "query" not in options
    ):  # what `resume` itself is given holds for once: the store notes that of the run
        again += [f"--output={options.output}"] * (options.output is not None)
        again += [f"--json={options.json}"] * (options.json is not None)
    return f"interrupted; go on with: {shlex.join(['longalign', 'resume', store, *again])}"


def _fail(text: str, code: int) -> int:
    print(f"longalign: {' '.join(text.split())}", file=sys.stderr)
    return code
