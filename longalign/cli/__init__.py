"""The command line: `longalign COMMAND`. Every failure is one line on stderr and an exit code.

Where options are wrong, argparse shows above this line how the command is used.

0 done; 1 input or store; 2 usage; 3 back end or internal; 130 interrupted by Ctrl-C (SIGINT); 143 ended by
SIGTERM.

This module imports nothing but the handling of signals, so that it is in place before the rest is imported.
"""

from __future__ import annotations

from longalign.cli.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command in this process; returns its exit code. argparse raises SystemExit(2) on bad usage.

    Signal handlers are as before afterwards. `longalign.__main__` is for a process of its own.
    """
    interrupts = Interrupts()
    interrupts.catch()
    try:
        from longalign.cli.command import run

        return run(arguments, interrupts)
    finally:
        interrupts.release()
