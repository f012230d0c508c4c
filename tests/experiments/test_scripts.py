"""Experiments that have nothing to measure end with a line that says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pruning
import pytest

ROOT = Path(__file__).parents[2]
MITO = "human_mito.NC_012920.1"


def fails(script, *options):
    """The last line of what a script says that cannot go on."""
    command = [sys.executable, str(ROOT / "experiments" / f"{script}.py"), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_folder_without_genomes(tmp_path):
    genomes = "--genomes", tmp_path
    assert fails("golden", *genomes) == f"{tmp_path}/GOLDEN.tsv: no such file"
    assert fails("start_states", *genomes) == f"{tmp_path}: no pair of at most 1,200,000 letters"
    assert fails("phases", *genomes, "--pairs", "mito") == f"{tmp_path}: no {MITO}.fa.gz"


def test_no_pair_is_short_enough():
    data = ROOT / "tests" / "data"
    said = fails("start_states", "--genomes", data, "--longest", 1000)
    assert said == f"{data}: no pair of at most 1,000 letters"


@pytest.mark.slow
def test_no_gpu_or_no_genome_for_it(tmp_path):
    assert fails("cuda_sweep", "--genomes", tmp_path, "--pairs", "mito")
    data = ROOT / "tests" / "data"
    said = fails("start_states", "--genomes", data, "--backend", "no such", "--longest", 20_000)
    assert said == "longalign align ended with exit code 2"


@pytest.mark.slow
def test_random_pairs_are_pruned_in_every_way(tmp_path):
    report = tmp_path / "x.json"
    options = "--pairs", "60", "--first", "470", "--longest", "900", "--out", str(report)
    subprocess.run([sys.executable, str(ROOT / "experiments" / "pruned_pairs.py"), *options], check=True)
    found = json.loads(report.read_text())
    assert (found["pairs"], found["differences"]) == (60, 0)
    for kind in ("bounds_found", "with_cells_left_out", "gains_with_anchors", "row_limits", "right_guesses"):
        assert found[kind] > 0


@pytest.mark.parametrize(
    ("option", "package"), [(("--plots", "plots"), "matplotlib"), (("--minimap2",), "mappy")]
)
def test_a_package_that_an_option_needs_is_missing(option, package, monkeypatch, tmp_path):
    monkeypatch.setattr(pruning, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["pruning.py", "--genomes", str(tmp_path), *option])
    with pytest.raises(SystemExit) as end:
        pruning.main()
    assert end.value.code == f"{option[0]} needs {package}: pip install --group experiments"
