"""Compare scores of random short pairs in every mode with parasail and Biopython.

    python experiments/random_pairs.py [--pairs 5000] [--seed 1] [--backend cpu] [--modes local ...]
                                       [--out FILE]

For each mode, as many pairs are scored by `longalign.score_many`, by parasail's functions for that mode, and
by Biopython's aligner, which has no extension and is given none. Pairs have up to 60 letters a side, related
or not, some ambiguous. Each `PAIRS_A_SCORING` pairs have a scoring of their own: fixed ones, random ones for
DNA, or BLOSUM62, BLOSUM45 and PAM250. A difference is printed, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hardware import save_report
from scripts import run_script, script_parser

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "helpers"))

from oracles import biopython_score, parasail_score, spell  # noqa: E402

import longalign  # noqa: E402
from longalign import Scoring, SubstitutionMatrix  # noqa: E402
from longalign.model.alphabet import Codes  # noqa: E402
from longalign.model.mode import MODES, Mode  # noqa: E402
from longalign.testing.inputs import QUERY_N, SCORINGS, TARGET_N, mutated  # noqa: E402

PAIRS_A_SCORING = 50
LONGEST = 60
MATRICES = tuple(map(SubstitutionMatrix.load, ("BLOSUM62", "BLOSUM45", "PAM250")))

CodePair = tuple[Codes, Codes]


def main() -> int:
    options = _parse()
    rows = []
    for name in options.modes:
        rows.append(compare(MODES[name], options))
        print(rows[-1], flush=True)
        save_report(options.out, backend=options.backend, seed=options.seed, modes=rows)
    return 1 if any(row["differences"] for row in rows) else 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def compare(mode: Mode, options: argparse.Namespace) -> dict[str, object]:
    """How many pairs of one mode were scored by each program, and how many scores differ."""
    rng = np.random.default_rng([options.seed, list(MODES).index(mode)])
    started = time.perf_counter()
    counts = {"parasail": 0, "biopython": 0, "differences": 0}
    while counts["parasail"] < options.pairs:
        scoring = draw_scoring(rng)
        pairs = [
            draw_pair(rng, scoring) for _ in range(min(PAIRS_A_SCORING, options.pairs - counts["parasail"]))
        ]
        texts = [tuple(spell(side, scoring) for side in pair) for pair in pairs]
        found = longalign.score_many(texts, scoring=scoring, mode=mode, backend=options.backend)
        for pair, text, best in zip(pairs, texts, found, strict=True):
            for program, score in scores_of_others(pair, scoring, mode):
                counts[program] += 1
                if score != best.score:
                    counts["differences"] += 1
                    print(f"{mode}: longalign {best.score}, {program} {score}: {text} {scoring}", flush=True)
    return {"mode": str(mode), **counts, "seconds": round(time.perf_counter() - started, 1)}


def scores_of_others(pair: CodePair, scoring: Scoring, mode: Mode) -> Iterator[tuple[str, int]]:
    """The other programs that have this mode, and their scores."""
    yield "parasail", parasail_score(*pair, scoring, mode)
    if mode.starts_anywhere or not mode.ends_anywhere:
        yield "biopython", biopython_score(*pair, scoring, mode)


def draw_scoring(rng: np.random.Generator) -> Scoring:
    """One of the fixed scorings, a random one for DNA, or a known matrix with random gap costs."""
    kind = rng.random()
    if kind < 0.3:
        return SCORINGS[rng.integers(len(SCORINGS))]
    gaps = {"gap_open": int(rng.integers(0, 13)), "gap_extend": int(rng.integers(0, 5))}
    if kind < 0.6:
        return Scoring(matrix=MATRICES[rng.integers(len(MATRICES))], **gaps)
    mismatch = int(rng.integers(-9, 3))
    return Scoring(match=max(1, mismatch + int(rng.integers(1, 9))), mismatch=mismatch, **gaps)


def draw_pair(rng: np.random.Generator, scoring: Scoring) -> CodePair:
    """The codes of a query, and of a target that is related to it or not."""
    letters = 20 if scoring.matrix else 4
    rows, cols = rng.integers(1, LONGEST + 1, 2)
    query = rng.integers(0, rng.integers(2, letters + 1), rows, np.uint8)
    related = rng.random() < 0.6
    target = mutated(query, cols, 0.15, rng, letters) if related else rng.integers(0, letters, cols, np.uint8)
    if rng.random() < 0.3:
        for side, ambiguous in ((query, QUERY_N), (target, TARGET_N)):
            unusual = rng.random(len(side)) < 0.1
            side[unusual] = rng.integers(20, 24) if scoring.matrix else ambiguous
    return query, target


if __name__ == "__main__":
    run_script(main)
