"""The decompressed bytes of a file, a pipe or stdin; truncated or damaged data are an error."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from longalign.errors import InputError, reason_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"

_BGZF_SUBFIELD = b"BC"  # bytes 12-13 of a gzip header that bgzip wrote
#: bgzip ends every file with this empty block. Without it, a file cut between two blocks is valid gzip.
_BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_CHUNK = 1 << 16


def shown_name(path: str) -> str:
    """A file's name in messages."""
    return "stdin" if path == STDIN else path


class DamagedGzip(Exception):
    """Gzip data are truncated or damaged; the text says which.

    `line` is the last line of the decompressed text that is known to be intact. The parser sets it.
    """

    line = 1


def first_bytes(path: str, count: int) -> bytes:
    """The first bytes of a regular file.

    None of stdin, a pipe or a file that cannot be read. Reading from a pipe would lose its first bytes.
    """
    try:
        if path == STDIN or not Path(path).is_file():
            return b""
        with Path(path).open("rb") as file:
            return file.read(count)
    except OSError:
        return b""


@contextmanager
def open_chunks(path: str) -> Iterator[Iterator[bytes]]:
    """The decompressed bytes of a file, or of stdin for "-", a chunk of at most 64 KiB at a time.

    Raises InputError, without the file's name, if it cannot be opened or read. Iterating raises
    DamagedGzip, after all that could be decompressed.
    """
    try:
        if path != STDIN:
            with Path(path).open("rb") as stream:
                yield _decompressed(stream)
        elif sys.stdin is None:
            raise InputError("closed")
        else:
            yield _decompressed(sys.stdin.buffer)
    except OSError as error:
        raise InputError(reason_of(error)) from error


def _decompressed(stream: BinaryIO) -> Iterator[bytes]:
    source = _Source(stream)
    buffered = io.BufferedReader(source, _CHUNK)
    if not source.head.startswith(GZIP_MAGIC):
        yield from _chunks(buffered)
        return
    try:
        with gzip.GzipFile(fileobj=buffered) as decompressed:
            yield from _chunks(decompressed)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedGzip(complaint_of(error)) from error
    if source.head[12:14] == _BGZF_SUBFIELD and source.tail != _BGZF_END:
        raise DamagedGzip("the end-of-file block of bgzip is missing")


def complaint_of(error: EOFError | gzip.BadGzipFile | zlib.error) -> str:
    """What is wrong with gzip data, in words."""
    text = str(error).lower()
    return "other data follow the gzip data" if text.startswith("not a gzipped file") else text


def _chunks(stream: io.BufferedIOBase) -> Iterator[bytes]:
    # read1 returns the data before an error; read would lose them.
    return iter(lambda: stream.read1(_CHUNK), b"")


class _Source(io.RawIOBase):
    """Bytes of a file or pipe; `head` holds its first bytes from the start, `tail` the last ones read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = stream.read(18)  # enough to distinguish bgzip, gzip and text
        self._pending = self.head
        self.tail = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._pending or self._stream.read(len(view))
        data, self._pending = data[: len(view)], data[len(view) :]
        view[: len(data)] = data
        self.tail = (self.tail + data)[-len(_BGZF_END) :]
        return len(data)
