"""Many records of one file, and lists of pairs of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twobit import two_bit

from longalign.errors import InputError, UsageError
from longalign.fasta import read_sequence
from longalign.fasta.pair_list import NamedPair, read_pairs
from longalign.fasta.specs import Sequences

RECORDS = {"a": "ACGTACGTAC", "b:2-4": "TTTT", "empty": "", "c": "GGNNCC"}


def written(folder: Path, kind: str) -> str:
    """A file of the records, of this kind."""
    path = folder / f"x.{kind}"
    content = "".join(f">{name}\n{letters}\n" for name, letters in RECORDS.items()).encode()
    if kind == "2bit":
        content = two_bit(RECORDS)
    path.write_bytes(gzip.compress(content) if kind == "gz" else content)
    if kind == "indexed":
        pysam.faidx(str(path))
    return str(path)


@pytest.mark.parametrize("kind", ["fa", "gz", "indexed", "2bit"])
def test_many_records_are_those_that_are_read_one_by_one(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind)
    wanted = ["c:1-5", "a", "b:2-4", "a:0-0", "c:1-5", "empty"]
    for sequences in (Sequences(path), Sequences(path, wanted=wanted)):
        for selector in sequences.selectors:
            sequence, alone = sequences.sequence(selector), read_sequence(f"{path}:{selector}")
            assert sequence.letters.tobytes() == alone.letters.tobytes()
            for field in ("name", "source", "offset", "record_length"):
                assert getattr(sequence, field) == getattr(alone, field)
    assert Sequences(path).selectors == list(RECORDS)
    assert Sequences(path, wanted=wanted).selectors == ["c:1-5", "a", "b:2-4", "a:0-0", "empty"]


def test_only_what_is_wanted_of_a_stream_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, "fa")
    assert Sequences(path).kept_letters == sum(map(len, RECORDS.values()))
    assert Sequences(path, wanted=["c:1-2", "none"]).kept_letters == len(RECORDS["c"])
    assert Sequences(written(tmp_path, "2bit")).kept_letters == 0


def test_a_specification_of_one_sequence(tmp_path: Path) -> None:
    path = written(tmp_path, "fa")
    [selector] = Sequences(f"{path}:a:2-4").selectors
    assert Sequences(f"{path}:a:2-4").sequence(selector).source == f"{path}:a:2-4"
    (tmp_path / "one.fa").write_text(">one\nACGT\n")
    one = Sequences(str(tmp_path / "one.fa"))
    assert one.sequence(*one.selectors).source == str(tmp_path / "one.fa")


def test_errors(tmp_path: Path) -> None:
    path = written(tmp_path, "fa")
    with pytest.raises(UsageError, match=r"x\.fa:a: names a record: with a list of pairs, give"):
        Sequences(f"{path}:a", wanted=["b"])
    with pytest.raises(InputError, match=r"x\.fa: no record named 'd'"):
        Sequences(path, wanted=["d"]).sequence("d")
    with pytest.raises(InputError, match="the name of a FASTA file is empty"):
        Sequences("")
    (tmp_path / "no.2bit").write_bytes(two_bit({}))
    with pytest.raises(InputError, match=r"no\.2bit: no records"):
        Sequences(str(tmp_path / "no.2bit"))
    Path(path).write_text(">a\nA\n>b\nC\n>a\nG\n")
    with pytest.raises(InputError, match=r"x\.fa: more than one record is named 'a'"):
        Sequences(path)
    assert Sequences(path, wanted=["b"]).sequence("b").length == 1
    with pytest.raises(InputError, match=r"x\.fa: more than one record is named 'a'"):
        Sequences(path, wanted=["a"]).sequence("a")


# --- lists of pairs

names = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1).filter(
    lambda name: name.split() == [name] and not name.startswith("#")
)


@given(st.lists(st.tuples(names, names), min_size=1), st.sampled_from(["\t", " ", "  \t"]), st.booleans())
def test_any_list_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], gap: str, packed: bool
) -> None:
    lines = ["# comment", "query\ttarget", *(f"{query}{gap}{target}" for query, target in pairs), ""]
    content = "\r\n".join(lines).encode("utf-8-sig")
    path = tmp_path_factory.mktemp("list") / "a.tsv"
    path.write_bytes(gzip.compress(content) if packed else content)
    found = read_pairs(str(path))
    if pairs[0] != ("query", "target"):
        assert found == [NamedPair(*pair, number) for number, pair in enumerate(pairs, start=3)]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "no pairs"),
        (b"# nothing\nquery\ttarget\n", "no pairs"),
        (b"a\tb\nc\n", "line 2: want two columns, the names of a query and a target record, not 1"),
        (b"a\tb\n\na b c\n", "line 3: want two columns, the names of a query and a target record, not 3"),
        (b"a\tb\nc\t\xff\n", "line 2: not a list of pairs: it is not text in UTF-8"),
        (gzip.compress(b"a\tb\n", mtime=0)[:-9], "compressed file ended before"),
    ],
)
def test_what_is_no_list_of_pairs(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_pairs(str(path))
    assert str(caught.value).startswith(f"{path}: {text}")
