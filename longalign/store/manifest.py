"""The manifest of a store: it identifies a run by its input, scoring, mode and geometry."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from longalign.errors import InputError, OtherRun, StoreError, reason_of
from longalign.fasta.specs import with_absolute_path
from longalign.model.geometry import Grid
from longalign.model.json_fields import Fields, shown
from longalign.model.mode import MODES, Mode
from longalign.model.pruning import KnownBound
from longalign.model.scoring import NEG_INF, RULES, TOO_MANY_LETTERS, Scoring
from longalign.model.sequence import LONGEST_RECORD, Sequence, is_name
from longalign.model.strand import Strand
from longalign.store.files import no_check
from longalign.store.layout import LIST_NAME, first_store, is_store
from longalign.store.sealed_json import SealedJson, digest
from longalign.system.rationals import Number, spell

Command = Literal["align", "score"]

#: Eager: phase 1 stores the start states of all boundary cells. Lazy: phase 2 finds those on the path.
StartStates = Literal["lazy", "eager"]

#: Auto: cells that no optimal alignment can visit are left out, where that can be proved.
Prune = Literal["auto", "off"]

#: A change of what a store holds raises the version. Manifests of version 3 may lack the fields of `_ADDED`.
#: The longest sequences in the smallest chunks take a quarter of `max_bytes`.
MANIFEST = SealedJson(
    "the manifest of a longalign store", "longalign-store", versions=(3, 4), max_bytes=1 << 26
)

#: The first version in which the files of pruned tiles list wide values apart.
_LISTS_WIDE_VALUES = 4

#: Fields that manifests have not always had, and what it means if one is missing.
_ADDED = {
    "summary": None,
    "output_format": None,
    "top": 1,
    "min_score": None,
    "strand": "plus",
    "of_both_strands": False,
    "pruning": None,
}

#: The most alignments of one pair that can be asked for.
MAX_ALIGNMENTS = 999_999_999

_SHA256 = re.compile("[0-9a-f]{64}")

#: Fields for human readers. Their values follow from the other fields.
_DERIVED = ("alphabet", "gap_convention", "coordinates")

_DNA = "DNA with IUPAC codes; an ambiguous letter never matches"
_RULES = {
    "ambiguous": "ambiguous letters: {}",
    "unknown": "other letters: {}",
    "softmask": "lower case is masked",
}

_COORDINATES: dict[Strand, str] = {
    "plus": "0-based, half-open",
    "minus": "0-based, half-open; rows count along the reverse complement of the query",
}


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    """The identity of a sequence; the fields are those of `longalign.model.sequence.Sequence`.

    The `source` of a sequence from a file holds the absolute path of the file.
    """

    name: str
    length: int
    sha256: str
    source: str
    offset: int
    record_length: int

    @classmethod
    def from_json(cls, fields: Fields) -> SequenceRecord:
        """The record in `fields` of a manifest. Raises InputError, naming the field, if one is invalid."""
        fields.only("name", "length", "sha256", "source", "offset", "record_length")
        sha256 = fields.text("sha256")
        if not _SHA256.fullmatch(sha256):
            raise InputError(f"{fields.name('sha256')}: must be 64 hexadecimal digits, not {shown(sha256)}")
        name, length = fields.text("name"), fields.whole("length", 0, TOO_MANY_LETTERS - 1)
        if not is_name(name):
            raise InputError(f"{fields.name('name')}: must be one printable word, not {shown(name)}")
        offset = fields.whole("offset", 0, LONGEST_RECORD - length)
        record_length = fields.whole("record_length", offset + length, LONGEST_RECORD)
        return cls(name, length, sha256, fields.text("source", may_be_empty=True), offset, record_length)

    @property
    def place(self) -> str:
        """The record and where it is, for messages."""
        return f"{self.name!r} of {self.source}"

    def differences(self, given: SequenceRecord, side: str) -> list[str]:
        """In words, that the letters of a run's `side` are not those of `given`; nothing if they are."""
        if (self.length, self.sha256) == (given.length, given.sha256):
            return []
        if (self.length, self.name) == (given.length, given.name):
            return [f"the letters of the {side} {given.place} differ from those in the store"]
        stored = f"{self.name!r} with {self.length:,} letters"
        return [f"the {side} is {stored} in the store, and {given.place} with {given.length:,} letters now"]

    @classmethod
    def of(cls, sequence: Sequence) -> SequenceRecord:
        values = {field.name: getattr(sequence, field.name) for field in fields_of(cls)}
        return cls(**{**values, "source": with_absolute_path(sequence.source)})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The identity of a run, and the grid by which its matrix is cut.

    `start_states` says whether tiles hold start states as well. `strand` is that of the query; its letters
    and all fields of its record are those of the forward strand. `command` ("align" or "score"), `output`,
    `output_format` (a name, or None for that of the file's ending) and `summary` (a file, or None) tell a
    resumed run what was requested. So do `top` and `min_score`, those of `RunSpec`. `program` is the version
    of longalign that made the store. A run `of_both_strands` has a store for each. This one is not resumed
    alone, since the output files and the bound are those of both. If the store is `pruned_with` a known
    bound, cells that only alignments with lower scores can visit are left out.
    """

    query: SequenceRecord
    target: SequenceRecord
    mode: Mode
    scoring: Scoring
    grid: Grid
    program: str
    command: Command = "align"
    output: str = "-"
    start_states: StartStates = "lazy"
    summary: str | None = None
    output_format: str | None = None
    top: int = 1
    min_score: Number | None = None
    strand: Strand = "plus"
    of_both_strands: bool = False
    pruned_with: KnownBound | None = None

    @property
    def run(self) -> str:
        """The digest that all files of this run carry.

        It is the same for equal input, strand, scoring, mode, start states, geometry and pruning. A field
        that a manifest may lack counts only if its value is another one than if it were missing.
        """
        fields = self._fields()
        names = ("query", "target", "strand", "mode", "scoring", "start_states", "grid", "pruning")
        return digest({name: fields[name] for name in names if fields[name] != _ADDED.get(name, ...)})

    @property
    def is_eager(self) -> bool:
        """Whether tiles hold start states."""
        return self.start_states == "eager"

    def to_json(self) -> dict[str, Any]:
        """The content of the manifest's file."""
        return MANIFEST.sealed(self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "command": self.command,
            "output": self.output,
            "output_format": self.output_format,
            "summary": self.summary,
            "top": self.top,
            "min_score": None if self.min_score is None else spell(self.min_score),
            "strand": self.strand,
            "of_both_strands": self.of_both_strands,
            "mode": self.mode,
            "start_states": self.start_states,
            "pruning": None if self.pruned_with is None else _pruning(self.pruned_with),
            "alphabet": _alphabet_in_words(self.scoring),
            "scoring": self.scoring.to_json(),
            "gap_convention": self.scoring.convention,
            "coordinates": _COORDINATES[self.strand],
            "query": asdict(self.query),
            "target": asdict(self.target),
            "grid": asdict(self.grid),
        }

    @classmethod
    def from_json(cls, data: Any) -> Manifest:
        """The manifest that `to_json` wrote. Raises InputError, naming the field, if one is invalid."""
        fields = Fields(data, missing=_ADDED)
        query, target = (SequenceRecord.from_json(fields.object(name)) for name in ("query", "target"))
        scoring = Scoring.from_json(fields.any("scoring"))
        scoring.check_range(query.length, target.length)
        strand: Strand = fields.choice("strand", get_args(Strand))
        if strand == "minus" and scoring.alphabet.complement is None:
            raise InputError(f"strand: {scoring.alphabet.name} has no minus strand")

        manifest = cls(
            query=query,
            target=target,
            mode=_mode(fields),
            scoring=scoring,
            grid=Grid.from_json(fields.any("grid"), query.length, target.length),
            program=fields.text("program"),
            command=fields.choice("command", get_args(Command)),
            output=fields.text("output"),
            start_states=fields.choice("start_states", get_args(StartStates)),
            summary=fields.or_none("summary", fields.text),
            output_format=fields.or_none("output_format", fields.text),
            top=fields.whole("top", 1, MAX_ALIGNMENTS),
            min_score=fields.or_none("min_score", fields.number),
            strand=strand,
            of_both_strands=fields.truth("of_both_strands"),
            pruned_with=fields.or_none("pruning", partial(_pruned_with, fields)),
        )
        for name in _DERIVED:
            if fields.any(name) != manifest._fields()[name]:
                raise InputError(f"{name}: contradicts the scoring or the strand")
        return manifest

    def write(self, path: Path, check: Callable[[], None] = no_check) -> None:
        """Write the file, see `SealedJson.write`. Raises StoreError."""
        MANIFEST.write(path, self._fields(), check)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read the file. Raises StoreError if it is missing, damaged, or of another format or version."""

        def parse(content: dict[str, Any]) -> Manifest:
            manifest = cls.from_json(content)
            if content["version"] < _LISTS_WIDE_VALUES and manifest.pruned_with is not None:
                raise StoreError(f"{path}: a pruned store of version 3, which this program does not read")
            return manifest

        try:
            return MANIFEST.read(path, parse)
        except OSError as error:
            raise StoreError(f"{path.parent}: not a store: {_why_not_read(path, error)}") from error

    def refuse_other(self, store: Path, asked: Manifest) -> None:
        """Raise OtherRun, naming every field that differs, if the run `asked` is not this one."""
        pairs = [
            ("strand", self.strand, asked.strand),
            ("mode", self.mode, asked.mode),
            ("start_states", self.start_states, asked.start_states),
            ("pruning", *("off" if one.pruned_with is None else "on" for one in (self, asked))),
            *_scoring_pairs(self.scoring, asked.scoring),
        ]
        differing = [
            f"{name} is {stored} in the store and {given} now"
            for name, stored, given in pairs
            if stored != given
        ]
        differing += self.query.differences(asked.query, "query")
        differing += self.target.differences(asked.target, "target")
        if differing:
            raise OtherRun(f"{store}: the store belongs to another run: {'; '.join(differing)}")


def _pruning(known: KnownBound) -> dict[str, Any]:
    return {"bound": known.score, "expected_share": known.share}


def _pruned_with(fields: Fields, name: str) -> KnownBound:
    inner = fields.object(name)
    inner.only("bound", "expected_share")
    return KnownBound(inner.whole("bound", NEG_INF, -NEG_INF), inner.fraction("expected_share"))


def _mode(fields: Fields) -> Mode:
    """The mode. Raises InputError for a word that no mode has: there are too many to name them all."""
    word = fields.text("mode")
    if word not in MODES:
        raise InputError(f"{fields.name('mode')}: no mode is called {shown(word)}")
    return MODES[word]


def _alphabet_in_words(scoring: Scoring) -> str:
    letters = _DNA if scoring.matrix is None else f"the letters of {scoring.matrix.name}"
    return "; ".join([letters, *(_RULES[name].format(value) for name, value in scoring.rules.items())])


def _scoring_pairs(stored: Scoring, given: Scoring) -> list[tuple[str, object, object]]:
    """The parameters in which two scorings must agree: each name, with both values."""
    of_stored, of_given = stored.given(), given.given()
    numbers = [
        (name, spell(of_stored[name]), spell(of_given[name])) for name in of_stored if name in of_given
    ]
    matrices = ("matrix", str(stored.matrix or "none"), str(given.matrix or "none"))
    rules = [(name, _rule_in_words(stored, name), _rule_in_words(given, name)) for name in RULES]
    return [matrices, *numbers, *rules]


def _rule_in_words(scoring: Scoring, name: str) -> object:
    value = getattr(scoring, name)
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _why_not_read(path: Path, error: OSError) -> str:
    """Why there is no manifest at `path` to read, in words."""
    folder = path.parent
    with suppress(OSError):
        if not folder.exists():
            return "there is no such directory"
        if not folder.is_dir():
            return "it is a file, and a store is a directory"
        first = folder / "000000"
        if (folder / LIST_NAME).exists():
            return f"it holds the stores of many pairs: name one of them, such as {first}"
        if is_store(first_store(first)):
            return f"it holds stores of many pairs, but no list of these: name one of them, such as {first}"
        if not path.exists():
            return f"the directory holds no {path.name}"
    return f"{path.name}: {reason_of(error)}"
