"""`longalign verify`: re-score a PAF file against its sequences."""

from __future__ import annotations

from argparse import Namespace

from longalign.errors import InputError, UsageError
from longalign.formats.verify import verify_paf
from longalign.scoring import Scoring


def run_verify(options: Namespace) -> int:
    """Print "OK", or every false claim with its line. Raises InputError if there is one."""
    result = verify_paf(options.paf, options.query, options.target, _scoring(options))
    print(result)
    if not result.ok:
        raise InputError(f"{options.paf}: {len(result.problems)} false claims")
    return 0


def _scoring(options: Namespace) -> Scoring | None:
    given = {
        name: getattr(options, name)
        for name in ("match", "mismatch", "gap_open", "gap_extend")
        if getattr(options, name) is not None
    }
    if not given:
        return None
    if len(given) < 4:
        raise UsageError("give all of --match, --mismatch, --gap-open and --gap-extend, or none of them")
    return Scoring(**given)
