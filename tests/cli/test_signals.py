"""Signals that end a command, at any moment: its line and 128 plus the number, or a run that was complete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import FORMS, PAIR, folder, longalign, wait_for_handlers  # noqa: F401 - a fixture

from longalign.cli.interrupts import Interrupts

pytestmark = pytest.mark.usefixtures("folder")

INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
LINES = ["interrupted", "interrupted; with --store DIR a run can be resumed"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the sweep reads /proc")
@pytest.mark.parametrize(
    ("form", "number", "times"),
    [
        ("module", signal.SIGINT, 1),
        ("module", signal.SIGTERM, 2),
        ("script", signal.SIGTERM, 1),
        ("script", signal.SIGINT, 2),
    ],
)
def test_a_signal_at_any_moment(form, number, times):
    for turn in range(2 * times - 2, 40, 4):
        command = [*FORMS[form], "align", *PAIR, "-q"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_for_handlers(process)
            time.sleep(turn * 0.02)
            for again in range(times):
                time.sleep(0.003 * again)
                process.send_signal(number)
            _, err = process.communicate(timeout=120)
        expected = [(128 + number, f"longalign: {line}\n") for line in LINES]
        assert (process.returncode, err) in [*expected, (0, "")]


@pytest.fixture
def hangup_ends_a_process():
    """As it does by default. Where `nohup` runs the tests, processes that they start would ignore SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.usefixtures("hangup_ends_a_process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("command", ["score", "align"])
def test_a_signal_while_a_kernel_is_compiled_does_not_wait_for_it(tmp_path, command, stored, number):
    """The first kernel takes seconds. Were it waited for, it would be in the cache."""
    cache = tmp_path / "cache"
    options = ["--store", "s"] if stored else []
    started = [*FORMS["module"], command, *PAIR, "--progress", "json", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(started, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, **pipes) as process:
        events = iter(process.stderr.readline, "")
        assert any('"compile_started"' in line for line in events)
        time.sleep(0.2)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    advice = (
        "go on with: longalign resume s --backend=cpu" if stored else "with --store DIR a run can be resumed"
    )
    last = err.splitlines()[-1]
    assert (process.returncode, out, last) == (128 + number, "", f"longalign: interrupted; {advice}")
    assert not [path for path in cache.rglob("*") if path.is_file()]
    if stored:
        assert not [path for path in Path("s").rglob("*") if "tmp" in path.name]
        resumed = longalign("resume", "s", "--backend", "cpu", "-q")
        undisturbed = longalign(command, *PAIR, "-q")
        assert (resumed.returncode, resumed.stderr, resumed.stdout) == (0, "", undisturbed.stdout)


@pytest.mark.slow
def test_a_signal_while_a_kernel_is_loaded_is_not_lost_in_llvm():
    """LLVM asks Python for a kernel's code. If that raised an exception, it would go on without the code.

    The kernels of sweeps are loaded by worker threads here, which no signal reaches. The main thread loads
    others.
    """
    assert longalign("align", *PAIR, "-q").returncode == 0  # its kernels are on disk now
    program = (
        "import os, signal, sys\n"
        "from numba.core.codegen import CPUCodeLibrary\n"
        "get = CPUCodeLibrary._object_getbuffer_hook.__func__\n"
        "def get_interrupted(kind, module):\n"
        "    library = getattr(module, '_CPUCodeLibrary__library', None)\n"
        "    if getattr(library, '_compiled_object', None) and 'sweep' not in library.name:\n"
        f"        {INTERRUPT}\n"
        "    return get(kind, module)\n"
        "CPUCodeLibrary._object_getbuffer_hook = classmethod(get_interrupted)\n"
        "from longalign.__main__ import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "align", *PAIR, "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, f"longalign: {LINES[1]}\n")


def in_process(body):
    """Run a process whose command is `body`, the body of a function, by `python -m`."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    program = (
        "import os, signal, sys\n"
        "import longalign.cli.command as command\n"
        f"def run(arguments, options):\n{lines}\n"
        "command._run = run\n"
        "from longalign.__main__ import main\n"
        "sys.exit(main())\n"
    )
    # A module, as CPython treats a KeyboardInterrupt within `-m` in a way of its own.
    Path("program.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "program"], capture_output=True, text=True, check=False, timeout=60
    )


def test_an_interrupt_within_compiled_text_does_not_end_the_process_by_a_signal():
    done = in_process(f"exec('{INTERRUPT}')")
    assert (done.returncode, done.stderr) == (130, "longalign: interrupted\n")


def test_an_interrupt_that_a_finalizer_swallows_comes_again():
    body = f"""
import time
class Swallowing:
    def __del__(self):
        {INTERRUPT}
Swallowing()
time.sleep(60)
return 0"""
    done = in_process(body)
    assert (done.returncode, done.stderr) == (130, "longalign: interrupted\n")


def test_an_interrupt_waits_for_the_end_of_an_import(tmp_path):
    (tmp_path / "importing.py").write_text(f"import os, signal\n{INTERRUPT}\nprint('imported', flush=True)\n")
    done = in_process("sys.path.insert(0, '.')\nimport importing, time\ntime.sleep(60)")
    assert (done.returncode, done.stdout, done.stderr) == (130, "imported\n", "longalign: interrupted\n")


def test_a_second_interrupt_while_cleaning_up_ends_with_the_line():
    body = f"try:\n    {INTERRUPT}\nfinally:\n    {INTERRUPT}"
    done = in_process(body)
    assert (done.returncode, done.stderr) == (130, "longalign: interrupted\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_after_the_end_leave_the_exit_code(name):
    body = f"""
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.{name}):
        kill(pid, number)
sys.last = Last()  # is finalized after the interpreter has put its own signal handlers back
print('written')
return 0"""
    done = in_process(body)
    assert (done.returncode, done.stdout, done.stderr) == (0, "written\n", "")


def test_a_signal_while_the_interpreter_joins_threads_ends_the_process():
    body = """
import threading, time
def wait():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
threading.Thread(target=wait).start()
print('written')
return 0"""
    done = in_process(body)
    assert (done.returncode, done.stdout, done.stderr) == (0, "written\n", "")


def test_a_thread_that_an_interrupt_left_with_a_lock_of_hdf5_does_not_keep_the_process():
    """Of a store that is written, objects are finalized at the end, which take that lock."""
    body = f"""
import threading, time
import h5py
from h5py._objects import phil
taken = threading.Event()
def hold():
    with phil:
        taken.set()
        time.sleep(600)
sys.last = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
threading.Thread(target=hold, daemon=True).start()
taken.wait()
{INTERRUPT}"""
    done = in_process(body)
    assert (done.returncode, done.stderr) == (130, "longalign: interrupted\n")


def test_ignored_signals_stay_ignored():
    program = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    )
    child = (
        "import os, signal, sys, longalign.cli.command as command\n"
        f"command._run = lambda *_: {INTERRUPT} or 0\n"
        "from longalign.__main__ import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, sys.executable, "-c", child]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_outside_of_a_command_a_signal_is_noted_only():
    interrupts = Interrupts()
    interrupts.catch()
    try:
        signal.raise_signal(signal.SIGTERM)
        assert (interrupts.struck, interrupts.exit_code) == (signal.SIGTERM, 143)
        with pytest.raises(KeyboardInterrupt):
            interrupts.during(lambda: None)
    finally:
        interrupts.release()


def test_an_interrupt_while_a_lock_is_taken_is_delivered_afterwards():
    """Otherwise the lock stays taken, and a thread that waits for it never ends."""
    passed = []
    condition = threading.Condition()
    # A function in C: the innermost Python function is that of the condition.
    take = partial(signal.raise_signal, signal.SIGINT)
    condition._lock = SimpleNamespace(__enter__=take, __exit__=lambda *_: passed.append("released"))

    def enter_and_leave() -> None:
        with condition:
            passed.append("inside")
        time.sleep(60)

    interrupts = Interrupts()
    interrupts.catch()
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupts.during(enter_and_leave)
    finally:
        interrupts.release()
    assert passed == ["inside", "released"]


def test_finalizers_of_objects_whose_construction_was_interrupted_print_nothing():
    done = in_process(
        "class Half:\n"
        "    def __init__(self):\n"
        f"        {INTERRUPT}\n"
        "        self.whole = True\n"
        "    def __del__(self):\n"
        "        self.whole\n"
        "Half()"
    )
    assert (done.returncode, done.stderr) == (130, "longalign: interrupted\n")


def test_finalizers_that_fail_without_an_interrupt_are_reported():
    done = in_process("class Failing:\n    def __del__(self):\n        self.whole\nFailing()\nreturn 0")
    assert done.returncode == 0
    assert "AttributeError: 'Failing' object has no attribute 'whole'" in done.stderr
