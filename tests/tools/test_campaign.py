"""The campaign of attacks reports planted faults, repeats them by their lines, and finds nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "campaign.py"

#: The duration of the campaign in the slow test.
SECONDS = float(os.environ.get("LONGALIGN_CAMPAIGN_SECONDS", "30"))

# Code that plants a fault: an oracle that is off by one, a crash, an aligner that refuses everything, a hang.
WRONG_ORACLE = """
from dataclasses import replace
from attacks import exactness
right = exactness.find_end
exactness.find_end = lambda *a: replace(right(*a), score=right(*a).score + 1)
"""
CRASH = """
import os
from attacks import exactness
exactness.Exactness.run = lambda self, rng: os.abort()
"""
REFUSES = """
from types import SimpleNamespace
from attacks import exactness
def refuse(*arguments, **options):
    raise exactness.UsageError("no memory is ever enough")
exactness.longalign = SimpleNamespace(align=refuse, score=exactness.longalign.score)
"""
HANG = """
import time
from attacks import exactness
exactness.Exactness.limit = 1.0
exactness.Exactness.run = lambda self, rng: time.sleep(60)
"""
PASSES = "from attacks import exactness; exactness.Exactness.run = lambda self, rng: 1"


def campaign(*options: object, plant: str = "") -> subprocess.CompletedProcess[str]:
    """A campaign in a child process, which first runs the code `plant`."""
    start = f"import sys; sys.argv[0] = {str(SCRIPT)!r}; sys.path.insert(0, {str(SCRIPT.parent)!r})"
    code = f"{start}\nimport campaign\n{plant}\nsys.exit(campaign.main())"
    command = (
        [sys.executable, "-c", code, *map(str, options)]
        if plant
        else [sys.executable, str(SCRIPT), *map(str, options)]
    )
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def repeat_lines(text: str) -> list[str]:
    return re.findall(r"^python tools/campaign\.py --repeat (\S+)  # ", text, re.MULTILINE)


def short(plant: str, seconds: int = 2) -> subprocess.CompletedProcess[str]:
    return campaign("--attacks", "exactness", "--seconds", seconds, "--jobs", 1, "--seed", 7, plant=plant)


@pytest.mark.slow
def test_a_wrong_answer_is_reported_and_its_line_repeats_it():
    done = short(WRONG_ORACLE)
    assert done.returncode == 1, done.stderr
    lines = repeat_lines(done.stdout)
    assert lines
    assert re.fullmatch(r"exactness:7:\d+", lines[0])
    again = campaign("--repeat", lines[0], plant=WRONG_ORACLE)
    assert again.returncode == 1
    assert f"{lines[0]}: failed" in again.stdout
    first = next(line for line in done.stdout.splitlines() if lines[0] in line)
    assert first in again.stdout.splitlines()
    assert campaign("--repeat", lines[0], plant="pass").returncode == 0


@pytest.mark.slow
def test_an_aligner_that_refuses_everything_is_noticed():
    done = short(REFUSES, seconds=4)  # not every case is one that must not be refused
    assert done.returncode == 1
    assert "no memory is ever enough" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "text"), [(CRASH, "crash: SIGABRT"), (HANG, "hang: no end within 1 seconds")]
)
def test_a_case_that_crashes_or_hangs_is_a_failure_and_others_are_run(plant, text):
    done = short(plant, seconds=4)
    assert done.returncode == 1
    assert done.stdout.count(text) == len(repeat_lines(done.stdout)) >= 2


@pytest.mark.slow
def test_no_failure_and_a_report(tmp_path):
    report = tmp_path / "results.json"
    done = campaign(
        "--attacks", "exactness,gpu", "--seconds", 1, "--jobs", 2, "--out", report, plant=PASSES
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpu: skipped: only with --backend cuda" in done.stdout
    results = json.loads(report.read_text())
    assert {"date", "cpu", "packages", "commit", "seed", "seconds"} <= results.keys()
    assert results["attacks"]["exactness"]["cases"] > 0
    assert results["attacks"]["exactness"]["failures"] == []


@pytest.mark.slow
def test_a_campaign_that_is_stopped_leaves_what_it_has_found(tmp_path):
    report = tmp_path / "results.json"
    stopped = f"{PASSES}\nimport os\ncampaign._REPORT_SECONDS = 0\ncampaign._table = lambda *_: os._exit(7)"
    done = campaign(
        "--attacks", "exactness", "--seconds", 1, "--jobs", 1, "--out", report, plant=stopped
    )  # fmt: skip
    assert done.returncode == 7, done.stdout + done.stderr
    results = json.loads(report.read_text())
    assert results["attacks"]["exactness"]["cases"] > 0
    assert results["elapsed"] >= 1


@pytest.mark.parametrize(
    "options", [("--attacks", "exactnes"), ("--repeat", "exactness:1"), ("--repeat", "none:1:1")]
)
def test_an_unknown_attack_or_a_malformed_case_is_a_usage_error(options):
    assert campaign(*options).returncode == 2


@pytest.mark.slow(minutes=SECONDS / 60)
@pytest.mark.cluster
def test_a_short_campaign_finds_nothing(tmp_path):
    report = tmp_path / "results.json"
    done = campaign("--seconds", SECONDS, "--jobs", 1, "--seed", 25, "--out", report)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = {name: found["cases"] for name, found in json.loads(report.read_text())["attacks"].items()}
    skipped = {name for name, found in json.loads(report.read_text())["attacks"].items() if found["skipped"]}
    assert skipped <= {"gpu", "gpu_memory", "faults", "cluster"}
    assert all(cases > 0 for name, cases in tried.items() if name not in skipped), tried
