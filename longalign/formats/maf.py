"""MAF, the multiple alignment format of the UCSC genome browser: one block of two rows for each alignment.

The first row is the target, the second the query, with "-" for gaps. Before its letters, a row has the name
of the record, where the aligned letters start, how many they are, the strand, and the length of the record.
On the minus strand the start counts along the reverse complement (genome.ucsc.edu/FAQ/FAQformat.html, MAF). A
score that no finite decimal spells is rounded to the nearest double. The format has no place for the mode and
the scoring.

Rows are written piece by piece. Biopython's writer holds the text of a whole block in memory, more than once.
"""

from __future__ import annotations

from typing import TextIO

from longalign.model.alignment import Alignment, gapped_rows
from longalign.model.strand import STRAND_SYMBOLS
from longalign.system.rationals import spell_decimal

HEADER = "##maf version=1\n\n"


def write_maf(alignment: Alignment, file: TextIO) -> None:
    """Write an alignment as one block, without the header; nothing for an alignment without columns."""
    if not alignment.columns:
        return
    query, target = alignment.query, alignment.target
    letters = (
        query.strand_letters[slice(*alignment.rows)],
        target.letters[alignment.target_start : alignment.target_end],
    )
    extents = (alignment.query_start, alignment.query_end), (alignment.target_start, alignment.target_end)
    file.write(f"a score={spell_decimal(alignment.score)}\n")
    for side, sequence in ((1, target), (0, query)):
        start, end = sequence.along_record(*extents[side])
        strand = STRAND_SYMBOLS[sequence.strand]
        file.write(f"s {sequence.name} {start} {end - start} {strand} {sequence.record_length} ")
        for _, *rows in gapped_rows(*letters, alignment.ops, alignment.lengths, gap=ord("-")):
            file.write(rows[side].tobytes().decode("ascii"))
        file.write("\n")
    file.write("\n")
