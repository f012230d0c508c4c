"""Many pairs on the command line: which pairs run, one output for all, records at fault, and going on."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction
from io import BytesIO, StringIO, TextIOWrapper
from itertools import product
from pathlib import Path
from unittest import mock

import pytest
from forgeries import RUBBISH, write_signed
from hypothesis import given
from hypothesis import strategies as st
from twobit import two_bit

import longalign
from longalign.cli import many, runs
from longalign.cli.align import summary_of
from longalign.cli.progress import Bar, JsonLines
from longalign.events import Advanced, PairFinished, PairsStarted, PhaseFinished, PhaseStarted
from longalign.fasta.specs import Sequences
from longalign.formats.paf import read_paf
from longalign.run import pipeline
from longalign.store.files import temporary_name
from longalign.store.pair_stores import PairList

QUERIES = {
    "q1": "ACGGTCATTGCAGGATCCATCAGTTAGCACGG",
    "q2": "TTTACGGATTGCAGG",
    "q3": "CATCAGTTAGCACGGTCAT",
}
TARGETS = {"t1": "TTACGGTCATTGCAGGATCATCAGTTAGCACGGTCTTGCAGGATCAA", "t2": "GGATCCATCAG"}


def fasta(records):
    return "".join(f">{name} words\n{letters}\n" for name, letters in records.items())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with two files of several sequences."""
    monkeypatch.chdir(tmp_path)
    Path("q.fa").write_text(fasta(QUERIES))
    Path("t.fa").write_text(fasta(TARGETS))
    return tmp_path


FILES = ["q.fa", "t.fa", "--backend", "cpu"]
EVERY_PAIR = list(product(QUERIES, TARGETS))


def expected(pairs=EVERY_PAIR, **options):
    """Names and score of each pair, as each would score by itself."""
    return [
        (query, target, longalign.score(QUERIES[query], TARGETS[target], backend="cpu", **options).score)
        for query, target in pairs
    ]


def found(paf):
    return [(record.query_name, record.target_name, record.score) for record in read_paf(str(paf))]


# --- which pairs, and what comes out


def test_every_query_is_aligned_with_every_target(run):
    assert run("align", *FILES, "-o", "x.paf", "--json", "x.json")[0] == 0
    assert found("x.paf") == expected()
    summaries = json.loads(Path("x.json").read_text())
    assert [(one["query"]["name"], one["target"]["name"], one["score"]) for one in summaries] == expected()
    assert run("verify", "x.paf", "q.fa", "t.fa")[1].startswith("x.paf: OK: 6 alignments")


def test_what_is_said(run):
    _, _, err = run("align", *FILES, "-o", "x.paf")
    first, last = err.splitlines()
    assert first == "longalign: 3 query x 2 target records: 6 pairs"
    assert last.startswith("longalign: 6 of 6 pairs aligned, score ")
    assert run("align", *FILES, "-o", "x.paf", "-q") == (0, "", "")


def test_a_table_has_one_header(run):
    lines = run("align", *FILES, "-q", "--format", "tsv")[1].splitlines()
    assert lines[0].startswith("query\t")
    assert len(lines) == 1 + len(EVERY_PAIR)
    assert [line.split("\t")[0] for line in lines[1:]] == [query for query, _ in EVERY_PAIR]


def test_a_score_is_a_line_for_each_pair(run):
    rows = [line.split("\t") for line in run("score", *FILES, "-q", "--mode", "global")[1].splitlines()]
    assert [(row[0], row[1], int(row[3])) for row in rows] == expected(mode="global")


def test_the_free_ends_are_those_of_every_pair_and_are_noted(run):
    free = ["--mode", "semiglobal", "--free", "query-start,target-end"]
    rows = [line.split("\t") for line in run("score", *FILES, "-q", *free, "--store", "s")[1].splitlines()]
    scores = expected(mode="semiglobal", free=["query-start", "target-end"])
    assert [(row[0], row[1], int(row[3])) for row in rows] == scores
    assert run("resume", "s", "-q", "--backend", "cpu")[1].splitlines() == ["\t".join(row) for row in rows]
    code, _, err = run("score", *FILES, "-q", "--mode", "semiglobal", "--store", "s")
    assert (code, "free is ['query-start', 'target-end'] there and None now" in err) == (1, True)


def test_an_exact_scoring_is_noted(run):
    scoring = ["--match", "0.5", "--mismatch=-1/3", "--gap-open", "1", "--gap-extend", "0.5"]
    lines = run("score", *FILES, "-q", *scoring, "--store", "s", "--progress", "json")[1]
    scores = expected(scoring=longalign.Scoring(Fraction("1/2"), Fraction("-1/3"), 1, Fraction("1/2")))
    assert [Fraction(line.split("\t")[3]) for line in lines.splitlines()] == [score for *_, score in scores]
    assert run("resume", "s", "-q", "--backend", "cpu")[1] == lines


def test_many_on_one_side(run):
    assert run("align", "q.fa:q2", "t.fa", "-q", "-o", "x.paf", "--backend", "cpu")[0] == 0
    assert found("x.paf") == expected([("q2", "t1"), ("q2", "t2")])
    assert run("align", "q.fa", "t.fa:t2", "-q", "-o", "x.paf", "--backend", "cpu")[0] == 0
    assert found("x.paf") == expected([(query, "t2") for query in QUERIES])


def test_one_record_on_both_sides_is_one_pair(run):
    assert run("align", "q.fa:q2", "t.fa:t1", "-q", "--json", "x.json", "--backend", "cpu")[0] == 0
    assert isinstance(json.loads(Path("x.json").read_text()), dict)


@pytest.mark.parametrize("kind", ["plain", "indexed", "2bit", "stdin"])
def test_the_pairs_of_a_list(run, monkeypatch, kind):
    query = "q.fa"
    if kind == "indexed":
        import pysam

        pysam.faidx("q.fa")
    elif kind == "2bit":
        Path(query := "q.2bit").write_bytes(two_bit(QUERIES))
    elif kind == "stdin":
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(fasta(QUERIES).encode())))
        query = "-"
    Path("a.tsv").write_text("# a comment\nQuery\tTarget\nq3\tt2\n\nq1:2-30 t1\nq1\tt1\n")
    assert run("align", query, "t.fa", "--pairs", "a.tsv", "-q", "-o", "x.paf", "--backend", "cpu")[0] == 0
    region = ("q1", "t1", longalign.score(QUERIES["q1"][2:30], TARGETS["t1"], backend="cpu").score)
    assert found("x.paf") == [*expected([("q3", "t2")]), region, *expected([("q1", "t1")])]


def test_one_file_on_both_sides_is_read_once(run):
    Path("a.tsv").write_text("q1 q2\nq2 q1\n")
    for module, pairs, count in ((many, ["--pairs", "a.tsv"], 2), (runs, [], 9)):
        with mock.patch.object(module, "Sequences", wraps=Sequences) as reader:
            code, out, _ = run("score", "q.fa", "q.fa", *pairs, "--backend", "cpu")
        assert (code, out.count("\n"), reader.call_count) == (0, count, 1)


def test_phases_are_told_in_their_order_when_some_pairs_are_done(run):
    assert run("align", *FILES, "--store", "s", "-o", "x.paf")[0] == 0
    for path in [*Path("s/000000/pieces").iterdir(), Path("s/000001/path.h5")]:
        path.unlink()
    _, _, err = run("resume", "s", "--backend", "cpu")
    last = err.splitlines()[-1]
    assert re.search(r" stitch [\d.]+ s, recompute [\d.]+ s, cpu$", last), last


def test_json_lines_have_no_text_between_them(run):
    Path("a.tsv").write_text("q1 t1\nnone t1\nq2 t1\n")
    _, _, err = run("score", *FILES, "--pairs", "a.tsv", "-q", "--progress", "json")
    notices = [event["text"] for event in map(json.loads, err.splitlines()) if event["event"] == "notice"]
    assert any("no record named 'none'" in text and text.endswith("; left out") for text in notices)


@pytest.mark.parametrize("how", [["-q"], ["-q", "--progress", "none"], []], ids=" ".join)
def test_it_is_said_why_a_pair_is_left_out(run, how):
    Path("a.tsv").write_text("q1 t1\nnone t1\nq2 t1\n")
    _, _, err = run("score", *FILES, "--pairs", "a.tsv", *how)
    assert "no record named 'none'" in err


def test_pairs_without_an_alignment_have_no_line(run):
    Path("q.fa").write_text(fasta({**QUERIES, "empty": ""}))
    code, out, err = run("align", *FILES)
    assert (code, out.count("\n")) == (0, 6)
    assert "6 of 8 pairs aligned, nothing to align in 2, " in err
    assert run("align", *FILES, "-q", "--mode", "global")[1].count("\n") == 8


# --- records and lists at fault


def test_a_record_at_fault_is_left_out_and_the_rest_is_done(run):
    Path("q.fa").write_text(fasta({**QUERIES, "bad": "ACGXACGT"}))
    for quiet in ([], ["-q"]):
        code, out, err = run("align", *FILES, *quiet)
        assert (code, out.count("\n")) == (1, 6)
        [line] = [line for line in err.splitlines() if "bad" in line]
        assert line == (
            "longalign: q.fa:bad: record 'bad': letter 4 (counting from 1) is 'X', "
            "not one of ACGTURYSWKMBDHVN in either case, the letters of DNA; left out"
        )
    code, out, err = run("align", *FILES, "-q", "--strict", "-o", "x.paf")
    assert (code, out) == (1, "")
    assert err.startswith("longalign: q.fa:bad: record 'bad': letter 4 ")
    assert not Path("x.paf").exists()


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_name_with_a_line_end_is_left_out_in_one_line(run, quiet):
    Path("q.fa").write_text(fasta({**QUERIES, "a\u2028b": "ACGT", "c\x1cd": "ACGT"}))
    code, _, err = run("align", *FILES, *quiet)
    lines = [line for line in err.splitlines() if "left out" in line and "printable" in line]
    assert (code, len(lines)) == (1, 2)
    assert all(line.startswith("longalign: q.fa:") for line in lines)


@pytest.mark.parametrize("store", [[], ["--store", "s"]])
def test_pairs_left_out_stand_in_their_places(run, store):
    Path("q.fa").write_text(
        fasta({"bad": "X", "q1": QUERIES["q1"], "poor": "Z", "q2": QUERIES["q2"], "odd": "?"})
    )
    asked = list(product(("bad", "q1", "poor", "q2", "odd"), TARGETS))
    code, _, events = run("align", *FILES, *store, "-o", "x.paf", "--json", "x.json", "--progress", "json")
    assert code == 1
    summaries = json.loads(Path("x.json").read_text())
    assert [(one["query"]["name"], one["target"]["name"]) for one in summaries] == asked
    assert [one["query"]["name"] for one in summaries if "error" not in one] == ["q1", "q1", "q2", "q2"]
    finished = [line for line in map(json.loads, events.splitlines()) if line["event"] == "pair_finished"]
    assert [(one["query"], one["target"]) for one in finished] == asked


@pytest.mark.parametrize("store", [[], ["--store", "s"]])
def test_a_pair_that_is_too_long_for_memory_is_left_out(run, store):
    Path("t.fa").write_text(fasta({**TARGETS, "long": "ACGT" * 2_000_000}))
    code, out, err = run("score", "q.fa:q1", "t.fa", "--backend", "cpu", "--mem", "400M", *store)
    assert (code, out.count("\n")) == (1, 2)
    assert "q.fa:q1 and t.fa:long: 32 x 8,000,000 letters need about" in err


def test_pairs_below_the_least_score_are_counted_apart(run):
    scores = sorted(score for *_, score in expected())
    least = str(scores[-1])
    command = ("align", *FILES, "--store", "s", "-o", "x.paf", "--min-score", least)
    code, _, err = run(*command, "--progress", "json")
    assert code == 0
    assert [str(score) for *_, score in found("x.paf")] == [least] * scores.count(scores[-1])
    *_, words = run(*command)[2].splitlines()
    aligned = scores.count(scores[-1])
    assert words.startswith(
        f"longalign: {aligned} of 6 pairs aligned, less than --min-score in {6 - aligned}"
    )
    assert "pairs    6 of 6 done" in run("inspect", "s")[1]
    for mode in ("global", "fit"):
        assert (
            run("align", *FILES, "--mode", mode, "--min-score", "1000", "--store", mode, "-o", "y.paf")[0]
            == 0
        )
        assert "pairs    6 of 6 done" in run("inspect", mode)[1]
    _, _, err = run("align", "q.fa:q2", "t.fa:t2", "--backend", "cpu", "--min-score", "1000")
    assert "less than --min-score: no alignment is written" in err


def test_statistics_are_asked_for_in_each_call(run):
    assert run("align", *FILES, "-q", "--store", "s", "--stats", "-o", "x.paf")[2].count("identity") >= 6
    assert run("align", *FILES, "-q", "--store", "s", "-o", "x.paf") == (0, "", "")
    _, _, err = run("align", *FILES, "--progress", "json", "--stats", "-o", "x.paf")
    lines = [json.loads(line) for line in err.splitlines()]
    assert len([line for line in lines if line["event"] == "statistics"]) == 6


def test_a_summary_that_cannot_be_written_leaves_the_output(run):
    code, _, err = run("align", *FILES, "-o", "x.paf", "--json", "/dev/full")
    assert (code, found("x.paf")) == (1, expected())
    assert "/dev/full: cannot be written: no space left on device" in err


def test_a_pair_beyond_the_range_of_scores_is_left_out(run):
    Path("q.fa").write_text(fasta({**QUERIES, "long": "ACGT" * 100}))
    Path("t.fa").write_text(fasta({**TARGETS, "long": "ACGT" * 100}))
    code, out, err = run("score", *FILES, "-q", "--match", str(1 << 24))
    assert (code, out.count("\n")) == (1, 11)
    assert err.startswith(
        "longalign: q.fa:long and t.fa:long: scoring: match 16777216 over 400 letters could "
    )


def test_names_that_a_list_has_and_a_file_does_not(run):
    Path("a.tsv").write_text("q1 t1\nnope t1\nq1 t9\n")
    code, out, err = run("align", *FILES, "--pairs", "a.tsv", "-q", "--json", "x.json")
    assert (code, out.count("\n")) == (1, 1)
    reasons = (
        "q.fa: no record named 'nope'; the file has q1, q2, q3",
        "t.fa: no record named 't9'; the file has t1, t2",
    )
    assert err.splitlines() == [
        f"longalign: a.tsv: line {line}: {reason}; left out" for line, reason in enumerate(reasons, start=2)
    ]
    entries = json.loads(Path("x.json").read_text())
    assert sorted((entry["query"]["name"], entry["target"]["name"]) for entry in entries) == [
        ("nope", "t1"), ("q1", "t1"), ("q1", "t9"),
    ]  # fmt: skip
    assert {entry["error"] for entry in entries if "error" in entry} == {*reasons}


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ["q.fa:q1", "t.fa", "--pairs", "a.tsv"],
            2,
            "q.fa:q1: names a record: with a list of pairs, give the",
        ),
        (["q.fa", "t.fa", "--pairs", "nowhere"], 1, "nowhere: no such file or directory"),
        (["q.fa", "t.fa", "--pairs", "q.fa"], 1, "q.fa: line 2: want two columns"),
        (["-", "t.fa", "--pairs", "-"], 2, "only one of QUERY, TARGET and --pairs can be stdin (-)"),
        (["q.fa", "t.fa", "--pairs", "a.tsv", "-o", "a.tsv"], 2, "a.tsv: cannot be written: the input a.tsv"),
        (["q.fa", "twice.fa"], 1, "twice.fa: more than one record is named 't'"),
    ],
)
def test_what_is_refused(run, arguments, code, text):
    Path("a.tsv").write_text("q1\tt1\n")
    Path("twice.fa").write_text(">t\nA\n>t\nC\n")
    failed, out, err = run("align", *arguments)
    assert (failed, out) == (code, "")
    assert err.startswith(f"longalign: {text}")
    assert err.count("\n") == 1


# --- stores


def test_finished_pairs_are_not_computed_again(run, monkeypatch):
    assert run("align", *FILES, "--store", "s", "-q", "-o", "x.txt", "--format", "tsv")[0] == 0
    written, scores = Path("x.txt").read_text(), expected()
    Path("x.txt").unlink()
    before = {path: path.stat().st_mtime_ns for path in Path("s").rglob("*.h5")}
    assert len({path.parts[1] for path in before}) == len(EVERY_PAIR)
    monkeypatch.setattr("longalign.backends.cpu.CpuBackend.sweep", None)
    monkeypatch.setattr("longalign.backends.cpu.CpuBackend.trace", None)
    assert run("resume", "s", "-q", "--backend", "cpu") == (0, "", "")
    assert Path("x.txt").read_text() == written
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert run("align", *FILES, "--store", "s", "-q", "-o", "y.paf")[0] == 0
    assert found("y.paf") == scores


def test_a_batch_that_was_interrupted_goes_on(run, monkeypatch):
    run_one, started = pipeline._run_one, []

    def interrupted(spec, *arguments):
        started.append((spec.query.name, spec.target.name))
        if len(started) == 4:
            raise KeyboardInterrupt
        return run_one(spec, *arguments)

    with monkeypatch.context() as interrupting:
        interrupting.setattr(pipeline, "_run_one", interrupted)
        code, _, err = run("align", *FILES, "-q", "--store", "s", "-o", "x.paf")
    assert (code, err) == (130, "longalign: interrupted; go on with: longalign resume s --backend=cpu\n")
    assert started == EVERY_PAIR[:4]
    assert not Path("x.paf").exists()
    report = json.loads(run("inspect", "s", "--json")[1])
    assert (report["pairs"], report["pairs_started"], report["pairs_done"]) == (6, 3, 3)
    assert "pairs    3 of 6 done, 3 started" in run("inspect", "s")[1]
    assert run("resume", "s", "-q", "--backend", "cpu") == (0, "", "")
    assert found("x.paf") == expected()
    assert json.loads(run("inspect", "s", "--json")[1])["pairs_done"] == 6


@pytest.mark.parametrize(
    ("output", "lost"), [("x.paf", ", and what was found for 2 of the pairs is lost"), ("-", "")]
)
def test_an_interrupted_run_without_a_store_says_what_is_lost(run, monkeypatch, output, lost):
    seen = []

    def interrupted(outcome):
        seen.append(outcome)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return summary_of(outcome)

    monkeypatch.setattr(many, "summary_of", interrupted)
    code, out, err = run("align", *FILES, "-q", "-o", output, "--json", "x.json")
    assert (code, err) == (130, f"longalign: interrupted{lost}; with --store DIR a run can be resumed\n")
    assert (out.count("\n"), Path("x.paf").exists()) == (3 * (output == "-"), False)


@pytest.mark.parametrize("query", ["q.fa:q2", "q.fa:q2:3-12", "one.fa:3-12"])
@pytest.mark.parametrize("command", ["align", "score"])
def test_a_run_over_a_named_record_is_resumed(run, command, query):
    letters = Path("q.fa").read_text().split(">")[2]
    Path("one.fa").write_text(f">{letters}")
    assert run(command, query, "t.fa", "-q", "--store", "s", "-o", "x.out")[0] == 0
    written = Path("x.out").read_text()
    assert written
    Path("x.out").unlink()
    assert run("resume", "s", "-q", "--backend", "cpu") == (0, "", "")
    assert Path("x.out").read_text() == written


def test_statistics_of_several_alignments_of_pairs_are_told_apart(run):
    several = ("align", *FILES, "--top", "2", "-o", "x.paf", "--stats")
    err = run(*several, "-q")[2]
    assert "longalign: q1 and t1, alignment 1, score " in err
    assert "longalign: q1 and t1, alignment 2, score " in err
    lines = [json.loads(line) for line in run(*several, "--progress", "json")[2].splitlines()]
    found = [line for line in lines if line["event"] == "statistics"]
    assert {(one["rank"], one["strand"]) for one in found} == {(1, "plus"), (2, "plus")}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("option", ["--stats", "--format=tsv"])
def test_a_store_of_scores_has_no_alignments_to_show(run, many, option):
    pair = FILES if many else ("q.fa:q1", "t.fa:t1")
    assert run("score", *pair, "-q", "--store", "s", "-o", "x.tsv")[0] == 0
    code, _, err = run("resume", "s", option)
    name = option.partition("=")[0]
    assert (code, err) == (2, f"longalign: s: a run for the score alone has no alignment: leave {name} out\n")


def test_scores_go_to_a_file_of_any_name(run):
    """The end of a name says what format alignments have, and scores have one format only."""
    assert run("score", *FILES, "-q", "-o", "x.sam", "--store", "s") == (0, "", "")
    lines = Path("x.sam").read_text()
    assert len(lines.splitlines()) == len(EVERY_PAIR)
    assert run("resume", "s", "-q", "--backend", "cpu", "-o", "y.sam") == (0, "", "")
    assert Path("y.sam").read_text() == lines


@pytest.mark.slow
def test_a_batch_that_was_killed_goes_on(run):
    Path("q.fa").write_text(fasta({f"q{k}": QUERIES["q1"] * 20 for k in range(20)}))
    command = [sys.executable, "-m", "longalign", "align", *FILES, "-q", "--store", "s", "-o", "x.paf"]
    with subprocess.Popen(command) as process:
        while not Path("s/000005/pieces/p000000.h5").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not Path("x.paf").exists()
    done = json.loads(run("inspect", "s", "--json")[1])["pairs_done"]
    assert 5 <= done < 40
    assert run("resume", "s", "-q", "--backend", "cpu") == (0, "", "")
    assert len(found("x.paf")) == 40
    assert run("verify", "x.paf", "q.fa", "t.fa")[0] == 0


def test_what_a_killed_run_left_of_its_list_is_removed(run):
    leftover = Path("s") / temporary_name("pairs.json")
    leftover.parent.mkdir()
    leftover.write_text("{")
    run("score", *FILES, "-q", "--store", "s")
    assert not leftover.exists()


def test_a_score_becomes_an_alignment(run):
    first = run("score", *FILES, "-q", "--store", "s")
    assert run("resume", "s", "-q", "--backend", "cpu") == first
    assert run("align", *FILES, "-q", "--store", "s", "-o", "x.paf")[0] == 0
    assert found("x.paf") == expected()
    assert PairList.read(Path("s")).command == "align"


def test_resume_notes_what_was_asked_for(run, tmp_path, monkeypatch):
    options = [
        "--mode",
        "global",
        "--match",
        "2",
        "--strict",
        "--store",
        "s",
        "-o",
        "x.tsv",
        "--json",
        "x.json",
    ]
    assert run("align", *FILES, "-q", *options)[0] == 0
    written = [Path(name).read_text() for name in ("x.tsv", "x.json")]
    for name in ("x.tsv", "x.json"):
        Path(name).unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run("resume", "../s", "-q", "--backend", "cpu")[0] == 0
    monkeypatch.chdir(tmp_path)
    assert Path("x.tsv").read_text() == written[0]
    scores = [[one["score"] for one in json.loads(text)] for text in (written[1], Path("x.json").read_text())]
    assert scores[0] == scores[1]
    assert PairList.read(Path("s")).options["strict"] is True
    assert run("resume", "s", "-q", "--backend", "cpu", "-o", "-")[1].count("\n") == 6  # PAF has no header


def test_a_bad_record_is_left_out_again_when_a_run_goes_on(run):
    Path("q.fa").write_text(fasta({"bad": "X", **QUERIES}))
    assert run("align", *FILES, "-q", "--store", "s", "-o", "x.paf")[0] == 1
    first = found("x.paf")
    Path("x.paf").unlink()
    code, _, err = run("resume", "s", "-q", "--backend", "cpu")
    assert (code, "record 'bad': letter 1" in err) == (1, True)
    assert found("x.paf") == first == expected()


def test_pairs_of_a_changed_record_are_left_out(run):
    assert run("align", *FILES, "-q", "--store", "s", "-o", "x.paf")[0] == 0
    Path("q.fa").write_text(fasta({**QUERIES, "q2": "A" + QUERIES["q2"]}))
    code, _, err = run("resume", "s", "-q", "--backend", "cpu")
    pairs = [(query, target) for query, target in EVERY_PAIR if query != "q2"]
    assert (code, found("x.paf")) == (1, expected(pairs))
    lines = err.splitlines()
    assert [line.endswith("; left out") for line in lines] == [True, True]
    assert all("the store belongs to another run: the query is 'q2' with " in line for line in lines)
    code, _, err = run("align", *FILES, "-q", "--store", "s", "--strict")
    assert (code, err.count("\n")) == (1, 1)


OTHER_PAIRS = "s: the stores belong to other pairs"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["q.fa", "t.fa", "--match", "2"], "s: the stores belong to another run: scoring is "),
        (["t.fa", "q.fa"], f"{OTHER_PAIRS}: pair 1 is q1 and t1 there, t1 and q1 now\n"),
        (["q.fa", "t.fa:t1"], f"{OTHER_PAIRS}: pair 2 is q1 and t2 there, q2 and t1 now\n"),
        (["q.fa:q1", "t.fa"], f"{OTHER_PAIRS}: pair 3 is q2 and t1 there, missing now\n"),
        (["q.fa:q1", "t.fa:t1"], "s: holds the stores of many pairs"),
    ],
)
def test_other_runs_are_refused(run, arguments, text):
    assert run("align", *FILES, "-q", "--store", "s", "-o", "x.paf")[0] == 0
    code, out, err = run("align", *arguments, "-q", "--store", "s", "--backend", "cpu")
    assert (code, out) == (1, "")
    assert err.startswith(f"longalign: {text}")


def test_a_score_in_the_stores_of_alignments_leaves_what_resume_makes(run):
    assert run("align", *FILES, "-q", "--store", "s", "-o", "x.paf", "--json", "x.json")[0] == 0
    written = Path("x.paf").read_text()
    code, scores, _ = run("score", *FILES, "-q", "--store", "s")
    assert (code, len(scores.splitlines())) == (0, len(EVERY_PAIR))
    assert json.loads(run("inspect", "s", "--json")[1])["command"] == "align"
    Path("x.paf").unlink()
    assert run("resume", "s", "-q", "--backend", "cpu")[0] == 0
    assert Path("x.paf").read_text() == written


def test_stores_of_another_kind_are_refused(run):
    assert run("align", "q.fa:q1", "t.fa:t1", "-q", "--store", "one", "--backend", "cpu")[0] == 0
    for name, text in (
        ("one", "one: is the store of a single pair"),
        ("q.fa", "q.fa: a file, not a directory"),
    ):
        code, _, err = run("align", *FILES, "-q", "--store", name)
        assert (code, err.startswith(f"longalign: {text}")) == (1, True)
    Path("other").mkdir()
    Path("other/notes").touch()
    _, _, err = run("align", *FILES, "-q", "--store", "other")
    assert err == "longalign: other: neither empty nor a directory of many stores: it holds notes\n"


def test_a_trace_names_one_of_many_stores(run):
    assert run("align", *FILES, "-q", "--store", "s", "--start-states", "eager")[0] == 0
    code, _, err = run("trace", "s", "--end", "3,3")
    assert (code, err) == (
        1,
        "longalign: s: not a store: it holds the stores of many pairs: name one of them, such as s/000000\n",
    )
    assert run("trace", "s/000000", "--end", "12,14", "--backend", "cpu", "-q")[0] == 0
    assert run("resume", "s/000000", "--backend", "cpu", "-q")[1].count("\n") == 1


def test_stdin_cannot_be_stored(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(fasta(QUERIES).encode())))
    code, _, err = run("align", "-", "t.fa", "--store", "s")
    assert (code, err) == (2, "longalign: -: cannot be read again: for many pairs, --store needs files\n")
    assert not Path("s").exists()


def test_a_damaged_list_is_refused(run):
    assert run("align", *FILES, "-q", "--store", "s", "-o", "x.paf")[0] == 0
    path = Path("s/pairs.json")
    text = path.read_text()
    for damaged in (
        text.replace("q1", "q2", 1),
        text[:-20],
        "[]",
        text.replace('"version": 1', '"version": 2'),
    ):
        path.write_text(damaged)
        code, _, err = run("resume", "s")
        assert (code, err.startswith("longalign: s/pairs.json: ")) == (1, True)


# --- progress

EVENTS = [
    PairsStarted(3),
    PhaseStarted("score", 100),
    Advanced(50),
    PhaseFinished("score", 100, 1.0),
    PhaseStarted("stitch", None),
    Advanced(10),
    PhaseFinished("stitch", 10, 1.0),
    PairFinished("a", "b", Fraction(7, 2)),
    PairFinished("bad", "b", None),
]


def test_one_bar_for_all_pairs():
    bar = Bar(StringIO())
    places = []
    for event in EVENTS:
        bar(event)
        places.append(bar._pairs._bar.n)
    assert places == pytest.approx([0, 0, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 2])
    bar.close()


@given(st.lists(st.integers(0, 200), max_size=20))
def test_a_pair_at_work_never_counts_as_done(cells):
    bar = Bar(StringIO())
    bar(PairsStarted(3))
    bar(PhaseStarted("score", 100))
    for some in cells:
        bar(Advanced(some))
        assert 0 <= bar._pairs._bar.n < 1
    bar.close()


def test_lines_of_json_tell_of_pairs():
    stream = StringIO()
    lines = JsonLines(stream)
    for event in EVENTS:
        lines(event)
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert found[0] == {"event": "pairs_started", "pairs": 3}
    assert found[-2:] == [
        {"event": "pair_finished", "query": "a", "target": "b", "score": 3.5},
        {"event": "pair_finished", "query": "bad", "target": "b", "score": None},
    ]


@pytest.mark.slow
def test_a_forged_option_in_a_list_of_pairs_is_refused_and_named(run):
    """Every option, with values of every kind; a few are right for some options."""
    run("align", *FILES, "--store", "s", "-o", "x.paf", "-q")
    good = json.loads(Path("s/pairs.json").read_text())
    refused: set[str] = set()
    for name, value in product([*good["options"], "junk"], RUBBISH):
        write_signed(Path("s/pairs.json"), {**good, "options": {**good["options"], name: value}})
        code, _, err = run("resume", "s", "-q", "--backend", "cpu")
        assert "internal error" not in err
        if err.startswith("longalign: s/pairs.json: damaged: ") and name in err:
            refused.add(name)
        else:
            assert code == 0 or isinstance(value, str) or value == [], (name, value, err)
    assert refused == {*good["options"], "junk"}


def test_a_pair_with_a_damaged_manifest_is_left_out_until_its_store_is_removed(run):
    run("align", *FILES, "--store", "s", "-o", "x.paf", "-q")
    expected = Path("x.paf").read_text()
    Path("s/000001/manifest.json").write_text("")
    damage = "s/000001/manifest.json: damaged: it is not JSON; begin a new store"
    code, _, err = run("resume", "s", "-q")
    assert code == 1
    assert f"{damage} of this pair: remove s/000001 and go on; left out" in err
    report = json.loads(run("inspect", "--json", "s")[1])
    assert report["damaged"] == [damage]
    assert report["pairs_done"] + 1 == report["pairs_started"] == report["pairs"]
    shutil.rmtree("s/000001")
    assert run("resume", "s", "-q")[0] == 0
    assert Path("x.paf").read_text() == expected


@pytest.mark.parametrize("name", ["query", "target", "output", "mode", "scoring"])
def test_an_option_that_a_list_of_pairs_lacks_is_named(run, name):
    run("align", *FILES, "--store", "s", "-o", "x.paf", "-q")
    content = json.loads(Path("s/pairs.json").read_text())
    del content["options"][name]
    write_signed(Path("s/pairs.json"), content)
    for command in ("resume", "inspect"):
        code, _, err = run(command, "s")
        assert (code, err) == (
            1,
            f"longalign: s/pairs.json: damaged: options.{name}: is missing; begin a new store\n",
        )


def test_a_list_of_pairs_without_a_scoring_is_damaged(run):
    run("align", *FILES, "--store", "s", "-o", "x.paf", "-q")
    content = json.loads(Path("s/pairs.json").read_text())
    del content["options"]["scoring"]
    write_signed(Path("s/pairs.json"), content)
    code, _, err = run("align", *FILES, "--store", "s", "-o", "x.paf", "-q")
    assert (code, err) == (
        1,
        "longalign: s/pairs.json: damaged: options.scoring: is missing; begin a new store\n",
    )
