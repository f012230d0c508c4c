"""One record out of a FASTA file: plain, gzip or bgzip, from disk or a pipe, whole or a region of it.

pysam parses. A file is read as a stream, so that damage is noticed anywhere in it and other records need
no memory. Where a record is asked for by name and an index lies beside the file (`.fai`, and `.gzi` for
bgzip), only that record is read. No index is ever written.
"""

from longalign.fasta.reader import read_record
from longalign.fasta.selection import Record
from longalign.fasta.source import STDIN
from longalign.fasta.specs import read_sequence

__all__ = ["STDIN", "Record", "read_record", "read_sequence"]
