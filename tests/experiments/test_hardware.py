"""What `experiments/hardware.py` notes beside a result: the checkout, and any processor."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import hardware
import pytest


def git(folder, *arguments):
    """What git says, whoever calls it, and wherever from."""
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    where = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    where |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True, env=where
    )
    return done.stdout


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    """A folder of experiments with results, all committed; another repository is the working directory."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    monkeypatch.delenv("LONGALIGN_COMMIT", raising=False)
    folder = tmp_path / "checkout" / "experiments"
    (folder / "results").mkdir(parents=True)
    for name in ("script.py", "results/x.json", "../module.py"):
        (folder / name).write_text("as committed")
    git(folder.parent, "init")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-m", "first")
    git(tmp_path, "init")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))  # as in a hook of the other one
    monkeypatch.setattr(hardware, "__file__", str(folder / "hardware.py"))
    return folder


def commit():
    return hardware.describe_machine()["commit"]


def test_the_commit_is_that_of_the_checkout_the_script_lies_in(experiments, monkeypatch):
    assert git(experiments, "rev-parse", "HEAD").startswith(commit())
    monkeypatch.setenv("LONGALIGN_COMMIT", "told")
    assert commit() == "told"


def test_a_change_is_told_unless_it_is_a_result(experiments):
    (experiments / "results" / "x.json").write_text("new")
    (experiments / "untracked").write_text("new")
    assert not commit().endswith("-dirty")
    (experiments.parent / "module.py").write_text("new")
    assert commit().endswith("-dirty")


def test_outside_of_a_checkout_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.delenv("LONGALIGN_COMMIT", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(hardware, "__file__", str(tmp_path / "hardware.py"))
    assert commit() is None


def test_a_system_without_cpuinfo_has_a_processor(monkeypatch):
    read_text = Path.read_text

    def read(self, *how, **options):
        if self == Path("/proc/cpuinfo"):
            raise FileNotFoundError(self)
        return read_text(self, *how, **options)

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    facts = hardware.describe_machine()
    assert facts["cpu"]
    assert facts["processors"] >= 1
