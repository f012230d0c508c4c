"""A sequence: checked letters, their source, and the codes that back ends compare.

The alphabet of a scoring says which letters are allowed, and as what each is read
(`longalign.model.alphabet`). Letters are stored in upper case, and as they stand in the record, whichever
strand is aligned.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import SupportsBytes

import numpy as np
from numpy.typing import NDArray

from longalign.errors import InputError, UsageError
from longalign.model.alphabet import DNA, Alphabet, Codes
from longalign.model.strand import Strand

Letters = NDArray[np.uint8]

#: What letters can be made from: text, bytes, whatever `bytes()` converts, as Biopython's Seq, or an array.
LetterData = str | bytes | bytearray | memoryview | SupportsBytes | Letters

#: The source of a sequence that was not read from a file.
MEMORY = "memory"

#: The name of a file has at most this many characters.
_LONGEST_NAME = 4096

#: The largest length of a whole record: PAF readers use signed 64-bit integers.
LONGEST_RECORD = (1 << 63) - 1


@dataclass(frozen=True, eq=False, repr=False)
class Sequence:
    """A checked sequence; make one with `read_sequence` or `Sequence.from_letters`.

    - `name`: the first word of the FASTA header.
    - `letters`: upper-case ASCII, uint8 of shape (length,), read-only.
    - `source`: the specification that the user gave, or "memory".
    - `description`: the rest of the header; empty if the record came through an index.
    - `offset`, `record_length`: where `letters` begin in the whole record, and how long that is. They
      are 0 and `length` unless the sequence is a region. Coordinates inside longalign count from the
      first of `letters`; files that longalign writes count from the start of the record.
    - `alphabet`: the one that the letters were checked against.
    - `strand`: "minus" if the reverse complement of `letters` is aligned. The codes are those of the strand.
      Rows and columns of a DP matrix count along the strand; all other coordinates, and the fields above,
      are those of the forward strand.
    """

    name: str
    letters: Letters
    source: str
    description: str
    offset: int
    record_length: int
    alphabet: Alphabet = DNA
    strand: Strand = "plus"

    @classmethod
    def from_letters(
        cls,
        name: str,
        data: LetterData,
        *,
        source: str = MEMORY,
        description: str = "",
        offset: int = 0,
        record_length: int | None = None,
        alphabet: Alphabet = DNA,
    ) -> Sequence:
        """A sequence from text, bytes, Biopython's Seq, or a one-dimensional uint8 array of ASCII letters.

        There may be no letters at all. Raises InputError if the name is not one word, if the letters are no
        part of the record, or for the first letter outside the alphabet; its position counts from 1 at the
        start of the record.
        """
        if not is_name(name):
            raise InputError(f"{_from(source)}a sequence name must be one printable word, not {name!r}")
        letters = _checked(source, name, data, offset, alphabet)
        length = offset + len(letters) if record_length is None else record_length
        if not 0 <= offset <= offset + len(letters) <= length <= LONGEST_RECORD:
            raise InputError(
                f"{_place(source, name)}: {len(letters)} letters from {offset} on are no part of a record of "
                f"{length}"
            )
        return cls(name, letters, source, description, offset, length, alphabet)

    def under(self, alphabet: Alphabet) -> Sequence:
        """The same letters as those of another alphabet.

        Raises InputError if one is not among them. Also if lower-case letters are masked under one of the two
        alphabets only, or if letters were replaced that the other one knows or treats otherwise: what a
        letter was is known only while it is read.
        """
        if alphabet == self.alphabet:
            return self
        substitute, newly_known = self.alphabet.substitute, {*alphabet.letters} - {*self.alphabet.letters}
        if substitute and (newly_known or substitute != alphabet.substitute):
            raise InputError(
                f"{_place(self.source, self.name)}: unknown letters were replaced by "
                f"{substitute} while they were read: read the sequence with scoring.alphabet"
            )
        if alphabet.masked != self.alphabet.masked:
            raise InputError(
                f"{_place(self.source, self.name)}: the scoring, and the alphabet with which it was read, "
                "treat lower-case letters differently: read the sequence with scoring.alphabet"
            )
        letters = _checked(self.source, self.name, self.letters, self.offset, alphabet)
        return replace(self, letters=letters, alphabet=alphabet)

    def on(self, strand: Strand) -> Sequence:
        """The same letters, with codes of a strand. Raises UsageError if they have no complement.

        The public functions choose the strand by their parameter `strand`.
        """
        if strand == "minus" and self.alphabet.complement is None:
            raise UsageError(
                f"{self.name}: only DNA has a minus strand: {self.alphabet.name} has no complementary letters"
            )
        return self if strand == self.strand else replace(self, strand=strand)

    def first(self, count: int) -> Sequence:
        """The first `count` letters along the strand, as a region of the record."""
        start, end = self.mirrored(0, count)
        return replace(self, letters=self.letters[start:end], offset=self.offset + start)

    def mirrored(self, start: int, end: int) -> tuple[int, int]:
        """A half-open range of the strand as one of `letters`, or the reverse: the map is its own inverse."""
        if self.strand == "plus":
            return start, end
        return self.length - end, self.length - start

    def place_in_record(self, count: int) -> int:
        """Where the first `count` letters along the strand end, in the forward coordinates of the record."""
        return self.offset + (count if self.strand == "plus" else self.length - count)

    def along_record(self, start: int, end: int) -> tuple[int, int]:
        """A half-open range of `letters` as one of the whole record, counted along the strand.

        On the minus strand it counts from the end of the record, as MAF and chain files do.
        """
        start, end = self.offset + start, self.offset + end
        if self.strand == "plus":
            return start, end
        return self.record_length - end, self.record_length - start

    @property
    def length(self) -> int:
        """Number of letters."""
        return len(self.letters)

    def __len__(self) -> int:
        return len(self.letters)

    def __repr__(self) -> str:
        region = "" if self.length == self.record_length else f", letters from {self.offset}"
        strand = ", minus strand" * (self.strand == "minus")
        return f"Sequence({self.name!r}, {self.length} letters{region}{strand}, from {self.source!r})"

    @cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the upper-case letters, without header and line ends."""
        return hashlib.sha256(self.letters.data).hexdigest()

    @property
    def strand_letters(self) -> Letters:
        """The letters along the strand: on the minus strand, the reverse complement of `letters`."""
        if self.strand == "plus":
            return self.letters
        assert self.alphabet.complement is not None
        return np.frombuffer(self.letters[::-1].tobytes().translate(self.alphabet.complement), np.uint8)

    def as_query(self) -> Codes:
        """Codes for the query's side, along the strand: a new uint8 array of shape (length,).

        A C G T/U are 0-3 and others 4 in DNA; under a matrix, a code is a place in its letters. See
        `longalign.model.alphabet` for what a scoring may ask for.
        """
        return _encode(self.strand_letters, self.alphabet.query_codes)

    def as_target(self) -> Codes:
        """Codes as of `as_query`, for the target's side. In DNA, ambiguous letters have the code 5 there."""
        return _encode(self.strand_letters, self.alphabet.target_codes)


def is_name(text: str) -> bool:
    """Whether a text can be the name of a sequence: one printable word."""
    return isinstance(text, str) and len(text.split()) == 1 and text == text.strip() and text.isprintable()


def _place(source: str, name: str) -> str:
    """Where a sequence is from, for messages: what was not read from a file is no record."""
    return f"sequence {name!r}" if source == MEMORY else f"{source}: record {name!r}"


def _from(source: str) -> str:
    """The beginning of a message about what is no sequence yet."""
    return "" if source == MEMORY else f"{source}: "


def _as_bytes(source: str, name: str, data: LetterData) -> bytes | bytearray:
    if isinstance(data, str):
        return data.encode("ascii", "replace")  # one byte a character, so that positions stay true
    if isinstance(data, memoryview) and data.itemsize == 1:
        return data.tobytes()
    if isinstance(data, np.ndarray):
        if data.dtype != np.uint8 or data.ndim != 1:
            raise InputError(
                f"{_place(source, name)}: letters must be a one-dimensional array of uint8, "
                f"not {data.ndim}-dimensional {data.dtype}"
            )
        return data.tobytes()
    if isinstance(data, bytes | bytearray):
        return data
    if isinstance(data, SupportsBytes) and not isinstance(data, PathLike | type):
        try:
            return bytes(data)
        except Exception as error:  # of the library that the object comes from
            raise InputError(f"{_place(source, name)}: holds no letters: {error}") from error
    raise InputError(
        f"{_place(source, name)}: want text, bytes or an array of uint8, not {type(data).__name__}"
    )


def _checked(source: str, name: str, data: LetterData, offset: int, alphabet: Alphabet) -> Letters:
    """The letters in upper case. Raises InputError for the first that is not one."""
    if not isinstance(alphabet, Alphabet):
        raise InputError(
            f"{_from(source)}want an alphabet, as scoring.alphabet is, not {type(alphabet).__name__}"
        )
    raw = _as_bytes(source, name, data)
    upper = raw.translate(alphabet.upper)
    bad = upper.find(0)
    if bad >= 0:
        shown = repr(data[bad] if isinstance(data, str) else chr(raw[bad]))
        raise InputError(
            f"{_place(source, name)}: letter {offset + bad + 1} (counting from 1) is "
            f"{shown}, not one of {alphabet.letters} in either case, "
            f"the letters of {alphabet.name}{_hint(source, data) or alphabet.hint(chr(raw[bad]))}"
        )
    letters = np.frombuffer(upper, np.uint8)
    letters.setflags(write=False)
    return letters


def _hint(source: str, data: object) -> str:
    """What else to do with the name of a file that was given instead of letters."""
    is_name = source == MEMORY and isinstance(data, str) and len(data) < _LONGEST_NAME and {*"./"} & {*data}
    return "; longalign.read_sequence reads files" if is_name else ""


def _encode(letters: Letters, table: bytes) -> Codes:
    # A bytearray, so that the result can be written: compiled kernels take writable arrays.
    return np.frombuffer(bytearray(letters).translate(table), np.uint8)
