"""Attack longalign for a given time, and report every case that fails.

    python tools/campaign.py --seconds 7200 --seed 1 --jobs 2 --out results.json
    python tools/campaign.py --repeat exactness:1:123456

Each attack is a module of `tools/attacks`, and its docstring states what it asserts. A case is determined by
the name of its attack, the seed and its number. Each failure is printed as a command that repeats its case.
(Where processes are killed at random instants, the instants are repeated, but the state of the process may
differ.) A case that crashes its process or exceeds its time limit is a failure. Exit codes: 0 without
failures, 1 with failures, 2 for wrong options. LONGALIGN_DEBUG=1 shows what cases print on stderr.

The report is written every minute, so a campaign that is stopped early leaves what it has found so far. Its
`elapsed` says how many seconds it covers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "experiments"), str(ROOT / "tests" / "helpers"), str(ROOT / "tools")]

import attacks  # noqa: E402
from attacks import shim  # noqa: E402
from attacks.base import Attack, CaseId  # noqa: E402
from attacks.children import warm_up  # noqa: E402
from attacks.pool import Failure, Slice, Tally, watch  # noqa: E402
from hardware import save_report  # noqa: E402
from scripts import script_parser  # noqa: E402

#: The largest number of cases in a slice, and the distance of the first case numbers of two slices.
_BLOCK = 1_000_000
#: The least and the largest duration of a slice in seconds.
_SHORTEST, _LONGEST = 2.0, 60.0
_SLICES_AN_ATTACK = 3
#: Seconds between two writes of the report.
_REPORT_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    loaded = {name: attacks.load(name) for name in options.attacks}
    if "faults" in loaded:
        shim.preload(sys.argv if arguments is None else [__file__, *arguments])
    try:
        return _repeat(options.repeat, options.backend) if options.repeat else _campaign(options, loaded)
    finally:
        shim.remove()


def _campaign(options: argparse.Namespace, loaded: dict[str, type[Attack]]) -> int:
    tallies = {
        name: Tally(attack.unit, skipped=attack.unavailable(options.backend))
        for name, attack in loaded.items()
    }
    for name, tally in tallies.items():
        if tally.skipped:
            print(f"{name}: skipped: {tally.skipped}", flush=True)
    warm_up()
    started = time.monotonic()
    usable = {name: attack for name, attack in loaded.items() if not tallies[name].skipped}
    saved = started
    for _ in _run(options, usable, tallies, started + options.seconds):
        if time.monotonic() - saved > _REPORT_SECONDS:
            saved = time.monotonic()
            _save(options, tallies, saved - started)
    elapsed = time.monotonic() - started
    _table(tallies, elapsed)
    _save(options, tallies, elapsed)
    return 1 if any(tally.failures for tally in tallies.values()) else 0


def _run(
    options: argparse.Namespace, usable: dict[str, type[Attack]], tallies: dict[str, Tally], deadline: float
) -> Iterator[None]:
    """Run slices until the deadline; yields whenever some are done.

    The next slice is of the attack that is furthest behind its share.
    """
    length = options.seconds * options.jobs / (_SLICES_AN_ATTACK * max(1, len(usable)))
    length = min(max(length, _SHORTEST), _LONGEST)
    running: list[Slice] = []
    slices = dict.fromkeys(usable, 0)
    try:
        while running or time.monotonic() < deadline:
            while usable and len(running) < options.jobs and (left := deadline - time.monotonic()) > 0:
                name = min(usable, key=lambda name: _share(name, usable, tallies, running))
                if running and (usable[name].exclusive or any(one.attack.exclusive for one in running)):
                    break
                first = slices[name] * _BLOCK
                slices[name] += 1
                seconds = min(length, left)
                running.append(
                    Slice(usable[name], name, options.seed, options.backend, first, seconds, _BLOCK)
                )
            if not running:
                break
            for one in watch(running):
                running.remove(one)
                _add(tallies[one.name], one)
            yield
    finally:
        for one in running:
            one.stop()


def _share(
    name: str, usable: dict[str, type[Attack]], tallies: dict[str, Tally], running: list[Slice]
) -> float:
    """The seconds that an attack has had or is having, relative to its weight."""
    planned = sum(one.planned for one in running if one.name == name)
    return (tallies[name].seconds + planned) / usable[name].weight


def _add(tally: Tally, one: Slice) -> None:
    tally.cases += one.cases
    tally.tried += one.tried
    tally.seconds += time.monotonic() - one.started
    tally.failures += one.failures
    for failure in one.failures:
        _show(failure)


def _show(failure: Failure) -> None:
    print(f"python tools/campaign.py --repeat {failure.case}  # {failure.text}", flush=True)


def _table(tallies: dict[str, Tally], seconds: float) -> None:
    print(f"{'attack':11} {'cases':>9} {'tried':>9} {'':18} {'failures':>8} {'seconds':>8}")
    for name, tally in tallies.items():
        print(
            f"{name:11} {tally.cases:9} {tally.tried:9} {tally.unit:18} "
            f"{len(tally.failures):8} {tally.seconds:8.0f}"
        )
    failures = sum(len(tally.failures) for tally in tallies.values())
    print(f"{failures} failures in {seconds:.0f} seconds")


def _save(options: argparse.Namespace, tallies: dict[str, Tally], elapsed: float) -> None:
    """Write the report on the slices that are done."""
    settings = {"seconds": options.seconds, "seed": options.seed, "jobs": options.jobs}
    report = {name: _report(tally) for name, tally in tallies.items()}
    save_report(options.out, **settings, elapsed=round(elapsed), backend=options.backend, attacks=report)


def _report(tally: Tally) -> dict[str, object]:
    failures = [{"repeat": str(failure.case), "text": failure.text} for failure in tally.failures]
    return {**asdict(tally), "seconds": round(tally.seconds, 1), "failures": failures}


def _repeat(case: CaseId, backend: str) -> int:
    attack = attacks.load(case.attack)
    if reason := attack.unavailable(backend):
        sys.exit(f"{case.attack}: {reason}")
    warm_up()
    one = Slice(attack, case.attack, case.seed, backend, case.number, 0, 1)
    while not watch([one]):
        pass
    for failure in one.failures:
        _show(failure)
    print(f"{case}: {'failed' if one.failures else 'passed'}")
    return 1 if one.failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="approximate duration (default: 300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: all processors)"
    )
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--attacks", help=f"some of {','.join(attacks.NAMES)} (default: all that fit)")
    parser.add_argument("--out", type=Path, help="write the results here, as JSON")
    parser.add_argument("--repeat", metavar="ATTACK:SEED:CASE", help="run this case only")
    options = parser.parse_args(arguments)
    try:
        options.repeat = options.repeat and CaseId.parse(options.repeat)
        names = [options.repeat.attack] if options.repeat else (options.attacks or "").split(",")
        options.attacks = attacks.NAMES if names == [""] else names
        for name in options.attacks:
            attacks.load(name)
    except ValueError as error:
        parser.error(str(error))
    return options


if __name__ == "__main__":
    sys.exit(main())
