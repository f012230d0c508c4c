"""`--strand` on the command line: every format, `verify`, the store, and what is refused."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import signal
from io import StringIO
from pathlib import Path

import pytest
from inputs import DATA
from oracles import reverse_complement
from small_tile_runs import MITOCHONDRIA, command, finish, start

import longalign

RNG = random.Random(6)
TARGET = "".join(RNG.choices("ACGT", k=400))
MIDDLE = "".join(letter if RNG.random() > 0.05 else RNG.choice("ACGTRN") for letter in TARGET[150:300])
#: Letters 40 to 190 are the reverse complement of the target's letters 150 to 300, about.
QUERY = "".join(RNG.choices("ACGT", k=40)) + reverse_complement(MIDDLE) + "".join(RNG.choices("ACGT", k=60))
HERE = "q.fa:20-230", "t.fa:90-370"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("q.fa").write_text(f">query\n{QUERY}\n")
    Path("r.fa").write_text(f">query\n{reverse_complement(QUERY)}\n")
    Path("t.fa").write_text(f">target\n{TARGET}\n")
    Path("p.fa").write_text(">protein\nMKVLAAGIW\n")
    return tmp_path


@pytest.mark.parametrize("strand", ["minus", "both"])
@pytest.mark.parametrize("mode", ["local", "global", "semiglobal", "fit"])
@pytest.mark.parametrize("files", [("q.fa", "t.fa"), HERE])
def test_every_format_has_forward_coordinates_and_the_paf_verifies(run, strand, mode, files) -> None:
    options = "--strand", strand, "--mode", mode, "--backend", "cpu", "-q", "--json", "x.json"
    assert run("align", *files, *options, "-o", "x.paf") == (0, "", "")
    fields = Path("x.paf").read_text().split("\t")
    assert run("verify", "x.paf", *files)[0] == 0
    place = ["query", "250", fields[2], fields[3], "-", "target", "400", fields[7], fields[8]]
    assert fields[:9] == place
    by_hand = "r.fa:20-230" if files == HERE else "r.fa"
    _, line, _ = run("align", by_hand, files[1], "--mode", mode, "--backend", "cpu", "-q")
    other = line.split("\t")
    assert (250 - int(other[3]), 250 - int(other[2])) == (int(fields[2]), int(fields[3]))
    assert fields[5:] == other[5:]

    run("align", *files, *options, "-o", "x.tsv")
    [row] = csv.DictReader(StringIO(Path("x.tsv").read_text()), delimiter="\t")
    places = [row[name] for name in ("query_start", "query_end", "strand", "target_start", "target_end")]
    assert places == [fields[2], fields[3], "-", fields[7], fields[8]]

    summary = json.loads(Path("x.json").read_text())
    assert (summary["strand"], summary["strand_scores"]["minus"]) == ("minus", summary["score"])
    assert list(summary["strand_scores"]) == (["plus", "minus"] if strand == "both" else ["minus"])
    assert summary["alignment"]["query_start"] == summary["end"]["query"] == int(fields[2])
    assert summary["alignment"]["query_end"] == int(fields[3])
    assert summary["query"]["sha256"] == longalign.read_sequence(files[0]).sha256

    code, out, _ = run("score", *files, *options)
    assert (code, out) == (0, f"query\ttarget\t{mode}\t{summary['score']}\t{fields[2]}\t{fields[8]}\t-\n")


def test_the_line_on_stderr_names_the_strand_and_the_other_score(run) -> None:
    _, out, err = run("align", "q.fa", "t.fa", "--strand", "both", "--backend", "cpu")
    score = out.split("AS:i:")[1].split("\t")[0]
    plus = longalign.score(QUERY, TARGET, backend="cpu").score
    assert err.startswith(f"longalign: local score {score} on the minus strand ({plus} on plus), identity ")
    _, _, err = run("align", "r.fa", "t.fa", "--strand", "both", "--backend", "cpu")
    assert err.startswith(f"longalign: local score {score} on the plus strand ({plus} on minus), identity ")
    _, _, err = run("align", "r.fa", "t.fa", "--backend", "cpu")
    assert err.startswith(f"longalign: local score {score}, identity ")


def test_a_changed_strand_is_a_false_claim(run) -> None:
    run("align", "q.fa", "t.fa", "--strand", "minus", "--backend", "cpu", "-q", "-o", "x.paf")
    text = Path("x.paf").read_text()
    Path("x.paf").write_text(text.replace("\t-\t", "\t+\t"))
    code, out, _ = run("verify", "x.paf", "q.fa", "t.fa")
    assert code == 1
    assert "line 1: cg has" in out


def test_a_store_of_both_strands(run) -> None:
    run("align", "q.fa", "t.fa", "--strand", "both", "--backend", "cpu", "-q", "-o", "x.paf",
        "--store", "s", "--start-states", "eager")  # fmt: skip
    line = Path("x.paf").read_text()
    Path("x.paf").unlink()
    Path("q.fa").unlink()  # the copy in the store will do
    assert run("resume", "s", "--backend", "cpu", "-q")[0] == 0
    assert Path("x.paf").read_text() == line
    report = json.loads(run("inspect", "s", "--json")[1])
    assert (report["strand"], report["cells"], report["cells_done"]) == ("both", 2 * 250 * 400, 2 * 250 * 400)
    assert [part["strand"] for part in report["strands"].values()] == ["plus", "minus"]
    assert report["bytes"] == sum(part["bytes"] for part in report["strands"].values())
    _, out, _ = run("inspect", "s")
    assert out.startswith("s: both strands, done\n\ns/plus: longalign ")
    assert report["done"] is True
    assert json.loads(run("inspect", "s/plus", "--json")[1])["done"] is None
    assert ", local, eager start states, minus strand" in out
    code, _, err = run("trace", "s", "--end", "200,300")
    assert (code, err) == (1, "longalign: s: holds a store for each strand: name one, s/plus or s/minus\n")
    for strand, end in (("plus", "\n"), ("minus", "; rows count along the minus strand of the query\n")):
        code, _, err = run("trace", f"s/{strand}", "--end", "251,1")
        assert (code, err.endswith(f"rows are 1 to 250, columns 1 to 400{end}")) == (2, True)
    fields = line.split("\t")
    end = 250 - int(fields[2]), int(fields[8])
    code, out, _ = run(
        "trace", "s/minus", "--end", f"{end[0]},{end[1]}", "--backend", "cpu", "-q", "--json", "t.json"
    )
    assert (code, out.split("\t")[:9]) == (0, fields[:9])
    assert json.loads(Path("t.json").read_text())["strand"] == "minus"
    Path("x.paf").write_text(out)
    Path("q.fa").write_text(f">query\n{QUERY}\n")
    assert run("verify", "x.paf", "q.fa", "t.fa")[0] == 0
    for path in ("s/minus", "s/plus/x.paf"):
        code, _, err = run("align", "q.fa", "t.fa", "--strand", "both", "--store", "s", "-o", path)
        assert code in (1, 2)
        assert path in err
    Path("s/minus/manifest.json").unlink()
    assert "minus: not started" in run("inspect", "s")[1]
    assert json.loads(run("inspect", "s", "--json")[1])["strands"]["minus"] is None


def test_proteins_have_one_strand(run) -> None:
    matrix = "--matrix", "BLOSUM62", "--gap-open", "10", "--gap-extend", "1"
    for strand in ("minus", "both"):
        for arguments in (
            ("align", "p.fa", "p.fa"),
            ("score", "p.fa", "p.fa"),
            ("devices", "--plan", "p.fa", "p.fa"),
        ):
            code, out, err = run(*arguments, *matrix, "--strand", strand)
            message = (
                "longalign: protein: only DNA has a minus strand: BLOSUM62 has no complementary letters\n"
            )
            assert (code, out, err) == (2, "", message)
    assert run("align", "p.fa", "p.fa", *matrix, "--strand", "plus", "--backend", "cpu", "-q")[0] == 0
    with pytest.raises(longalign.UsageError, match="strand must be one of plus, minus, both, not '-'"):
        longalign.align("ACGT", "ACGT", strand="-")


def test_a_plan_counts_both_strands(run) -> None:
    plans = {}
    for strand in ("plus", "both"):
        report = json.loads(run("devices", "--json", "--plan", "q.fa", "t.fa", "--strand", strand)[1])
        plans[strand] = report["plans"]["cpu"]
    assert plans["plus"]["tile"] == plans["both"]["tile"]
    assert plans["plus"]["boundaries"] != plans["both"]["boundaries"]
    code, _, err = run("devices", "--strand", "both")
    assert (code, err) == (2, "longalign: --strand is for a plan: give --plan QUERY TARGET as well\n")


def test_from_python() -> None:
    found = longalign.align(QUERY, TARGET, strand="both", backend="cpu")
    by_hand = longalign.align(reverse_complement(QUERY), TARGET, backend="cpu")
    assert (found.strand, found.score, found.cigar) == ("minus", by_hand.score, by_hand.cigar)
    assert (found.query_start, found.query_end) == (250 - by_hand.query_end, 250 - by_hand.query_start)
    assert found.query.letters.tobytes().decode() == QUERY
    found.check()
    end = longalign.score(QUERY, TARGET, strand="both", backend="cpu")
    assert (end.score, end.i, end.j, end.strand) == (
        found.score,
        by_hand.query_end,
        found.target_end,
        "minus",
    )
    assert longalign.score("ACGT", TARGET, strand="plus", backend="cpu").strand == "plus"
    assert longalign.score("", TARGET, strand="minus", backend="cpu") == longalign.BestCell()


# --- killed

TILES = 2 * 6 * 6


@pytest.fixture(scope="module")
def reversed_mitochondrion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reversed") / "q.fa"
    letters = longalign.read_sequence(DATA / MITOCHONDRIA[0]).letters.tobytes().decode()
    path.write_text(f">q\n{reverse_complement(letters)}\n")
    return path


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("tiles", [1, 40, TILES])
@pytest.mark.slow
def test_a_killed_run_over_both_strands_goes_on(
    tmp_path: Path, reversed_mitochondrion: Path, number: int, tiles: int
) -> None:
    """Killed on the first strand, on the second, and after phase 1."""
    store, target = tmp_path / "s", DATA / MITOCHONDRIA[1]
    how = "--progress", "json", "--threads", 2, "--prune", "off"  # so that all tiles are swept
    options = "--strand", "both", "--store", store, *how
    with start(command("align", reversed_mitochondrion, target, *options)) as process:
        for _ in range(tiles):
            next(line for line in process.stderr if "tile_finished" in line)
        process.send_signal(number)
        _, err = process.communicate()
    if number == signal.SIGINT and process.returncode != 0:
        assert f"go on with: longalign resume {store}" in err
    there = len(list(store.rglob("tiles/r*.h5")))
    line, events = finish(command("resume", store, "--progress", "json"))
    assert "\t-\t" in line
    assert "AS:i:10637\t" in line
    assert sum(event["event"] == "tile_finished" for event in events) == TILES - there


@pytest.mark.parametrize("store", ["s/plus", "s/minus", "link"])
def test_the_store_of_one_strand_is_not_resumed_alone(run, store: str) -> None:
    """It would put the alignment of this strand into the output file of both."""
    Path("q.fa").write_text(f">q\n{reverse_complement(QUERY)}\n")
    options = "--strand", "both", "--backend", "cpu", "-q", "--store", "s", "-o", "x.paf"
    assert run("align", "q.fa", "t.fa", *options)[0] == 0
    written = Path("x.paf").read_bytes()
    Path("link").symlink_to("s/plus")
    code, out, err = run("resume", store, "--backend", "cpu", "-q")
    assert (code, out) == (2, "")
    assert f"{store}: the store of one strand of a run over both: resume {Path('s').resolve()}\n" in err
    assert Path("x.paf").read_bytes() == written
    strand = "minus" if "minus" in store else "plus"
    options = "--strand", strand, "--store", store, "-o", "y.paf", "--backend", "cpu", "-q"
    assert run("align", "q.fa", "t.fa", *options)[0] == 2
    assert run("resume", "s", "--backend", "cpu", "-q")[0] == 0
    assert Path("x.paf").read_bytes() == written


def test_the_store_of_one_strand_is_not_resumed_where_it_is_copied_to(run) -> None:
    """A pruned one may need the bound of the other strand."""
    Path("q.fa").write_text(f">q\n{QUERY}\n")
    options = "--strand", "both", "--backend", "cpu", "-q"
    assert run("align", "q.fa", "t.fa", *options, "--store", "s")[0] == 0
    shutil.copytree("s/minus", "copy")
    code, _, err = run("trace", "s/minus", "--end", "9,9")
    assert (code, f"longalign resume {Path('s').resolve()} gives the best" in err) == (1, True)
    code, out, err = run("resume", "copy", "--backend", "cpu", "-q")
    assert (code, out) == (2, "")
    assert "copy: the store of one strand of a run over both: resume the directory of both\n" in err


def test_two_runs_whose_stores_have_the_names_of_strands_are_resumed_alone(run) -> None:
    Path("q.fa").write_text(f">q\n{QUERY}\n")
    for strand in ("plus", "minus"):
        options = "--strand", strand, "--store", f"s/{strand}", "-o", f"{strand}.paf"
        assert run("align", "q.fa", "t.fa", *options, "--backend", "cpu", "-q")[0] == 0
    written = Path("plus.paf").read_bytes()
    assert run("resume", "s/plus", "--backend", "cpu", "-q")[0] == 0
    assert Path("plus.paf").read_bytes() == written
    options = "--strand", "both", "--store", "s", "-o", "both.paf"
    assert run("align", "q.fa", "t.fa", *options, "--backend", "cpu", "-q")[0] == 0
    written = Path("both.paf").read_bytes()
    assert run("resume", "s/plus", "--backend", "cpu", "-q")[0] == 2  # now its run is over both
    assert run("resume", "s", "--backend", "cpu", "-q")[0] == 0
    assert Path("both.paf").read_bytes() == written


# --- many pairs, and matrices of nucleotides


def test_many_pairs_each_on_its_better_strand(run) -> None:
    Path("many.fa").write_text(f">one\n{QUERY}\n>two\n{reverse_complement(QUERY)}\n>none\nNNN\n")
    code, out, _ = run("align", "many.fa", "t.fa", "--strand", "both", "--backend", "cpu", "-q", "-o", "-")
    assert code == 0
    lines = {fields[0]: fields for fields in (line.split("\t") for line in out.splitlines())}
    assert [lines[name][4] for name in ("one", "two")] == ["-", "+"]
    Path("x.paf").write_text(out)
    assert run("verify", "x.paf", "many.fa", "t.fa")[0] == 0
    for arguments in (["many.fa", "t.fa", "--store", "s"], ["--store"]):
        if arguments == ["--store"]:
            code, stored, _ = run("resume", "s", "--backend", "cpu", "-q")
        else:
            code, stored, _ = run("align", *arguments, "--strand", "both", "--backend", "cpu", "-q")
        assert (code, [line.split("\t")[:9] for line in stored.splitlines()]) == (
            0,
            [line.split("\t")[:9] for line in out.splitlines()],
        )
    report = json.loads(run("inspect", "s", "--json")[1])
    assert (report["pairs"], report["pairs_started"], report["pairs_done"]) == (3, 3, 3)
    found = longalign.align_many([(QUERY, TARGET)] * 2, strand="both", backend="cpu")
    assert [alignment.strand for alignment in found] == ["minus", "minus"]
    scores = longalign.score_many([(QUERY, TARGET), ("", "ACGT")], strand="both", backend="cpu")
    assert [(best.score > 0, best.strand) for best in scores] == [(True, "minus"), (False, "plus")]


def test_a_matrix_of_nucleotides_has_both_strands(run) -> None:
    options = "--matrix", "HOXD70", "--gap-open", "400", "--gap-extend", "30", "--backend", "cpu", "-q"
    query = re.sub("[^ACGT]", "A", QUERY)
    Path("q.fa").write_text(f">query\n{query}\n")
    Path("r.fa").write_text(f">query\n{reverse_complement(query)}\n")
    assert run("align", "q.fa", "t.fa", *options, "--strand", "both", "-o", "x.paf") == (0, "", "")
    assert run("verify", "x.paf", "q.fa", "t.fa")[0] == 0
    _, by_hand, _ = run("align", "r.fa", "t.fa", *options)
    fields = Path("x.paf").read_text().split("\t")
    assert (fields[4], fields[5:]) == ("-", by_hand.split("\t")[5:])
