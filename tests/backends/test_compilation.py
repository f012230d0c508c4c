"""Kernels compiled ahead of use in separate processes, and the reports about the compiler to a run."""

from __future__ import annotations

import json
import os
import threading
import time
from contextvars import copy_context
from functools import partial
from unittest import mock

import pytest

from longalign.backends import compilation, compile_processes
from longalign.backends.base import Kernel
from longalign.backends.compilation import (
    compile_or_load,
    compiles_reported,
    is_on_disk,
    kernel_lock,
    polled,
    waiting_for_compiler,
)
from longalign.backends.compile_processes import (
    compile_all,
    compiled_in_processes,
    kernels_to_compile,
    path_kernels_compiled,
)
from longalign.backends.cpu import CpuBackend
from longalign.backends.cpu.jit import compile_entry
from longalign.errors import BackendError
from longalign.events import CompileFinished, CompileStarted
from longalign.model.scoring import Scoring
from longalign.system.threads import WorkerThreads
from longalign.testing.reference import ReferenceBackend

pytestmark = pytest.mark.usefixtures("folder")

DNA = Scoring()


def add_one(key: str = "one") -> None:
    """Compile a function or load it from disk, as a new process would."""

    def body(x: int) -> int:
        return x + 1

    compile_entry(body, key, (1,))


class OneKernel(ReferenceBackend):
    """Has one kernel. A process that compiles takes it for the CPU back end's kernel of that name; in this
    process it is `add_one`, which has a file of its own."""

    name = "cpu"

    def __init__(self, name: str | None = None) -> None:
        self._kernel = Kernel(name or CpuBackend(1).kernels()[-1].name, partial(add_one, "another"))

    def kernels(self, scoring=None, *, local=True):
        return [self._kernel]


# --- reports


def test_a_kernel_that_is_compiled_is_reported_and_one_from_disk_is_not():
    events = []
    with compiles_reported(events.append):
        add_one()
        add_one()
    assert [type(event) for event in events] == [CompileStarted, CompileFinished]
    assert {event.device for event in events} == {"cpu"}
    assert events[1].seconds > 0
    add_one("unheard")
    assert len(events) == 2


def test_waits_that_overlap_are_one_interval():
    events = []
    inside, leave = threading.Event(), threading.Event()

    def wait() -> None:
        with waiting_for_compiler("cuda:0"):
            inside.set()
            leave.wait(10)

    with compiles_reported(events.append):
        thread = threading.Thread(target=copy_context().run, args=(wait,))
        thread.start()
        inside.wait(10)
        with waiting_for_compiler("cuda:0"):
            time.sleep(0.01)
        assert len(events) == 1
        leave.set()
        thread.join()
    assert [type(event) for event in events] == [CompileStarted, CompileFinished]
    assert events[1].seconds >= 0.01


def test_an_interrupt_before_a_wait_begins_ends_no_wait(monkeypatch):
    events = []
    with compiles_reported(events.append):
        with monkeypatch.context() as patched:
            patched.setattr(compilation._Waits, "begin", mock.Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt), waiting_for_compiler("cuda:0"):
                pass
        with waiting_for_compiler("cuda:0"):
            pass
    assert [type(event) for event in events] == [CompileStarted, CompileFinished]


def test_waits_one_after_the_other_are_reported_in_their_order():
    events, is_ending, second = [], threading.Event(), []

    def emit(event) -> None:
        if isinstance(event, CompileFinished) and not second:
            second.append(threading.Thread(target=copy_context().run, args=(wait,)))
            second[0].start()
            is_ending.wait(0.05)  # enough for the second wait to begin, if it can
        events.append(type(event))

    def wait() -> None:
        with waiting_for_compiler("cuda:0"):
            pass
        is_ending.set()

    with compiles_reported(emit):
        with waiting_for_compiler("cuda:0"):
            pass
        second[0].join()
    assert events == [CompileStarted, CompileFinished] * 2


def test_each_run_hears_of_its_own_waits():
    """Also from threads of its own, and if the listener of another run fails."""
    events, failed = [], []

    def fail(event) -> None:
        raise KeyError("enough")

    def other_run() -> None:
        with compiles_reported(fail), pytest.raises(KeyError), waiting_for_compiler("cuda:1"):
            pass
        failed.append(True)

    with compiles_reported(events.append), WorkerThreads(1) as threads:

        def call() -> None:
            other = threading.Thread(target=other_run)
            other.start()
            other.join()

        threads.submit(compile_or_load, "cuda:0", bool, call).result(60)
    assert events == [CompileStarted("cuda:0"), CompileFinished("cuda:0", events[1].seconds)]
    assert failed == [True]


def test_after_a_run_nothing_is_reported_to_it():
    """An interrupt may end a run while one of its threads still waits for the compiler."""
    events = []
    is_waiting, is_compiled = threading.Event(), threading.Event()

    def wait() -> None:
        with waiting_for_compiler("cpu"):
            is_waiting.set()
            is_compiled.wait(60)

    with WorkerThreads(1) as threads:
        with compiles_reported(events.append):
            waiting = threads.submit(wait)
            assert is_waiting.wait(60)
        is_compiled.set()
        waiting.result(60)
    assert events == [CompileStarted("cpu")]


def test_a_wait_for_a_kernel_that_another_thread_compiles_is_reported(monkeypatch):
    monkeypatch.setattr(compilation, "_LONGEST_LOAD", 0.01)
    lock, events = threading.Lock(), []
    lock.acquire()
    threading.Timer(0.2, lock.release).start()
    with compiles_reported(events.append), kernel_lock(lock, "cpu"):
        assert lock.locked()
    assert [type(event) for event in events] == [CompileStarted, CompileFinished]
    events.clear()
    with compiles_reported(events.append), kernel_lock(lock, "cpu"):
        assert lock.locked()
    assert events == []
    assert not lock.locked()


def test_asking_for_a_kernel_does_not_compile_it():
    kernel = Kernel("one", add_one)
    assert not is_on_disk(kernel)
    assert not is_on_disk(kernel)
    add_one()
    assert is_on_disk(kernel)


def test_a_wait_for_the_compiler_that_is_given_up_is_reported_to_its_end():
    events, may_end = [], threading.Event()

    def give_up() -> None:
        if events:
            raise KeyError("enough")

    with compiles_reported(events.append), polled(give_up), pytest.raises(KeyError, match="enough"):
        compile_or_load("cpu", bool, lambda: may_end.wait(60))
    may_end.set()
    assert [type(event) for event in events] == [CompileStarted, CompileFinished]


def test_only_the_innermost_block_polls():
    polls = []
    with polled(lambda: polls.append("outer")):
        with polled(lambda: polls.append("inner")):
            compile_or_load("cpu", bool, lambda: None)
        compile_or_load("cpu", bool, lambda: None)
    compile_or_load("cpu", bool, lambda: None)
    compile_or_load("cpu", lambda: True, lambda: None)
    assert [*dict.fromkeys(polls)] == ["inner", "outer"]


# --- which kernels


def test_names_are_unique_and_those_of_a_path_are_among_all():
    backend = CpuBackend(1)
    names = [kernel.name for kernel in backend.kernels()]
    assert len(set(names)) == len(names)
    for local in (True, False):
        path = [kernel.name for kernel in backend.kernels(DNA, local=local)]
        assert path
        assert set(path) <= set(names)


# --- processes


@pytest.mark.slow
def test_a_kernel_compiled_in_a_process_is_on_disk(folder):
    backend = OneKernel()
    advanced = []
    compile_all(backend, [backend.kernels()[0].name], lambda: advanced.append(1))
    assert advanced == [1]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1


@pytest.mark.slow
def test_a_kernel_that_does_not_compile_is_one_error():
    with pytest.raises(BackendError, match=r"^cpu: kernel 'no such kernel': KeyError\('no such kernel'\)$"):
        compile_all(OneKernel(), ["no such kernel"], lambda: None)


def test_a_process_that_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(compile_processes, "_PROGRAM", "import sys; sys.exit(1)")
    with pytest.raises(BackendError, match=r"^cpu: kernel 'any': the process that compiled it has ended$"):
        compile_all(OneKernel(), ["any"], lambda: None)


def test_a_process_that_ends_is_replaced(monkeypatch):
    program = """
import sys
for line in sys.stdin:
    if "fatal" in line:
        sys.exit(1)
    print("null", flush=True)
"""
    monkeypatch.setattr(compile_processes, "_PROGRAM", program)
    names = ["one", "fatal", "two", "three"]
    with compiled_in_processes(OneKernel(), names, max_processes=1) as futures:
        outcomes = dict(future.result() for future in futures)
    assert outcomes.pop("fatal") == "the process that compiled it has ended"
    assert outcomes == {"one": None, "two": None, "three": None}


def test_a_process_that_answers_nonsense_keeps_no_kernel_waiting(monkeypatch):
    monkeypatch.setattr(
        compile_processes, "_PROGRAM", "import sys\nfor _ in sys.stdin: print('?', flush=True)"
    )
    with compiled_in_processes(OneKernel(), ["one", "two"], max_processes=1) as futures:
        assert [type(future.exception(60)) for future in futures] == [json.JSONDecodeError] * 2


def test_a_cache_that_cannot_be_written_is_said_before_anything_is_compiled(folder):
    folder.write_text("a file is in the way")
    with pytest.raises(BackendError, match=r"^compiled kernels cannot be kept, as .* cannot be written"):
        compile_all(OneKernel(), ["any"], lambda: None)


def test_leaving_ends_processes_that_still_compile(monkeypatch):
    start, started = compile_processes._start, []
    monkeypatch.setattr(compile_processes, "_PROGRAM", "import time; time.sleep(600)")
    monkeypatch.setattr(compile_processes, "_start", lambda *of: started.append(start(*of)) or started[-1])
    with compiled_in_processes(OneKernel(), ["any"], 1) as futures:
        assert len(futures) == 1
        assert started[0].poll() is None
    assert [process.poll() is None for process in started] == [False]


# --- during phase 1


@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_beside_a_short_phase_nothing_is_compiled(monkeypatch, seconds):
    monkeypatch.setattr(compile_processes, "_start", lambda *_: pytest.fail("a process was started"))
    with path_kernels_compiled(OneKernel(), DNA, True, seconds) as wait:
        wait()


def test_kernels_on_disk_are_not_compiled_beside_phase_1(monkeypatch):
    monkeypatch.setattr(compile_processes, "_start", lambda *_: pytest.fail("a process was started"))
    add_one("another")
    with path_kernels_compiled(OneKernel(), DNA, True, 100.0) as wait:
        wait()


def test_nothing_is_compiled_beside_phase_1_where_it_cannot_be_kept(folder, monkeypatch):
    monkeypatch.setattr(compile_processes, "_start", lambda *_: pytest.fail("a process was started"))
    folder.write_text("a file is in the way")
    with path_kernels_compiled(OneKernel(), DNA, True, 100.0) as wait:
        wait()


@pytest.mark.slow
def test_what_phases_2_and_3_need_is_compiled_beside_phase_1(folder):
    events = []
    with compiles_reported(events.append), path_kernels_compiled(OneKernel(), DNA, True, 100.0) as wait:
        wait()
        wait()
    assert [type(event) for event in events] == [CompileStarted, CompileFinished]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1


def test_where_no_process_can_be_started_the_run_goes_on(monkeypatch):
    def refuse(*_):
        raise OSError(os.strerror(11))

    monkeypatch.setattr(compile_processes, "_start", refuse)
    with path_kernels_compiled(OneKernel(), DNA, True, 100.0) as wait:
        wait()
    with pytest.raises(BackendError, match="no process that compiles can be started"):
        compile_all(OneKernel(), ["any"], lambda: None)


def test_kernels_to_compile_are_counted():
    assert kernels_to_compile(OneKernel())[1] == 0
    add_one("another")
    assert kernels_to_compile(OneKernel()) == ([], 1)
