"""`longalign verify`: re-score a PAF file against its sequences."""

from __future__ import annotations

from argparse import Namespace

from longalign.cli.scoring import complete_scoring
from longalign.cli.stdin import refuse_two_stdins
from longalign.errors import InputError
from longalign.formats.output import STDOUT, open_output
from longalign.formats.verify import verify_paf


def run_verify(options: Namespace) -> int:
    """Print "OK", or every false claim with its line. Raises InputError if there is one."""
    refuse_two_stdins(PAF=options.paf, QUERY=options.query, TARGET=options.target)
    result = verify_paf(options.paf, options.query, options.target, complete_scoring(options))
    with open_output(STDOUT) as file:
        print(result, file=file)
    if not result.ok:
        count = len(result.problems)
        raise InputError(f"{result.paf}: {count} false claim{'s' * (count != 1)}")
    return 0
