"""Random alignments that need not be optimal, and their truth column by column, slowly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st
from oracles import reverse_complement

from longalign.model.alignment import Alignment, Op
from longalign.model.mode import MODES, Mode
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence

LETTERS = "AAAAACGTUNRacn"  # mostly equal, so that runs of = are longer than a letter

scorings = st.builds(
    lambda mismatch, above, alpha, beta: Scoring(max(1, mismatch + above), mismatch, alpha, beta),
    *(st.integers(-5, 3), st.integers(1, 4), st.integers(0, 6), st.integers(0, 4)),
)


@dataclass(frozen=True)
class Case:
    """Sequences, where the path starts, and its runs of M, I and D, neither merged nor free of 0.

    The query may be on either strand; `start` counts along it.
    """

    query: Sequence
    target: Sequence
    scoring: Scoring
    mode: Mode
    start: tuple[int, int]
    runs: list[tuple[Op, int]]

    def columns(self) -> list[tuple[str, str]]:
        """Letter pairs with "-" for a gap; U as T, and an ambiguous letter unlike any other."""
        query = self.query.letters.tobytes().decode()
        if self.query.strand == "minus":
            query = reverse_complement(query)
        query = re.sub("[^ACGT]", lambda found: found[0].lower(), query.replace("U", "T"))
        target = self.target.letters.tobytes().decode().replace("U", "T")
        i, j = self.start
        pairs = []
        for op, length in self.runs:
            for _ in range(length):
                pairs.append(
                    ("-" if op == Op.DELETION else query[i], "-" if op == Op.INSERTION else target[j])
                )
                i, j = i + (op != Op.DELETION), j + (op != Op.INSERTION)
        return pairs

    def operations(self) -> str:
        """One letter of I D = X a column."""
        return "".join(
            "D" if a == "-" else "I" if b == "-" else "=" if a == b else "X" for a, b in self.columns()
        )

    def score(self, columns: int | None = None) -> int:
        """The score of the whole, or of the first columns, one column at a time."""
        total, previous = 0, ""
        for op in self.operations()[:columns]:
            if op in "ID":
                total -= self.scoring.gap_extend + (self.scoring.gap_open if op != previous else 0)
            else:
                total += self.scoring.match if op == "=" else self.scoring.mismatch
            previous = op
        return total

    def alignment(self, score: int | None = None) -> Alignment:
        return Alignment.from_runs(
            self.query,
            self.target,
            self.scoring,
            self.mode,
            self.score() if score is None else score,
            self.start,
            [op for op, _ in self.runs],
            [length for _, length in self.runs],
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any path, with letters around it where the mode frees the ends."""
    mode = draw(st.sampled_from(list(MODES.values())))
    ends = mode.ends
    ops = st.sampled_from([Op.DIAGONAL, Op.INSERTION, Op.DELETION])
    runs = draw(st.lists(st.tuples(ops, st.integers(0, 9)), max_size=12))
    runs.insert(draw(st.integers(0, len(runs))), (Op.DIAGONAL, draw(st.integers(1, 9))))
    start = draw(_margins(ends.query_start, ends.target_start, mode.starts_anywhere))
    rows = sum(length for op, length in runs if op != Op.DELETION)
    cols = sum(length for op, length in runs if op != Op.INSERTION)
    after = draw(_margins(ends.query_end, ends.target_end, mode.ends_anywhere))
    strand = draw(st.sampled_from(["plus", "minus"]))
    query = draw(sequences("query", start[0] + rows + after[0])).on(strand)
    target = draw(sequences("target", start[1] + cols + after[1]))
    return Case(query, target, draw(scorings), mode, start, runs)


def _margins(query: bool, target: bool, anywhere: bool) -> st.SearchStrategy[tuple[int, int]]:
    """Letters of both sequences beside a path, if these ends are free; of one only, unless `anywhere`."""
    margins = st.tuples(st.integers(0, 3 * query), st.integers(0, 3 * target))
    return margins if anywhere else margins.map(lambda pair: pair if 0 in pair else (pair[0], 0))


def sequences(name: str, length: int) -> st.SearchStrategy[Sequence]:
    letters = st.text(LETTERS, min_size=length, max_size=length)
    return letters.map(lambda text: Sequence.from_letters(name, text))
