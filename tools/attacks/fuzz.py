"""Fuzzed input: any file is either read correctly or refused with one line.

FASTA files and regions of them, substitution matrices, PAF files for `verify` and manifests are assembled
from pieces of their grammar and then changed byte by byte. Asserted for each: it is accepted, or refused by a
LongalignError whose text is one line that names the file. If a plain FASTA file is accepted, its letters
equal those that a reader of ten lines (`plain_letters`) finds in it.
"""

from __future__ import annotations

import gzip
import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from forgeries import write_signed

import longalign
from attacks import forgery
from attacks.base import Attack, CaseFailed, expect
from longalign.errors import InternalError, LongalignError
from longalign.fasta import read_sequence
from longalign.formats.verify import verify_paf
from longalign.model.mode import ModeName
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.store.manifest import Manifest

#: Inputs per case. Reporting a case takes longer than reading one input.
_INPUTS = 100
_BYTES = [
    b"\x00",
    b"\xff",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b">",
    b"@",
    b"+",
    b"-",
    b"*",
    b"\xc3",
    b"9",
    b"N",
    b"\x1f\x8b",
]


class Fuzz(Attack):
    weight = 3.0
    limit = 60.0
    unit = "inputs"

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        self._files = self.fresh("files")
        self._seeds = _Seeds(self._files)

    def run(self, rng: random.Random) -> int:
        kinds: list[Callable[[random.Random], None]] = [
            self._matrix, self._paf, self._manifest, self._manifest, self._fasta
        ]  # fmt: skip
        for number in range(_INPUTS):
            try:
                rng.choice(kinds)(rng)
            except CaseFailed as fault:
                raise CaseFailed(f"input {number}: {fault}") from fault
        return _INPUTS

    def _fasta(self, rng: random.Random) -> None:
        data = mutated(rng, _fasta_text(rng))
        is_plain = rng.random() < 0.9
        path = self._write("in.fa", data if is_plain else _compressed(rng, data))
        selector = rng.choice(["", "", "", ":a", ":a:1-3", ":0-2", ":b:5-1", ":a-b:0-1"])
        sequence = _tried(lambda: read_sequence(f"{path}{selector}"), path)
        if sequence is not None and is_plain and selector in ("", ":a"):
            letters = plain_letters(data, selector[1:])
            found = sequence.letters.tobytes()
            expect(found == letters, f"{data!r}{selector}: read as {found[:60]!r}, not {letters[:60]!r}")

    def _matrix(self, rng: random.Random) -> None:
        path = self._write("matrix", mutated(rng, _matrix_text(rng)))
        _tried(lambda: SubstitutionMatrix.load(str(path)), path)

    def _paf(self, rng: random.Random) -> None:
        path = self._write("in.paf", _changed_paf(rng, rng.choice(self._seeds.paf)))
        scoring = rng.choice([None, None, Scoring()])
        _tried(lambda: verify_paf(str(path), *self._seeds.specs, scoring), path)

    def _manifest(self, rng: random.Random) -> None:
        path = self._write("manifest.json", self._seeds.manifest)
        done = []
        if rng.random() < 0.7:
            done = [forgery.manifest(path, rng) for _ in range(rng.choice([1, 1, 2, 4]))]
        if rng.random() < 0.4:
            path.write_bytes(mutated(rng, path.read_bytes()))
            if rng.random() < 0.5:
                _sign_again(path)
        try:
            _tried(lambda: Manifest.read(path), path)
        except CaseFailed as fault:
            raise CaseFailed(f"{done}: {fault}") from fault

    def _write(self, name: str, data: bytes) -> Path:
        path = self._files / name
        path.write_bytes(data)
        return path


class _Seeds:
    """Valid files, from which the fuzzed ones are made."""

    def __init__(self, folder: Path) -> None:
        query, target = "ACGTTACGGATCAGGCATTACGNNGATTACAGG", "ACGTACGGATCCAGGATTACGTACGATACAGGCC"
        self.specs = tuple(str(folder / f"{name}.fa") for name in ("query", "target"))
        for spec, letters in zip(self.specs, (query, target), strict=True):
            Path(spec).write_text(f">{Path(spec).stem}\n{letters}\n")
        sequences = [read_sequence(spec) for spec in self.specs]
        self.paf = [_paf_line(sequences, mode) for mode in get_args(ModeName)]
        store = folder / "store"
        longalign.align(*sequences, backend="cpu", threads=1, store=store)
        self.manifest = (store / "manifest.json").read_bytes()


def _paf_line(sequences: list[Sequence], mode: str) -> bytes:
    from longalign.formats.paf import format_paf

    alignment = longalign.align(*sequences, mode=mode, backend="cpu", threads=1)  # type: ignore[arg-type]
    return format_paf(alignment).encode().rstrip(b"\n") + b"\n"


def _tried(read: Callable[[], object], path: Path) -> object:
    """The result of `read`, or None if the file is refused properly. Raises CaseFailed otherwise."""
    try:
        return read()
    except LongalignError as error:
        text = str(error)
        expect(not isinstance(error, InternalError), f"internal error: {text}: {_content(path)}")
        expect("\n" not in text and "\r" not in text, f"more than one line: {text!r}: {_content(path)}")
        expect(path.name in text, f"the message does not name {path.name}: {text!r}: {_content(path)}")
        return None
    except Exception as error:
        raise CaseFailed(f"{path.name}: {type(error).__name__}: {error}: {_content(path)}") from error


def _content(path: Path) -> str:
    data = path.read_bytes()
    return repr(data) if len(data) <= 300 else f"{data[:300]!r}..."


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A copy of `data` with up to five changes of a few bytes each."""
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        start = rng.randint(0, len(data))
        stop = min(len(data), start + rng.choice([0, 1, 1, 5, 40]))
        change = rng.random()
        if change < 0.5:
            new = rng.choice(_BYTES)
        elif change < 0.6:
            new = bytes([rng.randrange(256)])
        elif change < 0.8:
            new = data[start:stop] * rng.choice([0, 2, 3])
        elif change < 0.9:
            new = str(rng.choice([0, -1, 1 << 31, 1 << 63, 10**30, 1e308])).encode()
        else:
            place = rng.randint(0, len(data))
            new = data[place : place + 20]
        data = data[:start] + new + data[stop:]
    return data


def _fasta_text(rng: random.Random) -> bytes:
    records = []
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 3])):
        name = rng.choice(["a", "b", "a-b", "a:1-3", "é", ""])
        header = f">{rng.choice(['', '', ' '])}{name}{rng.choice(['', ' text', ' >x', chr(9) + 'y'])}"
        lines = [
            "".join(rng.choices("ACGTacgtNRU", k=rng.choice([0, 1, 7, 60])))
            for _ in range(rng.choice([0, 1, 3]))
        ]
        records.append(rng.choice(["\n", "\n", "\r\n"]).join([header, *lines, ""]))
    return rng.choice(["", "", "", "\n", " ", ";c\n"]).encode() + "".join(records).encode()


def _compressed(rng: random.Random, data: bytes) -> bytes:
    compressed = gzip.compress(data, 1, mtime=0)
    return mutated(rng, compressed) if rng.random() < 0.7 else compressed


def plain_letters(data: bytes, name: str) -> bytes:
    """The letters of the only record, or of the record `name`, in an accepted FASTA file."""
    found: dict[bytes, bytearray] = {}
    body = bytearray()
    for line in data.split(b"\n"):
        if line.startswith(b">"):
            words = line[1:].split()
            body = found.setdefault(words[0] if words else b"", bytearray())
        else:
            body += b"".join(line.split())
    letters = found[name.encode()] if name else next(iter(found.values()))
    return bytes(letters.upper())


def _matrix_text(rng: random.Random) -> bytes:
    letters = rng.sample(string.ascii_uppercase + "*", rng.choice([1, 2, 3, 4, 24]))
    lines = ["# a comment"] * rng.choice([0, 1]) + ["  " + " ".join(letters)]
    for letter in letters:
        scores = [
            str(rng.choice([-4, 0, 1, 5, 11, "1.5", "+3", 99999999999])) if rng.random() < 0.05 else "1"
            for _ in letters
        ]
        lines.append(f"{letter} {' '.join(scores)}")
    return ("\n".join(lines) + "\n").encode()


_FIELDS = [b"", b"-1", b"0", b"7", b"99999999999999999999", b"*", b"-"]
_FIELDS += [b"cg:Z:", b"cg:Z:99999999999M", b"tg:Z:local", b"tg:Z:local;match=1", b"AS:i:x", b"NM:i:-3"]
_FIELDS += [b"tg:Z:global;matrix=BLOSUM62:0;gap(k)=1+1k"]


def _changed_paf(rng: random.Random, line: bytes) -> bytes:
    fields = line.rstrip(b"\n").split(b"\t")
    for _ in range(rng.choice([0, 1, 1, 2])):
        place = rng.randrange(len(fields))
        fields[place] = rng.choice([*_FIELDS, fields[place] * 2])
    line = b"\t".join(fields) + b"\n"
    return mutated(rng, line) * rng.choice([0, 1, 1, 1, 2])


def _sign_again(path: Path) -> None:
    """Give a manifest its right SHA-256, if it is JSON."""
    try:
        data = json.loads(path.read_bytes())
        if isinstance(data, dict):
            write_signed(path, data)
    except (ValueError, RecursionError):
        return


ATTACK = Fuzz
