"""The strand of a query that is aligned with the target."""

from __future__ import annotations

from typing import Literal

#: Plus: the query as it is given. Minus: its reverse complement.
Strand = Literal["plus", "minus"]

#: What a run may be asked for. Both: the strand with the higher score, plus if the scores are equal.
StrandChoice = Literal["plus", "minus", "both"]

#: The strands that a run for each choice sweeps. An earlier one wins a tie.
STRANDS_OF: dict[StrandChoice, tuple[Strand, ...]] = {
    "plus": ("plus",),
    "minus": ("minus",),
    "both": ("plus", "minus"),
}

#: The strands as PAF and other formats write them.
STRAND_SYMBOLS: dict[Strand, str] = {"plus": "+", "minus": "-"}
