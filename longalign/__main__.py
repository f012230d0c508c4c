"""The process of the commands `longalign` and `python -m longalign`.

Signal handlers and standard streams come first; everything else is imported after them. From then on a
signal, a stream that cannot be written and a lack of memory each end in one line and an exit code.
"""

import sys

from longalign.cli.interrupts import Interrupts


def main() -> int:
    """Run the command of `sys.argv`; returns its exit code, after which the process is to end."""
    interrupts = Interrupts()
    interrupts.catch()
    interrupts.settle(code := _run(interrupts))
    return code


def _run(interrupts: Interrupts) -> int:
    try:
        from longalign.cli.process import run_process

        return run_process(interrupts)
    except Exception as error:  # not even the modules of the command line could be imported
        print(f"longalign: cannot start: {error!r}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
