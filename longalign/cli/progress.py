"""Events shown to people (a bar on a terminal) or to programs (JSON lines)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from longalign.events import (
    Advanced,
    CompileStarted,
    Emit,
    Event,
    Notice,
    PairFinished,
    PairsStarted,
    PhaseFinished,
    PhaseStarted,
    ignore,
)
from longalign.system.rationals import as_json

if TYPE_CHECKING:  # imported only for a bar
    from tqdm import tqdm

STYLES = ("auto", "bar", "json", "none")

#: How a bar looks whose end is known.
_WITH_TOTAL = "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"

_JSON_INTERVAL = 0.5  # seconds between lines of progress within a phase


@contextmanager
def progress(style: str, stream: TextIO, quiet: bool) -> Iterator[Emit]:
    """An `Emit` that shows a run on `stream`: a bar if it is a terminal, JSON lines, or notices alone."""
    if style == "auto":
        style = "bar" if stream.isatty() and not quiet else "none"
    if style == "json":
        yield JsonLines(stream)
    elif style == "bar":
        bar = Bar(stream)
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield ignore if quiet else Notices(stream)


class Notices:
    """Writes each notice as a line, and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice):
            print(f"longalign: {event.text}", file=self._stream)


class Bar:
    """A bar for each phase: cells done, GCUPS, time left; or one for all of many pairs (`_PairsBar`)."""

    def __init__(self, stream: TextIO) -> None:
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # no thread that redraws bars: the system may refuse another thread
        self._tqdm = tqdm
        self._stream = stream
        self._bar: tqdm[None] | None = None
        self._pairs: _PairsBar | None = None
        self._resumed = 0
        self._compiled_for: set[str] = set()

    def __call__(self, event: Event) -> None:
        match event:
            case PairsStarted():
                self._pairs = _PairsBar(self._open(event.pairs, 0, "pairs", _WITH_TOTAL), event.pairs)
            case PairFinished() | PhaseStarted() | Advanced() | PhaseFinished() if self._pairs is not None:
                self._pairs(event)
            case PhaseStarted():
                self._start(event)
            case Advanced() if self._bar is not None:
                self._bar.update(event.cells)
                self._bar.set_postfix_str(self._figures(self._bar), refresh=False)
            case PhaseFinished():
                self.close()
            case Notice():
                self._write(event.text)
            case CompileStarted() if event.device not in self._compiled_for:
                self._compiled_for.add(event.device)
                self._write(f"compiling kernels for {event.device}, once per machine")
            case _:
                pass

    def close(self) -> None:
        if self._pairs is not None:
            self._pairs.close()
            self._pairs = None
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _write(self, text: str) -> None:
        self._tqdm.write(f"longalign: {text}", file=self._stream)

    def _start(self, event: PhaseStarted) -> None:
        self.close()
        self._resumed = event.done
        shape = "[{elapsed}{postfix}]" if event.cells is None else _WITH_TOTAL
        self._bar = self._open(event.cells, event.done, event.name, shape)

    def _open(self, total: int | None, done: int, name: str, shape: str) -> tqdm[None]:
        return self._tqdm(
            desc=f"{name:9}",
            total=total,
            initial=done,
            file=self._stream,
            bar_format="{desc} " + shape,
            mininterval=0.2,
        )

    def _figures(self, bar: tqdm[None]) -> str:
        seconds = bar.format_dict["elapsed"]
        gcups = (bar.n - self._resumed) / seconds / 1e9 if seconds > 0 else 0.0
        return f"{bar.n / 1e9:,.1f} Gcells, {gcups:,.1f} GCUPS"


class _PairsBar:
    """One bar for many pairs: the share of the pairs that is done, with that of the pair at work."""

    def __init__(self, bar: tqdm[None], pairs: int) -> None:
        self._bar, self._pairs = bar, pairs
        self._finished, self._cells = 0, 0
        self._phase = PhaseStarted("", None)

    def __call__(self, event: PairFinished | PhaseStarted | Advanced | PhaseFinished) -> None:
        match event:
            case PairFinished():
                self._finished += 1
                self._move(self._finished)
            case PhaseStarted():
                self._phase = event
            case Advanced() if self._phase.name == "score" and self._phase.cells:
                self._cells += event.cells
                share = event.cells / self._phase.cells
                self._move(min(self._bar.n + share, self._finished + 0.99))
            case _:
                pass

    def close(self) -> None:
        self._bar.close()

    def _move(self, place: float) -> None:
        """Move the bar to a number of pairs, which may be a fraction."""
        seconds = self._bar.format_dict["elapsed"]
        gcups = self._cells / seconds / 1e9 if seconds > 0 else 0.0
        words = f"{self._finished:,} of {self._pairs:,} pairs, {gcups:,.1f} GCUPS"
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.update(place - self._bar.n)


class JsonLines:
    """One JSON object per line: {"event": name, ...}, and "progress" lines within a phase.

    progress: phase, cells_done, cells_total (null if not known in advance), gcups, seconds_left (or null).
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._phase = PhaseStarted("", None)
        self._done = 0
        self._started = self._written = monotonic()

    def __call__(self, event: Event) -> None:
        match event:
            case Advanced():
                self._done += event.cells
                if monotonic() - self._written >= _JSON_INTERVAL:
                    self._write_progress()
            case PhaseStarted():
                self._phase, self._done = event, event.done
                self._started = self._written = monotonic()
                self._write_event(event)
            case PhaseFinished():
                self._write_event(event, gcups=event.gcups)
            case _:
                self._write_event(event)

    def _write_event(self, event: Event, **more: object) -> None:
        """Write an event by the name of its class: `TileFinished` is "tile_finished"."""
        name = re.sub("(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
        self._write({"event": name, **asdict(event), **more})

    def _write_progress(self) -> None:
        self._written = monotonic()
        rate = (self._done - self._phase.done) / (self._written - self._started)
        total = self._phase.cells
        self._write(
            {
                "event": "progress",
                "phase": self._phase.name,
                "cells_done": self._done,
                "cells_total": total,
                "gcups": rate / 1e9,
                "seconds_left": None if total is None or rate <= 0 else (total - self._done) / rate,
            }
        )

    def _write(self, line: dict[str, object]) -> None:
        print(json.dumps(line, default=as_json), file=self._stream, flush=True)
