"""Write two related sequences of any length, which differ as human and chimp chromosomes do.

    python experiments/simulated_pair.py --out DIR [--letters 200e6] [--seed 1]

Writes DIR/simulated_target.fa.gz, whose length is --letters, and DIR/simulated_query.fa.gz. The same seed and
the same version of NumPy give the same letters. The letters of the target are random, 41 % of them G or C. It
also has tandem repeats, with units of 2 to 60 letters (2 % of the letters). The query is a copy of the target
with

- substitutions of 1.3 % of the letters;
- an insertion or a deletion at one letter in 1,500. The probability of a length L falls as L^-1.7, up to
  50,000 letters, so that a few long ones hold most of the letters. What is inserted is random.

Last, 1 % of the letters of each sequence become runs of N, at places that are independent in the two.

Rates: The Chimpanzee Sequencing and Analysis Consortium, Nature 437:69-87 (2005). Lengths of indels:
R. A. Cartwright, Mol. Biol. Evol. 26:473-480 (2009).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from isal import igzip
from numpy.typing import NDArray
from scripts import script_parser

Letters = NDArray[np.uint8]

#: Codes 0 to 3 stand for these letters, and N for the last one.
LETTERS = np.frombuffer(b"ACGTN", np.uint8)
N = 4

GC = 0.41
SUBSTITUTIONS = 0.013
INDELS = 1 / 1500
INDEL_EXPONENT, LONGEST_INDEL = 1.7, 50_000
REPEATS, LONGEST_UNIT, LONGEST_REPEAT = 0.02, 60, 5_000
AMBIGUOUS, LONGEST_N_RUN = 0.01, 50_000

LINE = 80


def main() -> int:
    options = _parse()
    query, target = simulated_pair(int(options.letters), options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, codes in (("simulated_query", query), ("simulated_target", target)):
        write_fasta(options.out / f"{name}.fa.gz", name, codes)
        print(f"{name}: {len(codes):,} letters")
    return 0


def _parse() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--letters", type=float, default=200e6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def simulated_pair(letters: int, seed: int) -> tuple[Letters, Letters]:
    """The codes of the query and of the target, which has `letters` letters."""
    rng = np.random.default_rng(seed)
    target = random_letters(letters, rng)
    put_repeats(target, rng)
    query = substituted(target, rng)
    query = with_indels(query, rng)
    for codes in (query, target):
        put_n_runs(codes, rng)
    return query, target


def random_letters(count: int, rng: np.random.Generator) -> Letters:
    """Independent letters, G and C together with probability GC."""
    drawn = rng.random(count, np.float32)
    limits = np.cumsum([(1 - GC) / 2, GC / 2, GC / 2], dtype=np.float32)
    return np.searchsorted(limits, drawn, side="right").astype(np.uint8)


def put_repeats(codes: Letters, rng: np.random.Generator) -> None:
    """Overwrite a share REPEATS of the letters with tandem repeats, each of a unit that is there already."""
    left = int(REPEATS * len(codes))
    while left > 0:
        unit = int(rng.integers(2, LONGEST_UNIT + 1))
        length = min(left, int(rng.integers(3 * unit, LONGEST_REPEAT)), len(codes))
        start = int(rng.integers(0, len(codes) - length + 1))
        codes[start : start + length] = np.resize(codes[start : start + unit], length)
        left -= length


def substituted(codes: Letters, rng: np.random.Generator) -> Letters:
    """A copy in which a share SUBSTITUTIONS of the letters is another letter."""
    changed = np.flatnonzero(rng.random(len(codes), np.float32) < SUBSTITUTIONS)
    copy = codes.copy()
    copy[changed] = (copy[changed] + rng.integers(1, 4, len(changed), np.uint8)) % 4
    return copy


def with_indels(codes: Letters, rng: np.random.Generator) -> Letters:
    """A copy with insertions and deletions, as many of the one as of the other on average."""
    count = rng.binomial(len(codes), INDELS)
    places = np.sort(rng.integers(0, len(codes) + 1, count))
    lengths = indel_lengths(count, rng)
    inserts = rng.random(count) < 0.5
    copy = np.insert(
        codes,
        np.repeat(places[inserts], lengths[inserts]),
        random_letters(int(lengths[inserts].sum()), rng),
    )
    # A deletion begins where its place lies after the insertions before it.
    before = np.concatenate([[0], np.cumsum(np.where(inserts, lengths, 0))])[:-1]
    starts = (places + before)[~inserts]
    stops = np.minimum(starts + lengths[~inserts], len(copy))
    depth = np.zeros(len(copy) + 1, np.int32)
    np.add.at(depth, starts, 1)
    np.add.at(depth, stops, -1)
    return copy[np.cumsum(depth[:-1]) == 0]


def indel_lengths(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Lengths from 1 to LONGEST_INDEL, with probabilities that fall as their power -INDEL_EXPONENT."""
    weights = np.arange(1, LONGEST_INDEL + 1) ** -INDEL_EXPONENT
    return 1 + np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(count))


def put_n_runs(codes: Letters, rng: np.random.Generator) -> None:
    """Overwrite a share AMBIGUOUS of the letters with runs of N."""
    left = int(AMBIGUOUS * len(codes))
    while left > 0:
        length = min(left, int(rng.integers(1, LONGEST_N_RUN)))
        start = int(rng.integers(0, len(codes) - length + 1))
        codes[start : start + length] = N
        left -= length


def write_fasta(file: Path, name: str, codes: Letters) -> None:
    """Write one record, compressed, in lines of LINE letters."""
    with igzip.open(file, "wb", compresslevel=1) as out:
        out.write(f">{name}\n".encode())
        for start in range(0, len(codes), LINE << 16):
            letters = LETTERS[codes[start : start + (LINE << 16)]]
            whole = len(letters) // LINE * LINE
            lines = np.full((whole // LINE, LINE + 1), ord("\n"), np.uint8)
            lines[:, :LINE] = letters[:whole].reshape(-1, LINE)
            out.write(lines.tobytes())
            if whole < len(letters):
                out.write(letters[whole:].tobytes() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
