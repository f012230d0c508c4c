"""Put deliberate faults into copies of the code and check that the tests notice each of them.

    python tools/mutations.py [--only WORD ...] [--jobs 1] [--limit 120] [--out FILE] [--list] [--sound]

Each fault replaces one piece of text in a copy of the tracked files. The tests named with the fault then run
on the copy until the first one fails. A fault that no test notices shows a gap in the tests, and the exit
code is 1. With --sound the same tests run on copies without faults, where all must pass: otherwise their
failures would prove nothing.

Kernels whose sources have changed are compiled again, into a folder that is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "experiments"), str(ROOT / "tools")]

from hardware import save_report  # noqa: E402
from mutation_list import FAULTS, Fault  # noqa: E402
from scripts import script_parser  # noqa: E402

_NO_TEST_FAILED, _A_TEST_FAILED = 0, 1  # exit codes of pytest


class StaleFault(Exception):
    """The text that a fault replaces does not occur exactly once in its file."""


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended: `verdict` is one of the words below.

    `by` is the evidence: the test that failed first, or the last line of the output.
    """

    name: str
    verdict: str
    by: str
    seconds: float


NOTICED, TIMED_OUT, UNNOTICED, NOT_RUN = "noticed", "timed out", "UNNOTICED", "NOT RUN"
PASSED, FAILED = "passed", "FAILED"  # without faults


def changed(fault: Fault, text: str) -> str:
    """The text of a file with the fault in it. Raises StaleFault unless its text occurs exactly once."""
    count = text.count(fault.before)
    if count != 1:
        raise StaleFault(f"{fault.name}: {fault.file} has the text {fault.before!r} {count} times, not once")
    return text.replace(fault.before, fault.after)


def run(fault: Fault, folder: Path, limit: float, sound: bool) -> Outcome:
    """Run the tests of a fault on a copy in `folder`. With `sound`, the copy is without the fault."""
    copy = folder / fault.name.replace(" ", "-").replace("/", "-")
    try:
        _copy_tracked_files(copy)
        if not sound:
            file = copy / fault.file
            file.write_text(changed(fault, file.read_text()))
        started = time.monotonic()
        code, output = _pytest(fault, copy, folder / "cache", limit)
        verdict, by = _judged(code, output)
        if sound:
            verdict = {UNNOTICED: PASSED, NOTICED: FAILED}.get(verdict, verdict)
        return Outcome(fault.name, verdict, by, time.monotonic() - started)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _copy_tracked_files(copy: Path) -> None:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def _pytest(fault: Fault, copy: Path, cache: Path, limit: float) -> tuple[int | None, str]:
    """The exit code, or None after the time limit, and the output."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "XDG_CACHE_HOME": str(cache),
        "HYPOTHESIS_PROFILE": "unshrunk",
        **({"NUMBA_ENABLE_CUDASIM": "1"} if fault.in_simulator else {}),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *fault.tests]
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # tests start child processes
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    return process.returncode, output


def _judged(code: int | None, output: str) -> tuple[str, str]:
    """The verdict, and the test that failed first or the last line of the output."""
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    if code is None:
        return TIMED_OUT, "the time limit"
    if code == _NO_TEST_FAILED:
        return UNNOTICED, last
    if code < 0:
        return NOTICED, f"signal {-code} ended the tests"
    failed = [
        line.partition(" ")[2].partition(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))
    ]
    return (NOTICED, failed[0]) if code == _A_TEST_FAILED and failed else (NOT_RUN, last)


def _share_compiled_kernels(cache: Path) -> None:
    """Link the compiled kernels of the user's cache into `cache`.

    Kernels are looked up by a digest of their sources. Those of unchanged sources are thus found, and those
    of changed sources are compiled into folders of other names inside `cache`.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longalign"
    (cache / "longalign").mkdir(parents=True)
    for kernels in home.iterdir() if home.is_dir() else ():
        (cache / "longalign" / kernels.name).symlink_to(kernels)


def main() -> int:
    options, wanted = _parse()
    if options.list:
        for fault in wanted:
            print(f"{fault.name}\n    {fault.file}: {' '.join(fault.tests)}")
        return 0
    for fault in wanted:  # report stale faults before the first test runs
        changed(fault, (ROOT / fault.file).read_text())

    def run_and_print(fault: Fault) -> Outcome:
        outcome = run(fault, folder, options.limit, options.sound)
        print(
            f"{outcome.name:60} {outcome.verdict:9} {outcome.seconds:6.1f} s  {outcome.by}",
            flush=True,
        )
        return outcome

    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        folder = Path(name)
        _share_compiled_kernels(folder / "cache")
        if options.jobs == 1:  # in the main thread, which Ctrl-C interrupts
            outcomes = list(map(run_and_print, wanted))
        else:
            with ThreadPoolExecutor(options.jobs) as threads:
                outcomes = list(threads.map(run_and_print, wanted))
    save_report(options.out, sound=options.sound, faults=[asdict(outcome) for outcome in outcomes])
    accepted = (PASSED,) if options.sound else (NOTICED, TIMED_OUT)
    good = sum(outcome.verdict in accepted for outcome in outcomes)
    print(f"{good} of {len(outcomes)} {'pass without the fault' if options.sound else 'faults noticed'}")
    return 0 if good == len(outcomes) else 1


def _parse() -> tuple[argparse.Namespace, Sequence[Fault]]:
    parser = script_parser(__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="faults whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument(
        "--limit", type=float, default=120, help="seconds for the tests of one fault (default: 120)"
    )
    parser.add_argument("--out", type=Path, help="write the outcomes as JSON")
    parser.add_argument("--list", action="store_true", help="show the faults and run nothing")
    parser.add_argument("--sound", action="store_true", help="run the tests without the faults")
    options = parser.parse_args()
    unknown = [word for word in options.only or () if not any(word in fault.name for fault in FAULTS)]
    if unknown:
        parser.error(f"no name of a fault contains {' or '.join(map(repr, unknown))}: see --list")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options, [f for f in FAULTS if not options.only or any(word in f.name for word in options.only)]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StaleFault as error:
        sys.exit(str(error))
