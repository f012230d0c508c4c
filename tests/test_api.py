"""The public functions: what they take, what they return, and what they say meanwhile."""

from __future__ import annotations

import doctest
import sys
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest
from Bio.Align import substitution_matrices
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord

import longalign
from longalign.cli.inspect import inspect
from longalign.errors import StoreError
from longalign.events import (
    Advanced,
    CompileFinished,
    CompileStarted,
    PairFinished,
    PhaseFinished,
    PhaseStarted,
    TileFinished,
)
from longalign.model.mode import MODES

QUERY, TARGET = "ACGTTACGT", "ACGTACGT"


@pytest.mark.parametrize(
    "given",
    [
        str,
        str.lower,
        str.encode,
        lambda text: bytearray(text.encode()),
        lambda text: memoryview(text.encode()),
        lambda text: np.frombuffer(text.encode(), np.uint8),
        Seq,
        lambda text: SeqRecord(Seq(text)),
        lambda text: SeqRecord(Seq(text), id="mine"),
        lambda text: longalign.Sequence.from_letters("mine", text),
    ],
    ids=[
        "text",
        "lower case",
        "bytes",
        "bytearray",
        "memoryview",
        "array",
        "Seq",
        "SeqRecord",
        "id",
        "Sequence",
    ],
)
def test_whatever_holds_letters_is_a_sequence(given, request):
    alignment = longalign.align(given(QUERY), given(TARGET), backend="cpu", mode="global")
    assert (alignment.score, alignment.columns, alignment.gaps) == (3, 9, 1)
    is_named = request.node.callspec.id in ("id", "Sequence")
    names = ("mine", "mine") if is_named else ("query", "target")
    assert (alignment.query.name, alignment.target.name) == names


def test_a_file_is_read_with_read_sequence(tmp_path):
    (tmp_path / "q.fa").write_text(f">name of it\n{QUERY}\n")
    query = longalign.read_sequence(tmp_path / "q.fa")
    assert longalign.align(query, QUERY, backend="cpu").query.name == "name"


def test_an_alignment_is_written_as_paf_and_verified(tmp_path):
    paf, *sequences = tmp_path / "x.paf", tmp_path / "q.fa", tmp_path / "t.fa"
    for path, letters in zip(sequences, (QUERY, TARGET), strict=True):
        path.write_text(f">{path.name}\n{letters}\n")
    alignment = longalign.align(*map(longalign.read_sequence, sequences), backend="cpu", mode="global")
    with paf.open("w") as file:
        longalign.write_paf(alignment, file)
    check = partial(longalign.verify_paf, paf, *sequences)
    assert check().ok
    assert check()
    paf.write_text(paf.read_text().replace("AS:i:3", "AS:i:4"))
    assert [str(problem) for problem in check().problems] == ["line 1: tag AS: claims 4, is 3"]
    assert not check()


@pytest.mark.parametrize("mode", MODES)
def test_score_is_where_align_ends(mode):
    best = longalign.score(QUERY, TARGET, mode=mode, backend="cpu")
    alignment = longalign.align(QUERY, TARGET, mode=mode, backend="cpu")
    assert best == longalign.BestCell(alignment.score, alignment.query_end, alignment.target_end)


def test_nothing_aligned_is_an_empty_alignment():
    alignment = longalign.align("AAAA", "CCCC", backend="cpu")
    assert (alignment.score, alignment.cigar, alignment.columns, alignment.identity) == (0, "", 0, 0.0)
    assert longalign.score("AAAA", "CCCC", backend="cpu") == longalign.BestCell()


@pytest.mark.parametrize("mode", MODES)
def test_trace_finds_the_alignment_of_a_run_again_and_others(tmp_path, mode):
    store = tmp_path / "s"
    options = {"mode": mode, "backend": "cpu"}
    whole = longalign.align(QUERY, TARGET, store=store, start_states="eager", **options)
    again = longalign.trace(store, whole.query_end, whole.target_end, backend="cpu")
    assert (again.score, again.cigar) == (whole.score, whole.cigar)
    shorter = longalign.trace(str(store), np.uint8(5), np.int16(4), backend="cpu")
    assert (shorter.query_end, shorter.target_end, shorter.rescore()) == (5, 4, shorter.score)


def test_ends_may_be_free_at_will():
    query, target = "TTTTACGTACGTAC", "ACGTACGTACGGGG"
    chosen = longalign.align(
        query, target, mode="semiglobal", free=("query-start", "target-end"), backend="cpu"
    )
    overlap = longalign.align(query, target, mode="overlap", backend="cpu")
    assert (chosen.mode, overlap.mode) == ("semiglobal:query-start,target-end", "overlap")
    assert (chosen.cigar, chosen.query_start, chosen.target_end) == (overlap.cigar, 4, 10) == ("10=", 4, 10)
    best = longalign.score(query, target, mode=chosen.mode, backend="cpu")
    assert best == longalign.BestCell(10, 14, 10)
    with pytest.raises(longalign.UsageError, match="with mode semiglobal only, not with overlap"):
        longalign.score(query, target, mode="overlap", free=["query-end"], backend="cpu")


def test_resume_returns_what_the_run_would_have(tmp_path):
    scoring = longalign.Scoring(2, -1, 1, 1)
    options = {"scoring": scoring, "mode": "global", "backend": "cpu"}
    alignment = longalign.align(QUERY, TARGET, store=tmp_path / "a", **options)
    again = longalign.resume(tmp_path / "a", backend="cpu")
    assert (again.score, again.cigar, again.scoring) == (alignment.score, alignment.cigar, scoring)
    best = longalign.score(QUERY, TARGET, store=str(tmp_path / "s"), **options)
    assert longalign.resume(str(tmp_path / "s"), backend="cpu") == best


def test_an_empty_alignment_resumes_to_an_empty_alignment(tmp_path):
    longalign.align("AAAA", "CCCC", backend="cpu", store=tmp_path)
    assert longalign.resume(tmp_path, backend="cpu").cigar == ""


@pytest.mark.parametrize("start_states", ["lazy", "eager"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("query", "target"), [("", ""), ("", "ACGT"), ("ACG", "")])
def test_a_sequence_without_letters(tmp_path, query, target, mode, start_states):
    """One gap of all letters, or no columns where they may be left out."""
    options, ends = {"mode": mode, "backend": "cpu"}, MODES[mode].ends
    starts_free, ends_free = (
        (ends.query_start, ends.query_end) if query else (ends.target_start, ends.target_end)
    )
    length = 0 if starts_free or ends_free else len(query + target)
    score = -(3 + 2 * length) if length else 0
    cigar = f"{length}{'I' if query else 'D'}" if length else ""
    end = (0, 0) if ends_free else (len(query), len(target))
    kept = longalign.align(query, target, store=tmp_path / "s", start_states=start_states, **options)
    resumed = longalign.resume(tmp_path / "s", backend="cpu")
    for found in (longalign.align(query, target, **options), kept, resumed):
        assert (found.score, found.cigar, found.identity) == (score, cigar, 0.0)
        assert (found.query_end, found.target_end) == end
        assert str(found)
    assert longalign.score(query, target, **options) == longalign.BestCell(score, *end)
    if start_states == "eager":
        with pytest.raises(longalign.UsageError, match=r"the matrix has no cells: .* has no letters"):
            longalign.trace(tmp_path / "s", 1, 1, backend="cpu")


def test_a_store_without_tiles_says_that_it_is_finished(tmp_path):
    longalign.align("", "ACGT", mode="global", backend="cpu", store=tmp_path, store_budget=0)
    report = inspect(tmp_path)
    assert (report["tiles"], report["cells"], report["path_complete"], report["damaged"]) == (
        [0, 1],
        0,
        True,
        [],
    )
    assert (report["pieces"], report["pieces_done"]) == (1, 1)


def test_an_alignment_shows_itself():
    alignment = longalign.align(QUERY, TARGET, backend="cpu", mode="global")
    assert repr(alignment) == "Alignment(global, score 3, query:0-9 x target:0-8, 9 columns)"
    text = str(alignment)
    assert "a gap of length k costs 3 + k*2" in text
    assert "query  0 ACGTTACGT 9" in text


def test_events_come_in_order():
    events = []
    longalign.align(QUERY, TARGET, backend="cpu", emit=events.append)
    names = [event.name for event in events if isinstance(event, PhaseStarted | PhaseFinished)]
    assert names == ["score", "score", "stitch", "stitch", "recompute", "recompute"]
    others = Advanced, CompileStarted, CompileFinished
    assert [type(event) for event in events if not isinstance(event, others)] == [
        *(PhaseStarted, TileFinished, PhaseFinished),
        *(PhaseStarted, PhaseFinished),
        *(PhaseStarted, PhaseFinished),
    ]
    assert events[0].cells == len(QUERY) * len(TARGET)


@pytest.mark.parametrize("phase", ["score", "stitch", "recompute"])
def test_advances_add_up_to_what_a_phase_computed(phase):
    events = []
    longalign.align(QUERY * 9, TARGET * 9, backend="cpu", emit=events.append)
    start = next(
        k for k, event in enumerate(events) if event == PhaseStarted(phase, getattr(event, "cells", 0))
    )
    stop = next(
        k for k, event in enumerate(events) if isinstance(event, PhaseFinished) and event.name == phase
    )
    advanced = sum(event.cells for event in events[start:stop] if isinstance(event, Advanced))
    assert advanced == events[stop].cells > 0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: longalign.align("A", "A", mode="glocal"), longalign.UsageError, "one of local, global"),
        (lambda: longalign.score("A", "A", start_states="both"), longalign.UsageError, "one of lazy, eager"),
        (lambda: longalign.align("A", "A-", backend="cpu"), longalign.InputError, "letter 2 .* is '-'"),
        (lambda: longalign.align("A", "A", backend="tpu"), longalign.UsageError, "cpu, cuda, not .tpu."),
        (lambda: longalign.align("A", "A", backend="cpu", memory=1), longalign.UsageError, "memory"),
        (lambda: longalign.align("A", "A", threads=-1), longalign.UsageError, "at least 1, not -1"),
        (lambda: longalign.align("A", "A", threads=0), longalign.UsageError, "at least 1, not 0"),
        (lambda: longalign.align("A", "A", threads=2.5), longalign.UsageError, "whole number"),
        (lambda: longalign.align("A", "A", threads=True), longalign.UsageError, "whole number"),
        (lambda: longalign.align("A", "A", memory="8G"), longalign.UsageError, "memory must be"),
        (lambda: longalign.align("A", "A", store_budget=1.5), longalign.UsageError, "store_budget must be"),
        (lambda: longalign.align("A", "A", store_budget=-1), longalign.UsageError, "at least 0, not -1"),
        (lambda: longalign.align("A", "A", devices=["0"]), longalign.UsageError, "devices must be a whole"),
        (lambda: longalign.align("A", "A", cluster=8786), longalign.UsageError, "cluster must be"),
        (lambda: longalign.align("A", "A", devices=0), longalign.UsageError, "must be a list .*, not 0"),
        (lambda: longalign.trace("/nowhere", "5", 5, backend="cpu"), longalign.UsageError, "i must be"),
        (lambda: longalign.trace("/nowhere", 5, 5.0, backend="cpu"), longalign.UsageError, "j must be"),
        (lambda: longalign.resume("/nowhere", backend="cpu"), longalign.StoreError, "not a store"),
        (lambda: longalign.Scoring(match=-1), longalign.InputError, "match cannot be negative"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_an_error_of_ours(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_the_examples_in_the_documentation_are_true():
    result = doctest.testmod(longalign)
    assert result.attempted >= 3
    assert result.failed == 0


def test_the_package_says_that_it_is_typed():
    assert (Path(longalign.__file__).parent / "py.typed").exists()


def test_the_example_in_the_readme_is_true():
    readme = Path(longalign.__file__).parents[1] / "README.md"
    result = doctest.testfile(str(readme), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("given", [None, Path("q.fa"), ["A", "C"], Seq])
def test_what_holds_no_letters_is_named(given):
    with pytest.raises(
        longalign.InputError, match=f"sequence 'query': want text.* not {type(given).__name__}"
    ):
        longalign.align(given, TARGET, backend="cpu")


def closed():
    file = StringIO()
    file.close()
    return file


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: longalign.align(QUERY, TARGET, emit=None), "emit must be a function of one event, not None"),
        (lambda: longalign.align(QUERY, TARGET, strand=np.array(["plus", "minus"])), "strand must be one of"),
        (lambda: longalign.align(QUERY, TARGET, devices=["x"]), "each of devices must be a whole number"),
        (lambda: longalign.statistics(longalign.BestCell()), "alignment must be an Alignment, not BestCell"),
        (lambda: longalign.write_paf(None, sys.stdout), "alignment must be an Alignment, not NoneType"),
        (lambda: longalign.write_paf(longalign.align("A", "A"), "x.paf"), "file must be a text file that is"),
        (lambda: longalign.write_paf(longalign.align("A", "A"), BytesIO()), "file must be a text file"),
        (lambda: longalign.write_paf(longalign.align("A", "A"), StringIO), "file must be a text file"),
        (lambda: longalign.write_paf(longalign.align("A", "A"), closed()), "file must be a text file"),
        (lambda: longalign.verify_paf(None, "q.fa", "t.fa"), "paf must be the name of a file, not None"),
        (lambda: longalign.verify_paf("x.paf", "q.fa", "t.fa", "blastn"), "scoring must be a Scoring, not"),
    ],
)
def test_arguments_of_other_types_are_refused(call, text):
    with pytest.raises(longalign.UsageError, match=text):
        call()


@pytest.mark.parametrize("given", [Seq(None, 10), SeqRecord(None)])
def test_objects_without_letters_are_refused(given):
    with pytest.raises(longalign.InputError, match="sequence 'query': holds no letters"):
        longalign.align(given, TARGET)


def test_errors_are_one_line():
    matrix = substitution_matrices.load("BLOSUM62")
    with pytest.raises(longalign.InputError, match=r"must be a SubstitutionMatrix, not Array: Subst"):
        longalign.Scoring(matrix=matrix, gap_open=10, gap_extend=1)
    with pytest.raises(longalign.InputError) as caught:
        longalign.read_sequence("two\nlines.fa")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("store", ["", b"s", 5, "a\0b", "\ud800x"])
def test_what_is_no_path_of_a_store_is_refused(store):
    for call in (partial(longalign.align, "A", "A", store=store), partial(longalign.resume, store)):
        with pytest.raises(longalign.UsageError, match="store must be the path of a directory"):
            call()


@pytest.mark.parametrize("pair", [5, "AC", ("A",), None])
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(longalign.InputError, match="pairs: want a tuple of query and target, not"):
        list(longalign.align_many([("A", "A"), pair], backend="cpu"))
    with pytest.raises(longalign.InputError, match="pairs: want tuples of query and target, not 5"):
        longalign.align_many(5, backend="cpu")


@pytest.mark.parametrize("many", [longalign.align_many, longalign.score_many])
@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"prune": "never"}, "prune must be one of"),
        ({"strand": "none"}, "strand must be one of"),
        ({"mode": "some"}, "mode"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"store": ""}, "store must be the path of a directory"),
        ({"scoring": 5}, "want a Scoring, not int"),
        ({"mode": "fit", "free": ["query-end"]}, "free"),
    ],
)
def test_the_call_for_many_pairs_checks_its_arguments(many, given, match):
    with pytest.raises(longalign.LongalignError, match=match):
        many([], **{"backend": "cpu", **given})


def test_the_strand_of_a_sequence_is_not_ignored():
    plus = longalign.Sequence.from_letters("x", "ACGTTACGTTT")
    minus = plus.on("minus")
    assert longalign.align(minus, plus, strand="minus", backend="cpu").strand == "minus"
    for query, target, strand in ((minus, plus, "plus"), (minus, plus, "both"), (plus, minus, "minus")):
        with pytest.raises(longalign.UsageError, match=r"(query|target): is on its minus strand"):
            longalign.align(query, target, strand=strand, backend="cpu")


def test_the_free_ends_come_from_any_iterable():
    ends = ["target-start", "target-end"]
    options = {"mode": "semiglobal", "backend": "cpu"}
    found = longalign.align("GT", "AGTA", free=iter(ends), **options)
    assert (found.score, found.mode) == (2, longalign.align("GT", "AGTA", free=ends, **options).mode)
    for free in ("query-start", 5, iter(())):
        with pytest.raises(longalign.UsageError, match="free ends must be"):
            longalign.align("GT", "AGTA", free=free, **options)


def test_the_strand_of_an_empty_alignment_that_ends_in_a_certain_cell():
    found = longalign.score("NNNNN", "T", mode="semiglobal", strand="minus", backend="cpu")
    assert (found.score, found.strand) == (0, "minus")
    assert longalign.score("NNNNN", "T", strand="minus", backend="cpu") == longalign.BestCell()


def test_unknown_letters_do_not_keep_from_the_minus_strand():
    """In preset lastz, N is one of them: real genomes have it."""
    scoring = longalign.Scoring(preset="lastz", unknown="mismatch")
    found = longalign.align("GTACGTNC", "ACGTACAA", scoring=scoring, strand="both", backend="cpu")
    assert (found.strand, found.cigar) == ("minus", "6=")


@pytest.mark.parametrize("strand", ["plus", "minus"])
@pytest.mark.parametrize("scoring", [longalign.Scoring(), longalign.Scoring(preset="lastz")])
def test_rna_is_aligned_like_dna(scoring, strand):
    dna = "GTACAAGTGCTTACG"
    target = dna if strand == "plus" else "CGTAAGCACTTGTAC"
    found = longalign.align(dna.replace("T", "U"), target, scoring=scoring, strand=strand, backend="cpu")
    assert found.cigar == "15="
    assert found.score == longalign.score(dna, dna, scoring=scoring, backend="cpu").score


@pytest.mark.parametrize("letter", "NX*R")
def test_an_unknown_letter_is_unknown_on_both_strands(letter):
    scoring, query = longalign.Scoring(preset="lastz", unknown="mismatch"), f"GTAC{letter}{letter}GTGC"
    options = {"scoring": scoring, "mode": "global", "backend": "cpu"}
    plus = longalign.score(query, "GTACAAGTGC", **options)
    minus = longalign.score(query, "GCACTTGTAC", strand="minus", **options)
    assert plus.score == minus.score
    assert longalign.align(query, query, **options).mismatches == 2


def test_a_matrix_of_letters_without_complements_has_no_minus_strand():
    matrix = longalign.SubstitutionMatrix("AG", "AG", ((2, -3), (-3, 2)))
    scoring = longalign.Scoring(matrix=matrix, gap_open=3, gap_extend=2, unknown="mismatch")
    with pytest.raises(longalign.UsageError, match="only DNA has a minus strand"):
        longalign.align("AAGGAAG", "CTTCCTT", scoring=scoring, strand="minus", backend="cpu")


@pytest.mark.parametrize("view", [memoryview(b"AC1"), memoryview(b"AC1").cast("c")])
def test_a_wrong_letter_of_a_view_is_named(view):
    with pytest.raises(longalign.InputError, match=r"letter 3 .* is '1'"):
        longalign.align(view, "AC", backend="cpu")
    with pytest.raises(longalign.InputError, match="want text, bytes or an array of uint8, not memoryview"):
        longalign.align(memoryview(np.array([65, 67], np.int32)), "AC", backend="cpu")


def test_a_score_with_start_states_keeps_to_its_budget(tmp_path):
    options = {"start_states": "eager", "store": tmp_path / "s", "backend": "cpu"}
    with pytest.raises(longalign.UsageError, match="--store-budget 1 is too small"):
        longalign.score(QUERY, TARGET, store_budget=1, **options)
    assert longalign.score(QUERY, TARGET, store_budget=1 << 20, **options).score > 0


def test_a_scoring_of_another_type_is_refused():
    with pytest.raises(longalign.InputError, match="want a Scoring, not tuple"):
        longalign.align(QUERY, TARGET, scoring=(1, -3, 3, 2), backend="cpu")


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert longalign.Scoring(np.int64(2)) == longalign.Scoring(2)


# --- many pairs


def test_many_pairs_are_aligned_in_order():
    pairs = [(QUERY, TARGET), ("AAAA", "CCCC"), (TARGET, QUERY.encode()), ("", "ACGT")]
    for mode in ("local", "global"):
        alone = [longalign.align(*pair, mode=mode, backend="cpu") for pair in pairs]
        together = list(longalign.align_many(pairs, mode=mode, backend="cpu"))
        assert [one.score for one in together] == [one.score for one in alone]
        assert [one.cigar for one in together] == [one.cigar for one in alone]
        best = [longalign.BestCell(one.score, one.query_end, one.target_end) for one in together]
        assert list(longalign.score_many(pairs, mode=mode, backend="cpu")) == best


def test_a_bad_pair_among_many_comes_after_the_good_ones_before_it():
    found = longalign.align_many([(QUERY, TARGET), (QUERY, "XYZ"), (QUERY, QUERY)], backend="cpu")
    assert next(found).score == 5
    with pytest.raises(longalign.InputError, match="sequence 'target': letter 1"):
        next(found)


def test_many_pairs_are_taken_as_they_are_needed():
    taken = []

    def pairs():
        for k in range(1000):
            taken.append(k)
            yield QUERY, TARGET

    next(longalign.align_many(pairs(), backend="cpu"))
    assert 0 < len(taken) < 1000
    assert list(longalign.align_many([], backend="cpu")) == []


def swept(events):
    """The tiles of all pairs that were swept."""
    return [event for event in events if isinstance(event, TileFinished)]


def test_many_pairs_go_on_in_their_stores(tmp_path):
    pairs, store = [(QUERY, TARGET), (TARGET, QUERY), ("ACGT" * 5, "ACGA" * 5)], tmp_path / "many"
    expected = [one.cigar for one in longalign.align_many(pairs, backend="cpu")]
    first, events, again = longalign.align_many(pairs, backend="cpu", store=store), [], []
    assert next(first).cigar == expected[0]
    first.close()
    assert sorted(path.name for path in store.iterdir()) == ["000000", "lock"]
    found = longalign.align_many(pairs, backend="cpu", store=store, emit=events.append)
    assert [one.cigar for one in found] == expected
    assert len(swept(events)) == 2
    finished = [event for event in events if isinstance(event, PairFinished)]
    assert [(event.query, event.target) for event in finished] == [("query", "target")] * 3
    assert [event.score for event in finished] == [longalign.score(*pair).score for pair in pairs]
    found = longalign.align_many(pairs, backend="cpu", store=store, emit=again.append)
    assert [one.cigar for one in found] == expected
    assert not swept(again)
    assert longalign.resume(store / "000001", backend="cpu").cigar == expected[1]
    with pytest.raises(StoreError, match="many: not a store: it holds stores of many pairs, but no list"):
        longalign.resume(store, backend="cpu")


def test_many_scores_go_on_in_their_stores(tmp_path):
    pairs, events = [(QUERY, TARGET), (TARGET, QUERY)], []
    first = list(longalign.score_many(pairs, backend="cpu", store=tmp_path))
    again = longalign.score_many(pairs, backend="cpu", store=tmp_path, prune="off", emit=events.append)
    assert list(again) == first
    assert not swept(events)


def test_stores_of_other_pairs_and_other_directories_are_refused(tmp_path):
    store = tmp_path / "many"
    list(longalign.align_many([(QUERY, TARGET)], backend="cpu", store=store))
    with pytest.raises(longalign.StoreError, match="000000: the store belongs to another run"):
        list(longalign.align_many([(TARGET, QUERY)], backend="cpu", store=store))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    with pytest.raises(
        longalign.StoreError, match="neither empty nor a directory of many stores: it holds notes"
    ):
        list(longalign.align_many([(QUERY, TARGET)], backend="cpu", store=tmp_path / "other"))
    longalign.align(QUERY, TARGET, backend="cpu", store=tmp_path / "one")
    with pytest.raises(longalign.StoreError, match="one: is the store of a single pair"):
        list(longalign.align_many([(QUERY, TARGET)], backend="cpu", store=tmp_path / "one"))


def test_the_name_of_a_file_instead_of_letters_points_to_the_function_that_reads_files():
    with pytest.raises(longalign.InputError, match="read_sequence reads files"):
        longalign.align("genomes/a.fa", "ACGT", backend="cpu")
    with pytest.raises(longalign.InputError) as refused:
        longalign.align("ACGT!", "ACGT", backend="cpu")
    assert "read_sequence" not in str(refused.value)


def test_text_is_no_list_of_devices():
    with pytest.raises(longalign.UsageError, match="devices must be a list of whole numbers, not '01'"):
        longalign.align("ACGT", "ACGT", devices="01")
