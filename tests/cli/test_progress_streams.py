"""Progress and messages never end a run; trouble with stdout does, with one line."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from processes import FORMS, PAIR, folder, longalign  # noqa: F401 - a fixture
from small_tile_runs import align, start

pytestmark = pytest.mark.usefixtures("folder")

STYLES = [["--progress", style] for style in ("none", "json", "bar")]


def with_broken_stderr(*arguments):
    """Run a command whose messages nobody reads."""
    read, write = os.pipe()
    os.close(read)
    try:
        return longalign(*arguments, stderr=write)
    finally:
        os.close(write)


def in_shell(arguments, redirection):
    """Run a command with redirections of a shell."""
    command = f"{shlex.join([*FORMS['module'], *arguments])} {redirection}"
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def paf():
    return longalign("align", *PAIR, "-q").stdout


@pytest.mark.parametrize("style", STYLES)
def test_stderr_that_cannot_be_written_does_not_end_a_run(paf, style):
    for redirection in ("2>&-", "2>/dev/full", "2>&- <&-"):
        done = in_shell(["align", *PAIR, *style], redirection)
        assert (done.returncode, done.stdout) == (0, paf)
    done = with_broken_stderr("align", *PAIR, *style)
    assert (done.returncode, done.stdout) == (0, paf)


@pytest.mark.parametrize("style", STYLES)
def test_a_notice_that_cannot_be_written_does_not_end_a_run(paf, style):
    longalign("align", *PAIR, "-q", "--store", "s")
    Path("s/tiles/r00000c00000.h5").write_bytes(b"rubbish")
    done = in_shell(["resume", "s", "--backend", "cpu", *style], "2>/dev/full")
    assert (done.returncode, done.stdout) == (0, paf)


def test_a_reader_of_progress_that_goes_away_does_not_end_a_run(tmp_path):
    with start(align(tmp_path / "broken", extra=["-o", str(tmp_path / "out.paf")])) as process:
        assert "phase_started" in process.stderr.readline()
        process.stderr.close()
        assert process.wait(timeout=120) == 0
    assert (tmp_path / "out.paf").read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["fly"], 2), (["align", "no.fa", "t.fa"], 1), (["align", *PAIR, "--gap-open", "-1"], 2)],
)
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_an_error_that_cannot_be_told_keeps_its_exit_code(arguments, code, redirection):
    assert in_shell(arguments, redirection).returncode == code


def test_a_file_never_takes_the_place_of_a_closed_stream():
    """Messages of libraries would go into it."""
    program = (
        "import longalign.cli.command as command, os, sys\n"
        "command._run = lambda *_: print(os.open('q.fa', os.O_RDONLY)) or 0\n"
        "from longalign.__main__ import main; sys.exit(main())"
    )
    command = shlex.join([FORMS["module"][0], "-c", program]) + " <&- 2>&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert int(done.stdout) > 2


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["align", "--help"], ["align", *PAIR, "-q"], ["devices"]]
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_stdout_that_cannot_be_written_is_an_error(monkeypatch, arguments, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    done = in_shell(arguments, ">/dev/full")
    assert (done.returncode, done.stderr) == (
        1,
        "longalign: stdout: cannot be written: no space left on device\n",
    )
    done = in_shell(arguments, ">&-")
    assert (done.returncode, done.stderr) == (1, "longalign: stdout: cannot be written: it is closed\n")
