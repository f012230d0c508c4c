"""The FASTA parser: what pysam would misread, damage in mid-stream, memory, and that nothing is left over."""

from __future__ import annotations

import gc
import gzip
import itertools
import os
import re
import signal
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.errors import InputError
from longalign.fasta import read_record, read_sequence
from longalign.fasta.source import DamagedGzip
from longalign.fasta.stream import parse

#: What a parser could trip over, in every order.
TOKENS = [
    *(b">", b"@", b"+", b"\n", b"\n", b"\n>", b"\n@", b"\n+", b"\r\n", b"\r", b" ", b"\t", b"\v", b"0"),
    *(b"name", b"ACGT", b"NNNNNNNNNNNNNNNN", b"\0", b"\xff", b"\x85", b"\xa0", "é€".encode(), b"\x1f\x8b"),
]


class Found(list[tuple[int, str, bytearray]]):
    """All records, with their lines, headers and letters."""

    def begin(self, line: int, header: str) -> bytearray:
        self.append((line, header.strip(), bytearray()))
        return self[-1][2]


def by_lines(content: bytes) -> Found:
    """FASTA, read line by line."""
    found, letters = Found(), bytearray()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.startswith(b">"):
            letters = found.begin(number, line[1:].decode("utf-8", "backslashreplace"))
        else:
            letters += line.translate(None, b" \t\r\n\v\f")
    return found


def cut(content: bytes, places: set[int]) -> list[bytes]:
    """The content in chunks, none of them empty."""
    edges = [0, *sorted(place for place in places if 0 < place < len(content)), len(content)]
    return [content[start:end] for start, end in itertools.pairwise(edges)]


MARK = b"\xef\xbb\xbf"

contents = st.lists(st.sampled_from(TOKENS), max_size=40).map(lambda tokens: b">" + b"".join(tokens))
places = st.sets(st.integers(1, 150), max_size=150)


@given(contents, places)
def test_any_bytes_in_any_chunks_are_parsed_as_fasta(content: bytes, places: set[int]) -> None:
    found = Found()
    parse(cut(content, places), found.begin)
    assert found == by_lines(content)


@given(contents, places)
def test_a_byte_order_mark_in_any_chunks_is_dropped(content: bytes, places: set[int]) -> None:
    found = Found()
    parse(cut(MARK + content, places), found.begin)
    assert found == by_lines(content)


@given(contents, places)
def test_damage_comes_after_what_went_before_and_knows_its_line(content: bytes, places: set[int]) -> None:
    def torn() -> Iterator[bytes]:
        yield from cut(content, places)
        raise DamagedGzip("torn")

    content += b"A"
    found = Found()
    with pytest.raises(DamagedGzip, match="torn") as caught:
        parse(torn(), found.begin)
    assert caught.value.line == content.count(b"\n") + 1
    assert found == by_lines(content)


def test_lines_like_fastq_are_letters(tmp_path: Path) -> None:
    path = tmp_path / "x.fa"
    path.write_bytes(b">one\nACGT\n+\nIIII\n@two\nACGT\n>three\nGG\n")
    assert read_record(str(path), "three").letters == b"GG"
    assert read_record(str(path), "one").letters == b"ACGT+IIII@twoACGT"


def test_headers_of_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.fa"
    path.write_bytes(b">\xc3\xa0 M\xc3\xbcller\r\nACGT\n>b M\xfcller\nGG\n")
    assert read_record(str(path), "à").description == "Müller"
    assert read_record(str(path), "b").description == r"M\xfcller"


@pytest.mark.parametrize("content", [b">one\nACGT\n>", b">one\nACGT\n>\n", b">one\nACGT\n> \r\nACGT\n"])
def test_a_header_without_a_name_has_its_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.fa"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.fa: line 3: a record without a name after '>'"):
        read_record(str(path), "one")


@pytest.mark.slow
def test_damage_far_into_a_file(tmp_path: Path) -> None:
    """The line is the last that can be read, or little before; a header torn in two names no record."""
    whole = gzip.compress(b"".join(b">r%d\nACGT\n" % k for k in range(100_000)))
    path = tmp_path / "x.fa.gz"
    for size in range(len(whole) // 2, len(whole) // 2 + 20):
        path.write_bytes(whole[:size])
        last = 1 + zlib.decompressobj(31).decompress(whole[:size]).count(b"\n")
        with pytest.raises(InputError, match="at or after line") as caught:
            read_record(str(path), "r7")
        line, record = re.findall(r"line (\d+), record 'r(\d+)': compressed file ended", str(caught.value))[0]
        assert last - 10 <= int(line) <= last
        assert int(record) == (int(line) - 2) // 2


def test_stdin_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^stdin: closed$"):
        read_record("-")


@pytest.mark.parametrize("line", [b"ACGT" * 15 + b"\n", b"ACGT" * 15])
def test_letters_that_are_not_wanted_need_no_memory(line: bytes) -> None:
    resident: list[int] = []

    def chunks() -> Iterator[bytes]:
        yield b">x\n"
        for _ in range(2_000):
            resident.append(psutil.Process().memory_info().rss)
            yield line * 1_000

    parse(chunks(), lambda line, header: None)
    assert max(resident) - resident[0] < 40 << 20  # of 120 MB


# Nothing is left open, running or waiting


@pytest.fixture
def nothing_left() -> Iterator[None]:
    def held() -> tuple[int, int]:
        return len(os.listdir("/dev/fd")), threading.active_count()  # noqa: PTH208

    gc.collect()  # what earlier tests have left
    before = held()
    yield
    assert held() == before


class Chunks:
    """A header and then letters without end, until `stop` of `count` chunks is raised."""

    def __init__(self, first: bytes, stop: BaseException, count: int) -> None:
        self.first, self.stop, self.count, self.taken = first, stop, count, 0

    def __iter__(self) -> Iterator[bytes]:
        yield self.first
        while self.taken < self.count:
            self.taken += 1
            yield b"ACGT\n" * 10_000
        raise self.stop


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(5, "disk"), DamagedGzip(""), MemoryError()])
@pytest.mark.parametrize("count", [0, 1, 100])
def test_reading_that_fails(stop: BaseException, count: int) -> None:
    with pytest.raises(type(stop)):
        parse(Chunks(b">x\n", stop, count), Found().begin)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("first", [b"ACGT\n>x\n", b"@x\n"])
def test_text_that_is_refused(first: bytes) -> None:
    chunks = Chunks(first, AssertionError("read on"), 1_000)
    with pytest.raises(InputError, match="not FASTA"):
        parse(chunks, Found().begin)


@pytest.mark.usefixtures("nothing_left")
def test_a_parser_that_fails_stops_the_reading() -> None:
    def begin(line: int, header: str) -> bytearray:
        raise InputError(f"line {line}")

    chunks = Chunks(b">x\n", AssertionError("read to the end"), 1_000)
    with pytest.raises(InputError, match="line 1"):
        parse(chunks, begin)
    assert chunks.taken < 100


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("chunks", [[b">x\n", b"ACGT"], [b">x\n", b"ACGT" * 1_000_000] * 3])
def test_a_parser_that_fails_where_all_is_read(chunks: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> Iterable[object]:
        raise OSError("no such file")

    monkeypatch.setattr("pysam.FastxFile", fail)
    with pytest.raises(OSError, match="no such file"):
        parse(chunks, Found().begin)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("before", [b"", b">x\nACGT\n", b">x\n" + b"ACGT\n" * 10_000])
def test_waiting_for_input_can_be_interrupted(before: bytes) -> None:
    """With a handler that raises, as Python's own for Ctrl-C."""
    read, write = os.pipe()
    end_of_patience = threading.Timer(20, os.close, [write])
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        os.write(write, before)
        end_of_patience.start()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            read_record(f"/dev/fd/{read}")
    finally:
        signal.signal(signal.SIGALRM, previous)
        end_of_patience.cancel()
        end_of_patience.join()
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("separator", ["\x1f", "\x1c", "\u00a0", "\u0085"])
def test_a_name_is_not_cut_at_what_is_no_white_space_of_a_header(tmp_path, separator):
    (tmp_path / "a.fa").write_text(f">a{separator}b c\nACGT\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.fa: a sequence name must be one printable word, not 'a.*b'"):
        read_sequence(tmp_path / "a.fa")
    with pytest.raises(InputError, match=r"no record"):
        read_sequence(f"{tmp_path / 'a.fa'}:a")
