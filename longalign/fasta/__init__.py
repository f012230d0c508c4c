"""Reads one record, or a region of one, from a FASTA file: plain, gzip or bgzip, on disk or from a pipe.

pysam parses. A file is read to its end as a stream: damage anywhere in it is detected, and other records take
no memory. If a record is named and an index lies beside the file (`.fai`, and `.gzi` for bgzip), only that
record is read. That another one has the same name is then not noticed. No index is ever written. Of a 2bit
file, too, only the record is read, by Biopython.
"""

from longalign.fasta.reader import read_record
from longalign.fasta.selection import Record
from longalign.fasta.source import STDIN
from longalign.fasta.specs import read_sequence

__all__ = ["STDIN", "Record", "read_record", "read_sequence"]
