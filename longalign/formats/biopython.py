"""An alignment as one of Biopython, which writes many formats, such as SAM and PSL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from longalign.model.alignment import Alignment, check_alignment, letters_of_runs
from longalign.model.sequence import Sequence

if TYPE_CHECKING:
    from Bio.Align import Alignment as BiopythonAlignment
    from Bio.SeqRecord import SeqRecord


def to_biopython(alignment: Alignment) -> BiopythonAlignment:
    """The alignment as a `Bio.Align.Alignment`: target first, then query, in coordinates of whole records.

    Where a region of a record was aligned, the letters outside it are undefined. `score` is an int, or the
    nearest float. Takes a byte for each letter of both sequences and some tens of bytes for each run. Raises
    UsageError for anything but an alignment.
    """
    from Bio.Align import Alignment as BiopythonAlignment  # slow to import

    check_alignment(alignment)
    query, target = alignment.query, alignment.target
    rows, cols = (np.cumsum([0, *letters]) for letters in letters_of_runs(*alignment.runs))
    of_target = target.offset + alignment.target_start + cols
    if alignment.strand == "plus":
        of_query = query.offset + alignment.query_start + rows
    else:
        of_query = query.offset + alignment.query_end - rows
    converted = BiopythonAlignment([_record(target), _record(query)], np.stack([of_target, of_query]))
    score = alignment.score
    converted.score = int(score) if score.denominator == 1 else float(score)
    return converted


def _record(sequence: Sequence) -> SeqRecord:
    """The whole record, of which only the letters of `sequence` are defined."""
    from Bio.Seq import Seq
    from Bio.SeqRecord import SeqRecord

    letters = sequence.letters.tobytes()
    is_whole = sequence.length == sequence.record_length
    content = letters if is_whole else {sequence.offset: letters}
    seq = Seq(content, None if is_whole else sequence.record_length)
    return SeqRecord(seq, id=sequence.name, description=sequence.description)
