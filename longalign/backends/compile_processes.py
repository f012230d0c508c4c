"""Compile kernels before they are needed, in separate processes, into the cache on disk.

Numba compiles one function at a time in a process, and holds the GIL meanwhile. Separate processes compile in
parallel, do not slow down a sweep that needs the GIL, and can be ended at any moment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event

from longalign.backends.base import Backend
from longalign.backends.compilation import is_on_disk, waiting_for_compiler
from longalign.backends.kernel_cache import is_writable, why_not_writable
from longalign.errors import BackendError
from longalign.model.scoring import Scoring
from longalign.system.memory_limits import free_memory
from longalign.system.threads import WorkerThreads, processors

#: Bytes of host memory that a compiling process may take, estimated for the largest CUDA kernel.
_PROCESS_BYTES = 512 << 20

#: Niceness of processes that compile during a sweep.
_LOW_PRIORITY = 10

#: Nothing is compiled during a phase 1 of fewer seconds than this. A process takes two seconds to start.
_WORTH_A_PROCESS = 3.0

_ROOT = str(Path(__file__).parents[2])

#: The program of a process. It imports this very package, and not another one in the working directory.
_PROGRAM = (
    f"import sys; {_ROOT!r} in sys.path or sys.path.insert(0, {_ROOT!r})\n"
    "from longalign.backends.compile_processes import serve; serve(sys.argv[1], int(sys.argv[2]))"
)

#: A kernel's name, and why it could not be compiled.
Outcome = tuple[str, str | None]


def kernels_to_compile(backend: Backend) -> tuple[list[str], int]:
    """The names of all kernels of a device that are not on disk, and the number of the others."""
    kernels = backend.kernels()
    missing = [kernel.name for kernel in kernels if not is_on_disk(kernel)]
    return missing, len(kernels) - len(missing)


@contextmanager
def compiled_in_processes(
    backend: Backend, names: Sequence[str], max_processes: int, niceness: int = 0
) -> Iterator[list[Future[Outcome]]]:
    """Compile these kernels in at most `max_processes` processes, or fewer if memory is short.

    Yields a future for each kernel, or an empty list if no process can be started. A process that ends by
    itself, for example for lack of memory, is replaced. Leaving the context ends all processes, including
    those that are still compiling.
    """
    room = max(1, free_memory() // _PROCESS_BYTES)
    count = max(1, min(len(names), max_processes, room, backend.max_compilers()))
    processes: list[subprocess.Popen[str]] = []
    idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    threads = WorkerThreads(count, "compile")
    is_left = Event()

    def replacement(ended: subprocess.Popen[str]) -> subprocess.Popen[str]:
        if not is_left.is_set():
            with suppress(OSError):  # the system refuses another process
                started = _start(backend.name, niceness)
                processes.append(started)
                # If the block was left while this process started, it was not among those that were ended.
                if is_left.is_set():
                    started.kill()
                return started
        return ended

    def compile_one(name: str) -> Outcome:
        process = idle.get()
        try:
            return name, _ask(process, name)
        except EOFError:
            process = replacement(process)
            return name, "the process that compiled it has ended"
        finally:
            idle.put(process)

    try:
        with suppress(OSError):  # the system refuses another process: continue with fewer
            for _ in range(count):
                processes.append(_start(backend.name, niceness))
        for process in processes:
            idle.put(process)
        yield [threads.submit(compile_one, name) for name in names] if processes else []
    finally:
        is_left.set()
        for process in processes:
            process.kill()
        threads.shutdown(cancel_futures=True)
        for process in processes:
            process.communicate()


@contextmanager
def path_kernels_compiled(
    backend: Backend, scoring: Scoring, local: bool, phase_1_seconds: float
) -> Iterator[Callable[[], None]]:
    """Compile the kernels of phases 2 and 3, at low priority, while the block runs phase 1.

    Yields a function that waits for these kernels. Nothing is compiled if phase 1 is expected to be short, if
    all kernels are on disk, or if the cache is not writable. A kernel that does not compile here fails again,
    with a message, when it is used.
    """
    missing: list[str] = []
    if phase_1_seconds >= _WORTH_A_PROCESS and sys.executable and is_writable():
        missing = [kernel.name for kernel in backend.kernels(scoring, local=local) if not is_on_disk(kernel)]
    if not missing:
        yield lambda: None
        return
    with compiled_in_processes(backend, missing, max(1, processors() // 2), _LOW_PRIORITY) as futures:

        def wait() -> None:
            if not all(future.done() for future in futures):
                with waiting_for_compiler(backend.name):
                    for future in futures:
                        future.result()

        yield wait


def compile_all(backend: Backend, names: Sequence[str], advance: Callable[[], object]) -> None:
    """Compile these kernels on all processors. `advance` is called after each kernel.

    Raises BackendError if the cache is not writable or no process can be started. Also raises it if a kernel
    does not compile, naming one such kernel, after all other kernels were tried.
    """
    if (why := why_not_writable()) is not None:
        raise BackendError(f"compiled kernels cannot be kept, as {why}: set XDG_CACHE_HOME")
    failures = []
    with compiled_in_processes(backend, names, processors()) as futures:
        if not futures:
            raise BackendError("no process that compiles can be started")
        for future in as_completed(futures):
            name, error = future.result()
            advance()
            if error is not None:
                failures.append(f"{backend.name}: kernel {name!r}: {error}")
    if failures:
        raise BackendError(min(failures))


def serve(device: str, niceness: int) -> None:
    """Compile the kernels named on stdin, one a line. Answers each line with a line of JSON on stdout.

    The answer is null, or a text that says why the kernel does not compile.
    """
    with suppress(OSError):
        os.nice(niceness)
    kernels: dict[str, Callable[[], object]] | None = None
    for line in sys.stdin:
        error = None
        try:
            if kernels is None:
                kernels = {kernel.name: kernel.load for kernel in _open(device).kernels()}
            kernels[line.removesuffix("\n")]()
        except Exception as failure:  # of any kind: the parent process reports it
            error = str(failure) if isinstance(failure, BackendError) else repr(failure)
        print(json.dumps(error), flush=True)


def _open(device: str) -> Backend:
    from longalign.backends.select import open_backends

    choice, _, index = device.partition(":")
    [backend] = open_backends(choice, threads=1, devices=[int(index)] if index else [])
    return backend


def _start(device: str, niceness: int) -> subprocess.Popen[str]:
    """Start a process that runs `serve`, in its own session: Ctrl-C then reaches only the parent."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, device, str(niceness)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _ask(process: subprocess.Popen[str], name: str) -> str | None:
    """Have a process compile a kernel. Returns why it does not compile, or None if it does.

    Raises EOFError if the process has ended.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{name}\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    except (OSError, ValueError):  # ValueError: the pipe was closed
        answer = ""
    if not answer:
        raise EOFError
    error: str | None = json.loads(answer)
    return error
