"""What a store belongs to: input, scoring, mode and geometry, and how to name what differs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from longalign.alignment import Mode
from longalign.errors import StoreError
from longalign.geometry import Grid
from longalign.scoring import Scoring
from longalign.sequence import Sequence, from_anywhere
from longalign.store.files import atomic_path

Command = Literal["align", "score"]

#: Whether phase 1 stores start states, or phase 2 finds those on the path.
StartStates = Literal["lazy", "eager"]

FORMAT = "longalign-store"
#: Stores of other versions are refused: up to version 2, no block had a checksum of its own.
VERSION = 3

_DNA = "DNA with IUPAC codes; an ambiguous letter never matches"


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    """Which sequence: see `longalign.sequence.Sequence`. As `source`, a file has its absolute path."""

    name: str
    length: int
    sha256: str
    source: str
    offset: int
    record_length: int

    @classmethod
    def of(cls, sequence: Sequence) -> SequenceRecord:
        values = {field.name: getattr(sequence, field.name) for field in fields(cls)}
        return cls(**{**values, "source": from_anywhere(sequence.source)})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The identity of a run, with the geometry that its tiles follow.

    `start_states` says whether tiles hold those as well; `command` ("align" or "score"), `output` and
    `summary` (a file, or none) tell a resumed run what was asked for; `program` is the version that made the
    store.
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

    @property
    def run(self) -> str:
        """Names the results that belong here: the same for equal input, scoring, mode, start states and
        geometry."""
        fields = self._fields()
        names = ("query", "target", "mode", "scoring", "start_states", "grid")
        return _digest({name: fields[name] for name in names})

    @property
    def is_eager(self) -> bool:
        """Whether tiles hold start states."""
        return self.start_states == "eager"

    def to_json(self) -> dict[str, Any]:
        """The manifest as it stands in its file, `sha256` (of everything else) last."""
        data = self._fields()
        return {**data, "sha256": _digest(data)}

    def _fields(self) -> dict[str, Any]:
        matrix = self.scoring.matrix
        return {
            "format": FORMAT,
            "version": VERSION,
            "program": self.program,
            "command": self.command,
            "output": self.output,
            "summary": self.summary,
            "mode": self.mode,
            "start_states": self.start_states,
            "alphabet": _DNA if matrix is None else f"the letters of {matrix.name}",
            "scoring": self.scoring.to_json(),
            "gap_convention": self.scoring.convention,
            "coordinates": "0-based, half-open",
            "query": asdict(self.query),
            "target": asdict(self.target),
            "grid": asdict(self.grid),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Manifest:
        return cls(
            query=SequenceRecord(**data["query"]),
            target=SequenceRecord(**data["target"]),
            mode=data["mode"],
            scoring=Scoring.from_json(data["scoring"]),
            grid=Grid(**{name: tuple(cuts) for name, cuts in data["grid"].items()}),
            program=data["program"],
            command=data["command"],
            output=data["output"],
            start_states=data["start_states"],
            summary=data.get("summary"),  # older programs did not note it
        )

    def write(self, path: Path) -> None:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(self.to_json(), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Raises StoreError if the file is missing, damaged, or of another format or version."""
        try:
            data = json.loads(path.read_text())
        except OSError as error:
            raise StoreError(f"{path.parent}: not a store: {path.name}: {error.strerror}") from error
        except ValueError as error:
            raise StoreError(f"{path}: damaged manifest: {error}") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise StoreError(f"{path}: not the manifest of a longalign store")
        if data.get("version") != VERSION:
            raise StoreError(
                f"{path}: store version {data.get('version')}, this program reads version {VERSION}"
            )
        digest = data.pop("sha256", None)
        if digest != _digest(data):
            raise StoreError(f"{path}: damaged manifest: it has another SHA-256 than it says")
        return cls.from_json(data)

    def refuse_other(
        self,
        store: Path,
        query: SequenceRecord,
        target: SequenceRecord,
        mode: str,
        scoring: Scoring,
        start_states: StartStates,
    ) -> None:
        """Raise StoreError, naming every field that differs, if the store belongs to another run."""
        pairs = [
            ("query sequence (SHA-256)", self.query.sha256, query.sha256),
            ("query length", self.query.length, query.length),
            ("target sequence (SHA-256)", self.target.sha256, target.sha256),
            ("target length", self.target.length, target.length),
            ("mode", self.mode, mode),
            ("start states", self.start_states, start_states),
            *_scoring_pairs(self.scoring, scoring),
        ]
        differing = [
            f"{name} is {stored} in the store and {given} now"
            for name, stored, given in pairs
            if stored != given
        ]
        if differing:
            raise StoreError(f"{store}: the store belongs to another run: {'; '.join(differing)}")


def _scoring_pairs(stored: Scoring, given: Scoring) -> list[tuple[str, object, object]]:
    """What is to agree of two scorings: each name, with both values."""
    names = ["gap_open", "gap_extend"]
    if stored.matrix is None and given.matrix is None:
        names = ["match", "mismatch", *names]
    numbers = [(name, getattr(stored, name), getattr(given, name)) for name in names]
    return [("matrix", str(stored.matrix or "none"), str(given.matrix or "none")), *numbers]


def _digest(data: dict[str, Any]) -> str:
    """SHA-256 of a manifest's fields, however they are laid out in the file."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
