"""The next best local alignments: each is the best one without the letter pairs of those before it."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import inf

import numpy as np
import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from oracles import reverse_complement
from runs import (
    CPU,
    REPEATED,
    Geometry,
    Pair,
    SmallTiles,
    found_path,
    geometries,
    problems,
    score_columns,
    using,
    walked,
)

from longalign import api
from longalign.backends import excluding
from longalign.errors import StoreError, UsageError
from longalign.events import Emit, Event, Notice, PhaseFinished, PhaseStarted, TileFinished, ignore
from longalign.model.boundary import BestCell
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.mode import GLOBAL, LOCAL
from longalign.model.scoring import Scoring
from longalign.phases import changed_tiles, entry
from longalign.run import next_best, pipeline, three_phases
from longalign.run.outcome import Outcome, checked_alignment
from longalign.store import DirectoryStore
from longalign.store.base import FoundPath, NextBest
from longalign.store.files import NotWritten
from longalign.store.write_behind import WriteBehind
from longalign.testing.inputs import any_scorings
from longalign.testing.reference import ReferenceBackend
from longalign.testing.sweeps import whole_matrix

#: The word CAT, ten times, with different letters between.
CATS_LETTERS = "CATA" * 10, "GCATG" * 10
CATS = Pair(*CATS_LETTERS)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(excluding, "_SIDE", 3)
    monkeypatch.setattr(entry, "_MAX_CELLS_EXCLUDING", 9)


def run(
    pair: Pair,
    top: int,
    geometry: Geometry,
    backend=CPU,
    min_score: int | None = None,
    has_parts: bool = False,
    emit: Emit = ignore,
) -> list[Outcome]:
    tiles = SmallTiles(geometry.tile, backend, geometry.leaf, has_parts)
    with geometry.applied():
        spec = replace(pair.spec(), top=top, min_score=min_score)
        first = pipeline.run(spec, using(tiles), emit)
    return [first, *first.further]


def best_without(pair: Pair, pairs: ExcludedPairs) -> BestCell:
    """The best cell of the whole matrix if some letter pairs may not be used, found slowly."""
    query, target = pair.sequences()
    job = whole_matrix(query.as_query(), target.as_target(), pair.scoring, True)
    [result] = ReferenceBackend().sweep([replace(job, excluded=pairs)])
    return result.best


def check(pair: Pair, outcomes: list[Outcome], top: int) -> None:
    """Each is the best one of those that use no letter pair of an earlier one, and none is missing.

    Of equally good ones, it is the one that a walk back through the whole matrix finds.
    """
    pairs = NO_PAIRS
    for outcome in outcomes:
        alignment = outcome.alignment
        assert outcome.best == best_without(pair, pairs), pair
        if outcome.is_empty:
            assert len(outcomes) == 1
            return
        assert score_columns(alignment) == outcome.end.value, pair
        assert (alignment.query_end, alignment.target_end) == (outcome.end.i, outcome.end.j), pair
        assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j, pairs), pair
        used = ExcludedPairs.of(alignment)
        together = {*zip(pairs.query.tolist(), pairs.target.tolist(), strict=True)}
        assert together.isdisjoint(zip(used.query.tolist(), used.target.tolist(), strict=True)), pair
        pairs |= used
    if len(outcomes) < top:
        assert best_without(pair, pairs) == BestCell(), pair


@share_of_examples(0.7)
@given(problems(30, any_scorings), geometries, st.integers(1, 6))
def test_each_is_the_best_without_the_pairs_before(pair, geometry, top):
    pair = replace(pair, mode=LOCAL)
    check(pair, run(pair, top, geometry), top)


@share_of_examples(0.5)
@given(problems(25), geometries, st.integers(2, 4), st.booleans())
def test_the_reference_back_end(pair, geometry, top, has_parts):
    pair = replace(pair, mode=LOCAL)
    check(pair, run(pair, top, geometry, ReferenceBackend(), has_parts=has_parts), top)


def test_parts_of_a_device_sweep_the_tiles_of_every_round():
    class Noted(SmallTiles):
        def parts(self, most, cells, *, streams):
            self.made = super().parts(most, cells, streams=streams)
            return self.made

    swept = []
    for top in (1, 2, 3):
        device = Noted((13, 17), ReferenceBackend(), leaf=12, has_parts=True)
        with Geometry((13, 17), 5, 12).applied():
            pipeline.run(replace(CATS.spec(), top=top), using(device))
        swept.append(sum(part.swept for part in device.made))
    assert 0 < swept[0] < swept[1] < swept[2]


@pytest.mark.slow
@pytest.mark.parametrize("pair", [REPEATED, CATS], ids=["repeated", "cats"])
@pytest.mark.parametrize("tile", [(100, 100), (13, 17), (9, 8)])
def test_repeats(pair, tile):
    outcomes = run(pair, 30, Geometry(tile, 5, 12))
    assert len(outcomes) > 5
    check(pair, outcomes, 30)


def test_start_states_beside_excluded_pairs_are_asked_for_in_small_rectangles(monkeypatch):
    cells, start_states = [], excluding.start_states

    def noted(computed, local):
        found = start_states(computed, local)
        cells.append((computed.h.shape[0] - 1) * (computed.h.shape[1] - 1))
        lines = (found.bottom.h, found.bottom.gap, found.right.h, found.right.gap)
        assert all(line.base is None for line in lines)  # so that they do not keep all cells
        return found

    monkeypatch.setattr(excluding, "start_states", noted)
    monkeypatch.setattr(entry, "_MAX_CELLS_EXCLUDING", 200)  # otherwise up to 750 cells
    run(REPEATED, 10, Geometry((100, 100), 50, 12))
    assert 100 < max(cells) <= 200


def test_only_changed_tiles_are_swept_again(monkeypatch):
    """Two alignments far from each other: the second one's tiles keep their records."""
    swept: list[tuple[int, int]] = []
    sweep = changed_tiles.sweep_tile

    def count(lattice, backend, tile, progress):
        swept.append((tile.row, tile.col))
        return sweep(lattice, backend, tile, progress)

    monkeypatch.setattr(changed_tiles, "sweep_tile", count)
    rng = np.random.default_rng(1)
    word, other = ("".join(rng.choice([*"ACGT"], 20)) for _ in range(2))
    pair = Pair(word + "A" * 60 + other[:15], word + "C" * 60 + other[:15])
    events: list[Event] = []
    outcomes = run(pair, 2, Geometry((20, 20), 10, 50), emit=events.append)
    assert [outcome.end.value for outcome in outcomes] == [20, 15]
    assert (0, 0) in swept
    assert len(swept) < 5
    # Progress counts all cells, and says which were not computed.
    cells = len(pair.query) * len(pair.target)
    of_round = events[max(k for k, event in enumerate(events) if event == PhaseStarted("score", cells)) :]
    tiles = [event for event in of_round if isinstance(event, TileFinished)]
    assert sum(tile.cells for tile in tiles) == cells
    assert sum(tile.left_out == 0 for tile in tiles) == len(swept)
    [score] = [event for event in of_round if isinstance(event, PhaseFinished) and event.name == "score"]
    assert score.cells == cells
    assert score.left_out == sum(tile.left_out for tile in tiles)


def test_scores_below_the_least_are_left_out(monkeypatch):
    found_paths = []

    def counted(*arguments, **options):
        found_paths.append(1)
        return checked_alignment(*arguments, **options)

    scores = [outcome.end.value for outcome in run(REPEATED, 30, Geometry((13, 17), 5, 12))]
    assert len({*scores}) > 2
    least = sorted({*scores})[-2]
    monkeypatch.setattr(three_phases, "checked_alignment", counted)
    outcomes = run(REPEATED, 30, Geometry((13, 17), 5, 12), min_score=least)
    assert [outcome.end.value for outcome in outcomes] == [score for score in scores if score >= least]
    assert len(found_paths) == len(outcomes)
    [none] = run(REPEATED, 30, Geometry((13, 17), 5, 12), min_score=max(scores) + 1)
    assert none.alignment is None


def test_a_store_keeps_the_first_and_the_others_are_found_again(tmp_path):
    def scores() -> list[int]:
        found = api.best_alignments(
            CATS.query, CATS.target, 5, backend="cpu", threads=1, store=tmp_path / "s"
        )
        return [alignment.score for alignment in found]

    first = scores()
    assert len(first) == 5
    assert scores() == first
    found = api.resume(tmp_path / "s", backend="cpu", threads=1)
    assert [alignment.score for alignment in found] == first


def test_a_resumed_search_that_finds_nothing_gives_an_empty_list(tmp_path):
    options = {"backend": "cpu", "threads": 1, "store": tmp_path / "s", "min_score": 10**6}
    assert api.best_alignments(CATS.query, CATS.target, 1, **options) == []
    assert api.resume(tmp_path / "s", backend="cpu", threads=1) == []


def test_the_minus_strand():
    """Its alignments have forward coordinates, and mirror those of the reverse complement."""
    query, target = REPEATED.query, REPEATED.target
    plus, minus = (
        api.best_alignments(text, target, 4, strand=strand, backend="cpu", threads=1)
        for text, strand in ((query, "plus"), (reverse_complement(query), "minus"))
    )
    found = [[(one.score, one.cigar, one.target_start) for one in side] for side in (plus, minus)]
    assert found[0] == found[1]
    assert [len(query) - one.query_end for one in minus] == [one.query_start for one in plus]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mode": GLOBAL}, "in local mode only"),
        ({"command": "score"}, "by align only"),
        ({"start_states": "eager"}, "need lazy start states"),
        ({"strand": "both"}, "on one strand"),
    ],
)
def test_what_several_alignments_exclude(changes, complaint):
    with pytest.raises(UsageError, match=complaint):
        replace(REPEATED.spec(), top=2, **changes)


def test_the_public_function_checks_its_numbers():
    with pytest.raises(UsageError, match="count must be at least 1"):
        api.best_alignments("ACGT", "ACGT", 0)
    with pytest.raises(UsageError, match=r"min_score must be an int, a Fraction or a Decimal, not 0\.5"):
        api.best_alignments("ACGT", "ACGT", 1, min_score=0.5)
    for least in (10**20, Fraction(1, 1 << 70)):
        with pytest.raises(UsageError, match=r"the least score \S+ has too many digits"):
            api.best_alignments("ACGT", "ACGT", 1, min_score=least)
    with pytest.raises(UsageError, match="1,000,000,000 alignments are too many: at most 999,999,999"):
        api.best_alignments("ACGT", "ACGT", 10**9)
    assert api.best_alignments("AAAA", "CCCC", 3, backend="cpu", threads=1) == []


def test_where_several_are_found_the_device_is_chosen_as_for_several(monkeypatch):
    asked, choose = [], api.open_backends

    def noted(name, threads, devices, seconds):
        asked.append(seconds(CPU))
        return choose(name, threads, devices, seconds)

    monkeypatch.setattr(api, "open_backends", noted)
    api.best_alignments("ACGT", "ACGT", 2, backend="cpu", threads=1)
    api.best_alignments("ACGT", "ACGT", 1, backend="cpu", threads=1)
    assert asked[0] == inf > asked[1]


def test_a_store_holds_the_largest_numbers_that_can_be_asked_for(tmp_path):
    scoring, least, store = Scoring(Fraction(1, 1 << 24), -1, 1, 1), Fraction(1, 10**30), tmp_path / "s"
    found = api.best_alignments("CAT", "CAT", 999_999_999, min_score=least, scoring=scoring, store=store)
    assert found[0].cigar == "3="
    manifest = DirectoryStore.attach(store).manifest
    assert (manifest.top, manifest.min_score, manifest.scoring) == (999_999_999, least, scoring)


@pytest.mark.parametrize("share", [0.0, 0.5, pytest.param(0.9, marks=pytest.mark.slow)])
def test_tiles_that_are_damaged_between_two_alignments_are_swept_again(tmp_path, monkeypatch, share):
    """Their records were stored with the first alignment; the files lose all but a share of their bytes."""
    store, geometry = tmp_path / "store", Geometry((9, 9), 3, 9)
    spec, tiles = replace(CATS.spec(), top=4), SmallTiles(geometry.tile, CPU, geometry.leaf)

    class Damaging(changed_tiles.ChangedTiles):
        def __init__(self, before) -> None:
            if isinstance(before.store, WriteBehind):
                before.store.flush()
            for file in store.glob("tiles/*.h5"):
                os.truncate(file, int(file.stat().st_size * share))
            super().__init__(before)

    monkeypatch.setattr(next_best, "ChangedTiles", Damaging)
    with geometry.applied():
        found = pipeline.run(replace(spec, store=store), using(tiles))
    check(CATS, [found, *found.further], 4)


# --- in a store


class Stopped(Exception):
    """Raised in place of an interrupt."""


def counted(monkeypatch, most: int | None = None) -> list[int]:
    """The rounds of phase 1 after the first alignment; the one after `most` rounds does not come."""
    rounds = []

    class Counted(changed_tiles.ChangedTiles):
        def __init__(self, before) -> None:
            if len(rounds) == most:
                raise Stopped
            rounds.append(len(rounds))
            super().__init__(before)

    monkeypatch.setattr(next_best, "ChangedTiles", Counted)
    return rounds


GRID = Geometry((20, 20), 5, 12)
FRACTIONS = Scoring(Fraction(1, 2), Fraction(-3, 2), 1, Fraction(1, 2))


def stored_run(store, top: int, emit=lambda event: None, pair: Pair = CATS, **changes) -> list[Outcome]:
    spec = replace(pair.spec(), store=store, top=top, **changes)
    with GRID.applied():
        first = pipeline.run(spec, using(SmallTiles(GRID.tile, CPU, GRID.leaf)), emit=emit)
    return [first, *first.further]


def paths(outcomes: list[Outcome]) -> list[object]:
    return [(one.score, found_path(one), one.strand_scores) for one in outcomes]


@pytest.mark.parametrize("stop", [0, 1, 2, 3])
def test_a_stopped_run_keeps_all_alignments_that_it_found(tmp_path, monkeypatch, stop):
    counted(monkeypatch, most=stop)
    with pytest.raises(Stopped):
        stored_run(tmp_path / "s", 5)
    rounds = counted(monkeypatch)
    with GRID.applied():
        first = pipeline.resume(tmp_path / "s", using(SmallTiles(GRID.tile, CPU, GRID.leaf)))
    assert len(rounds) == 4 - stop
    found = [first, *first.further]
    check(CATS, found, 5)
    assert paths(found) == paths(stored_run(None, 5))


def test_stored_alignments_are_those_that_are_asked_for(tmp_path, monkeypatch):
    all_five = paths(stored_run(tmp_path / "s", 5))
    rounds = counted(monkeypatch)
    for top in (5, 3, 1, 2):
        assert paths(stored_run(tmp_path / "s", top)) == all_five[:top]
    assert not rounds
    assert paths(stored_run(tmp_path / "s", 6))[:5] == all_five
    assert len(rounds) == 1


@pytest.mark.slow
@pytest.mark.parametrize("least", [3, 4, 28, 29])
def test_stored_alignments_that_score_too_little_are_not_taken(tmp_path, monkeypatch, least):
    found = paths(stored_run(tmp_path / "s", 5, pair=REPEATED))
    assert [score for score, *_ in found] == [43, 28, 28, 3, 3]
    enough, rounds = [one for one in found if one[0] >= least], counted(monkeypatch)
    assert paths(stored_run(tmp_path / "s", 5, pair=REPEATED, min_score=least)) == enough
    assert paths(stored_run(tmp_path / "s", 5, pair=REPEATED)) == found
    assert not rounds


def test_one_that_scores_too_little_is_not_looked_for_again(tmp_path, monkeypatch):
    few = partial(stored_run, tmp_path / "s", 5, pair=REPEATED)
    rounds = counted(monkeypatch)
    enough = paths(few(min_score=28))
    assert [score for score, *_ in enough] == [43, 28, 28]
    assert len(rounds) == 3  # the last one has found too little
    assert paths(few(min_score=28)) == enough
    assert len(rounds) == 3
    assert [score for score, *_ in paths(few())] == [43, 28, 28, 3, 3]
    assert len(rounds) == 4  # it was kept, and there is one more


def test_alignments_whose_file_is_damaged_are_found_again(tmp_path, monkeypatch):
    all_four = paths(stored_run(tmp_path / "s", 4))
    file = tmp_path / "s" / "next_best.h5"
    os.truncate(file, file.stat().st_size - 1)
    rounds, events = counted(monkeypatch), []
    assert paths(stored_run(tmp_path / "s", 4, events.append)) == all_four
    assert len(rounds) == 3
    [notice] = [event.text for event in events if isinstance(event, Notice)]
    assert notice.startswith(f"{file}: damaged: ")
    assert notice.endswith("this step is done again")
    rounds.clear()
    assert paths(stored_run(tmp_path / "s", 4)) == all_four
    assert not rounds


def raised(one: FoundPath) -> FoundPath:
    return replace(one, end=replace(one.end, value=one.end.value + 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda one, other: [raised(one), other],  # another score than it has
        lambda one, other: [one, one],
        lambda one, other: [other, one],  # in increasing order
    ],
)
def test_stored_alignments_that_contradict_one_another_are_refused(tmp_path, change):
    stored_run(tmp_path / "s", 4, pair=REPEATED)
    with DirectoryStore.open(tmp_path / "s") as store:
        _, one, other = store.get_next_best().paths
        store.put_next_best(NextBest(change(one, other)))
    for name in ("path.h5", "tiles/r00000c00000.h5"):
        (tmp_path / "s" / name).unlink()
    with pytest.raises(StoreError, match="what is stored contradicts the sequences"):
        stored_run(tmp_path / "s", 3, pair=REPEATED)


def test_that_there_are_no_more_is_stored_as_well(tmp_path, monkeypatch):
    few = partial(stored_run, tmp_path / "s", pair=Pair("CATA" * 3, "GCATG" * 3))
    found = paths(few(1000))
    assert 2 < len(found) < 1000
    rounds = counted(monkeypatch)
    assert paths(few(1000)) == found
    assert paths(few(2)) == found[:2]
    assert not rounds


@pytest.mark.parametrize("changes", [{"strand": "minus"}, {"scoring": FRACTIONS}], ids=["minus", "fractions"])
def test_stored_alignments_of_other_runs(tmp_path, monkeypatch, changes):
    pair = replace(CATS, query=reverse_complement(CATS.query)) if "strand" in changes else CATS
    run_of = partial(stored_run, pair=pair, **changes)
    expected = paths(run_of(None, 5))
    assert len(expected) == 5
    assert paths(run_of(tmp_path / "s", 3)) == expected[:3]
    rounds = counted(monkeypatch)
    assert paths(run_of(tmp_path / "s", 5)) == paths(run_of(tmp_path / "s", 5)) == expected
    assert len(rounds) == 2


@pytest.mark.parametrize("is_older", [False, True], ids=["with two", "of an older version"])
def test_a_store_that_cannot_be_written_is_read(tmp_path, monkeypatch, is_older):
    expected = paths(stored_run(tmp_path / "s", 4))
    stored_run(tmp_path / "s", 3)
    if is_older:
        (tmp_path / "s" / "next_best.h5").unlink()

    def refuse(store, found):
        raise NotWritten(f"{store.path}: cannot be written")

    monkeypatch.setattr(DirectoryStore, "put_next_best", refuse)
    events = []
    assert paths(stored_run(tmp_path / "s", 5, events.append))[:4] == expected
    [notice] = [event.text for event in events if isinstance(event, Notice)]
    assert notice.endswith("s: cannot be written; a later resume finds the next best alignments again")


def test_letter_pairs_are_only_listed_for_a_next_round(monkeypatch):
    made, of = [], ExcludedPairs.of
    monkeypatch.setattr(ExcludedPairs, "of", lambda alignment: made.append(alignment) or of(alignment))
    for top in (1, 2, 4):
        stored_run(None, top)
        assert len(made) == top - 1
        made.clear()
