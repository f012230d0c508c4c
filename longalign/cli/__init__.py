"""The command line: `longalign COMMAND`. Every failure is one line on stderr and an exit code.

For wrong options, argparse also prints the usage above this line.

Exit codes: 0 done; 1 input or store, pairs left out, or a false claim found by `verify`; 2 usage; 3 back end
or internal; 130 interrupted by Ctrl-C (SIGINT); 143 ended by SIGTERM; 129 by SIGHUP; 141 if the reader of
stdout ends first.

This module imports only the handling of signals, which must be installed before other modules are imported.
"""

from __future__ import annotations

from longalign.cli.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command in this process; returns its exit code. argparse raises SystemExit(2) on bad usage.

    The previous signal handlers are restored. `longalign.__main__` runs a command as a process of its own.
    """
    interrupts = Interrupts()
    interrupts.catch()
    try:
        from longalign.cli.command import run

        return run(arguments, interrupts)
    finally:
        interrupts.release()
