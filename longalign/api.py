"""The public functions: align, score, resume, trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from longalign.backends.select import open_backends
from longalign.errors import BackendError, InputError, UsageError
from longalign.events import Emit, ignore
from longalign.model.alignment import Alignment
from longalign.model.alphabet import Alphabet
from longalign.model.boundary import BestCell
from longalign.model.mode import MODES, Mode, ModeName
from longalign.model.scoring import Scoring
from longalign.model.sequence import Letters, Sequence
from longalign.run import pipeline
from longalign.run.outcome import Outcome
from longalign.run.planner import Resources
from longalign.run.spec import RunSpec
from longalign.run.trace_cell import trace_cell
from longalign.store.manifest import Command, StartStates
from longalign.system.integers import as_whole
from longalign.system.memory_limits import free_memory

if TYPE_CHECKING:  # it brings Dask along
    from longalign.run.engines.dask import Cluster

#: Of the free memory, the part that a run takes if nobody says how much.
_MEMORY_SHARE = 0.8

#: What may be given as a sequence.
Text = Sequence | str | bytes | bytearray | Letters


def resources(
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store_budget: int | None = None,
    cluster: str | PathLike[str] | None = None,
) -> Resources:
    """What a run may use; by default a CUDA device if there is one, all processors, free memory.

    Raises BackendError if the back end or, for a cluster, Dask is not to be had; UsageError for an unknown
    back end or for what is no number of threads, devices or bytes.
    """
    threads = None if threads is None else _whole("threads", threads, 1)
    store_budget = None if store_budget is None else _whole("store_budget", store_budget)
    memory = default_memory() if memory is None else _whole("memory", memory)
    if not isinstance(devices, Iterable):
        raise UsageError(f"devices must be a list of whole numbers, not {devices!r}")
    if not isinstance(cluster, str | PathLike | None):
        raise UsageError(f"cluster must be an address or the path of a file, not {cluster!r}")
    backends = open_backends(backend, threads, [_whole("devices", device) for device in devices])
    workers = None if cluster is None else _workers_at(cluster, backend)
    return Resources(backends, memory, store_budget, workers)


def _whole(name: str, value: object, least: int = 0) -> int:
    """A whole number of whatever type. Raises UsageError for anything else, and for a smaller one."""
    try:
        number = as_whole(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise UsageError(f"{name} must be at least {least}, not {number}")
    return number


def default_memory() -> int:
    """Bytes of memory that a run may take if nobody says how many."""
    return int(free_memory() * _MEMORY_SHARE)


def _workers_at(
    address: str | PathLike[str], backend: str
) -> Callable[[int, int], AbstractContextManager[Cluster]]:
    try:
        from longalign.run.engines.dask import connect
    except ImportError as error:
        raise BackendError(f"a cluster needs Dask ({error}): install longalign[cluster]") from error
    return partial(connect, fspath(address), backend)


def align(
    query: Text,
    target: Text,
    *,
    scoring: Scoring | None = None,
    mode: Mode | ModeName = "local",
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store: str | PathLike[str] | None = None,
    store_budget: int | None = None,
    start_states: StartStates = "lazy",
    cluster: str | PathLike[str] | None = None,
    emit: Emit = ignore,
) -> Alignment:
    """The optimal alignment of two sequences, local (Smith-Waterman) or global (Gotoh).

    Sequences are text, bytes, uint8 arrays of ASCII letters, or `read_sequence("file.fa")`: DNA, or with a
    matrix in `scoring` its letters, which `read_sequence("file.fa", scoring.alphabet)` reads. `backend` is
    "auto", "cpu" or "cuda"; `devices` are CUDA device numbers; `memory` and `store_budget` are bytes.
    With `store`, a directory, a run that was stopped is gone on with; with `start_states` "eager" it also
    holds what `trace` needs. `cluster`, a Dask scheduler's address or file, has phase 1 done by its workers,
    which must see `store`. `emit` gets `longalign.events`. Where nothing aligns, which is in local mode only,
    the alignment has score 0 and no operations.

    Raises InputError, UsageError, StoreError or BackendError.
    """
    using = resources(backend, threads, devices, memory, store_budget, cluster)
    outcome = _run("align", query, target, scoring, mode, using, start_states, store, emit)
    assert outcome.alignment is not None
    return outcome.alignment


def score(
    query: Text,
    target: Text,
    *,
    scoring: Scoring | None = None,
    mode: Mode | ModeName = "local",
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store: str | PathLike[str] | None = None,
    store_budget: int | None = None,
    start_states: StartStates = "lazy",
    cluster: str | PathLike[str] | None = None,
    emit: Emit = ignore,
) -> BestCell:
    """The optimal score and where an alignment with it ends, in O(m + n) memory. See `align`.

    The end is given as the number of letters before it, of what was given as query and target; in local mode
    it is `BestCell()`, with score 0, if nothing aligns. `store_budget` is for "eager" start states.
    """
    using = resources(backend, threads, devices, memory, store_budget, cluster)
    return _run("score", query, target, scoring, mode, using, start_states, store, emit).best


def resume(
    store: str | PathLike[str],
    *,
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    cluster: str | PathLike[str] | None = None,
    emit: Emit = ignore,
) -> Alignment | BestCell:
    """Go on with the run that a store belongs to, on any back end; returns what it would have returned.

    Raises StoreError if there is no such store, if it is in use, or if a sequence file has changed,
    InputError if such a file cannot be read, UsageError if there is too little memory or disk, BackendError.
    """
    using = resources(backend, threads, devices, memory, cluster=cluster)
    outcome = pipeline.resume(Path(store), using, emit)
    return outcome.best if outcome.alignment is None else outcome.alignment


def trace(
    store: str | PathLike[str],
    i: int,
    j: int,
    *,
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    emit: Emit = ignore,
) -> Alignment:
    """The best alignment that ends after `i` query and `j` target letters, from a store with start states.

    Phase 1 is not swept again; the tile of that cell must be finished. In global mode it is the alignment of
    the first `i` and the first `j` letters. Raises UsageError for a cell outside the matrix, StoreError if
    the store was made without `start_states="eager"` or lacks the tile, InputError if no local alignment ends
    there, BackendError.
    """
    using = resources(backend, threads, devices, memory)
    cell = _whole("i", i), _whole("j", j)
    alignment = trace_cell(Path(store), cell, using, emit=emit).alignment
    assert alignment is not None
    return alignment


def _run(
    command: Command,
    query: Text,
    target: Text,
    scoring: Scoring | None,
    mode: Mode | ModeName,
    using: Resources,
    start_states: StartStates,
    store: str | PathLike[str] | None,
    emit: Emit,
) -> Outcome:
    _check_choice("mode", mode, tuple(MODES))
    _check_choice("start_states", start_states, get_args(StartStates))
    scoring = _as_scoring(scoring)
    spec = RunSpec(
        _as_sequence(query, "query", scoring.alphabet),
        _as_sequence(target, "target", scoring.alphabet),
        scoring,
        MODES[mode],
        command,
        start_states,
        None if store is None else Path(store),
    )
    return pipeline.run(spec, using, emit)


def _check_choice(name: str, chosen: str, choices: tuple[str, ...]) -> None:
    if chosen not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {chosen!r}")


def _as_sequence(text: Text, name: str, alphabet: Alphabet) -> Sequence:
    if isinstance(text, Sequence):
        return text
    if not isinstance(text, str | bytes | bytearray | np.ndarray):
        raise InputError(
            f"{name}: want text, bytes, an array of uint8 or read_sequence(...), not {type(text).__name__}"
        )
    return Sequence.from_letters(name, text, alphabet=alphabet)


def _as_scoring(scoring: Scoring | None) -> Scoring:
    if not isinstance(scoring, Scoring | None):
        raise InputError(f"scoring: want a Scoring, not {type(scoring).__name__}")
    return scoring or Scoring()
