"""Limits of the system, and inputs without end: one line, never a signal, a traceback or a full memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PAIR, folder, limited, longalign  # noqa: F401 - a fixture

from longalign.system import memory_limits

pytestmark = pytest.mark.usefixtures("folder")

MATRIX = ["--gap-open", "10", "--gap-extend", "1", "-q", "--matrix"]


@pytest.fixture
def store(folder):  # noqa: F811
    """A finished store, its output, and the command lines that use them."""
    assert longalign("align", *PAIR, "-q", "--store", "s", "-o", "x.paf").returncode == 0


def assert_works_or_says_why(done):
    """Success, or one line and an exit code of ours."""
    assert done.returncode in (0, 1, 2, 3)
    if done.returncode:
        assert done.stderr.startswith("longalign: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("store")
@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["align", *PAIR, "-q", "--store", "new"],
        ["resume", "s", "--backend", "cpu", "-q"],
        ["verify", "x.paf", "q.fa", "t.fa"],
        ["inspect", "s"],
        ["devices"],
    ],
)
def test_few_open_files(arguments):
    # With fewer than five, the interpreter itself does not start.
    for most in (5, 6, 7, 8, 10, 12, 14, 17, 20):
        assert_works_or_says_why(longalign(*arguments, preexec_fn=limited(resource.RLIMIT_NOFILE, most)))


@pytest.mark.slow
@pytest.mark.parametrize("most", [5, 6])
def test_too_few_open_files_for_a_sequence(most):
    """Of a sequence that a pipe holds, the writing end may be closed before another file is opened."""
    Path("long.fa").write_text(">long\n" + "ACGT" * 50_000 + "\n")
    done = longalign("align", "long.fa", *PAIR[1:], "-q", preexec_fn=limited(resource.RLIMIT_NOFILE, most))
    assert done.returncode == 3
    assert done.stderr == "longalign: the system refuses this process more open files (ulimit -n)\n"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["module", "script"])
def test_little_address_space(form):
    # With less than 20 MB, the interpreter itself does not start.
    for megabytes in [*range(20, 100, 8), 150, 250, 500, 800, 1023, 1200, 2000, 4000]:
        limit = limited(resource.RLIMIT_AS, megabytes << 20)
        done = longalign("align", *PAIR, "-q", form=form, preexec_fn=limit)
        assert_works_or_says_why(done)
        if megabytes < 1024:
            assert (done.returncode, "of address space" in done.stderr) == (3, True)


def test_the_limit_on_address_space_bounds_what_a_run_may_take(monkeypatch):
    monkeypatch.setattr(memory_limits, "_OWN_GROUPS", Path("none"))
    before = memory_limits.free_memory()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    try:
        taken = memory_limits.psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 28), limits[1]))
        assert memory_limits.free_memory() <= min(before, (1 << 28) + (8 << 20))  # it may just have shrunk
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("blocks", [1, 4])
def test_small_files(blocks):
    limit = limited(resource.RLIMIT_FSIZE, blocks << 10)
    done = longalign("align", *PAIR, "-q", "--store", "s", preexec_fn=limit)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot be written: file too large" in done.stderr


@pytest.mark.parametrize(
    "error", ["ImportError('x.so: failed to map segment from shared object')", "MemoryError()"]
)
def test_a_library_that_cannot_be_imported_for_lack_of_memory(error):
    program = (
        "import sys, longalign.cli.command as command\n"
        f"def run(*_): raise {error}\n"
        "command._run = run\n"
        "from longalign.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("longalign: out of memory: ")


@pytest.mark.parametrize("matrix", ["/dev/zero", "fifo", "large"])
def test_a_matrix_without_end_is_refused(run, matrix):
    Path("large").write_bytes(b"#" * (1 << 20) + b"\n")
    os.mkfifo("fifo")
    with subprocess.Popen("cat /dev/zero >fifo", shell=True, stderr=subprocess.DEVNULL) as source:
        try:
            assert run("align", "q.fa", "t.fa", *MATRIX, matrix) == (
                1,
                "",
                f"longalign: {matrix}: not a matrix: larger than 1M\n",
            )
        finally:
            if matrix != "fifo":  # nobody else reads it
                os.close(os.open("fifo", os.O_RDONLY))
            source.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("cat /dev/zero", "not FASTA: line 1 begins with"),
        ("printf '>'; cat /dev/zero", "line 1: a header of more than 1048576 bytes"),
        ("cat q.fa; printf '>'; cat /dev/zero", "line 3: a header of more than 1048576 bytes"),
        ("true", "empty file"),
        ("yes '' | head -c 30000000", "no FASTA record"),
        ("yes '' | head -c 300000; echo ' >x'", "not FASTA: line 300001 begins with ' >x', not with '>'"),
    ],
)
def test_a_stream_that_is_no_fasta_is_refused_in_little_memory(source, text):
    done = subprocess.run(
        f"({source}) | {sys.executable} -m longalign align - t.fa --backend cpu -q",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("longalign: ")]
    assert (done.returncode, len(errors)) == (1, 1)
    assert errors[0].startswith(f"longalign: stdin: {text}")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [("/dev/zero", "not FASTA: line 1 begins with"), ("/dev/null", "empty file"), (".", "is a directory")],
)
def test_what_is_no_file_of_sequences(run, name, text):
    code, out, err = run("align", name, "t.fa")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"longalign: {name}: {text}")
