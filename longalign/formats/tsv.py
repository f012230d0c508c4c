"""A table of alignments: tab-separated values, a header line, then one line for each alignment.

Coordinates are 0-based and half-open and count from the start of the whole record, on its forward strand, as
in PAF. The columns:

    query, query_length, query_start, query_end
                    the record's name and length, and where the aligned letters are
    strand          "+", or "-" if the reverse complement of the query is aligned
    target, target_length, target_start, target_end
                    likewise
    mode            "local", "global", "semiglobal", "overlap", "fit" or "extend"; if not all
                    four ends of a semiglobal mode are free: "semiglobal:query-start,target-end"
    end             "best", or "given" if the user chose the end cell (`longalign trace`)
    scoring         letter scores and gap costs, as in the `tg` tag of PAF: `match=1;mismatch=-3;gap(k)=3+2k`
    score           the optimal score, exactly: a decimal, or a fraction such as 82/3 if none spells it
    columns         columns of the alignment, gaps included
    matches         columns with the same letter twice
    mismatches      columns with two letters that are not a match
    gaps            number of gaps: runs of I and runs of D
    gap_letters     letters against a gap
    cigar           the CIGAR, of = X I D, in the direction of the target

An alignment without columns has no line.
"""

from __future__ import annotations

from typing import TextIO

from longalign.formats.paf import format_scoring
from longalign.model.alignment import Alignment
from longalign.model.strand import STRAND_SYMBOLS
from longalign.system.rationals import spell

COLUMNS = (
    *("query", "query_length", "query_start", "query_end", "strand"),
    *("target", "target_length", "target_start", "target_end"),
    *("mode", "end", "scoring", "score", "columns", "matches", "mismatches", "gaps", "gap_letters", "cigar"),
)

HEADER = "\t".join(COLUMNS) + "\n"


def write_tsv(alignment: Alignment, file: TextIO) -> None:
    """Write an alignment as one line, without the header; nothing for an alignment without columns."""
    if not alignment.columns:
        return
    query, target = alignment.query, alignment.target
    values = (
        *(query.name, query.record_length),
        *(query.offset + alignment.query_start, query.offset + alignment.query_end),
        STRAND_SYMBOLS[alignment.strand],
        *(target.name, target.record_length),
        *(target.offset + alignment.target_start, target.offset + alignment.target_end),
        *(alignment.mode, "given" if alignment.end_given else "best", format_scoring(alignment.scoring)),
        *(spell(alignment.score), alignment.columns, alignment.matches, alignment.mismatches),
        *(alignment.gaps, alignment.gap_letters, alignment.cigar),
    )
    file.write("\t".join(map(str, values)) + "\n")
