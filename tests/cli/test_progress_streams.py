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


def in_shell(arguments, redirection):
    """Run a command with redirections of a shell."""
    command = f"{shlex.join([*FORMS['module'], *arguments])} {redirection}"
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def paf(run):
    return run("align", *PAIR, "-q")[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("style", "redirection"),
    [
        ("none", "2>/dev/full"),
        ("json", "2>/dev/full"),
        ("json", "2>&- <&-"),
        ("bar", "2>&-"),
    ],
)
def test_stderr_that_cannot_be_written_does_not_end_a_run(paf, style, redirection):
    done = in_shell(["align", *PAIR, "--progress", style], redirection)
    assert (done.returncode, done.stdout) == (0, paf)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["json", "bar"])
def test_stderr_without_a_reader_does_not_end_a_run(paf, style):
    read, write = os.pipe()
    os.close(read)
    try:
        done = longalign("align", *PAIR, "--progress", style, stderr=write)
    finally:
        os.close(write)
    assert (done.returncode, done.stdout) == (0, paf)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["none", "json"])
def test_a_notice_that_cannot_be_written_does_not_end_a_run(run, paf, style):
    assert run("align", *PAIR, "-q", "--store", "s")[0] == 0
    Path("s/tiles/r00000c00000.h5").write_bytes(b"rubbish")
    done = in_shell(["resume", "s", "--backend", "cpu", "--progress", style], "2>/dev/full")
    assert (done.returncode, done.stdout) == (0, paf)


@pytest.mark.slow
def test_a_reader_of_progress_that_goes_away_does_not_end_a_run(tmp_path):
    with start(align(tmp_path / "broken", extra=["-o", str(tmp_path / "out.paf")])) as process:
        assert "phase_started" in process.stderr.readline()
        process.stderr.close()
        assert process.wait(timeout=120) == 0
    assert (tmp_path / "out.paf").read_text().count("\n") == 1


@pytest.mark.slow
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


FULL, CLOSED = (">/dev/full", "no space left on device"), (">&-", "it is closed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "stream", "unbuffered"),
    [
        *(
            (arguments, stream, "")
            for arguments in (["align", "--help"], ["align", *PAIR, "-q"])
            for stream in (FULL, CLOSED)
        ),
        (["devices"], FULL, ""),
        (["--help"], CLOSED, ""),
        (["--version"], FULL, "1"),
        (["align", *PAIR, "-q"], FULL, "1"),
    ],
    ids=str,
)
def test_stdout_that_cannot_be_written_is_an_error(monkeypatch, arguments, stream, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    redirection, why = stream
    done = in_shell(arguments, redirection)
    message = f"longalign: stdout: cannot be written: {why}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)
