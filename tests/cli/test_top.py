"""`align --top`: several alignments in the output, the summary and a resumed run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import REPEATED

from longalign.cli import main
from longalign.cli.inspect import inspect, inspect_pairs


@pytest.fixture
def files(tmp_path, monkeypatch) -> list[str]:
    """A query and a target with several alignments, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, letters in (("q", REPEATED.query), ("t", REPEATED.target)):
        Path(f"{name}.fa").write_text(f">{name}\n{letters}\n")
    return ["q.fa", "t.fa"]


def align(*arguments: str) -> int:
    return main(["align", *arguments, "--backend", "cpu", "--threads", "1"])


def scores(path: str) -> list[int]:
    """The scores in a PAF file."""
    return [int(line.split("AS:i:")[1].split("\t")[0]) for line in Path(path).read_text().splitlines()]


def test_the_best_alignments_in_one_file(files, capsys):
    assert align(*files, "-o", "one.paf") == 0
    assert align(*files, "--top", "4", "-o", "x.paf", "--json", "x.json", "--stats") == 0
    err = capsys.readouterr().err
    found = scores("x.paf")
    assert len(found) == 4
    assert found == sorted(found, reverse=True)
    assert found[:1] == scores("one.paf")
    assert f"3 more, the last one with score {found[-1]}" in err
    assert err.count("identity") >= 4
    summary = json.loads(Path("x.json").read_text())
    assert [summary["score"], *(one["score"] for one in summary["next_best"])] == found
    for one in (summary, *summary["next_best"]):
        assert f"matches {one['statistics']['matches']:,}, " in err
        assert f"E-value {one['significance']['e_value']:.2g} " in err
    assert main(["verify", "x.paf", *files]) == 0


def test_the_least_score(files):
    assert align(*files, "--top", "20", "-o", "all.paf") == 0
    least = sorted({*scores("all.paf")})[-2]
    assert align(*files, "--top", "20", "--min-score", str(least), "-o", "x.paf") == 0
    assert scores("x.paf") == [score for score in scores("all.paf") if score >= least]
    assert align(*files, "--min-score", "100000", "-o", "none.paf") == 0
    assert Path("none.paf").read_text() == ""


def test_a_resumed_run_finds_the_same(files):
    arguments = (*files, "--top", "4", "--min-score", "5", "--store", "s", "-o", "x.paf")
    assert align(*arguments) == 0
    first = Path("x.paf").read_bytes()
    Path("x.paf").unlink()
    assert main(["resume", "s", "--backend", "cpu", "--threads", "1"]) == 0
    assert Path("x.paf").read_bytes() == first
    assert align(*arguments) == 0
    assert Path("x.paf").read_bytes() == first


def test_a_resumed_run_finds_as_many_as_were_asked_for_last(files):
    assert align(*files, "--store", "s", "-o", "one.paf") == 0
    assert align(*files, "--store", "s", "--top", "4", "--min-score", "5", "-o", "x.paf") == 0
    first = Path("x.paf").read_bytes()
    assert main(["resume", "s", "--backend", "cpu", "--threads", "1"]) == 0
    assert Path("x.paf").read_bytes() == first
    assert align(*files, "--store", "s", "-o", "x.paf") == 0
    assert main(["resume", "s", "--backend", "cpu", "--threads", "1"]) == 0
    assert Path("x.paf").read_bytes() == Path("one.paf").read_bytes()


def test_tiles_that_further_alignments_do_not_sweep_again_are_not_called_pruned(files, capsys):
    assert main(["align", *files, "--top", "4", "--backend", "cpu", "-o", "x.paf"]) == 0
    err = capsys.readouterr().err
    assert ", 3 more, the last one with score " in err
    assert "of the cells computed" not in err


def test_inspect_counts_the_alignments_of_a_store(files, capsys):
    assert align(*files, "--top", "4", "--store", "s", "-o", "x.paf") == 0
    assert len(Path("x.paf").read_text().splitlines()) == 4
    assert inspect(Path("s"))["next_best"] == 3
    assert main(["inspect", "s"]) == 0
    assert "next best 3 of at most 3, complete\n" in capsys.readouterr().out
    assert align(*files, "--top", "4", "--min-score", "28", "--store", "s", "-o", "x.paf") == 0
    assert inspect(Path("s"))["next_best"] == len(Path("x.paf").read_text().splitlines()) - 1 == 2
    Path("s/next_best.h5").write_bytes(b"damaged")
    report = inspect(Path("s"))
    assert report["next_best"] == 0
    assert ["next_best.h5: damaged" in text for text in report["damaged"]] == [True]


def test_a_pair_is_done_when_its_next_best_alignments_are_found(files):
    Path("q.fa").write_text(f">a\n{REPEATED.query}\n>b\nACGT\n>c\n\n")
    assert align(*files, "--top", "3", "--store", "s", "-o", "x.paf") == 0
    assert inspect_pairs(Path("s"))["pairs_done"] == 3
    Path("s/000000/next_best.h5").unlink()
    assert inspect_pairs(Path("s"))["pairs_done"] == 2
    assert main(["resume", "s", "--backend", "cpu", "-q"]) == 0
    assert inspect_pairs(Path("s"))["pairs_done"] == 3
    assert main(["score", *files, "--backend", "cpu", "-q", "--store", "s"]) == 0
    assert inspect_pairs(Path("s"))["pairs_done"] == 3


def test_several_for_each_of_many_pairs(files):
    Path("q.fa").write_text(f">a\n{REPEATED.query}\n>b\n{REPEATED.query}\n")
    assert align(*files, "--top", "3", "-o", "x.paf", "--json", "x.json") == 0
    names = [line.split("\t")[0] for line in Path("x.paf").read_text().splitlines()]
    assert names == ["a"] * 3 + ["b"] * 3
    assert [len(one["next_best"]) for one in json.loads(Path("x.json").read_text())] == [2, 2]


def test_many_pairs_go_on_with_the_same_least_score(files):
    Path("q.fa").write_text(f">a\n{REPEATED.query}\n>b\n{REPEATED.query}\n")
    arguments = (*files, "--top", "3", "--min-score", "5.5", "--store", "s", "-o", "x.paf")
    assert align(*arguments) == 0
    first = Path("x.paf").read_bytes()
    assert first
    Path("x.paf").unlink()
    assert main(["resume", "s", "--backend", "cpu", "--threads", "1"]) == 0
    assert Path("x.paf").read_bytes() == first


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (["--mode", "global"], "in local mode only"),
        (["--strand", "both"], "on one strand"),
        (["--start-states", "eager", "--store", "s"], "need lazy start states"),
    ],
)
def test_what_several_alignments_exclude(files, capsys, option, complaint):
    assert align(*files, "--top", "2", *option) == 2
    assert complaint in capsys.readouterr().err
