"""Either strand of the query, or the better of both, against runs on a query that was reversed by hand."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from oracles import reverse_complement
from runs import (
    PAIR,
    REPEATED,
    Geometry,
    Pair,
    SmallTiles,
    geometries,
    modes,
    notices,
    result,
    run_in_small_steps,
    small_geometry,
    stop_again_and_again,
    stop_everywhere,
    swept,
    tiles_in,
    using,
)

from longalign.errors import InputError, StoreError, UsageError
from longalign.events import Advanced, Emit, Event, PhaseFinished, PhaseStarted, ignore
from longalign.model.mode import GLOBAL, LOCAL
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.strand import Strand, StrandChoice
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.run import pipeline
from longalign.run.host_memory import fixed_bytes
from longalign.run.outcome import Outcome
from longalign.run.planner import Request, plan
from longalign.run.spec import RunSpec
from longalign.run.trace_cell import trace_cell
from longalign.store import DirectoryStore

dna = st.text("ACGTACGTNRYKVB", max_size=40)
start_state_kinds = st.sampled_from(["lazy", "eager"])


@st.composite
def pairs_on_strands(draw: st.DrawFn) -> Pair:
    """Unrelated letters, or a target that holds parts of the query on either strand."""
    query = draw(dna)
    parts = [draw(dna), draw(dna)]
    if query and draw(st.booleans()):
        start = draw(st.integers(0, len(query)))
        part = query[start : draw(st.integers(start, len(query)))]
        parts.insert(1, reverse_complement(part) if draw(st.booleans()) else part)
    return Pair(query, "".join(parts), draw(st.sampled_from([Scoring(), Scoring(2, -1, 0, 1)])),
                draw(modes))  # fmt: skip


def on_strand(pair: Pair, strand: StrandChoice, store: Path | None = None, **options: object) -> RunSpec:
    return replace(pair.spec(store, **options), strand=strand)


def by_hand(pair: Pair) -> Pair:
    """The pair with the reverse complement as its query."""
    return replace(pair, query=reverse_complement(pair.query))


def expect_same_but_reversed(found: Outcome, forward: Outcome) -> None:
    """`forward` is the run on the query that was reversed by hand."""
    is_nowhere = found.is_empty and found.spec.mode.ends_anywhere
    assert (found.end, found.best.strand) == (forward.end, "plus" if is_nowhere else "minus")
    one, other = found.alignment, forward.alignment
    assert one is not None
    assert other is not None
    assert (one.strand, one.score, one.cigar) == ("minus", other.score, other.cigar)
    assert (one.target_start, one.target_end) == (other.target_start, other.target_end)
    length = one.query.length
    assert (one.query_start, one.query_end) == (length - other.query_end, length - other.query_start)
    letters = one.query.letters.tobytes().decode()[one.query_start : one.query_end]
    aligned = other.query.letters.tobytes().decode()[other.query_start : other.query_end]
    assert reverse_complement(letters) == aligned


@share_of_examples(0.7)
@given(pairs_on_strands(), geometries, start_state_kinds, st.booleans())
def test_minus_is_plus_on_the_reverse_complement(
    tmp_path_factory: pytest.TempPathFactory, pair: Pair, geometry: Geometry, start_states: str, stored: bool
) -> None:
    resources = using(SmallTiles(geometry.tile, leaf=geometry.leaf))
    store = tmp_path_factory.mktemp("strand") / "store" if stored else None
    with small_geometry(geometry.chunk, geometry.group):
        forward = pipeline.run(by_hand(pair).spec(start_states=start_states), resources)
        by_hand(pair).check(forward)
        minus = on_strand(pair, "minus", store, start_states=start_states)
        found = pipeline.run(minus, resources)
        expect_same_but_reversed(found, forward)
        assert found.strand_scores == {"minus": forward.end.value}
        if store is not None:
            expect_same_but_reversed(pipeline.resume(store, resources), forward)
    if store is not None:
        shutil.rmtree(store.parent)


@share_of_examples(0.7)
@given(pairs_on_strands(), geometries, start_state_kinds, st.booleans())
def test_both_is_the_better_strand_and_plus_of_equals(
    tmp_path_factory: pytest.TempPathFactory, pair: Pair, geometry: Geometry, start_states: str, stored: bool
) -> None:
    backend = SmallTiles(geometry.tile, leaf=geometry.leaf)
    store = tmp_path_factory.mktemp("strands") / "store" if stored else None
    with small_geometry(geometry.chunk, geometry.group):
        both = pipeline.run(on_strand(pair, "both", store, start_states=start_states), using(backend))
        scores = {"plus": pair.truth().score, "minus": by_hand(pair).truth().score}
        assert both.strand_scores == scores
        strand: Strand = "minus" if scores["minus"] > scores["plus"] else "plus"
        single = pipeline.run(on_strand(pair, strand, start_states=start_states), using(backend))
        assert (result(both), both.best) == (result(single), single.best)
        assert both.spec.query.strand == strand
        lazily = replace(using(backend), store_budget=None)
        score = pipeline.run(on_strand(pair, "both", command="score"), lazily)
        assert (score.best, score.strand_scores) == (both.best, scores)
        if store is not None:
            assert result(pipeline.resume(store, using(backend))) == result(both)
    if store is not None:
        shutil.rmtree(store.parent)


#: No local alignment ends in the last two.
ENDS_TRACED = [(40, 41), (len(REPEATED.query), 3), (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", [LOCAL, GLOBAL])
def test_a_cell_of_the_minus_strand_is_traced(tmp_path: Path, mode: str) -> None:
    pair = by_hand(replace(REPEATED, mode=mode))
    refused = []
    with small_geometry():
        pipeline.run(on_strand(pair, "both", tmp_path / "both", start_states="eager"), using())
        pipeline.run(by_hand(pair).spec(tmp_path / "hand", start_states="eager"), using())
        for end in ENDS_TRACED:
            try:
                forward = trace_cell(tmp_path / "hand", end, using())
            except InputError as error:
                with pytest.raises(InputError, match=re.escape(str(error))):
                    trace_cell(tmp_path / "both/minus", end, using())
                refused.append(end)
                continue
            found = trace_cell(tmp_path / "both/minus", end, using())
            one, other = found.alignment, forward.alignment
            assert (one.cigar, one.score, one.strand) == (other.cigar, other.score, "minus")
            start, end = (one.query.offset + place for place in (one.query_start, one.query_end))
            assert (start, end) == (len(pair.query) - other.query_end, len(pair.query) - other.query_start)
    assert refused == (ENDS_TRACED[1:] if mode == LOCAL else [])
    with pytest.raises(StoreError, match="holds a store for each strand: name one"):
        trace_cell(tmp_path / "both", (1, 1), using())


def test_only_dna_has_a_minus_strand() -> None:
    protein = Scoring(gap_open=10, gap_extend=1, matrix=SubstitutionMatrix.load("BLOSUM62"))
    sequence = Sequence.from_letters("p", "MKV", alphabet=protein.alphabet)
    for strand in ("minus", "both"):
        with pytest.raises(UsageError, match="p: only DNA has a minus strand: BLOSUM62 has no"):
            RunSpec(sequence, sequence, protein, strand=strand)
    assert RunSpec(sequence, sequence, protein).query.strand == "plus"


# --- one run: phases, events, plans

#: The reverse complement scores more.
REVERSED = by_hand(REPEATED)
TILES = 2 * 3 * 3


def small_run(store: Path | None, emit: Emit = ignore, backend: object = None) -> Outcome:
    """A run of 3 x 3 tiles on each strand."""
    return run_in_small_steps(on_strand(REVERSED, "both", store), emit, backend)


@pytest.fixture(scope="module")
def answer() -> tuple[object, ...]:
    outcome = small_run(None)
    assert outcome.spec.query.strand == "minus"
    return result(outcome)


def test_both_strands_are_scored_in_one_phase_and_one_is_aligned(tmp_path: Path, answer: object) -> None:
    events: list[Event] = []
    assert result(small_run(tmp_path / "both", events.append)) == answer
    started = [(event.name, event.cells) for event in events if isinstance(event, PhaseStarted)]
    cells = 2 * len(REVERSED.query) * len(REVERSED.target)
    assert started == [("score", cells), ("stitch", None), ("recompute", None)]
    finished = {event.name: event.cells for event in events if isinstance(event, PhaseFinished)}
    assert (list(finished), finished["score"]) == (["score", "stitch", "recompute"], cells)
    ends_phase_1 = next(k for k, event in enumerate(events) if isinstance(event, PhaseFinished))
    assert sum(event.cells for event in events[:ends_phase_1] if isinstance(event, Advanced)) == cells
    assert swept(events) == tiles_in(tmp_path / "both") == TILES
    assert not (tmp_path / "both/plus/path.h5").exists()
    assert (tmp_path / "both/minus/path.h5").exists()


def test_a_plan_counts_both_strands(tmp_path: Path) -> None:
    one, both = (Request.of(on_strand(PAIR, strand)) for strand in ("plus", "both"))
    assert both.cell_bytes == 2 * one.cell_bytes
    of_one, of_both = (fixed_bytes(1000, using().backends, True, spec.strands) for spec in (one, both))
    assert of_both > of_one
    edges = plan(one, using()).stored_cells  # of a single tile: no budget makes them fewer
    resources = replace(using(), store_budget=edges * one.cell_bytes)
    plan(one, resources)
    with pytest.raises(UsageError, match="budget"):
        plan(both, resources)


# --- stopped and gone on with


@pytest.mark.slow
def test_an_interrupt_at_every_third_event_loses_nothing(tmp_path: Path, answer: object) -> None:
    stops = stop_everywhere(small_run, tmp_path, answer, TILES, range(0, 1000, 3))
    interrupted = {(phase, count > TILES // 2) for phase, count in stops}
    assert interrupted >= {("score", False), ("score", True), ("stitch", True), ("recompute", True)}


def test_interrupts_again_and_again_end_in_the_answer(tmp_path: Path, answer: object) -> None:
    assert result(stop_again_and_again(small_run, tmp_path / "both")) == answer


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["minus", "minus/manifest.json", "minus/manifest.json minus/sequences.h5"])
def test_a_run_stopped_before_its_second_store_was_made_goes_on(
    tmp_path: Path, answer: tuple[object, ...], lost: str
) -> None:
    store = tmp_path / "both"
    small_run(store)
    shutil.rmtree(store / "minus/tiles")
    shutil.rmtree(store / "minus/pieces")
    (store / "minus/path.h5").unlink()
    for name in lost.split():
        shutil.rmtree(store / name) if name == "minus" else (store / name).unlink()
    if lost == "minus":  # no interrupted run leaves the one folder without the other
        (store / "minus").mkdir()
    with small_geometry(chunk=8):
        outcome = pipeline.resume(store, using(SmallTiles((24, 24), leaf=60)))
    assert (outcome.end, outcome.strand_scores) == (answer[0], small_run(None).strand_scores)


def test_a_damaged_tile_of_either_strand_is_swept_again(tmp_path: Path, answer: object) -> None:
    for strand in ("plus", "minus"):
        store, events = tmp_path / strand, list[Event]()
        small_run(store)
        (store / strand / "tiles/r00001c00002.h5").write_bytes(b"rubbish")
        assert result(small_run(store, events.append)) == answer
        assert swept(events) == 1
        [notice] = notices(events)
        assert str(store / strand) in notice


def test_stores_of_other_strands_are_refused(tmp_path: Path) -> None:
    with small_geometry():
        for strand in ("plus", "minus", "both"):
            pipeline.run(on_strand(PAIR, strand, tmp_path / strand), using())
        for asked, there, message in (
            ("minus", "plus", "another run: strand is plus in the store and minus now"),
            ("plus", "minus", "another run: strand is minus in the store and plus now"),
            ("both", "minus", "another run: it is of one strand, not of both"),
            ("plus", "both", "another run: it is of both strands, not of one"),
        ):
            with pytest.raises(StoreError, match=message):
                pipeline.run(on_strand(PAIR, asked, tmp_path / there), using())
        shutil.copy(tmp_path / "both/plus/manifest.json", tmp_path / "both/minus/manifest.json")
        with pytest.raises(StoreError, match="strand is plus in the store and minus now"):
            pipeline.resume(tmp_path / "both", using())
        foreign = "neither empty nor a store: it holds x"
        for name, message in (("x", foreign), ("minus", "a file, not a directory")):
            folder = tmp_path / f"with {name}"
            folder.mkdir()
            (folder / name).touch()
            with pytest.raises(StoreError, match=message):
                pipeline.run(on_strand(PAIR, "both", folder), using())


def test_a_store_in_use_by_another_run_is_refused(tmp_path: Path) -> None:
    with small_geometry():
        pipeline.run(on_strand(PAIR, "both", tmp_path), using())
        for strand in ("plus", "minus"):
            with DirectoryStore.open(tmp_path / strand), pytest.raises(StoreError, match="in use by process"):
                pipeline.resume(tmp_path, using())


def test_what_was_asked_for_last_is_noted_in_both_stores(tmp_path: Path) -> None:
    spec = on_strand(PAIR, "both", tmp_path, command="score")
    with small_geometry():
        pipeline.run(spec, replace(using(), store_budget=None))
        align = replace(spec, command="align")
        pipeline.run(align, using(), note=lambda manifest: replace(manifest, output="/o"))
    for strand in ("plus", "minus"):
        manifest = DirectoryStore.attach(tmp_path / strand).manifest
        assert (manifest.strand, manifest.command, manifest.output) == (strand, "align", "/o")
