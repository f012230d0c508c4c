"""2bit files: the same sequences as from FASTA, whole or in regions, and damage in one line."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import error
from twobit import two_bit

from longalign.fasta import read_sequence

RECORDS = {"one": "ACGTNNNNacgtnnnnACG", "empty": "", "two": "NNNNN", "chr:1-2": "acgT" * 251 + "N"}

letters = st.text("ACGTNacgtn", max_size=50)


@given(st.dictionaries(st.text("ab:1-", min_size=1, max_size=5), letters, min_size=1), st.data())
def test_as_from_fasta(
    tmp_path_factory: pytest.TempPathFactory, records: dict[str, str], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("files")
    fasta, packed = folder / "x.fa", folder / "x.2bit"
    fasta.write_text("".join(f">{name}\n{letters}\n" for name, letters in records.items()))
    packed.write_bytes(two_bit(records, data.draw(st.sampled_from("<>"))))
    for name, letters in records.items():
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(letters))] * 2)))
        for selector in (name, f"{name}:{start}-{end}"):
            plain, ours = (read_sequence(f"{path}:{selector}") for path in (fasta, packed))
            assert ours.letters.tobytes() == plain.letters.tobytes()
            for field in ("name", "offset", "record_length", "sha256"):
                assert getattr(ours, field) == getattr(plain, field)


def test_choosing(tmp_path: Path) -> None:
    path = tmp_path / "x.any"
    path.write_bytes(two_bit(RECORDS))
    assert error(path) == f"{path}: 4 records, choose one as {path}:NAME from one, empty, two, chr:1-2"
    assert error(f"{path}:three").startswith(f"{path}: no record named 'three'; the file has one, ")
    assert error(f"{path}:one:0-20").startswith(f"{path}: record 'one': region 0-20 is not inside 0-19")
    path.write_bytes(two_bit({"only": "ACGT"}))
    assert read_sequence(path).name == "only"
    assert read_sequence(f"{path}:1-3").letters.tobytes() == b"CG"


@pytest.mark.slow
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_file_cut_anywhere_is_an_error(tmp_path: Path, order: str) -> None:
    path = tmp_path / "cut.2bit"
    content = two_bit(RECORDS, order)
    for size in range(4, len(content) - len(RECORDS["chr:1-2"]) // 4 - 1):  # the last record's letters follow
        path.write_bytes(content[:size])
        assert error(f"{path}:chr:1-2").startswith(f"{path}: ")
    path.write_bytes(content[:-1])
    assert "damaged" in error(f"{path}:chr:1-2")


def test_letters_that_are_cut_are_an_error_of_their_record(tmp_path: Path) -> None:
    path = tmp_path / "cut.2bit"
    path.write_bytes(two_bit({"one": "ACGT" * 30})[:-3])
    assert error(path) == f"{path}: record 'one': truncated or damaged 2bit file"


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_later_version_is_named(tmp_path: Path, order: str) -> None:
    path, content = tmp_path / "x.2bit", two_bit(RECORDS, order)
    path.write_bytes(content[:4] + struct.pack(f"{order}I", 1) + content[8:])
    assert error(path).startswith(f"{path}: a 2bit file of version 1, with 64-bit offsets")


def test_one_name_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.2bit"
    path.write_bytes(two_bit({"one": "ACGT", "two": "A"}).replace(b"two", b"one"))
    assert error(f"{path}:one") == f"{path}: two records of the 2bit file have the same name"
