"""Pairs of sequences in files, with options to align them by, for attacks on runs with a store."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attacks.children import run_forked
from attacks.small import Sizes

_SCORINGS = (
    (),
    ("--match", 2, "--mismatch", -3, "--gap-open", 0, "--gap-extend", 2),
    ("--match", 1, "--mismatch", -1, "--gap-open", 4, "--gap-extend", 0),
    ("--match", 500, "--mismatch", -400, "--gap-open", 1000, "--gap-extend", 300),
)


def random_letters(rng: random.Random, length: int) -> str:
    return "".join(rng.choices("ACGT", k=length))


def mutated_copy(rng: random.Random, letters: str, rate: float = 0.05) -> str:
    """With substitutions, insertions and deletions at about this share of the letters."""
    parts = []
    for letter in letters:
        change = rng.random()
        if change < rate / 2:
            parts.append(rng.choice("ACGT"))
        elif change < rate * 3 / 4:
            parts.append(letter + random_letters(rng, rng.randint(1, 6)))
        elif change > rate:
            parts.append(letter)
    return "".join(parts)


@dataclass(frozen=True)
class Problem:
    """What a run is to do, and in `folder` the files that it is to do it with."""

    folder: Path
    command: str
    options: tuple[object, ...]
    sizes: Sizes
    lengths: tuple[int, int]

    @classmethod
    def make(cls, folder: Path, rng: random.Random, length: int, commands: Sequence[str]) -> Problem:
        """A pair that is related, of about this length, under any mode and scoring."""
        folder.mkdir(parents=True, exist_ok=True)
        query = random_letters(rng, rng.randint(length // 2, length))
        target = random_letters(rng, 40) + mutated_copy(rng, query)
        for name, letters in (("query", query), ("target", target)):
            (folder / f"{name}.fa").write_text(f">{name}\n{letters}\n")
        options: tuple[object, ...] = ("--mode", rng.choice(["local", "global"]), *rng.choice(_SCORINGS))
        command = rng.choice(commands)
        if command == "eager":
            command, options = "align", (*options, "--start-states", "eager")
        side = max(length // rng.choice([2, 3, 4]), 40)
        sizes = Sizes(side, max(side // 4, 8), (side // 8) ** 2)
        return cls(folder, command, options, sizes, (len(query), len(target)))

    @property
    def is_eager(self) -> bool:
        return "eager" in self.options

    def files(self) -> tuple[Path, Path]:
        return self.folder / "query.fa", self.folder / "target.fa"

    def begin(self, store: Path | None, output: Path, *extra: object) -> list[object]:
        """The arguments of a run from the start."""
        stored = [] if store is None else ["--store", store]
        return [self.command, *self.files(), *self.options, *stored, *_common(output), *extra]

    def resume(self, store: Path, output: Path, *extra: object) -> list[object]:
        return ["resume", store, *_common(output), *extra]

    @cached_property
    def pristine(self) -> Path:
        """A finished store, made undisturbed; beside it lies the result."""
        store = self.folder / "pristine"
        run_forked(self.begin(store, self.folder / "expected"), self.folder, self.sizes).check(
            {0}, "undisturbed"
        )
        return store

    @cached_property
    def expected(self) -> bytes:
        """What an undisturbed run writes."""
        assert self.pristine
        return (self.folder / "expected").read_bytes()

    @property
    def score(self) -> int:
        """The optimal score, as an undisturbed run has it."""
        fields = self.expected.decode().split("\t")
        if self.command == "score":
            return int(fields[3])
        return next((int(tag[5:]) for tag in fields if tag.startswith("AS:i:")), 0)


def _common(output: Path) -> list[object]:
    return ["-o", output, "--backend", "cpu", "--threads", 2, "-q"]
