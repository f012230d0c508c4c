"""Batches of small pairs: the optimum of each, in order, whatever stands beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import CPU, PAIR, REPEATED, Pair, SmallTiles, problems

from longalign.errors import InputError, UsageError
from longalign.events import Advanced, Event, PhaseFinished, PhaseStarted
from longalign.model.boundary import BestCell
from longalign.model.mode import GLOBAL
from longalign.run import batch, pipeline
from longalign.run.planner import Resources
from longalign.testing.reference import ReferenceBackend

BIG = replace(PAIR, mode=GLOBAL)


def using(backend: object) -> Resources:
    """One device and all the memory one may want. With a store budget, no pair would be small."""
    return Resources([backend], memory=1 << 40)


@given(
    st.lists(st.tuples(problems(longest=30, shortest=0), st.sampled_from(["align", "score"])), min_size=2),
    st.sampled_from([CPU, ReferenceBackend()]),
    st.integers(1, 200),
)
def test_each_pair_of_a_batch_gets_its_optimum(
    requests: list[tuple[Pair, str]], backend: object, leaf: int
) -> None:
    specs = [pair.spec(command=command) for pair, command in requests]
    outcomes = batch.run_batch(specs, using(SmallTiles(inner=backend, leaf=leaf)))
    for (pair, command), spec, outcome in zip(requests, specs, outcomes, strict=True):
        assert outcome.spec is spec
        if command == "align":
            pair.check(outcome)
        else:
            assert outcome.alignment is None
            assert outcome.best == pair.truth()


def test_a_pair_in_a_batch_is_aligned_as_by_itself() -> None:
    pairs = [PAIR, REPEATED, BIG]
    resources = using(CPU)
    for pair, outcome in zip(pairs, pipeline.run_all([p.spec() for p in pairs], resources), strict=True):
        alone = pipeline.run(pair.spec(), resources)
        assert outcome.end == alone.end
        assert outcome.alignment.cigar == alone.alignment.cigar


def test_small_pairs_that_follow_one_another_are_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, stored = PAIR.spec(), PAIR.spec(tmp_path)
    resources = using(CPU)

    def sizes(specs: list[object], using: Resources = resources) -> list[int]:
        return [len(found) for found in batch.batches(specs, using)]

    assert sizes([]) == []
    assert sizes([small] * 5) == [5]
    assert sizes([small, small, stored, small, stored, stored]) == [2, 1, 1, 1, 1]
    assert sizes([small] * 3, replace(resources, store_budget=1 << 20)) == [1, 1, 1]
    monkeypatch.setattr(batch, "_MAX_PAIRS", 2)
    assert sizes([small] * 5) == [2, 2, 1]
    monkeypatch.setattr(batch, "_MAX_CELLS", 2 * len(PAIR.query) * len(PAIR.target) - 1)
    assert sizes([small] * 5) == [1] * 5
    monkeypatch.setattr(batch, "_SMALL_CELLS", 0)
    assert sizes([small] * 5) == [1] * 5


def test_pairs_before_an_error_come_out_before_it() -> None:
    def specs():
        yield PAIR.spec()
        yield BIG.spec()
        raise InputError("the third one")

    outcomes = pipeline.run_all(specs(), using(CPU))
    PAIR.check(next(outcomes))
    BIG.check(next(outcomes))
    with pytest.raises(InputError, match="the third one"):
        next(outcomes)


def test_what_cannot_run_is_refused_or_passed_over() -> None:
    short = replace(using(CPU), memory=700 << 20)
    long = Pair("A", "C" * 8_000_000).spec()
    with pytest.raises(UsageError, match="need about"):
        list(pipeline.run_all([PAIR.spec(), long, BIG.spec()], short))
    refused: list[tuple[object, str]] = []
    outcomes = pipeline.run_all(
        [PAIR.spec(), long, BIG.spec()], short, refused=lambda spec, error: refused.append((spec, str(error)))
    )
    assert [outcome.spec.mode for outcome in outcomes] == [PAIR.mode, BIG.mode]
    [(spec, text)] = refused
    assert spec is long
    assert text.startswith("1 x 8,000,000 letters need about")


def test_small_pairs_that_do_not_fit_in_memory_together_are_run_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They have few cells and many letters."""
    specs = [Pair("A", "C" * 999_999 + "A").spec(command=command) for command in ("align", "score") * 3]
    tight = replace(using(CPU), memory=650 << 20)
    assert not batch.fits(specs, tight)
    assert batch.fits(specs[:1], tight)
    assert batch.fits(specs[1::2], tight)
    monkeypatch.setattr(pipeline, "run_batch", lambda *_: pytest.fail("they are run together"))
    assert [outcome.best for outcome in pipeline.run_all(specs, tight)] == [BestCell(1, 1, 1_000_000)] * 6


def test_the_phases_of_a_batch_are_shared_out_by_cells() -> None:
    events: list[Event] = []
    outcomes = batch.run_batch([PAIR.spec(), BIG.spec(), Pair("", "A").spec()], using(CPU), events.append)
    cells = len(PAIR.query) * len(PAIR.target)
    names = ["score", "stitch", "recompute"]
    assert [event.name for event in events if isinstance(event, PhaseStarted)] == names
    finished = [event for event in events if isinstance(event, PhaseFinished)]
    assert sum(event.cells for event in events if isinstance(event, Advanced)) == sum(
        phase.cells for phase in finished
    )
    for outcome, share in zip(outcomes, (1 / 2, 1 / 2, 0), strict=True):
        assert [phase.name for phase in outcome.phases] == names
        assert outcome.phases[0].cells == 2 * cells * share
        assert outcome.phases[0].seconds == pytest.approx(finished[0].seconds * share)


def test_a_batch_of_nothing_but_empty_sequences() -> None:
    outcomes = batch.run_batch([Pair("", "").spec(), Pair("", "A").spec(command="score")], using(CPU))
    assert [outcome.best for outcome in outcomes] == [BestCell()] * 2
