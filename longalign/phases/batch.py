"""Run many generators that ask for sweeps, all their pending sweeps in one call of the back end."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from longalign.backends.base import Backend, Progress, SweepJob, SweepResult, no_progress

T = TypeVar("T")


def run_together(
    tasks: Sequence[Generator[SweepJob, SweepResult, T]], backend: Backend, progress: Progress = no_progress
) -> list[T]:
    """The return values of the generators, in order.

    All of them are in hand at once, each with the sweep result that it keeps: whoever calls bounds
    their number by memory.
    """
    values: dict[int, T] = {}
    pending: dict[int, SweepJob] = {}

    def advance(number: int, result: SweepResult | None) -> None:
        try:
            # A generator takes None, and nothing else, to begin with.
            pending[number] = tasks[number].send(result)  # type: ignore[arg-type]
        except StopIteration as stop:
            values[number] = stop.value

    for number in range(len(tasks)):
        advance(number, None)
    while pending:
        numbers, jobs = list(pending), list(pending.values())
        pending.clear()
        for number, result in zip(numbers, backend.sweep(jobs, progress), strict=True):
            advance(number, result)
    return [values[number] for number in range(len(tasks))]
