"""The base class of attacks, and the identity of a case."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import ClassVar

#: The file in the folder of an attack that describes its current case.
NOTE = "note"


class CaseFailed(Exception):
    """A case found an error in longalign; the text is one line."""


def expect(condition: object, text: str) -> None:
    """Raise CaseFailed unless the condition holds."""
    if not condition:
        raise CaseFailed(text)


@dataclass(frozen=True, slots=True)
class CaseId:
    """The attack, seed and number that determine a case."""

    attack: str
    seed: int
    number: int

    @classmethod
    def parse(cls, text: str) -> CaseId:
        """The inverse of `str`. Raises ValueError if the text is not ATTACK:SEED:NUMBER."""
        attack, seed, number = text.split(":")
        return cls(attack, int(seed), int(number))

    def __str__(self) -> str:
        return f"{self.attack}:{self.seed}:{self.number}"

    def rng(self) -> random.Random:
        """The generator of all random choices of the case."""
        return random.Random(str(self))


class Attack:
    """A kind of case. A process creates one instance and runs many cases with it.

    State that an instance keeps between cases may only save time: it must not change the result of a case.
    """

    #: The share of a campaign's time, relative to the other attacks.
    weight: ClassVar[float] = 1.0
    #: The time limit of a case in seconds. A case that exceeds it has failed.
    limit: ClassVar[float] = 60.0
    #: Whether a case must run alone, because it uses up a resource that other cases need.
    exclusive: ClassVar[bool] = False
    #: The unit of the count that `run` returns.
    unit: ClassVar[str] = "cases"

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        self.folder, self.seed, self.backend = folder, seed, backend

    @classmethod
    def unavailable(cls, backend: str) -> str | None:
        """Why this attack cannot run on this machine; None if it can."""
        return None

    def run(self, rng: random.Random) -> int:
        """Run one case and return the number of trials, in `unit`s. Raises CaseFailed."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Describe the case, for the report of a hang or a crash."""
        (self.folder / NOTE).write_text(text)

    def fresh(self, name: str = "case") -> Path:
        """An empty folder for one case. The folder of the previous case is removed."""
        path = self.folder / name
        rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path
