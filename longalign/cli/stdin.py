"""Stdin can be read once."""

from __future__ import annotations

from longalign.errors import UsageError
from longalign.fasta.specs import is_stdin


def refuse_two_stdins(**inputs: str) -> None:
    """Raise UsageError if stdin is more than one of the inputs, each under its name in the usage."""
    if sum(map(is_stdin, inputs.values())) > 1:
        *names, last = inputs
        raise UsageError(f"only one of {', '.join(names)} and {last} can be stdin (-)")
