"""The advice to try the other strand: given where that has many k-mers in common, and only there."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest import mock

import pytest
from oracles import reverse_complement
from runs import CPU, Pair, using

from longalign.events import Notice
from longalign.model.mode import GLOBAL
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.run import pipeline
from longalign.run.spec import RunSpec

RNG = random.Random(5)
TARGET = "".join(RNG.choices("ACGT", k=3000))
COPY = "".join(letter if RNG.random() > 0.05 else RNG.choice("ACGTN") for letter in TARGET[500:])
REVERSED = Pair(reverse_complement(COPY), TARGET)


def notices(spec: RunSpec) -> list[str]:
    events: list[object] = []
    pipeline.run(spec, replace(using(CPU), store_budget=None), events.append)
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_query_on_the_other_strand_is_noticed() -> None:
    [notice] = notices(REVERSED.spec())
    assert notice.startswith("query and target: few matches on this strand, but many exact 20-mers of the")
    assert notice.endswith("try --strand both")
    assert notices(REVERSED.spec(command="score")) == [notice]


def test_small_pairs_that_run_together_are_noticed() -> None:
    query, target = COPY[:1000], TARGET[300:1700]
    reverse = Pair(reverse_complement(query), target)
    specs = [Pair(query, target).spec(), reverse.spec(), reverse.spec(command="score")]
    events: list[object] = []
    with mock.patch.object(pipeline, "run_batch", wraps=pipeline.run_batch) as batch:
        assert len([*pipeline.run_all(specs, replace(using(CPU), store_budget=None), events.append)]) == 3
    batch.assert_called_once()
    found = [event.text for event in events if isinstance(event, Notice)]
    assert [text.endswith("try --strand both") for text in found] == [True]  # once is enough


def test_small_pairs_over_both_strands_are_not_told_to_try_these() -> None:
    """The plus strand is better by a short match; pieces of the minus strand are in another order."""
    target = TARGET[:1000]
    pieces = [reverse_complement(target[start : start + 25]) for start in range(0, 1000, 40)]
    query = "".join(piece + "".join(RNG.choices("ACGT", k=12)) for piece in pieces) + target[500:540]
    pair = Pair(query, target).spec()
    for strand, count in (("plus", 1), ("both", 0)):
        events: list[object] = []
        specs = [replace(pair, strand=strand)] * 2
        outcomes = [*pipeline.run_all(specs, replace(using(CPU), store_budget=None), events.append)]
        assert [outcome.spec.query.strand for outcome in outcomes] == ["plus"] * 2
        assert sum(isinstance(event, Notice) for event in events) == count


@pytest.mark.parametrize(
    "scoring",
    [Scoring(softmask=True), Scoring(preset="lastz", unknown="mismatch"), Scoring(ambiguous="average")],
    ids=["softmask", "unknown letters", "ambiguous letters"],
)
def test_it_is_noticed_whatever_letters_the_scoring_lets_in(scoring: Scoring) -> None:
    texts = (REVERSED.query.lower()[:99] + REVERSED.query[99:], TARGET)
    sequences = [
        Sequence.from_letters(name, text, alphabet=scoring.alphabet)
        for name, text in zip("qt", texts, strict=True)
    ]
    [notice] = notices(RunSpec(*sequences, scoring))
    assert notice.startswith("q and t: few matches on this strand")


@pytest.mark.parametrize(
    "spec",
    [
        Pair(COPY, TARGET).spec(),  # on the right strand
        replace(REVERSED.spec(), strand="minus"),
        replace(REVERSED.spec(), strand="both"),
        replace(REVERSED, mode=GLOBAL).spec(),
        Pair("".join(RNG.choices("ACGT", k=3000)), TARGET).spec(),  # unrelated
        Pair(reverse_complement(COPY[:25]), TARGET).spec(),  # few k-mers
        Pair("ACGT", TARGET).spec(),
        Pair("", TARGET).spec(),
        Pair("N" * 500, "N" * 500).spec(),
        Pair("AT" * 1500, "G" * 2000 + "AT" * 50).spec(),  # the same on both strands
    ],
)
def test_no_other_run_is_advised(spec: RunSpec) -> None:
    assert notices(spec) == []
