"""The simulated pair is what its docstring says, and longalign aligns it from end to end."""

from __future__ import annotations

import numpy as np
import pytest
import simulated_pair as simulated

import longalign

LETTERS = 300_000


@pytest.fixture(scope="module")
def pair():
    return simulated.simulated_pair(LETTERS, 5)


def test_the_seed_decides_the_letters(pair):
    again, other = simulated.simulated_pair(LETTERS, 5), simulated.simulated_pair(LETTERS, 6)
    assert all(np.array_equal(one, two) for one, two in zip(pair, again, strict=True))
    assert not np.array_equal(pair[1], other[1])


def test_lengths_and_letters(pair):
    query, target = pair
    assert len(target) == LETTERS
    assert 0.7 < len(query) / len(target) < 1.4
    for codes in pair:
        counts = np.bincount(codes, minlength=5) / len(codes)
        assert len(counts) == 5
        assert 0 < counts[simulated.N] <= 0.011
        assert (counts[1] + counts[2]) / counts[:4].sum() == pytest.approx(simulated.GC, abs=0.03)


def test_rates(monkeypatch):
    rng = np.random.default_rng(1)
    codes = simulated.random_letters(LETTERS, rng)
    changed = simulated.substituted(codes, rng)
    assert (changed != codes).mean() == pytest.approx(simulated.SUBSTITUTIONS, rel=0.1)
    lengths = simulated.indel_lengths(100_000, rng)
    assert lengths.min() == 1
    assert 1_000 < lengths.max() <= simulated.LONGEST_INDEL
    monkeypatch.setattr(simulated, "REPEATS", 0.5)
    simulated.put_repeats(codes, rng)
    is_repeated = np.zeros(LETTERS, bool)
    for unit in range(2, simulated.LONGEST_UNIT + 1):
        same = np.concatenate([[0], np.cumsum(codes[unit:] == codes[:-unit])])
        run = 2 * unit + 20
        is_repeated[: len(same) - run] |= same[run:] - same[:-run] == run
    assert 0.2 < is_repeated.mean() < 0.5


def test_without_insertions_a_query_is_a_part_of_the_target(monkeypatch):
    class OnlyDeletions(np.random.Generator):
        def random(self, *arguments, **options):
            return np.maximum(super().random(*arguments, **options), 0.5)

    rng = OnlyDeletions(np.random.PCG64(2))
    codes = simulated.random_letters(3_000, np.random.default_rng(1))
    monkeypatch.setattr(simulated, "INDELS", 0.01)
    shorter = simulated.with_indels(codes, rng)
    assert len(shorter) < len(codes)
    letters = iter(codes.tolist())
    assert all(letter in letters for letter in shorter.tolist()), "not a subsequence"


def test_the_files_hold_the_letters(tmp_path, pair):
    query = pair[0][:1_000]
    simulated.write_fasta(tmp_path / "x.fa.gz", "x", query)
    read = longalign.read_sequence(tmp_path / "x.fa.gz")
    assert (read.name, read.length) == ("x", 1_000)
    assert longalign.score(read, simulated.LETTERS[query].tobytes()).score == (query != simulated.N).sum()


def test_the_two_are_related(pair):
    query, target = (simulated.LETTERS[codes[:20_000]].tobytes() for codes in pair)
    assert longalign.score(query, target).score > 5_000
