"""`tools/gpu_check.py`: its steps and its report. No GPU is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "gpu_check.py"


def check(out, *options):
    command = [sys.executable, str(SCRIPT), "--genomes", str(out), "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_unknown_step_is_a_usage_error(tmp_path):
    done = check(tmp_path / "out", "--steps", "devcie", "tests")
    assert done.returncode == 2
    assert "error: no step is called devcie: there are device, first, " in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_step_that_fails_is_in_the_report(tmp_path):
    """The folder has neither genomes nor GOLDEN.tsv, so the step fails."""
    done = check(tmp_path, "--steps", "golden")
    assert done.returncode == 1
    report = json.loads((tmp_path / "steps.json").read_text())
    assert [(step["name"], step["exit_code"]) for step in report["steps"]] == [("golden", 1)]
    assert report["processors"] >= 1
