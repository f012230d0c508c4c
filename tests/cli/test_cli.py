"""The command line: what goes where, and one line and the right exit code for whatever goes wrong."""

from __future__ import annotations

import argparse
import csv
import errno
import importlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from forgeries import write_manifest
from inputs import DATA
from oracles import spell
from processes import QUERY, TARGET, folder, longalign  # noqa: F401 - a fixture
from related_pairs import mutated_copy

from longalign import api
from longalign.backends.base import Kernel
from longalign.backends.cpu import CpuBackend
from longalign.cli import main
from longalign.errors import InternalError
from longalign.formats import registry
from longalign.formats.paf import read_paf
from longalign.formats.registry import Format
from longalign.model.mode import MODES
from longalign.pruning import budget
from longalign.run import bounds
from longalign.store import DirectoryStore

pytestmark = pytest.mark.usefixtures("folder")

SCORE = 33


@pytest.fixture
def refuse(run):
    """Runs a command that must fail: its exit code, and the one line that says why."""

    def refuse(*arguments):
        code, out, err = run(*arguments)
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("longalign: ")
        return code, err.removeprefix("longalign: ").rstrip("\n")

    return refuse


@pytest.fixture
def pair():
    return ["q.fa", "t.fa", "--backend", "cpu"]


# --- what comes out


def test_align_writes_one_line_of_paf_that_verifies(run, pair):
    code, out, err = run("align", *pair)
    assert code == 0
    assert out.count("\n") == 1
    Path("out.paf").write_text(out)
    [record] = read_paf("out.paf")
    assert (record.query_name, record.target_name, record.score) == ("query", "target", SCORE)
    assert err.startswith(f"longalign: local score {SCORE}, identity ")
    assert err.count("\n") == 1
    assert run("verify", "out.paf", "q.fa", "t.fa")[:2] == (
        0,
        f"out.paf: OK: 1 alignment, {record.block_length} columns, 1 score checked\n",
    )


def test_stats_follow_the_result_on_stderr(run, pair):
    code, _, err = run("align", *pair, "--stats", "-q", "--json", "x.json")
    assert code == 0
    statistics = json.loads(Path("x.json").read_text())["statistics"]
    lines = err.splitlines()
    assert lines[0].startswith(f"longalign: identity {statistics['identity']:.2%} of ")
    assert lines[1].startswith(f"longalign: matches {statistics['matches']}, mismatches ")
    assert lines[-1].endswith("(ungapped lambda 1.374, K 0.711, H 1.31)")
    assert run("align", *pair, "--stats", "-q", "--mode", "global")[2].endswith(
        "longalign: only local alignments have a bit score and an E-value\n"
    )


def test_stats_are_a_line_of_json_where_progress_is(run, pair):
    _, _, err = run("align", *pair, "--stats", "--progress", "json", "--json", "x.json")
    lines = [json.loads(line) for line in err.splitlines()]
    summary = json.loads(Path("x.json").read_text())
    assert lines[-1]["event"] == "statistics"
    assert (lines[-1]["query"], lines[-1]["target"]) == (summary["query"]["name"], summary["target"]["name"])
    for name in ("score", "statistics", "significance"):
        assert lines[-1][name] == summary[name]


def test_score_writes_a_line_of_tabs(run, pair):
    code, out, err = run("score", *pair, "--mode", "global")
    assert (code, out) == (0, f"query\ttarget\tglobal\t19\t{len(QUERY)}\t{len(TARGET)}\t+\n")
    assert err.startswith("longalign: global score 19, score ")


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        (("--mode", "semiglobal"), "semiglobal"),
        (("--mode", "semiglobal", "--free", "target-end,query-start"), "semiglobal:query-start,target-end"),
        (("--mode", "overlap"), "overlap"),
        (("--mode", "fit"), "fit"),
        (("--mode", "extend"), "extend"),
    ],
)
def test_every_mode_from_a_run_to_its_verification(run, pair, options, mode):
    code, out, err = run(
        "align", *pair, *options, "--store", "s", "--start-states", "eager", "--json", "x.json"
    )
    assert code == 0
    assert err.startswith(f"longalign: {mode} score ")
    Path("out.paf").write_text(out)
    [record] = read_paf("out.paf")
    written = record.meaning().mode
    assert (written, written.ends) == (mode, MODES[mode].ends)
    summary = json.loads(Path("x.json").read_text())
    assert (summary["mode"], summary["score"]) == (mode, record.score)
    assert run("verify", "out.paf", "q.fa", "t.fa")[0] == 0
    assert run("resume", "s", "-o", "-")[:2] == (0, out)
    assert f", align, {mode}, eager start states" in run("inspect", "s")[1]
    assert run("score", *pair, *options)[1].split("\t")[2:4] == [mode, str(record.score)]
    end = f"{record.query_end},{record.target_end}"
    assert run("trace", "s", "--end", end)[:2] == (0, out.replace(f"{mode};", f"{mode};end=given;"))
    code, out, _ = run("trace", "s", "--end", "5,6", "-o", "traced.paf")
    assert (code, out) == (0, "")
    assert run("verify", "traced.paf", "q.fa", "t.fa")[0] == 0
    code, _, err = run("align", *pair, "--mode", "local", "--store", "s")
    assert (code, f"mode is {mode} in the store and local now" in err) == (1, True)


def test_free_ends_are_for_one_mode(refuse, run, pair):
    text = "free ends can be chosen with mode semiglobal only, not with {}"
    assert refuse("score", *pair, "--free", "query-end") == (2, text.format("local"))
    assert refuse("align", *pair, "--mode", "fit", "--free", "query-end") == (2, text.format("fit"))
    for ends in ("", "query-end,", "query", "query-end;target-end"):
        code, out, err = run("score", *pair, "--mode", "semiglobal", "--free", ends)
        assert (code, out) == (2, "")
        assert "is not one of query-start, query-end, target-start, target-end" in err


def test_nothing_aligned_is_an_empty_paf_and_stars(run):
    Path("a.fa").write_text(">a\nAAAA\n")
    Path("c.fa").write_text(">c\nCCCC\n")
    code, out, err = run("align", "a.fa", "c.fa", "--backend", "cpu")
    assert (code, out, err) == (0, "", "longalign: no alignment has a positive score\n")
    assert run("score", "a.fa", "c.fa", "--backend", "cpu", "-q") == (0, "a\tc\tlocal\t0\t*\t*\t*\n", "")


def test_a_global_alignment_with_a_region_without_letters_is_one_gap(run):
    code, out, err = run(
        "align", "q.fa:7-7", "t.fa:2-6", "--mode", "global", "--backend", "cpu", "--json", "x.json"
    )
    assert code == 0
    assert out.split("\t")[:12] == f"query {len(QUERY)} 7 7 + target {len(TARGET)} 2 6 0 4 255".split()
    assert err.startswith("longalign: global score -11, identity 0.00% over 4 columns, ")
    summary = json.loads(Path("x.json").read_text())
    assert (summary["score"], summary["end"]) == (-11, {"query": 7, "target": 6})
    assert (summary["alignment"]["gap_letters"], summary["alignment"]["identity"]) == (4, 0.0)
    Path("out.paf").write_text(out)
    assert run("verify", "out.paf", "q.fa:7-7", "t.fa:2-6")[:2] == (
        0, "out.paf: OK: 1 alignment, 4 columns, 1 score checked\n"
    )  # fmt: skip


def test_a_global_alignment_of_nothing_with_nothing_has_score_0_and_no_line(run, pair):
    Path("a.fa").write_text(">a\n")
    code, out, err = run("align", "a.fa", "a.fa", "--mode", "global", "--backend", "cpu", "--json", "x.json")
    assert (code, out) == (0, "")
    assert err.startswith("longalign: global score 0, no columns, ")
    summary = json.loads(Path("x.json").read_text())
    assert (summary["score"], summary["alignment"]) == (0, None)
    code, out, _ = run("devices", "--plan", "a.fa", "t.fa")
    assert code == 0
    assert "tile: none: a sequence has no letters" in out


def test_regions_count_from_the_start_of_the_record(run, pair):
    _, out, _ = run("align", "q.fa:query:10-40", *pair[1:], "-q")
    Path("out.paf").write_text(out)
    [record] = read_paf("out.paf")
    assert record.query_length == len(QUERY)
    assert 10 <= record.query_start < record.query_end <= 40


def test_output_and_summary_go_to_files(run, pair):
    assert run("align", *pair, "-q", "-o", "x.paf", "--json", "x.json") == (0, "", "")
    [record] = read_paf("x.paf")
    summary = json.loads(Path("x.json").read_text())
    assert summary["schema"] == "longalign.summary/2"
    assert summary["score"] == record.score == SCORE
    assert summary["end"] == {"query": record.query_end, "target": record.target_end}
    assert [phase["name"] for phase in summary["phases"]] == ["score", "stitch", "recompute"]
    assert summary["backend"]["name"] == "cpu"


def test_a_summary_on_stdout(run, pair):
    code, out, _ = run("align", *pair, "-o", "x.paf", "--json", "-")
    assert code == 0
    assert json.loads(out)["alignment"]["matches"] > 0
    code, out, _ = run("score", *pair, "--json", "-")
    assert code == 0
    assert json.loads(out)["alignment"] is None


def test_quiet_says_nothing(run, pair):
    assert run("align", *pair, "-q")[2] == ""


def test_progress_as_json_lines(run, pair):
    _, _, err = run("align", *pair, "-q", "--progress", "json")
    events = [json.loads(line) for line in err.splitlines()]
    others = "progress", "compile_started", "compile_finished"
    assert [event["event"] for event in events if event["event"] not in others] == [
        *("phase_started", "tile_finished", "phase_finished"),
        *("phase_started", "phase_finished"),
        *("phase_started", "phase_finished"),
    ]
    assert events[0] == {
        "event": "phase_started",
        "name": "score",
        "cells": len(QUERY) * len(TARGET),
        "done": 0,
    }


def test_progress_as_a_bar(run, pair):
    _, _, err = run("align", *pair, "--progress", "bar")
    assert "score" in err
    assert "100%" in err


def test_a_sequence_from_stdin(pair):
    done = longalign("align", "-", "t.fa", "--backend", "cpu", "-q", input=f">in\n{QUERY}\n")
    assert done.returncode == 0
    assert done.stdout.startswith("in\t")


@pytest.mark.slow
@pytest.mark.parametrize("region", ["", ":0-20"])
def test_a_record_of_several_on_stdin(pair, region):
    records = f">other\nAAAA\n>in\n{QUERY}\n"
    done = longalign("align", f"-:in{region}", *pair[1:], "-q", input=records)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"in\t{len(QUERY)}\t")
    done = longalign("align", "q.fa", "--backend", "cpu", "-q", f"-:in{region}", input=records)
    assert done.stdout.split("\t")[5:7] == ["in", str(len(QUERY))]


def test_scoring_options(run, pair):
    options = ["--match", "2", "--mismatch", "-1", "--gap-open", "0", "--gap-extend", "1"]
    _, out, _ = run("align", *pair, "-q", *options)
    assert "tg:Z:local;match=2;mismatch=-1;gap(k)=0+1k" in out


# --- formats


def table(text):
    """The rows of a table of alignments."""
    return list(csv.DictReader(io.StringIO(text), delimiter="\t"))


@pytest.mark.parametrize(
    "options", [["--format", "tsv"], ["-o", "x.tsv"], ["-o", "x.txt", "--format", "tsv"]]
)
def test_a_table_by_name_or_by_ending(run, pair, options):
    code, out, _ = run("align", *pair, "-q", *options)
    [row] = table(out or Path(options[1]).read_text())
    assert (code, row["query"], row["mode"], row["score"]) == (0, "query", "local", str(SCORE))


@pytest.mark.parametrize("name", ["x.paf", "x.PAF", "x.txt", "x", "tsv"])
def test_any_other_ending_means_paf(run, pair, name):
    assert run("align", *pair, "-q", "-o", name)[0] == 0
    assert Path(name).read_text() == run("align", *pair, "-q")[1]


def test_an_ending_that_promises_another_format_is_refused_before_the_run(refuse, pair):
    code, text = refuse("align", *pair, "-o", "x.sam", "--store", "s")
    assert (code, text) == (2, "x.sam: this format is not written; the formats are paf, tsv, maf, chain")
    assert not Path("s").exists()


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_the_name_of_a_directory_is_refused(run, pair, option):
    code, _, err = run("align", *pair, option, "new/")
    assert (code, Path("new").exists()) == (2, False)
    assert err.endswith("new/: output is a file, not a directory\n")


@pytest.mark.parametrize("number", ["-1/3", "-.5", "-2e0", "-3"])
def test_negative_numbers_need_no_equals_sign(run, pair, number):
    code, out, _ = run("score", *pair, "--mismatch", number)
    assert (code, out) == run("score", *pair, f"--mismatch={number}")[:2]


def test_a_score_does_not_change_what_the_store_of_an_alignment_is_for(run, pair):
    run("align", *pair, "-q", "--store", "s", "-o", "x.paf")
    written = Path("x.paf").read_text()
    Path("x.paf").unlink()
    assert run("score", *pair, "-q", "--store", "s")[0] == 0
    assert run("resume", "s", "-q")[:2] == (0, "")
    assert Path("x.paf").read_text() == written


def test_a_full_disk_after_a_stored_run_is_no_reason_to_begin_again(refuse, run, pair):
    code, text = refuse("align", *pair, "-q", "--store", "s", "-o", "/dev/full")
    assert code == 1
    assert text == (
        "/dev/full: cannot be written: no space left on device; then go on with: "
        "longalign resume s --backend=cpu"
    )
    assert run("resume", "s", "-q", "-o", "x.paf")[0] == 0


@pytest.mark.parametrize("rule", [["--softmask"], ["--ambiguous", "zero"]])
def test_verify_says_what_a_rule_lacks(run, refuse, pair, rule):
    run("align", *pair, "-o", "x.paf")
    code, text = refuse("verify", "x.paf", "q.fa", "t.fa", *rule)
    assert code == 2
    assert text.startswith(f"{rule[0]} without a scoring: give all of --match, ")


@pytest.mark.parametrize("option", [("-o", "x.paf.gz"), ("-o", "x.PAF.GZ"), ("--json", "x.json.xz")])
def test_a_name_that_promises_compression_is_refused(run, pair, option):
    code, _, err = run("align", *pair, *option)
    assert (code, Path(option[1]).exists()) == (2, False)
    assert err.endswith(f"{option[1]}: output is not compressed: give a name without this ending\n")


@pytest.mark.parametrize(
    "command", [["align", "q.fa", "t.fa"], ["resume", "s"], ["trace", "s", "--end", "1,1"]]
)
def test_an_unknown_format_is_refused_with_the_known_ones(run, command):
    code, out, err = run(*command, "--format", "sam")
    assert (code, out) == (2, "")
    [line] = [line for line in err.splitlines() if "'sam'" in line]
    assert all(name in line for name in ("--format", "paf", "tsv"))


@pytest.mark.parametrize(("name", "options"), [("x.paf", []), ("x.tsv", ["--format", "tsv"])])
def test_a_resumed_run_writes_to_its_file_in_its_format(run, pair, name, options):
    run("align", *pair, "-q", "--store", "s", "-o", name)
    written = Path(name).read_text()
    Path(name).unlink()
    assert run("resume", "s", "--backend", "cpu", "-q") == (0, "", "")
    assert Path(name).read_text() == written
    assert run("resume", "s", "--backend", "cpu", "-q", "-o", "-", *options) == (0, written, "")
    assert run("resume", "s", "--backend", "cpu", "-q", "-o", "-")[1].count("\t") == 16  # PAF


def test_a_resumed_run_writes_the_format_that_was_asked_for(run, pair):
    run("align", *pair, "-q", "--store", "s", "-o", "x.txt", "--format", "tsv")
    written = Path("x.txt").read_text()
    Path("x.txt").unlink()
    assert run("resume", "s", "--backend", "cpu", "-q") == (0, "", "")
    assert Path("x.txt").read_text() == written
    assert run("resume", "s", "-q", "-o", "x.paf")[0] == 0  # for another file the format is not known
    assert len(list(read_paf("x.paf"))) == 1
    assert run("resume", "s", "-q", "--format", "paf")[0] == 0
    assert Path("x.txt").read_text() == Path("x.paf").read_text()


def test_a_traced_alignment_as_a_table(run, pair):
    run("align", *pair, "-q", "--store", "s", "--start-states", "eager")
    code, out, _ = run("trace", "s", "--end", "4,6", "--backend", "cpu", "-q", "--format", "tsv")
    [row] = table(out)
    assert (code, row["query_end"], row["target_end"], row["end"]) == (0, "4", "6", "given")


def test_a_score_has_no_format(run, refuse, pair):
    run("score", *pair, "-q", "--store", "s")
    assert refuse("resume", "s", "--format", "tsv") == (
        2, "s: a run for the score alone has no alignment: leave --format out"
    )  # fmt: skip
    assert run("score", *pair, "--format", "tsv")[0] == 2


def test_a_format_added_to_the_registry_is_an_option_and_an_ending(run, pair, monkeypatch):
    toy = Format("points", (".points",), "a toy", lambda alignment, file: file.write(f"{alignment.score}\n"))
    known = (*registry.FORMATS, toy)
    monkeypatch.setattr("longalign.formats.registry.FORMATS", known)
    assert run("align", *pair, "-q", "--format", "points") == (0, f"{SCORE}\n", "")
    assert run("align", *pair, "-q", "-o", "x.points") == (0, "", "")
    assert Path("x.points").read_text() == f"{SCORE}\n"
    assert "points: a toy" in " ".join(run("align", "--help")[1].split())


# --- stores


def test_a_second_run_on_a_finished_store_sweeps_nothing(run, pair):
    first = run("align", *pair, "-q", "--store", "s")
    code, out, err = run("align", *pair, "--store", "s", "--progress", "json")
    assert (code, out) == first[:2]
    assert "tile_finished" not in err
    assert run("resume", "s", "--backend", "cpu", "-q") == first


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"])
def test_every_name_of_stdout_is_stdout(run, pair, name):
    """So that alignment and summary are not mixed, whatever it is called."""
    assert run("align", *pair, "-q", "-o", name) == run("align", *pair, "-q")
    code, out, err = run("align", *pair, "-q", "-o", name, "--json", "-")
    assert (code, out) == (2, "")
    assert "alignment and summary cannot both go to stdout" in err


def test_resume_writes_the_summary_where_the_run_would_have(run, pair, monkeypatch, tmp_path):
    run("align", *pair, "-q", "--store", "s", "--json", "x.json", "-o", "x.paf")
    score = json.loads(Path("x.json").read_text())["score"]
    assert f"summary  {tmp_path}/x.json\n" in run("inspect", "s")[1]
    Path("x.json").unlink()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert run("resume", "../s", "--backend", "cpu", "-q", "--json", "y.json") == (0, "", "")
    assert not Path("../x.json").exists()
    assert run("resume", "../s", "--backend", "cpu", "-q") == (0, "", "")
    assert json.loads(Path("../x.json").read_text())["score"] == score
    assert json.loads(Path("y.json").read_text())["score"] == score


def test_a_summary_that_is_no_longer_asked_for_is_forgotten(run, pair):
    run("score", *pair, "-q", "--store", "s", "--json", "x.json")
    Path("x.json").unlink()
    run("score", *pair, "-q", "--store", "s")
    run("resume", "s", "--backend", "cpu", "-q")
    assert not Path("x.json").exists()


def test_resume_reads_the_same_files_from_another_folder(run, pair, monkeypatch, tmp_path):
    first = run("align", "q.fa:query:0-40", *pair[1:], "-q", "--store", "s")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for name in ("q.fa", "t.fa"):
        Path(name).write_text(">other\nACGT\n")
    assert run("resume", "../s", "--backend", "cpu", "-q") == first
    report = json.loads(run("inspect", "../s", "--json")[1])
    sources = [report[side]["source"] for side in ("query", "target")]
    assert sources == [f"{tmp_path}/q.fa:query:0-40", f"{tmp_path}/t.fa"]


def test_resume_of_a_score(run, pair):
    first = run("score", *pair, "-q", "--store", "s")
    assert run("resume", "s", "--backend", "cpu", "-q") == first


def test_a_store_of_other_options_is_refused(run, refuse, pair):
    run("align", *pair, "-q", "--store", "s")
    code, text = refuse("align", *pair, "--store", "s", "--match", "2", "--mode", "global")
    assert code == 1
    assert text == (
        "s: the store belongs to another run: mode is local in the store and global now; "
        "match is 1 in the store and 2 now"
    )
    Path("t.fa").write_text(">target\nACGT\n")
    code, text = refuse("resume", "s", "--backend", "cpu")
    assert code == 1
    place = f"'target' of {Path('t.fa').absolute()} with 4 letters"
    assert f"the target is 'target' with 47 letters in the store, and {place} now" in text


def test_inspect(run, refuse, pair):
    run("align", *pair, "-q", "--store", "s")
    code, out, err = run("inspect", "s")
    assert (code, err) == (0, "")
    assert "score    1 of 1 tiles (100.0% of the cells); best score " in out
    assert "\nstate    done\n" in out
    tags = run("resume", "s", "-q", "--backend", "cpu")[1].split("\t")
    assert f"AS:i:{json.loads(run('inspect', 's', '--json')[1])['score']}" in tags
    assert "stitch   2 waypoints, complete" in out
    Path("s/tiles/r00000c00000.h5").write_bytes(b"rubbish")
    report = json.loads(run("inspect", "s", "--json")[1])
    assert (report["tiles_done"], report["cells_done"], report["pieces_done"]) == (0, 0, 1)
    assert (report["score"], report["done"]) == (None, False)
    assert (
        "\nstate    not done; if no process is running it, go on with: longalign resume s\n"
        in run("inspect", "s")[1]
    )
    Path("s").rename("my store")
    assert "longalign resume 'my store'\n" in run("inspect", "my store")[1]
    Path("my store").rename("s")
    assert len(report["damaged"]) == 1
    assert report["scoring"] == {"match": 1, "mismatch": -3, "gap_open": 3, "gap_extend": 2}
    assert report["gap_convention"] == "a gap of length k costs 3 + k*2"
    assert "damaged  s/tiles/r00000c00000.h5: damaged: " in run("inspect", "s")[1]
    run("resume", "s", "-q", "--backend", "cpu")
    Path("s/sequences.h5").write_bytes(b"rubbish")
    assert "\nstate    done, but damaged\n" in run("inspect", "s")[1]
    Path("s/tiles/r00000c00000.h5").write_bytes(b"rubbish")
    assert len(json.loads(run("inspect", "s", "--json")[1])["damaged"]) == 2
    assert "damaged  s/sequences.h5: damaged: " in run("inspect", "s")[1]


@pytest.mark.parametrize("strand", ["plus", "both"])
def test_inspect_counts_all_cells_that_were_left_out(run, tmp_path, monkeypatch, strand):
    monkeypatch.setattr(bounds, "MIN_CELLS", 0)
    monkeypatch.setattr(budget, "_SECONDS", 10.0)
    for name, codes in zip("qt", mutated_copy(30_000, 0.01, 1), strict=True):
        Path(f"{name}.fa").write_text(f">{name}\n{spell(codes)}\n")
    command = ("align", "q.fa", "t.fa", "--store", "s", "--json", "x.json", "--strand", strand)
    code, _, err = run(*command, "-o", "x.paf")
    assert (code, " effective GCUPS, " in err) == (0, True)
    assert "effective" not in run("score", "q.fa", "t.fa", "--prune", "off")[2]
    [phase] = [one for one in json.loads(Path("x.json").read_text())["phases"] if one["name"] == "score"]
    report = json.loads(run("inspect", "s", "--json")[1])
    assert 0 < phase["left_out"] == report["cells_left_out"]
    assert report["cells_done"] + report["cells_left_out"] == report["cells"] == phase["cells"]
    share = report["cells_left_out"] / report["cells"]
    if strand == "plus":
        shares = f" left out; {1 - share:.1%} of the cells computed, {share:.1%} left out"
        assert shares in run("inspect", "s")[1]


def test_start_states_say_that_they_need_every_cell(run, pair, monkeypatch):
    monkeypatch.setattr(bounds, "MIN_CELLS", 0)
    text = "eager start states need all cells of the matrix, so none is left out"
    command = ("align", *pair, "--start-states", "eager", "--progress", "json")
    assert text in run(*command, "--store", "s")[2]
    assert text not in run(*command, "--store", "t", "--prune", "off")[2]
    monkeypatch.setattr(bounds, "MIN_CELLS", 1 << 32)
    assert text not in run(*command, "--store", "u")[2]


def test_free_ends_can_be_given_one_by_one(run, pair):
    command = ("align", *pair, "--mode", "semiglobal", "-q")
    together = run(*command, "--free", "query-start,target-end")
    assert run(*command, "--free", "query-start", "--free", "target-end") == together


@pytest.mark.parametrize("command", ["resume", "inspect"])
def test_what_is_no_store_is_refused(refuse, command):
    assert refuse(command, "nowhere") == (
        1,
        "nowhere: not a store: there is no such directory",
    )
    Path("nowhere").mkdir()
    assert refuse(command, "nowhere") == (1, "nowhere: not a store: the directory holds no manifest.json")
    Path("file").touch()
    assert refuse(command, "file") == (1, "file: not a store: it is a file, and a store is a directory")


def test_damage_is_said_and_mended(run, pair):
    first = run("align", *pair, "-q", "--store", "s")
    Path("s/tiles/r00000c00000.h5").write_bytes(b"rubbish")
    code, out, err = run("resume", "s", "--backend", "cpu")
    assert (code, out) == first[:2]
    assert err.startswith("longalign: s/tiles/r00000c00000.h5: damaged: ")
    assert "; this tile is computed again\n" in err


@pytest.mark.slow
def test_without_a_store_no_files_remain(run, pair, tmp_path, monkeypatch):
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    before = sorted(tmp_path.rglob("*"))
    assert longalign("align", *pair).returncode == 0
    assert longalign("align", "missing.fa", "t.fa").returncode == 1
    assert sorted(tmp_path.rglob("*")) == before


# --- what is refused


def test_missing_and_bad_sequences(refuse):
    assert refuse("align", "no.fa", "t.fa") == (1, "no.fa: no such file or directory")
    Path("bad.fa").write_text(">x\nACGT\nAC!T\n")
    code, text = refuse("align", "bad.fa", "t.fa")
    assert code == 1
    assert text.startswith("bad.fa: record 'x': letter 7 (counting from 1) is '!', not one of ")


@pytest.mark.parametrize("pair", [("-", "-"), ("-:a", "-:b"), ("-", "-:b:0-9")])
def test_two_sequences_on_stdin(refuse, pair):
    assert refuse("align", *pair) == (2, "only one of QUERY and TARGET can be stdin (-)")


def test_two_sequences_of_a_plan_on_stdin(refuse):
    text = "only one of QUERY and TARGET can be stdin (-)"
    assert refuse("devices", "--plan", "-", "-") == (2, text)


@pytest.mark.parametrize("inputs", [("-", "-", "t.fa"), ("-", "q.fa", "-:a"), ("x.paf", "-", "-")])
def test_two_inputs_of_a_verification_on_stdin(refuse, inputs):
    text = "only one of PAF, QUERY and TARGET can be stdin (-)"
    assert refuse("verify", *inputs) == (2, text)


def test_a_sequence_without_a_name_of_a_file(refuse):
    text = "the name of a FASTA file is empty"
    assert refuse("align", "", "t.fa") == refuse("devices", "--plan", "q.fa", "") == (1, text)


def test_two_outputs_on_stdout(refuse, pair):
    code, text = refuse("align", *pair, "--json", "-")
    assert (code, text) == (2, "alignment and summary cannot both go to stdout: give -o FILE or --json FILE")


def test_one_file_for_two_outputs(refuse, pair):
    code, text = refuse("align", *pair, "-o", "x", "--json", "./x")
    assert (code, text) == (2, "-o and --json name one file, x")
    assert not Path("x").exists()


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("place", [".", "no/x.paf", "q.fa/x.paf"])
def test_an_output_that_cannot_be_written_is_refused_before_the_run(refuse, pair, option, place):
    code, text = refuse("align", *pair, option, place, "--store", "s")
    assert code == 1
    assert text.startswith(f"{place}: cannot be written: ")
    assert not Path("s").exists()


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("output", ["t.fa", "./t.fa", "link.fa", "hard.fa"])
@pytest.mark.parametrize("target", ["t.fa", "t.fa:target", "t.fa:target:0-40", "link.fa:0-40"])
def test_an_input_is_not_overwritten(refuse, option, output, target):
    Path("link.fa").symlink_to("t.fa")
    Path("hard.fa").hardlink_to("t.fa")
    code, text = refuse("align", "q.fa", target, option, output, "--store", "s")
    assert (code, text) == (
        2,
        f"{output}: cannot be written: the input {target} is read from this file",
    )
    assert not Path("s").exists()


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("store", ["s", "./s", "s/deeper"])
def test_a_file_and_the_store_in_one_place_are_refused_before_the_run(refuse, pair, option, store):
    code, text = refuse("align", *pair, option, "s", "--store", store)
    assert (code, text) == (2, f"s: cannot be written: it belongs to the store {store}")
    assert not Path("s").exists()


def test_a_matrix_is_not_overwritten(refuse, pair):
    Path("m.txt").write_text("a matrix")
    costs = ["--matrix", "m.txt", "--gap-open", "10", "--gap-extend", "1"]
    code, text = refuse("align", *pair, *costs, "-o", "m.txt")
    assert (code, text) == (2, "m.txt: cannot be written: the input m.txt is read from this file")


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("command", [["resume", "s"], ["trace", "s", "--end", "9,9"]])
def test_an_input_that_the_store_tells_of_is_not_overwritten(run, refuse, pair, command, option):
    run("align", "q.fa:0-40", *pair[1:], "-q", "--store", "s", "--start-states", "eager")
    code, text = refuse(*command, "--backend", "cpu", option, "q.fa")
    assert code == 2
    assert re.fullmatch(r"q\.fa: cannot be written: the input .*q\.fa:0-40 is read from this file", text)


def test_scorings_that_make_no_sense(refuse, pair):
    code, text = refuse("align", *pair, "--gap-open", "-1")
    assert (code, text) == (2, "--gap-open is a cost and cannot be negative, not -1")


def test_budgets_that_are_too_small(refuse, pair):
    code, text = refuse("align", *pair, "--mem", "10M")
    assert code == 2
    assert text.endswith("M of memory, and the budget is 10M (--mem)")
    code, text = refuse("align", *pair, "--mem", "1")
    assert text.endswith("M of memory, and the budget is 1 byte (--mem)")
    code, text = refuse("align", *pair, "--store-budget", "1", "--store", "s")
    assert code == 2
    assert re.fullmatch(
        r"--store-budget 1 is too small for \d+ x \d+ letters: at least \d+ are needed; "
        r"phase 1 then takes about 1 ms, phases 2 and 3 another 1 ms",
        text,
    )
    assert not Path("s").exists()
    smallest = text.split("at least ")[1].split()[0]
    assert main(["align", *pair, "-q", "-o", "x.paf", "--store-budget", smallest]) == 0


def test_a_disk_that_is_too_small(refuse, pair, monkeypatch):
    monkeypatch.setattr("longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=100))
    code, text = refuse("align", *pair, "--store", "s", "--store-budget", "1M")
    assert code == 1  # as for a disk that is full
    assert re.fullmatch(
        r"s: the boundaries of \d+ x \d+ letters take about \d+ bytes, and 100 bytes of the disk are free: "
        r"make room, or begin a store on another disk",
        text,
    )
    assert not Path("s").exists()


def test_cuda_where_there_is_none(refuse, monkeypatch):
    monkeypatch.setattr("longalign.backends.cuda.available", list)
    monkeypatch.setattr("longalign.backends.cuda.why_unavailable", lambda: "no driver")
    assert refuse("align", "q.fa", "t.fa", "--backend", "cuda") == (3, "no usable CUDA device: no driver")


def test_a_device_for_the_cpu(refuse, pair):
    code, text = refuse("align", *pair, "--device", "1")
    assert (code, text) == (
        2,
        "CUDA devices were chosen (--device), but the CPU back end is to be used",
    )


def test_a_partial_alignment_is_not_global(run, pair):
    run("align", *pair, "-q", "-o", "x.paf")
    Path("x.paf").write_text(Path("x.paf").read_text().replace("tg:Z:local", "tg:Z:global"))
    code, out, err = run("verify", "x.paf", "q.fa", "t.fa")
    assert (code, err) == (1, "longalign: x.paf: 1 false claim\n")
    assert out.startswith("x.paf: line 1: tag tg: claims a global alignment, but target 2-")


def test_a_forged_format_is_refused_before_anything_is_computed(run, refuse, pair):
    run("align", *pair, "-q", "-o", "x.paf", "--store", "S")
    manifest = json.loads(Path("S/manifest.json").read_text())
    write_manifest(Path("S"), {**manifest, "output_format": "sam"})
    message = "S/manifest.json: damaged: output_format: no format is called 'sam'"
    assert refuse("resume", "S") == (1, message)
    assert run("resume", "S", "-q", "-o", "again.paf")[0] == 0


def test_an_endless_list_of_pairs_is_refused(refuse, pair, monkeypatch):
    monkeypatch.setattr("longalign.fasta.pair_list._LARGEST", 1 << 20)
    message = "/dev/zero: larger than a list of pairs may be, 1,048,576 bytes"
    assert refuse("align", *pair, "--pairs", "/dev/zero") == (1, message)


def test_endless_input_is_no_paf(refuse, tmp_path):
    assert refuse("verify", "/dev/zero", "q.fa", "t.fa") == (
        1,
        "/dev/zero: line 1: columns separated by tabs: 1 in the first 65536 characters, want at least 12",
    )
    os.mkfifo("endless")

    def feed():
        with suppress(BrokenPipeError), Path("endless").open("wb", buffering=0) as pipe:
            pipe.write(b"query\t10\t0\t5\t+\ttarget\t20\t0\t5\t5\t5\t255\tcg:Z:")
            while True:
                pipe.write(b"1=" * (1 << 15))

    with ThreadPoolExecutor(1) as pool:
        fed = pool.submit(feed)
        code, text = refuse("verify", "endless", "q.fa", "t.fa")
        fed.result()
    assert (code, text) == (
        1,
        "endless: line 1: more than 65776 characters, for records of 30 letters together",
    )


def test_a_pipe_can_be_verified(run, pair):
    _, line, _ = run("align", *pair, "-q")
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(Path("pipe").write_text, line)
        assert run("verify", "pipe", "q.fa", "t.fa")[0] == 0


def test_a_false_paf(run, pair):
    run("align", *pair, "-q", "-o", "x.paf")
    Path("x.paf").write_text(Path("x.paf").read_text().replace(f"AS:i:{SCORE}", "AS:i:99"))
    code, out, err = run("verify", "x.paf", "q.fa", "t.fa")
    assert code == 1
    assert f"claims 99, is {SCORE}" in out
    assert err == "longalign: x.paf: 1 false claim\n"
    code, _, err = run("verify", "x.paf", "q.fa", "t.fa", "--match", "1")
    assert code == 2
    assert "give all of --match, --mismatch, --gap-open and --gap-extend" in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["align"],
        ["align", "q.fa"],
        ["align", "q.fa", "t.fa", "--threads", "0"],
        ["align", "q.fa", "t.fa", "--threads", "x"],
        ["align", "q.fa", "t.fa", "--mem", "much"],
        ["align", "q.fa", "t.fa", "--mode", "glocal"],
        ["align", "q.fa", "t.fa", "--match", "1e5"],
        ["score", "q.fa", "t.fa", "--device", "-1"],
        ["resume", "s", "--store-budget", "1G"],
    ],
)
def test_usage(run, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("usage: longalign")


@pytest.mark.parametrize(
    "arguments",
    [
        ["align", "q.fa", "t.fa", "--store", ""],
        ["align", "q.fa", "t.fa", "--store="],
        ["score", "q.fa", "t.fa", "--store", ""],
        ["align", "q.fa", "t.fa", "-o", ""],
        ["align", "q.fa", "t.fa", "--json", ""],
        ["align", "q.fa", "t.fa", "--matrix", ""],
        ["align", "q.fa", "t.fa", "--cluster", ""],
        ["resume", ""],
        ["resume", "s", "-o", ""],
        ["trace", "", "--end", "1,1"],
        ["inspect", ""],
        ["verify", "", "q.fa", "t.fa"],
        ["devices", "--plan", "q.fa", "t.fa", "--store", ""],
    ],
)
def test_a_name_that_is_empty_is_a_usage_error(run, arguments, folder):  # noqa: F811
    before = sorted(folder.rglob("*"))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.endswith(": an empty name\n")
    assert sorted(folder.rglob("*")) == before


def test_a_budget_for_boundaries_that_a_score_does_not_keep_is_refused(refuse, pair):
    text = "a score keeps no lattice: --store-budget is for align, and for eager start states"
    assert refuse("score", *pair, "--store-budget", "1G") == (2, text)
    assert refuse("score", *pair, "--store-budget", "1G", "--store", "s") == (2, text)
    assert not Path("s").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--mode", "global"),
        ("--free", "query-end"),
        ("--match", "2"),
        ("--gap-first", "5"),
        ("--preset", "blastn"),
        ("--softmask", None),
        ("--matrix", "BLOSUM62"),
        ("--mem", "1G"),
        ("--store", "s"),
    ],
)
def test_what_is_for_a_plan_is_refused_without_one(refuse, option, value):
    assert refuse("devices", *[word for word in (option, value) if word is not None]) == (
        2,
        f"{option} is for a plan: give --plan QUERY TARGET as well",
    )


def test_a_run_that_is_refused_leaves_a_store_as_it_was(run, pair):
    assert run("align", *pair, "--store", "s", "-o", "x.paf")[0] == 0
    before = Path("s/manifest.json").read_bytes()
    code, _, err = run("align", *pair, "--store", "s", "-o", "y.paf", "--mem", "1M")
    assert (code, "of memory, and the budget is 1M" in err) == (2, True)
    assert Path("s/manifest.json").read_bytes() == before


def test_an_interrupt_while_a_store_is_looked_through_keeps_what_was_asked_for(run, pair, monkeypatch):
    assert run("score", *pair, "--store", "s")[0] == 0
    with monkeypatch.context() as interrupted:

        def interrupt(*_):
            raise KeyboardInterrupt

        interrupted.setattr(DirectoryStore, "check_tile", interrupt)
        assert run("align", *pair, "--store", "s", "-o", "x.paf")[0] == 130
    assert run("resume", "s")[:2] == (0, "")
    [record] = read_paf("x.paf")
    assert record.cigar


def test_a_trace_stays_within_memory_or_is_refused(run, pair):
    assert run("align", *pair, "--store", "s", "--start-states", "eager", "-o", "x.paf")[0] == 0
    code, _, err = run("trace", "s", "--end", "3,3", "--mem", "1M")
    assert (code, "of memory, and the budget is 1M (--mem)" in err) == (2, True)


@pytest.mark.parametrize("name", ["manifest.json", "sequences.h5", "path.h5", "lock", "tiles/x", "pieces/x"])
def test_a_file_of_the_store_is_no_output(run, refuse, pair, name):
    assert run("align", *pair, "--store", "s", "-o", "s/x.paf")[0] == 1  # there is no such directory yet
    assert run("align", *pair, "--store", "s", "-o", "x.paf")[0] == 0
    text = f"s/{name}: cannot be written: it belongs to the store s"
    assert refuse("align", *pair, "--store", "s", "-o", f"s/{name}") == (2, text)
    assert refuse("resume", "s", "--json", f"s/{name}") == (2, text)
    assert run("align", *pair, "--store", "s", "-o", "s/x.paf")[0] == 0


def test_a_working_directory_that_is_gone_is_named_as_the_fault(refuse, pair, tmp_path, monkeypatch):
    files = [str(Path(file).absolute()) for file in pair[:2]]
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, text = refuse("align", *files, "-o", "x.paf")
    assert (code, text) == (1, "x.paf: cannot be written: no such file or directory")
    code, text = refuse("align", *files, "--store", "s")
    assert (code, text) == (1, "s: the working directory does not exist any more")
    monkeypatch.undo()


def test_a_system_without_more_threads_is_not_an_internal_error(refuse, pair, monkeypatch):
    def none_left(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("longalign.run.pipeline.run", none_left)
    code, text = refuse("align", *pair)
    assert (code, text[:45]) == (3, "the system refuses this process more threads ")


def test_an_internal_error_is_one_line(refuse, pair, monkeypatch):
    monkeypatch.setattr("longalign.run.pipeline.run", lambda *_, **__: 1 / 0)
    monkeypatch.delenv("LONGALIGN_DEBUG", raising=False)
    assert refuse("align", *pair) == (
        3,
        "internal error: ZeroDivisionError: division by zero (LONGALIGN_DEBUG=1 shows where)",
    )


def test_an_invariant_that_is_broken_is_called_an_internal_error(refuse, pair, monkeypatch):
    def broken(*_, **__):
        raise InternalError("no path leads there")

    monkeypatch.setattr("longalign.run.pipeline.run", broken)
    assert refuse("align", *pair) == (3, "internal error: no path leads there")


def test_an_interrupt_that_comes_out_of_a_library_as_an_error_is_one_all_the_same(refuse, pair, monkeypatch):
    def interrupted(*_, **__):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise ValueError("something else") from None

    monkeypatch.setattr("longalign.run.pipeline.run", interrupted)
    assert refuse("align", *pair) == (143, "interrupted; with --store DIR a run can be resumed")


def test_an_interrupt_that_a_library_swallows_ends_the_run_before_its_first_phase(refuse, pair, monkeypatch):
    def swallowed(*arguments):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        return open_backends(*arguments)

    open_backends = api.open_backends
    monkeypatch.setattr(api, "open_backends", swallowed)
    code, text = refuse("align", *pair, "--store", "s")
    assert (code, text) == (143, "interrupted; go on with: longalign resume s --backend=cpu")


def test_an_interrupt_that_is_swallowed_while_a_command_is_imported_ends_it(refuse, pair, monkeypatch):
    def swallowed(name):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        return import_module(name)

    import_module = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", swallowed)
    assert refuse("devices") == (143, "interrupted")


def test_an_interrupt_while_options_are_read_is_one_line(refuse, monkeypatch):
    def interrupted(*_):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", interrupted)
    assert refuse("devices") == (143, "interrupted")


def test_a_signal_that_is_ignored_stays_ignored(refuse, pair, monkeypatch):
    """As it is for a job that a script has put into the background."""
    seen = []
    monkeypatch.setattr(
        "longalign.run.pipeline.run", lambda *_, **__: seen.append(signal.getsignal(signal.SIGINT))
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        refuse("align", *pair)
        assert seen == [signal.SIG_IGN]
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_out_of_memory_is_one_line(refuse, pair, monkeypatch):
    def too_much(*_, **__):
        raise MemoryError

    monkeypatch.setattr("longalign.run.pipeline.run", too_much)
    assert refuse("align", *pair) == (1, "out of memory: a smaller --mem or --store-budget needs less")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["align", "q.fa", "t.fa"], "interrupted; with --store DIR a run can be resumed"),
        (["align", "q.fa", "t.fa", "--store", "not made"], "interrupted; nothing was stored yet"),
        (
            ["align", "q.fa", "t.fa", "--store", "it's"],
            "interrupted; go on with: longalign resume 'it'\"'\"'s'",
        ),
        (
            ["align", "q.fa", "t.fa", "--store", "it's", "--cluster", "tcp://host:1"],
            "interrupted; go on with: longalign resume 'it'\"'\"'s' --cluster=tcp://host:1",
        ),
        (
            ["resume", "it's", "--threads=2", "--mem=1.5G", "--backend=cpu"],
            "interrupted; go on with: longalign resume 'it'\"'\"'s' --backend=cpu --threads=2 --mem=1.5G",
        ),
        (["align", "q.fa", "t.fa", "--store=-w"], "interrupted; go on with: longalign resume ./-w"),
        (["resume", "it's"], "interrupted; go on with: longalign resume 'it'\"'\"'s'"),
        (
            ["resume", "-q", "it's", "-o", "new.paf", "--json", "-"],
            "interrupted; go on with: longalign resume 'it'\"'\"'s' --output=new.paf --json=-",
        ),
        (
            ["align", "q.fa", "t.fa", "--store", "it's", "--format", "tsv"],
            "interrupted; go on with: longalign resume 'it'\"'\"'s'",
        ),
        (
            ["resume", "it's", "--format", "tsv"],
            "interrupted; go on with: longalign resume 'it'\"'\"'s' --format=tsv",
        ),
        (["verify", "x.paf", "q.fa", "t.fa"], "interrupted"),
        (["trace", "it's", "--end", "1,1"], "interrupted"),
    ],
)
def test_an_interrupt_says_how_to_go_on(refuse, run, pair, monkeypatch, arguments, text):
    for store in ("it's", "-w"):
        run("align", *pair, "-q", f"--store={store}", "-o", "x.paf")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("longalign.cli.runs.Sequences", interrupt)
    monkeypatch.setattr("longalign.run.pipeline.resume", interrupt)
    monkeypatch.setattr("longalign.cli.verify.verify_paf", interrupt)
    monkeypatch.setattr("longalign.cli.trace.trace_cell", interrupt)
    assert refuse(*arguments) == (130, text)


def test_an_interrupt_while_the_arguments_are_parsed(run, monkeypatch):
    """argparse sets one option after another: those of a run may be incomplete."""
    monkeypatch.setattr("longalign.cli.runs.run_resume", lambda _: 0)
    ended = []
    while (0, "", "") not in ended:
        left = iter(range(1 + len(ended)))  # the first is set by `command.run`

        def set_one(options, name, value, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            object.__setattr__(options, name, value)

        with monkeypatch.context() as patch:
            patch.setattr(argparse.Namespace, "__setattr__", set_one, raising=False)
            ended.append(run("resume", "s"))
    assert len(ended) > 10
    assert set(ended[:-1]) == {(130, "", "longalign: interrupted\n")}


def test_a_closed_pipe_is_quiet(pair):
    read, write = os.pipe()
    os.close(read)
    done = longalign("align", *pair, "-q", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


class Full(io.StringIO):
    """A stream onto a disk that is full, which shows when it is flushed."""

    def flush(self):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "arguments",
    [
        ["devices"],
        ["devices", "--json"],
        ["inspect", "s"],
        ["inspect", "s", "--json"],
        ["verify", "x.paf", "q.fa", "t.fa"],
    ],
)
def test_a_report_that_cannot_be_written_is_one_line(run, refuse, pair, monkeypatch, arguments):
    run("align", *pair, "-q", "--store", "s", "-o", "x.paf")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Full())
        assert refuse(*arguments) == (1, "stdout: cannot be written: no space left on device")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)
        assert refuse(*arguments) == (1, "stdout: cannot be written: it is closed")


def test_inspect_does_not_mind_files_that_vanish_and_follows_links(run, pair, monkeypatch):
    run("align", *pair, "-q", "--store", "s", "-o", "x.paf")
    size = json.loads(run("inspect", "s", "--json")[1])["bytes"]
    tile = next(Path("s/tiles").iterdir())
    tile.rename("elsewhere")
    tile.symlink_to(Path("elsewhere").absolute())
    found = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda path, *how: [*found(path, *how), path / ".tmp-gone"])
    assert json.loads(run("inspect", "s", "--json")[1])["bytes"] == size


@pytest.mark.slow
def test_names_that_the_locale_cannot_write_are_written_all_the_same(pair):
    Path("n.fa").write_text(f">\u00e9\u03b1\n{QUERY}\n", encoding="utf-8")
    for encoding in ("ascii", "latin-1"):
        command = [sys.executable, "-m", "longalign", "align", "n.fa", *pair[1:], "-q"]
        where = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(command, capture_output=True, env=where, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode("utf-8").startswith(f"\u00e9\u03b1\t{len(QUERY)}\t")


@pytest.mark.slow
def test_without_stderr_an_error_goes_nowhere_else(pair):
    for arguments, code in ((["score", *pair], 0), (["score", "nowhere.fa", *pair[1:]], 1), (["score"], 2)):
        command = shlex.join([sys.executable, "-m", "longalign", *arguments]) + " 2>&-"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, "")
        assert "longalign" not in done.stdout


# --- help


def test_devices_are_compiled_for_once(run, monkeypatch, tmp_path):
    calls = []

    def compile_all(backend, names, advance):
        calls.append(names)
        advance()

    monkeypatch.setattr("longalign.cli.devices.cuda.available", list)
    monkeypatch.setattr("longalign.cli.devices.kernels_to_compile", lambda backend: (["one", "two"], 3))
    monkeypatch.setattr("longalign.cli.devices.compile_all", compile_all)
    monkeypatch.setattr(
        "longalign.pruning.seeds.kernels", lambda: [Kernel("seed", lambda: calls.append("seed"))]
    )
    code, out, err = run("devices", "--compile")
    assert (code, calls) == (0, [["one", "two"], "seed"])
    assert out.startswith("cpu: ")
    # No bar is drawn, because stderr is not a terminal here.
    of_cpu, of_seeds = err.splitlines()
    assert re.fullmatch(
        r"longalign: cpu: 2 kernels compiled in \d+\.\d s, 3 kernels already compiled", of_cpu
    )
    assert of_seeds == "longalign: seeds: 1 kernels already compiled"
    monkeypatch.setattr("longalign.cli.devices.kernels_to_compile", lambda backend: ([], 5))
    assert run("devices", "--compile")[2].startswith("longalign: cpu: 5 kernels already compiled\n")


def test_a_kernel_that_does_not_compile_is_one_line(run, monkeypatch):
    monkeypatch.setattr("longalign.cli.devices.cuda.available", list)
    monkeypatch.setattr("longalign.cli.devices.kernels_to_compile", lambda backend: (["no such"], 0))
    code, out, err = run("devices", "--compile")
    assert (code, out) == (3, "")
    assert err.count("\n") == 1
    assert err == "longalign: cpu: kernel 'no such': KeyError('no such')\n"


def test_devices(run):
    code, out, err = run("devices")
    assert (code, err) == (0, "")
    assert "cpu: " in out
    report = json.loads(run("devices", "--json")[1])
    assert report["schema"] == "longalign.devices/1"
    assert report["backends"][-1]["name"] == "cpu"


def test_devices_say_how_they_would_sweep_two_sequences(run, tmp_path):
    files = [tmp_path / "query.fa", tmp_path / "target.fa"]
    for file, letters in zip(files, ("ACGTN" * 30, "ACG" * 40), strict=True):
        file.write_text(f">{file.stem}\n{letters}\n")
    code, out, err = run("devices", "--plan", *map(str, files), "--mode", "global")
    assert (code, err) == (0, "")
    assert "tile: 150 x 120" in out
    assert ", threads 1, " in run("devices", "--plan", *map(str, files), "--threads", "1")[1]
    assert "with --store-budget: 675 (the default) 1 ms, 233%" in out
    report = json.loads(run("devices", "--json", "--plan", *map(str, files))[1])
    cpu = report["plans"]["cpu"]
    assert [cpu[word] for word in ("tile", "chunk", "boundaries")] == ["150 x 120", "150 x 120", "675"]
    assert cpu["phase 1"] == "about 1 ms"
    assert cpu["phases 2 and 3"] == "about 1 ms, 233% as many cells as phase 1"


def test_a_plan_says_what_pruning_is_expected_to_save(run, tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "MIN_CELLS", 0)
    monkeypatch.setattr(budget, "_SECONDS", 10.0)
    query, target = (spell(codes) for codes in mutated_copy(30_000, 0.01, 1))
    for name, letters in (("query", query), ("target", target), ("other", "ACGTTA" * 5000)):
        (tmp_path / f"{name}.fa").write_text(f">{name}\n{letters}\n")

    def planned(target):
        files = [str(tmp_path / f"{name}.fa") for name in ("query", target)]
        code, out, err = run("devices", "--json", "--plan", *files)
        assert (code, err) == (0, "")
        return json.loads(out)["plans"]["cpu"]

    found, score = planned("target"), api.score(query, target).score
    words = re.fullmatch(
        r"seeds give an alignment of score (\d+); about (\d+)% of the cells are needed", found["pruning"]
    )
    assert 0.95 * score < int(words[1]) <= score
    assert 0 < int(words[2]) < 30
    assert found["seed"].startswith("took ")
    [seconds, whole] = re.findall(r"\d[\d.]* \w+", found["phase 1"])
    assert found["phase 1"] == f"about {seconds}, and {whole} without pruning"
    with monkeypatch.context() as patched:
        patched.setattr(CpuBackend, "band_row_seconds", 1e6)  # not more than without pruning
        assert planned("target")["phase 1"] == f"about {whole}, and {whole} without pruning"
    # The kernel is told for the job as it is swept. Blocks of jobs that are pruned are lower.
    assert found["row block"] == "at most 1024 rows"
    assert "with --store-budget" not in found
    unrelated = planned("other")
    assert unrelated["pruning"] == (
        "none: the matrix is small, or seeds find no alignment with which a run would be faster"
    )
    assert "without pruning" not in unrelated["phase 1"]

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, _, err = run("devices", "--plan", str(tmp_path / "query.fa"), str(tmp_path / "target.fa"))
    assert "seed" in err  # the name of the bar


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--mem", "10M"], "x 120 letters need about 296M of memory, and the budget is 10M (--mem)"),
        (["--store-budget", "1"], "at least 675 are needed; phase 1 then takes about 1 ms, phases 2 and 3"),
        (["--store-budget", "1", "--store", "s"], "--store-budget 1 is too small for 150 x 120 letters"),
    ],
)
def test_a_plan_that_would_be_refused_says_so(run, given, text):
    for name, letters in (("q", "ACGTN" * 30), ("t", "ACG" * 40)):
        Path(f"{name}.fa").write_text(f">{name}\n{letters}\n")
    code, out, err = run("devices", "--plan", "q.fa", "t.fa", *given)
    assert (code, err) == (2, "")
    assert "    refused: " in out
    assert text in out
    assert not Path("s").exists()
    complaint = "longalign: q.fa: a file, not a directory: it cannot hold a store\n"
    assert run("devices", "--plan", "q.fa", "t.fa", "--store", "q.fa") == (1, "", complaint)


def test_a_plan_for_a_full_disk_ends_with_the_exit_code_of_the_run(run, monkeypatch):
    monkeypatch.setattr("longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=10))
    for name in "qt":
        Path(f"{name}.fa").write_text(f">{name}\n{'ACGT' * 300}\n")
    code, out, _ = run("devices", "--plan", "q.fa", "t.fa", "--store", "s")
    assert "    refused: " in out
    assert code == run("align", "q.fa", "t.fa", "--store", "s")[0] == 1


@pytest.mark.parametrize(
    "command", [None, "align", "score", "resume", "trace", "inspect", "verify", "devices"]
)
def test_help_states_the_conventions(run, command):
    code, out, err = run(*filter(None, [command]), "--help")
    assert (code, err) == (0, "")
    assert "Exit codes: 0 done, 1 input or store" in out
    if command not in ("resume", "trace", "inspect"):  # which take scoring and sequences from a store
        assert "gap of length k costs ALPHA + k*BETA" in out
        assert "0-based and half-open" in out


def test_an_error_of_usage_takes_two_lines(run):
    code, out, err = run("align", "q.fa")
    assert (code, out) == (2, "")
    assert err == (
        "usage: longalign align [options] QUERY TARGET\n"
        "longalign align: error: the following arguments are required: TARGET\n"
    )


def test_version(run):
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("longalign 0.")


def test_a_known_pair_through_the_command_line(run):
    names = ["human_mito.NC_012920.1", "orang_mito.NC_002083"]
    code, out, _ = run("score", *(DATA / f"{name}.fa.gz" for name in names), "--backend", "cpu", "-q")
    assert code == 0
    assert out.split("\t")[2:] == ["local", "6680", "16569", "16025", "+\n"]
