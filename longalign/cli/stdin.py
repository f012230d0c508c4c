"""Stdin can be read only once, so at most one input may be stdin."""

from __future__ import annotations

from longalign.errors import UsageError
from longalign.fasta.specs import is_stdin


def refuse_two_stdins(**inputs: str) -> None:
    """Raise UsageError if more than one input is stdin. Keywords are the names that the usage line shows."""
    if sum(map(is_stdin, inputs.values())) > 1:
        *names, last = inputs
        raise UsageError(f"only one of {', '.join(names)} and {last} can be stdin (-)")
