"""Entry point of the commands `longalign` and `python -m longalign`.

Signal handlers and standard streams are set up first; everything else is imported after that. From then on a
signal, a stream that cannot be written, or a lack of memory ends in one line and an exit code.
"""

import sys

from longalign.cli.interrupts import Interrupts


def main() -> int:
    """Run the command in `sys.argv`; returns its exit code. The process must end afterwards."""
    interrupts = Interrupts()
    interrupts.catch()
    interrupts.settle(code := _run(interrupts))
    return code


def _run(interrupts: Interrupts) -> int:
    try:
        from longalign.cli.process import run_process

        return run_process(interrupts)
    except Exception as error:  # the modules of the command line could not be imported
        print(f"longalign: cannot start: {error!r}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
