"""What an attack is, and what identifies one of its cases."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import ClassVar

#: The file of an attack's folder that says what its case is about.
NOTE = "note"


class Fault(Exception):
    """Something that a case found wrong; the text is one line."""


def expect(condition: object, text: str) -> None:
    """Raise Fault unless the condition holds."""
    if not condition:
        raise Fault(text)


@dataclass(frozen=True, slots=True)
class CaseId:
    """Everything that a case depends on."""

    attack: str
    seed: int
    number: int

    @classmethod
    def parse(cls, text: str) -> CaseId:
        """The inverse of `str`. Raises ValueError."""
        attack, seed, number = text.split(":")
        return cls(attack, int(seed), int(number))

    def __str__(self) -> str:
        return f"{self.attack}:{self.seed}:{self.number}"

    def rng(self) -> random.Random:
        """The source of every choice that the case makes."""
        return random.Random(str(self))


class Attack:
    """A kind of case. A process makes one instance and runs many cases with it.

    What an instance keeps from case to case must not change what a case finds, only how fast.
    """

    #: The share of the time of a campaign, compared with other attacks.
    weight: ClassVar[float] = 1.0
    #: A case that takes longer (seconds) is a failure.
    limit: ClassVar[float] = 60.0
    #: Whether a case must be the only one that is running, as it takes what others need.
    alone: ClassVar[bool] = False
    #: What `run` counts.
    unit: ClassVar[str] = "cases"

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        self.folder, self.seed, self.backend = folder, seed, backend

    @classmethod
    def unavailable(cls, backend: str) -> str | None:
        """Why this attack cannot be made on this machine; None if it can."""
        return None

    def run(self, rng: random.Random) -> int:
        """Run one case; returns how many things it tried. Raises Fault."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """What the case is about, for the report if it hangs or crashes."""
        (self.folder / NOTE).write_text(text)

    def fresh(self, name: str = "case") -> Path:
        """An empty folder for one case; that of the case before is removed."""
        path = self.folder / name
        rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path
