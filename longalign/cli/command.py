"""Runs one command: from its arguments to its exit code, with one line on stderr for every failure."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from longalign.cli.interrupts import Interrupts
from longalign.cli.shortage import check_address_space, lacks_files, shortage_of
from longalign.errors import InternalError, LongalignError

#: The exit code where the reader of the output has closed the pipe: that of a process that SIGPIPE ends.
CLOSED_PIPE = 141


def run(arguments: Sequence[str] | None, interrupts: Interrupts) -> int:
    """Run one command; returns its exit code. argparse raises SystemExit on wrong usage and after help."""
    options = Namespace(interrupts=interrupts)
    try:
        return interrupts.during(lambda: _run(arguments, options))
    except KeyboardInterrupt:
        return _interrupted(options, interrupts)
    except Exception as error:
        # A library that is interrupted may turn the KeyboardInterrupt into another error.
        return _interrupted(options, interrupts) if interrupts.struck else _failed(error, options)


def fail(text: str, code: int) -> int:
    """Print an error message as one line; returns `code`."""
    print(f"longalign: {in_one_line(text)}", file=sys.stderr)
    return code


def in_one_line(text: str) -> str:
    """A message whose names may hold line ends, of any script, as one line."""
    return " ".join(text.split())


def _run(arguments: Sequence[str] | None, options: Namespace) -> int:
    check_address_space()  # first: importing a library without enough memory could abort the process
    from longalign.cli.parser import build_parser, with_negative_numbers

    parsed = build_parser().parse_args(
        with_negative_numbers(sys.argv[1:] if arguments is None else arguments)
    )
    vars(options).update(vars(parsed))  # in one step: `_how_to_resume` sees all options of a run, or none
    return int(options.run(options))


def _failed(error: Exception, options: Namespace) -> int:
    """Report an error; returns the exit code."""
    match error:
        case InternalError():
            return fail(f"internal error: {error}", error.exit_code)
        case LongalignError() if not lacks_files(error):
            again = _resume_command(options) if _is_full_disk(error.__cause__) else None
            return fail(f"{error}; then go on with: {again}" if again else str(error), error.exit_code)
        case BrokenPipeError():
            return CLOSED_PIPE
    if shortage := shortage_of(error):
        return fail(*shortage)
    if os.environ.get("LONGALIGN_DEBUG"):
        traceback.print_exception(error)
    text = f"internal error: {type(error).__name__}: {error} (LONGALIGN_DEBUG=1 shows where)"
    return fail(text, InternalError.exit_code)


def _interrupted(options: Namespace, interrupts: Interrupts) -> int:
    return fail(_how_to_resume(options), interrupts.exit_code)


def _how_to_resume(options: Namespace) -> str:
    """The message after an interrupt; for a run with a store it names the command that continues the run."""
    if not hasattr(options, "cluster"):  # not a run
        return "interrupted"
    if options.store is None:
        from longalign.formats.output import STDOUT

        finished = getattr(options, "finished_pairs", 0) if options.output != STDOUT else 0
        lost = f", and what was found for {finished:,} of the pairs is lost" if finished else ""
        return f"interrupted{lost}; with --store DIR a run can be resumed"
    again = _resume_command(options)
    return f"interrupted; go on with: {again}" if again else "interrupted; nothing was stored yet"


def _resume_command(options: Namespace) -> str | None:
    """The command that continues a run, if anything of it is stored."""
    if getattr(options, "store", None) is None or not hasattr(options, "cluster"):
        return None
    folder = Path(options.store)
    if not any((folder / name).is_file() for name in ("manifest.json", "plus/manifest.json", "pairs.json")):
        return None
    again = _resource_options(options)
    if "query" not in options:  # the store notes the output of `align`, not that of `resume`
        given = {name: getattr(options, name) for name in ("output", "json", "format")}
        again += [f"--{name}={value}" for name, value in given.items() if value is not None]
    return shlex.join(["longalign", "resume", as_argument(options.store), *again])


def _resource_options(options: Namespace) -> list[str]:
    """The arguments that repeat which machines, devices, threads and memory the user has chosen."""
    from longalign.system.sizes import format_size

    chosen = {
        "cluster": options.cluster,
        "backend": None if options.backend == "auto" else options.backend,
        "threads": options.threads,
        "mem": None if options.mem is None else format_size(options.mem),
    }
    arguments = [f"--{name}={value}" for name, value in chosen.items() if value is not None]
    return arguments + [f"--device={number}" for number in options.device]


def as_argument(path: str) -> str:
    """A path that is not taken for an option."""
    return f"./{path}" if path.startswith("-") else path


def _is_full_disk(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
