"""Limits of the system: real processes under tight limits succeed or fail with one line.

`python -m longalign` runs under `ulimit` with few open files, few processes and threads, little address space
or small files, or with little memory, but this only where a control group (cgroup v2) can be made. Asserted:
it succeeds with the optimal score, or exits with 1, 2 or 3 and one line; it never shows a traceback and never
dies by a signal. A case proves nothing, and passes, if the interpreter itself cannot start under the limit,
or if the kernel kills the process for the memory of its control group.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from attacks.base import Attack, CaseFailed, expect
from attacks.children import ROOT, ProcessResult, real_command, run_real
from attacks.problems import variants

_VARIANTS = 4
_CGROUP = Path("/sys/fs/cgroup")
_NOBODY = 65534
#: Imports the modules that Python loads before the first line of longalign.
_BARE = "import runpy, encodings.idna"


class Limits(Attack):
    weight = 1.0
    limit = 90.0

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        self._problem = variants(f"limits:{seed}", folder, [600], ("align", "align", "score"))

    def run(self, rng: random.Random) -> int:
        problem = self._problem(rng.randrange(_VARIANTS))
        folder = self.fresh()
        output = folder / "out"
        arguments = problem.run_arguments(folder / "store" if rng.random() < 0.7 else None, output)
        prefix, what = _limited(rng, folder)
        self.note(what)
        try:
            bare = run_real([*prefix, sys.executable, "-c", _BARE], folder, seconds=60)
            if bare.code != 0:  # Python itself does not start
                return 1
            ended = run_real([*prefix, *real_command(arguments)], folder, seconds=60)
            if _was_out_of_memory(prefix, ended):
                return 1
            ended.check({0, 1, 2, 3}, "the run")
            if ended.code == 0:
                found, wanted = output.read_bytes(), problem.expected
                expect(found == wanted, f"wrote {found!r}, not {wanted!r}")
        except CaseFailed as fault:
            raise CaseFailed(f"{what}: {fault}") from fault
        finally:
            with suppress(OSError):  # this case has no group, or a process of it is about to end
                _group().rmdir()
        return 1


def _limited(rng: random.Random, folder: Path) -> tuple[list[str], str]:
    """A prefix for a command that sets a limit, and the description of the limit."""
    kinds = {
        "-n": rng.randint(4, 24),
        "-v": rng.choice([300, 500, 800, 1200, 2000, 4000]) << 10,
        "-f": rng.choice([0, 1, 4, 40]),
    }
    if (runner := _unprivileged()) is not None:
        kinds["-u"] = rng.randint(1, 8)
    if _can_make_groups():
        kinds["memory.max"] = rng.choice([80, 150, 300]) << 20
    kind = rng.choice(sorted(kinds))
    if kind == "memory.max":
        group = _group()
        group.mkdir(exist_ok=True)
        (group / "memory.max").write_text(str(kinds[kind]))
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"], f"memory.max {kinds[kind]}"
    limited = ["bash", "-c", f'ulimit {kind} {kinds[kind]} && exec "$@"', "bash"]
    if kind == "-u":
        folder.chmod(0o777)
        limited = [*(runner or []), *limited]
    return limited, f"ulimit {kind} {kinds[kind]}"


def _group() -> Path:
    """The control group of the cases of this process."""
    return _CGROUP / f"campaign-{os.getpid()}"


def _was_out_of_memory(prefix: list[str], ended: ProcessResult) -> bool:
    """Whether the kernel killed the process for the memory of its control group: nothing can prevent that."""
    return "cgroup.procs" in " ".join(prefix) and ended.code == -9


@cache
def _unprivileged() -> list[str] | None:
    """A command prefix that drops the rights of root, whose number of processes has no limit.

    It is empty for other users, and None if the rights cannot be dropped.
    """
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        return None
    prefix = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "env", "HOME=/tmp"]
    readable = run_real([*prefix, sys.executable, "-c", "import longalign"], ROOT)
    return prefix if readable.code == 0 else None


@cache
def _can_make_groups() -> bool:
    if not (_CGROUP / "cgroup.controllers").exists():
        return False
    group = _CGROUP / f"campaign-probe-{os.getpid()}"
    with suppress(OSError):
        group.mkdir()
        try:
            (group / "memory.max").write_text("100000000")
            return True
        finally:
            group.rmdir()
    return False


ATTACK = Limits
