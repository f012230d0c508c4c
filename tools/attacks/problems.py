"""Pairs of sequences in files, and the options of their alignment, for attacks on runs with a store."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import get_args

from small_tile_cli import Sizes

from attacks.children import run_forked
from longalign.model.mode import ModeName

_SCORINGS = (
    (),
    ("--match", 2, "--mismatch", -3, "--gap-open", 0, "--gap-extend", 2),
    ("--match", 1, "--mismatch", -1, "--gap-open", 4, "--gap-extend", 0),
    ("--match", 500, "--mismatch", -400, "--gap-open", 1000, "--gap-extend", 300),
)


def random_letters(rng: random.Random, length: int) -> str:
    return "".join(rng.choices("ACGT", k=length))


def mutated_copy(rng: random.Random, letters: str, rate: float = 0.05) -> str:
    """A copy with substitutions, insertions and deletions in about the share `rate` of the letters."""
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
    """The command and options of a run. Its FASTA files are in `folder`."""

    folder: Path
    command: str
    options: tuple[object, ...]
    sizes: Sizes
    lengths: tuple[int, int]

    @classmethod
    def make(cls, folder: Path, rng: random.Random, length: int, commands: Sequence[str]) -> Problem:
        """A related pair of about `length` letters, with a random mode, scoring and command."""
        folder.mkdir(parents=True, exist_ok=True)
        query = random_letters(rng, rng.randint(length // 2, length))
        target = random_letters(rng, 40) + mutated_copy(rng, query)
        for name, letters in (("query", query), ("target", target)):
            (folder / f"{name}.fa").write_text(f">{name}\n{letters}\n")
        options: tuple[object, ...] = ("--mode", rng.choice(get_args(ModeName)), *rng.choice(_SCORINGS))
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

    def run_arguments(self, store: Path | None, output: Path, *extra: object) -> list[object]:
        """The arguments of a run from the start, with a store or in memory."""
        stored = [] if store is None else ["--store", store]
        return [self.command, *self.files(), *self.options, *stored, *_common(output), *extra]

    def resume_arguments(self, store: Path, output: Path, *extra: object) -> list[object]:
        """The arguments of a run that resumes a store."""
        return ["resume", store, *_common(output), *extra]

    @cached_property
    def pristine(self) -> Path:
        """The finished store of an undisturbed run, whose output is the file `expected` beside it."""
        store = self.folder / "pristine"
        run_forked(self.run_arguments(store, self.folder / "expected"), self.folder, self.sizes).check(
            {0}, "undisturbed"
        )
        return store

    @cached_property
    def expected(self) -> bytes:
        """The output of an undisturbed run."""
        assert self.pristine
        return (self.folder / "expected").read_bytes()


def variants(
    name: str, folder: Path, lengths: Sequence[int], commands: Sequence[str]
) -> Callable[[int], Problem]:
    """The problems of an attack by their numbers, each of about one of these lengths, and made only once.

    An undisturbed run of each has ended. The `name` has the seed in it.
    """

    @cache
    def variant(number: int) -> Problem:
        rng = random.Random(f"{name}:variant:{number}")
        length = rng.choice(lengths)
        problem = Problem.make(folder / str(number), rng, length, commands)
        assert problem.expected or problem.command == "align"
        return problem

    return variant


def _common(output: Path) -> list[object]:
    return ["-o", output, "--backend", "cpu", "--threads", 2, "-q"]
