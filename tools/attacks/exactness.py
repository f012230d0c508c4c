"""Exactness: every result is the optimum, however it is computed.

Asserted for random and structured pairs of 0 to 5,000 letters, all kinds of scoring and all modes. For DNA
either strand of the query is asked for, or the better of both:

- Score and end cell equal those of the oracle in `oracle`, and the score equals parasail's. For some short
  pairs both also equal those of `longalign.testing.reference`.
- The CIGAR, re-scored letter by letter, gives the score. Its path ends in the end cell, and starts
  where the mode lets it.
- `align` and `score` agree. The PAF line is the same, byte by byte, with one, two or three threads.
- This holds in memory and in a store, with lazy and eager start states, and with tiles, chunks and leaves of
  a few letters. Where the memory or the budget of boundaries is too small, the run is refused.
- It holds with and without pruning, by the bound that seeds find or by any other one up to the score, also
  where that leaves out cells of the smallest rectangles.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from oracles import reverse_complement
from runs import Geometry, SmallTiles, small_geometry, using
from runs import Pair as TestPair

import longalign
from attacks import oracle
from attacks.base import Attack, CaseFailed, expect
from attacks.pairs import Pair, random_pair
from longalign.backends.cpu import CpuBackend
from longalign.errors import LongalignError, UsageError
from longalign.formats.paf import write_paf
from longalign.model.alignment import Alignment
from longalign.model.mode import MODES, Mode
from longalign.model.pruning import Findings, KnownBound
from longalign.model.strand import STRANDS_OF, Strand, StrandChoice
from longalign.phases import entry
from longalign.run import bounds, pipeline

#: The range of memory limits in bytes. It includes limits that are too small.
_MEMORY = 600 << 20, 1200 << 20

#: Drawn half the time; most of the other modes free some of four ends.
_PLAIN = [mode for mode in MODES.values() if ":" not in mode]

_SHORT = 60
_LARGEST_SMALL_TILES = 120
_LARGEST_STORED = 60


@dataclass(frozen=True)
class Question:
    """A pair, a mode, and the right end cell with its score.

    `query` is given to the program, with `choice` as its strand. The query of `pair` is reversed by hand if
    `strand`, the one that must be aligned, is minus.
    """

    pair: Pair
    mode: Mode
    end: oracle.End
    query: str
    choice: StrandChoice = "plus"
    strand: Strand = "plus"

    def check_end(self, score: int, i: int, j: int, how: str) -> None:
        if (score, i, j) != (self.end.score, self.end.i, self.end.j):
            raise CaseFailed(f"{how}: ends in ({i}, {j}) with {score}, not as {self.end}: {self}")

    def check(self, alignment: Alignment, how: str) -> None:
        expect(alignment.strand == self.strand, f"{how}: on strand {alignment.strand}: {self}")
        rows = alignment.query_start, alignment.query_end
        if self.strand == "minus":
            rows = len(self.query) - rows[1], len(self.query) - rows[0]
        self.check_end(alignment.score, rows[1], alignment.target_end, how)
        start = rows[0], alignment.target_start
        try:
            path = oracle.follow(self.pair.query, self.pair.target, start, alignment.cigar, self.pair.scoring)
        except ValueError as error:
            raise CaseFailed(f"{how}: {error}: {self}") from error
        if alignment.cigar or not self.mode.starts_anywhere:
            expect(path == oracle.Path(self.end.score, self.end.i, self.end.j), f"{how}: path {path}: {self}")
        ends = self.mode.ends
        may_start = ends.starts_anywhere or (
            (start[0] == 0 or (ends.query_start and start[1] == 0))
            and (start[1] == 0 or (ends.target_start and start[0] == 0))
        )
        expect(may_start, f"{how}: a path from {start}: {self}")

    def __str__(self) -> str:
        pair = self.pair
        strands = f"{self.strand} of {self.choice}"
        return f"{self.mode} {strands} {pair.scoring} {_shown(self.query)} {_shown(pair.target)}"


class Exactness(Attack):
    unit = "results checked"
    weight = 20.0
    limit = 60.0

    def run(self, rng: random.Random) -> int:
        pair, mode = random_pair(rng), rng.choice(rng.choice([_PLAIN, list(MODES.values())]))
        question = _question(pair, mode, _random_choice(rng, pair))
        if min(len(pair.query), len(pair.target)) > 0:
            _compare_oracles(question, rng)
        checked = self._plain(question, rng)
        if min(len(pair.query), len(pair.target)) > 0 and pair.longest <= _LARGEST_SMALL_TILES:
            self._small_tiles(question, rng)
            checked += 1
        return checked

    def _plain(self, question: Question, rng: random.Random) -> int:
        """Call `align` or `score` as users do; return the number of results that were checked."""
        pair, threads = question.pair, rng.randint(1, 3)
        options: dict[str, Any] = {
            "scoring": pair.scoring, "mode": question.mode, "backend": self.backend, "threads": threads,
            "strand": question.choice,
        }  # fmt: skip
        least = rng.choice([0, bounds.MIN_CELLS])  # pairs with fewer cells are not pruned
        if rng.random() < 0.3:
            with patch.object(bounds, "MIN_CELLS", least):
                best = longalign.score(question.query, pair.target, **options)
            question.check_end(best.score, best.i, best.j, f"score, {threads} threads, {least=}")
            return 1
        budget = rng.choice([None, None, None, rng.randint(0, 40 * (pair.longest + 1))])
        memory = rng.choice([None, None, None, rng.randint(*_MEMORY)])
        refusals = () if budget is None and memory is None else (UsageError,)
        alignments = []
        for count in {threads, rng.randint(1, 3)}:
            prune = rng.choice(["auto", "off"])
            with suppress(*refusals), patch.object(bounds, "MIN_CELLS", least):
                options |= {"threads": count, "store_budget": budget, "memory": memory, "prune": prune}
                alignments.append(longalign.align(question.query, pair.target, **options))
                question.check(alignments[-1], f"align, {count} threads, {prune=}, {least=}")
        _same_paf(alignments, question)
        return len(alignments)

    def _small_tiles(self, question: Question, rng: random.Random) -> None:
        """Align with tiles, chunks and leaves of a few letters; sometimes in a store."""
        pair = question.pair
        # Sides grow with the pair, which bounds the number of tiles.
        least = 1 + pair.longest // 8
        sides = [rng.randint(least, least + rng.choice([3, 20, 60])) for _ in range(3)]
        geometry = Geometry(
            (sides[0], sides[1]), sides[2], rng.randint(1, 100), rng.choice([1, 2000, 1 << 28])
        )
        stored = pair.longest <= _LARGEST_STORED and rng.random() < 0.1
        store = self.fresh() / "store" if stored else None
        test_pair = TestPair(question.query, pair.target, pair.scoring, question.mode)
        spec = test_pair.spec(store, start_states=rng.choice(["lazy", "eager"]))
        spec = replace(spec, strand=question.choice)
        backends = [
            SmallTiles(geometry.tile, self._backend(rng.randint(1, 3)), geometry.leaf)
            for _ in range(rng.choice([1, 1, 1, 2]))
        ]
        for small in backends:
            small.min_pruned_cells = 1
        below = rng.choice([None, 0, 0, 1, rng.randint(0, 100)])
        how = f"{geometry}, {spec.start_states}, {len(backends)} devices, {'a store' if store else 'memory'}"
        how += f", a bound {below} below the score"
        with small_geometry(geometry.chunk, geometry.group), _pruned(question, below):
            outcome = pipeline.run(spec, using(*backends))
            question.check(outcome.alignment, how)
            if store is not None:
                again = pipeline.run(spec, using(*backends))
                _same_paf([outcome.alignment, again.alignment], question)

    def _backend(self, threads: int) -> Any:
        if self.backend == "cpu":
            return CpuBackend(threads)
        from longalign.backends.cuda.backend import CudaBackend

        return CudaBackend()


#: The oracle. A test of the campaign replaces it by a wrong one.
find_end = oracle.find_end


@contextmanager
def _pruned(question: Question, below: int | None) -> Iterator[None]:
    """Within the block, runs are pruned: the bound is the score minus `below`.

    Gains are computed with the diagonal of the end cell as the alignment that is known. With None, runs are
    not pruned.
    """
    end, known = question.end, None
    if below is not None:
        score, pairs = int(end.score * question.pair.scoring.scale), min(end.i, end.j)
        diagonal = np.array([[end.i - pairs, end.i, end.j - pairs, end.j]] * (pairs > 0), np.int64)
        findings = {question.strand: Findings(diagonal.reshape(-1, 4))}
        known = KnownBound(score - below, share=1.0, findings=findings)
    with ExitStack() as stack:
        stack.enter_context(
            patch.object(pipeline, "find_bound", lambda spec, *_: known if spec.prunes else None)
        )
        stack.enter_context(patch.object(entry, "_MAX_CELLS", 4))
        yield


def _random_choice(rng: random.Random, pair: Pair) -> StrandChoice:
    """The strand to ask for: mostly plus. Only DNA has another."""
    choices: tuple[StrandChoice, ...] = ("plus", "plus", "plus", "minus", "both")
    return "plus" if pair.scoring.matrix is not None else rng.choice(choices)


def _question(given: Pair, mode: Mode, choice: StrandChoice) -> Question:
    """The right answer for a pair, on the strand that is asked for."""
    questions = []
    for strand in STRANDS_OF[choice]:
        query = given.query if strand == "plus" else reverse_complement(given.query)
        end = find_end(query, given.target, given.scoring, mode)
        pair = replace(given, query=query)
        questions.append(Question(pair, mode, end, given.query, choice, strand))
    return max(questions, key=lambda question: question.end.score)  # the first of equals


def _compare_oracles(question: Question, rng: random.Random) -> None:
    """Raise CaseFailed if the oracles disagree, because then none can be trusted."""
    pair = question.pair
    test_pair = TestPair(pair.query, pair.target, pair.scoring, question.mode)
    if pair.longest <= _SHORT and rng.random() < 0.5:
        best = test_pair.truth()
        question.check_end(best.score, best.i, best.j, "longalign.testing.reference")
    if pair.scoring.matrix is None or pair.scoring.matrix.name != "made":
        from oracles import parasail_score

        query, target = test_pair.sequences()
        kernel = "scan_32" if pair.longest > _SHORT or rng.random() < 0.5 else ""
        score = parasail_score(query.as_query(), target.as_target(), pair.scoring, question.mode, kernel)
        expect(
            score == question.end.score, f"parasail {kernel}: {score}, not {question.end.score}: {question}"
        )


def _same_paf(alignments: list[Alignment], question: Question) -> None:
    lines = {_paf(alignment) for alignment in alignments}
    expect(len(lines) <= 1, f"several PAF lines {lines}: {question}")


def _paf(alignment: Alignment) -> str:
    file = io.StringIO()
    with suppress(LongalignError):
        write_paf(alignment, file)
    return file.getvalue()


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:20]}...({len(text)})"


ATTACK = Exactness
