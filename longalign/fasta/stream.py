"""Parses FASTA from a stream of bytes with pysam's `FastxFile`.

pysam reads files in which FASTA and FASTQ may be mixed, and returns each record as C strings of UTF-8. It
drops or misreads some bytes silently, and it does not count lines. Therefore it reads from a pipe, and the
bytes are rewritten on their way into the pipe:

- The line number is inserted before each header. pysam takes the number for the name and the header for a
  comment.
- '@' or '+' at the start of a line would start a FASTQ record: a space, which is not a letter, is inserted.
- A zero byte would end a string, and bytes that are not UTF-8 would be an error: in chunks that are not plain
  ASCII each byte is encoded as the character with that number, and zero as `_ZERO`.
- pysam holds a record in memory as one string and fails from 2**31 letters on: the letters of each chunk
  become a record of their own, with line number 0, which continues the record before it.
- pysam would skip text before the first '>': here it raises InputError.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pysam

from longalign.errors import InputError
from longalign.fasta.source import DamagedGzip

#: Called with the line number and text of a header; returns what takes the letters, None to skip them.
Begin = Callable[[int, str], bytearray | None]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # of UTF-8: some editors write it at the start of a file
_WHITESPACE = b" \t\r\n\v\f"
_CONTINUED = b"\n>0\n "  # with a space, as what follows may be the middle of a line
_SHOWN = 12  # letters of a line that is not FASTA
_TWO_BIT = "2bit is read from plain files only, neither compressed nor from a pipe"
#: What files of other formats begin with, and what to say about them.
_OTHER_FORMATS = {
    b"BZh": "compressed with bzip2: unpack it first",
    b"\xfd7zXZ": "compressed with xz: unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it first",
    b"\x1a\x41\x27\x43": _TWO_BIT,
    b"\x43\x27\x41\x1a": _TWO_BIT,
}
#: Bytes: what is longer is no header, and would fill memory.
LARGEST_HEADER = 1 << 20
#: What to say about a header that holds carriage returns, which ended lines long ago.
NO_LINE_ENDS = "a carriage return alone does not end a line: convert the line ends"
_ZERO = "\u0100"  # no byte becomes this character


def parse(chunks: Iterable[bytes], begin: Begin) -> None:
    """Parse FASTA: `begin` is called for each record, and its letters, without white space, are appended.

    Raises InputError, without the file's name, if the bytes do not begin with a header, and what `begin`
    raises. DamagedGzip in `chunks` is raised, with its line, after all that went before it is parsed.

    pysam runs in a second thread. The caller's thread reads the input, because Ctrl-C must interrupt a wait
    for input and cannot interrupt htslib. Neither side can wait forever: each closes its end of the pipe on
    any error.
    """
    with ThreadPoolExecutor(1) as pool:  # not `WorkerThreads`, which may make the call in this thread
        read_end, write_end = os.pipe()
        reader = open(read_end, "rb", buffering=0)  # noqa: PTH123, SIM115 - the thread closes it
        with suppress(BrokenPipeError), open(write_end, "wb") as pipe:  # noqa: PTH123
            parsing = pool.submit(_parse, reader, begin)
            pipe.writelines(_rendered(chunks))
        parsing.result()


def _parse(reader: io.FileIO, begin: Begin) -> None:
    letters: bytearray | None = None
    with reader:  # closed whatever happens, so that the writing thread does not wait for a reader
        _check_descriptors(reader)
        with pysam.FastxFile(f"/dev/fd/{reader.fileno()}", persist=False) as entries:
            for entry in entries:
                if line := int(entry.name or 0):
                    header = _bytes(entry.comment or "").decode("utf-8", "backslashreplace")
                    letters = begin(line, header)
                if letters is not None:
                    letters += _bytes(entry.sequence or "").translate(None, _WHITESPACE)


def _check_descriptors(reader: io.FileIO) -> None:
    """Raise OSError if no more files can be opened: pysam does not check, and would follow a null pointer."""
    os.close(os.dup(reader.fileno()))


def _rendered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The rewritten FASTA that pysam reads."""
    # A line end at the end of a chunk is held back and put before the next chunk: every line then starts
    # behind a line end in the same text. One is put before the first line, too, so the number of line ends
    # passed is the number of the line.
    line, waiting, in_header, header_size = 0, b"\n", False, 0
    try:
        for chunk in _from_first_header(chunks):
            text = waiting + chunk
            waiting = b"\n" if text.endswith(b"\n") else b""
            text = text.removesuffix(waiting)
            yield _encoded(_indented(_indented(_numbered(text, line), b"@"), b"+"))
            line += text.count(b"\n")
            if b"\n" in text:
                in_header, header_size = text.startswith(b">", text.rindex(b"\n") + 1), 0
            if in_header:
                header_size += len(chunk)
                if header_size > LARGEST_HEADER:
                    hint = f"; {NO_LINE_ENDS}" if b"\r" in chunk else ""
                    raise InputError(f"line {line}: a header of more than {LARGEST_HEADER} bytes{hint}")
            else:
                yield _CONTINUED
    except DamagedGzip as damage:
        damage.line = max(1, line)
        raise


def _from_first_header(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, without a byte order mark at their start.

    Raises InputError if they do not begin with a header, white lines aside.
    """
    chunks = _without_mark(chunks)
    line, indent, chunk = 1, b"", None  # white space on the line in hand: what is shown of it is enough
    for chunk in chunks:
        white = chunk[: len(chunk) - len(chunk.lstrip())]
        *ended, last = white.split(b"\n")
        line += len(ended)
        indent = (last if ended else indent + last)[:_SHOWN]
        if len(white) < len(chunk):
            break
        yield chunk
    else:
        raise InputError("empty file" if chunk is None else "no FASTA record")
    if indent or not chunk.startswith(b">", len(white)):
        text = (indent + chunk[len(white) :]).splitlines()[0]
        for magic, complaint in _OTHER_FORMATS.items():
            if text.startswith(magic):
                raise InputError(complaint)
        raise InputError(f"not FASTA: line {line} begins with {repr(text[:_SHOWN])[1:]}, not with '>'")
    yield chunk
    yield from chunks


def _without_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes without a byte order mark at their start, which a short first chunk may cut."""
    chunks, head = iter(chunks), b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(_BYTE_ORDER_MARK) or not _BYTE_ORDER_MARK.startswith(head):
            break
    if rest := head.removeprefix(_BYTE_ORDER_MARK):
        yield rest
    yield from chunks


def _numbered(text: bytes, line: int) -> bytes:
    """`text`, after `line` line ends, with the numbers of their lines before headers."""
    if b">" not in text:  # to look for one byte is much faster than for two
        return text
    first, *records = text.split(b"\n>")
    line += first.count(b"\n")
    parts = [first]
    for record in records:
        parts += b"\n>%d " % (line + 1), record
        line += 1 + record.count(b"\n")
    return b"".join(parts)


def _indented(text: bytes, mark: bytes) -> bytes:
    """`text` with a space before each mark at the start of a line."""
    return text.replace(b"\n" + mark, b"\n " + mark) if mark in text else text


def _encoded(text: bytes) -> bytes:
    if text.isascii() and b"\0" not in text:
        return text
    return text.decode("latin-1").replace("\0", _ZERO).encode()


def _bytes(text: str) -> bytes:
    """What was `text` before `_encoded`."""
    return text.replace(_ZERO, "\0").encode("latin-1")
