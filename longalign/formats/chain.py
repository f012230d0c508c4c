"""Chains, the format of the UCSC genome browser that liftOver reads: one chain for each alignment.

A chain is a header line, then one line for each block of letter pairs, then an empty line. The line of a
block has its length, and how many target and query letters lie between it and the next block. Matches and
mismatches are not told apart. The target is on the plus strand; coordinates of a query on the minus strand
count along its reverse complement (genome.ucsc.edu/goldenPath/help/chain.html). Gaps before the first letter
pair and after the last one are left out. A score that no finite decimal spells is rounded to the nearest
double. The ID at the end of a header is optional and is not written.

Biopython's writer would round scores to six digits.
"""

from __future__ import annotations

from typing import TextIO

import numpy as np

from longalign.model.alignment import Alignment, Op, letters_of_runs
from longalign.model.sequence import Sequence
from longalign.model.strand import STRAND_SYMBOLS
from longalign.system.rationals import spell_decimal


def write_chain(alignment: Alignment, file: TextIO) -> None:
    """Write an alignment as one chain; nothing for an alignment without letter pairs."""
    ops, lengths = alignment.runs
    blocks = ops == Op.DIAGONAL
    if not blocks.any():
        return
    sizes = lengths[blocks]
    rows, cols = map(np.cumsum, letters_of_runs(ops, lengths))
    query_ends, target_ends = alignment.rows[0] + rows[blocks], alignment.target_start + cols[blocks]
    query_starts, target_starts = query_ends - sizes, target_ends - sizes
    target = _place(alignment.target, target_starts[0], target_ends[-1])
    query = _place(alignment.query, query_starts[0], query_ends[-1])
    file.write(f"chain {spell_decimal(alignment.score)} {target} {query}\n")
    target_gaps, query_gaps = target_starts[1:] - target_ends[:-1], query_starts[1:] - query_ends[:-1]
    for line in zip(sizes[:-1].tolist(), target_gaps.tolist(), query_gaps.tolist(), strict=True):
        file.write("{}\t{}\t{}\n".format(*line))
    file.write(f"{sizes[-1]}\n\n")


def _place(sequence: Sequence, start: np.int64, end: np.int64) -> str:
    """The part of the header for one sequence, given the range of the DP matrix's rows or columns."""
    extent = sequence.along_record(*sequence.mirrored(int(start), int(end)))
    fields = sequence.name, sequence.record_length, STRAND_SYMBOLS[sequence.strand], *extent
    return " ".join(map(str, fields))
