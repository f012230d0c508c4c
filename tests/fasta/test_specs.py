"""Reading a sequence: every way a FASTA file can come, and every way it can be wrong."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inputs import DATA
from reading import error

from longalign.errors import InputError
from longalign.fasta import read_sequence
from longalign.model.sequence import Sequence

ALPHABET = "ACGTURYSWKMBDHVN"

Write = Callable[[bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: bytes, name: str = "x.fa") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def text(sequence: Sequence) -> str:
    return sequence.letters.tobytes().decode()


def bgzip(path: Path) -> Path:
    pysam.tabix_compress(str(path), str(path) + ".gz", force=True)
    return Path(str(path) + ".gz")


# Files as they come


@pytest.mark.parametrize("spec", [None, 5, b"x.fa"])
def test_what_is_no_text_and_no_path(spec):
    with pytest.raises(InputError, match=f"a text or a path, not {type(spec).__name__}"):
        read_sequence(spec)


@pytest.mark.parametrize(
    "content",
    [
        b">x some words\nACGT\nacgn\n",
        b">x some words\nACGT\nacgn",
        b">x some words\r\nACGT\r\nACGN\r\n",
        b"\n\n>x   some words \n\nACG\n\nTAC\nGN\n\n\n",
        b"> x some words\nACG TAC GN \n",
        b">x\tsome words\nA\nC\nG\nT\nA\nC\nG\nN",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_layouts_read_alike(write: Write, content: bytes, packed: bool) -> None:
    path = write(gzip.compress(content) if packed else content)
    sequence = read_sequence(path)
    assert (sequence.name, sequence.description) == ("x", "some words")
    assert text(sequence) == "ACGTACGN"
    assert (sequence.source, sequence.offset, sequence.record_length) == (str(path), 0, 8)
    assert sequence.length == len(sequence) == 8


def test_bgzip_and_several_gzip_members(write: Write) -> None:
    plain = write(b">x\n" + b"ACGT\n" * 30_000)
    assert text(read_sequence(bgzip(plain))) == "ACGT" * 30_000
    assert text(read_sequence(write(gzip.compress(b">x\nAC") + gzip.compress(b"GT\n")))) == "ACGT"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("selector", ["", ":two", ":two:0-4"])
def test_stdin(monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes], selector: str) -> None:
    content = b">two\nACGT\n" if not selector else b">one\nAAAA\n>two\nACGT\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pack(content))))
    sequence = read_sequence("-" + selector)
    assert (sequence.name, text(sequence), sequence.source) == ("two", "ACGT", "-" + selector)


def test_a_pipe(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b">x\nACGT\n")
    os.close(write)
    try:
        assert text(read_sequence(f"/dev/fd/{read}")) == "ACGT"
    finally:
        os.close(read)


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t"))


@pytest.mark.parametrize("row", rows("MANIFEST.tsv"), ids=lambda row: row["file"])
def test_public_records(row: dict[str, str]) -> None:
    sequence = read_sequence(DATA / row["file"])
    assert sequence.length == int(row["length"])
    assert sequence.sha256 == row["sha256_upper_seq"]
    assert f"{sequence.name} {sequence.description}".strip() == row["fasta_header"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_no_letter(write: Write, packed: bool) -> None:
    content = b"\xef\xbb\xbf>x\nACGT\n"
    sequence = read_sequence(write(gzip.compress(content) if packed else content))
    assert (sequence.name, text(sequence)) == ("x", "ACGT")
    assert "empty file" in error(write(b"\xef\xbb\xbf"))
    assert "not FASTA: line 1 begins with 'ACGT'" in error(write(b"\xef\xbb\xbfACGT\n"))
    assert "not FASTA: line 1" in error(write(b"\xef\xbb>x\nACGT\n"))


@given(
    records=st.lists(
        st.tuples(st.text("abc|:-.1", min_size=1, max_size=8), st.text(ALPHABET + "acgtn", min_size=1)),
        min_size=1,
        max_size=5,
        unique_by=lambda record: record[0],
    ),
    width=st.integers(1, 30),
    ending=st.sampled_from(["\n", "\r\n"]),
    packed=st.booleans(),
)
def test_any_record_is_found_by_name(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[str, str]],
    width: int,
    ending: str,
    packed: bool,
) -> None:
    path = tmp_path_factory.mktemp("fasta") / "any.fa"
    content = "".join(
        f">{name}{ending}" + "".join(letters[k : k + width] + ending for k in range(0, len(letters), width))
        for name, letters in records
    ).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    for name, letters in records:
        assert text(read_sequence(f"{path}:{name}")) == letters.upper()
        region = read_sequence(f"{path}:{name}:0-{len(letters)}")
        assert (region.name, text(region)) == (name, letters.upper())


# Names and regions


def test_a_region_is_half_open_and_counts_from_0(write: Write) -> None:
    path = write(b">one\nAACC\nGGTT\n")
    for spec in (f"{path}:one:2-6", f"{path}:2-6"):
        sequence = read_sequence(spec)
        assert (text(sequence), sequence.offset, sequence.record_length) == ("CCGG", 2, 8)
        assert sequence.length == 4


def test_a_whole_name_goes_before_a_region(write: Write) -> None:
    path = write(b">a:1-2\nAAAA\n>a\nCCCC\n>1-2\nGGGG\n")
    assert text(read_sequence(f"{path}:a:1-2")) == "AAAA"
    assert text(read_sequence(f"{path}:a:1-3")) == "CC"
    assert text(read_sequence(f"{path}:1-2")) == "GGGG"
    assert text(read_sequence(f"{path}:a:1-2:1-2")) == "A"


def test_the_longest_existing_file_goes_first(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b">fa\nAAAA\n>fa:b\nCCCC\n")
    assert text(read_sequence(tmp_path / "x:fa:b")) == "CCCC"
    (tmp_path / "x:fa").write_bytes(b">b\nGGGG\n")
    assert text(read_sequence(tmp_path / "x:fa:b")) == "GGGG"


@pytest.mark.parametrize("packed", [False, True])
def test_an_index_is_used_and_gives_the_same(
    write: Write, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(b">one\nACGTA\nCG\n>two words\naaccg\ngtt\n")
    path = bgzip(path) if packed else path
    specs = [f"{path}:one", f"{path}:two", f"{path}:two:2-6"]
    streamed = [read_sequence(spec) for spec in specs]
    assert not Path(f"{path}.fai").exists()
    pysam.faidx(str(path))
    monkeypatch.setattr("longalign.fasta.reader.parse", None)
    for before, spec in zip(streamed, specs, strict=True):
        after = read_sequence(spec)
        assert (after.name, text(after), after.sha256) == (before.name, text(before), before.sha256)
        assert (after.offset, after.record_length) == (before.offset, before.record_length)
    assert "record 'two': region 2-9" in error(f"{path}:two:2-9")
    monkeypatch.undo()
    assert "no record named 'six'; the file has one, two" in error(f"{path}:six")
    assert error(f"{path}:5").endswith("no record named '5'; the file has one, two")
    for region in ("one:5", "one:1,5"):  # samtools' START alone, which might be the name of a record
        complaint = f"no record named '{region}'; the file has one, two; a region is START-END or START-"
        assert error(f"{path}:{region}").endswith(complaint)


def test_an_index_does_not_tell_which_record_is_the_only_one(write: Write) -> None:
    """It lacks records without letters."""
    path = write(b">empty\n>two\nACGT\n")
    before = error(f"{path}:0-3")
    assert "2 records, choose one" in before
    pysam.faidx(str(path))
    assert error(f"{path}:0-3") == before
    assert text(read_sequence(f"{path}:two:0-3")) == "ACG"


def test_a_stale_index_is_not_used(write: Write) -> None:
    path = write(b">one\nACGT\n>two\nGGGG\n")
    pysam.faidx(str(path))
    index = Path(f"{path}.fai")
    before = index.read_bytes()
    path.write_bytes(b">zero\nTTTTTTTT\n>two\nCCCCC\n")
    os.utime(index, (1, 1))
    assert text(read_sequence(f"{path}:two")) == "CCCCC"
    assert index.read_bytes() == before


def test_an_index_of_another_file_is_an_error(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(b">one\nACGT\n")
    Path(f"{path}.fai").write_text("one\t4000\t5\t60\t61\n")
    complaint = f"cannot be read through its index {path}.fai: one of them is damaged; make the index again"
    assert error(f"{path}:one") == f"{path}: {complaint}"
    Path(f"{path}.fai").write_text("one\t4\t1\t4\t5\n")
    assert f"record 'one' is not where the index {path}.fai has it" in error(f"{path}:one")
    Path(f"{path}.fai").write_text("one 4 1 4 5\n")
    assert f"record 'one' is not where the index {path}.fai has it" in error(f"{path}:one")
    Path(f"{path}.fai").write_text("rubbish\n")
    assert f"{path}: cannot be read through its index {path}.fai" in error(f"{path}:one")
    assert capfd.readouterr().err == ""  # nothing beside our own line


@pytest.mark.parametrize(
    "edited",
    [
        b">one\nACGT\n>new\nA\n>two words\nGGGG\nCC\n",  # a record more
        b">one\nACGT\n>two words\nGGGGG\nCC\n",  # a letter more
        b">one\nACG\n>two words\nGGGG\nCC\n",
        b">one\nACGT\n>twos word\nGGGG\nCC\n",
        b">one\nACGT\n>tw\nA two\nGGGG\nCC\n",
    ],
)
def test_an_index_that_no_longer_fits_is_an_error(write: Write, edited: bytes) -> None:
    path = write(b">one\nACGT\n>two words\nGGGG\nCC\n")
    pysam.faidx(str(path))
    assert text(read_sequence(f"{path}:two:3-6")) == "GCC"
    path.write_bytes(edited)
    os.utime(f"{path}.fai")
    assert f"record 'two' is not where the index {path}.fai has it: make the index again" in error(
        f"{path}:two"
    )


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n\n"])
@pytest.mark.parametrize("letters", [b"ACGT", b"ACGT\nAC", b"ACGT\nACGT"])
def test_an_index_fits_whatever_ends_the_file(write: Write, end: bytes, letters: bytes) -> None:
    path = write(b">one\nAC\n>two\n" + letters + end)
    pysam.faidx(str(path))
    assert text(read_sequence(f"{path}:two")) == letters.replace(b"\n", b"").decode()
    assert text(read_sequence(f"{path}:one")) == "AC"


# Files that are wrong


def test_wrong_letters(write: Write) -> None:
    path = write(b">one\nACGT\n>two\nACGTA\nACG-T\n")
    message = error(f"{path}:two")
    assert message.startswith(f"{path}:two: record 'two': letter 9 (counting from 1) is '-'")
    assert "letter 9 (counting from 1)" in error(f"{path}:two:7-10")  # of the record, not of the region
    assert text(read_sequence(f"{path}:two:0-8")) == "ACGTAACG"
    for letter in b"*-.E1>;@\0\x80\xff":
        path = write(b">x\nAC" + bytes([letter]) + b"\n")
        assert "record 'x': letter 3 (counting from 1) is " in error(path)


def test_no_record(write: Write) -> None:
    assert error(write(b"")).endswith("x.fa: empty file")
    assert error(write(gzip.compress(b""))).endswith("x.fa: empty file")
    assert error(write(b"\n \n")).endswith("x.fa: no FASTA record")


@pytest.mark.parametrize("content", [b">one\n", b">one", b">one\n\n\r\n", b">one\n>two\nACGT\n"])
def test_a_record_may_have_no_letters(write: Write, content: bytes) -> None:
    path = write(content)
    for spec in (f"{path}:one", f"{path}:one:0-0"):
        sequence = read_sequence(spec)
        assert (sequence.name, text(sequence), sequence.record_length) == ("one", "", 0)
    assert len(sequence.as_query()) == len(sequence.as_target()) == 0
    assert error(f"{path}:one:0-1").startswith(f"{path}: record 'one': region 0-1 is not inside 0-0 ")


def test_an_index_does_not_hide_a_record_without_letters(write: Write) -> None:
    """samtools leaves such records out of the index."""
    path = write(b">one\n>two\nACGT\n")
    pysam.faidx(str(path))
    assert [read_sequence(f"{path}:{name}").length for name in ("one", "two")] == [0, 4]
    assert "no record named 'three'; the file has one, two" in error(f"{path}:three")


@pytest.mark.parametrize("place", [0, 3, 8])
def test_a_region_may_have_no_letters(write: Write, place: int) -> None:
    path = write(b">one\nACGTACGT\n")
    for indexed in (False, True):
        if indexed:
            pysam.faidx(str(path))
        sequence = read_sequence(f"{path}:one:{place}-{place}")
        assert (text(sequence), sequence.offset, sequence.record_length) == ("", place, 8)


def test_several_records(write: Write) -> None:
    path = write(b"".join(b">r%d\nACGT\n" % k for k in range(9)))
    assert error(path) == f"{path}: 9 records, choose one as {path}:NAME from r0, r1, r2, r3, r4, ..."
    assert "9 records, choose one" in error(f"{path}:0-2")
    assert error(f"{path}:r9") == f"{path}: no record named 'r9'; the file has r0, r1, r2, r3, r4, ..."
    assert "no record named 'r9'" in error(f"{path}:r9:0-2")
    assert "no record named ''" in error(f"{path}:")


def test_one_name_twice(write: Write) -> None:
    path = write(b">one\nAAAA\n>two\nCCCC\n>one\nGGGG\n")
    assert error(f"{path}:one") == f"{path}: more than one record is named 'one'"
    assert text(read_sequence(f"{path}:two")) == "CCCC"


@pytest.mark.parametrize("region", ["0-9", "9-9", "5-3", "8-9"])
def test_regions_outside(write: Write, region: str) -> None:
    path = write(b">one\nACGTACGT\n")
    assert error(f"{path}:one:{region}") == (
        f"{path}: record 'one': region {region} is not inside 0-8 "
        "(regions without commas are 0-based and half-open)"
    )


@pytest.mark.parametrize("indexed", [False, True])
def test_a_region_with_commas_counts_from_1_and_includes_its_ends(write: Write, indexed: bool) -> None:
    letters = "".join("ACGT"[k * k % 7 % 4] for k in range(3210))
    path = write(f">one\n{letters}\n>1,000-2,000\nACGT\n".encode())
    if indexed:
        pysam.faidx(str(path))
    for region, (start, end) in {
        "1,001-2,000": (1000, 2000),
        "1-3,210": (0, 3210),
        "1,001-1,001": (1000, 1001),
        "999-1,001": (998, 1001),
        "1,001": (1000, 3210),
        "1,001-": (1000, 3210),
        "1000-": (1000, 3210),
        "3210-": (3210, 3210),
    }.items():
        sequence = read_sequence(f"{path}:one:{region}")
        assert (text(sequence), sequence.offset) == (letters[start:end], start)
        assert text(read_sequence(f"{path}:one:{start}-{end}")) == letters[start:end]
    assert text(read_sequence(f"{path}:1,000-2,000")) == "ACGT"  # a whole name goes before a region
    for region in ("0-1,000", "1,001-3,211", "1,001-1,000", "3,211-"):
        assert error(f"{path}:one:{region}") == (
            f"{path}: record 'one': region {region} is not inside 1-3,210 "
            "(regions with commas are 1-based, both ends included)"
        )
    for region in ("1,00-2,000", "1001", "-2,000"):
        assert f"no record named 'one:{region}'" in error(f"{path}:one:{region}")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"@read\nACGT\n+\nIIII\n", "line 1 begins with '@read'"),
        (b"\n\nACGT\n>x\nACGT\n", "line 3 begins with 'ACGT'"),
        (b"\x7fELF\x02\x01\0\0", r"line 1 begins with '\x7fELF"),
        (b"LOCUS       NC_012920 16569 bp", "line 1 begins with 'LOCUS       '"),
    ],
)
def test_not_fasta(write: Write, content: bytes, shown: str) -> None:
    path = write(content)
    assert error(path).startswith(f"{path}: not FASTA: {shown}")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"BZh91AY&SY", "compressed with bzip2: unpack it first"),
        (b"\xfd7zXZ\0\0\x04", "compressed with xz: unpack it first"),
        (gzip.compress(b"\x43\x27\x41\x1a" + bytes(12), mtime=0), "2bit is read from plain files only"),
        (b">x\rACGT\rACGT\r", "record 'x': a carriage return alone does not end a line"),
        (
            b">x\r" + b"ACGT\r" * 300_000,
            "line 1: a header of more than 1048576 bytes; a carriage return",
        ),
    ],
)
def test_what_can_be_made_fasta_is_named(write: Write, content: bytes, complaint: str) -> None:
    path = write(content)
    assert error(path).startswith(f"{path}: {complaint}")


def test_a_header_may_hold_carriage_returns(write: Write) -> None:
    path = write(b">x a\rb\r\nACGT\r\n>y\rz\r\n")
    assert read_sequence(f"{path}:x").letters.tobytes() == b"ACGT"


def test_a_record_without_a_name(write: Write) -> None:
    path = write(b">one\nACGT\n> \nACGT\n")
    assert error(path) == f"{path}: line 3: a record without a name after '>'"


def test_truncated_gzip(write: Write) -> None:
    letters = np.random.default_rng(0).choice(np.frombuffer(b"ACGT", np.uint8), 50_000).tobytes()
    content = b">one\n" + letters + b"\n"
    whole = gzip.compress(content)
    for cut in (len(whole) // 2, len(whole) - 8, len(whole) - 1):
        message = error(write(whole[:cut]))
        assert "x.fa: gzip data truncated or damaged at or after line 2, record 'one': " in message
    assert "damaged at or after line 1: " in error(write(whole[:12]))
    damaged = bytearray(whole)
    damaged[len(whole) - 6] ^= 1  # in the checksum
    message = error(write(bytes(damaged)))
    assert "damaged at or after line 2, record 'one': crc check failed" in message
    assert "other data follow the gzip data" in error(write(whole + b"rubbish"))


def test_truncated_bgzip(write: Write) -> None:
    """Cut between two blocks, the rest is a valid gzip file."""
    compressed = bgzip(write(b">one\n" + b"ACGT\n" * 40_000)).read_bytes()
    first_block = int.from_bytes(compressed[16:18], "little") + 1
    for cut in (first_block, first_block + 100, len(compressed) - 28, len(compressed) - 1):
        message = error(write(compressed[:cut]))
        assert "x.fa: gzip data truncated or damaged at or after line " in message
        assert ", record 'one': " in message


def test_bgzip_truncated_after_an_index_was_made(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    letters = np.random.default_rng(0).choice(np.frombuffer(b"ACGT", np.uint8), 500_000).tobytes()
    path = bgzip(write(b">one\n" + letters + b"\n"))
    pysam.faidx(str(path))
    whole = path.read_bytes()
    for cut in (len(whole) // 2, len(whole) // 4, 30):
        path.write_bytes(whole[:cut])
        for suffix in (".fai", ".gzi"):
            os.utime(str(path) + suffix)
        assert str(path) in error(f"{path}:one")
    assert capfd.readouterr().err == ""


def test_files_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert error(tmp_path / "none.fa:one") == f"{tmp_path}/none.fa:one: no such file or directory"
    assert error(tmp_path) == f"{tmp_path}: is a directory"
    assert error("x" * 300) == f"{'x' * 300}: file name too long"

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "x.fa"
    path.write_bytes(b">one\nACGT\n")
    monkeypatch.setattr(Path, "open", refuse)  # root may read every file
    assert error(path) == f"{path}: permission denied"
    assert error(f"{path}:one") == f"{path}: permission denied"
