"""The public functions: align, align_many, best_alignments, score, score_many, resume, trace.

`resources` and `default_memory` serve the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from math import inf
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from longalign.backends.base import Backend, FactsAbout
from longalign.backends.select import open_backends
from longalign.errors import BackendError, InputError, UsageError
from longalign.events import Emit, PairFinished, ignore
from longalign.model.alignment import Alignment
from longalign.model.alphabet import Alphabet
from longalign.model.boundary import BestCell
from longalign.model.json_fields import is_file_name
from longalign.model.mode import LOCAL, EndName, Mode, ModeName, choose_mode
from longalign.model.scoring import Scoring
from longalign.model.sequence import LetterData, Sequence, is_name
from longalign.model.strand import STRANDS_OF, Strand, StrandChoice
from longalign.run import pipeline
from longalign.run.outcome import Outcome
from longalign.run.request import Resources
from longalign.run.spec import RunSpec
from longalign.run.trace_cell import trace_cell
from longalign.store.manifest import Command, Prune, StartStates
from longalign.store.pair_stores import PairStores
from longalign.system.integers import as_whole
from longalign.system.memory_limits import free_memory
from longalign.system.rationals import Number, as_number

if TYPE_CHECKING:  # importing it imports Dask
    from longalign.run.engines.dask import Cluster

#: The part of the free memory that a run may take if `memory` is not given.
_MEMORY_SHARE = 0.8

#: The types that the public functions accept as a sequence.
AnySequence = Sequence | LetterData


def resources(
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store_budget: int | None = None,
    cluster: str | PathLike[str] | None = None,
    spec: RunSpec | None = None,
) -> Resources:
    """What a run may use; by default a CUDA device if there is one, all processors, most free memory.

    If the run is to align the one pair of `spec`, and that takes no longer than a GPU to start, the default
    is the CPU in any case.
    Raises BackendError if the back end or, for a cluster, Dask is not available; UsageError for an unknown
    back end, or for an invalid number of threads or bytes or an invalid device number.
    """
    threads = None if threads is None else _whole_number("threads", threads, 1)
    store_budget = None if store_budget is None else _whole_number("store_budget", store_budget)
    memory = default_memory() if memory is None else _whole_number("memory", memory)
    if not isinstance(devices, Iterable) or isinstance(devices, str | bytes):
        raise UsageError(f"devices must be a list of whole numbers, not {devices!r}")
    if not isinstance(cluster, str | PathLike | None):
        raise UsageError(f"cluster must be an address or the path of a file, not {cluster!r}")
    numbers = [_whole_number("each of devices", device) for device in devices]
    backends = open_backends(backend, threads, numbers, None if spec is None else partial(_seconds, spec))
    connect_cluster = None if cluster is None else _cluster_connector(cluster, backend)
    return Resources(backends, memory, store_budget, connect_cluster)


def _whole_number(name: str, value: object, minimum: int = 0) -> int:
    """`value` as an int. Raises UsageError unless it is a whole number, of any type, >= `minimum`."""
    try:
        number = as_whole(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r:.60}") from None
    if number < minimum:
        raise UsageError(f"{name} must be at least {minimum}, not {number}")
    return number


def _exact(name: str, value: object) -> Number | None:
    """`value` as an exact number, or None. Raises UsageError for anything else, such as a float."""
    try:
        return None if value is None else as_number(value)
    except TypeError:
        raise UsageError(f"{name} must be an int, a Fraction or a Decimal, not {value!r}") from None


def _seconds(spec: RunSpec, device: Backend) -> float:
    """About how long a device takes to sweep the matrices of a run.

    It is infinite for runs with start states or further alignments, which take several times as long.
    """
    if spec.is_eager or spec.top > 1:
        return inf
    lengths = spec.query.length, spec.target.length
    return len(spec.per_strand) * device.sweep_seconds(*lengths, spec.scoring, spec.mode.starts_anywhere)


def default_memory() -> int:
    """Bytes of memory that a run may take if `memory` is not given."""
    return int(free_memory() * _MEMORY_SHARE)


def _cluster_connector(
    address: str | PathLike[str], backend: str
) -> Callable[[FactsAbout], AbstractContextManager[Cluster]]:
    """The function that connects to the workers."""
    try:
        from longalign.run.engines.dask import connect
    except ImportError as error:
        raise BackendError(f"a cluster needs Dask ({error}): install longalign[cluster]") from error
    return partial(connect, fspath(address), backend)


def align(
    query: AnySequence,
    target: AnySequence,
    *,
    scoring: Scoring | None = None,
    mode: Mode | ModeName = "local",
    free: Collection[EndName] | None = None,
    strand: StrandChoice = "plus",
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store: str | PathLike[str] | None = None,
    store_budget: int | None = None,
    start_states: StartStates = "lazy",
    prune: Prune = "auto",
    cluster: str | PathLike[str] | None = None,
    emit: Emit = ignore,
) -> Alignment:
    """The optimal alignment of two sequences.

    `mode` says which of their ends may stay unaligned at no cost:

    - "local" (Smith-Waterman): all, so any part of the query is aligned with any part of the target;
    - "global" (Gotoh): none;
    - "semiglobal": those in `free`, by default all of "query-start", "query-end", "target-start" and
      "target-end"; the alignment starts with the first letter of one sequence or the other, and ends with
      the last letter of one or the other;
    - "overlap": "query-start" and "target-end", so a suffix of the query is aligned with a prefix of the
      target;
    - "fit": "target-start" and "target-end", so the whole query is aligned with any part of the target;
    - "extend": the ends of both, so any prefix of the query is aligned with any prefix of the target.

    A sequence is text, bytes, Biopython's Seq or SeqRecord, a uint8 array of ASCII letters, or
    `read_sequence("file.fa")`. A SeqRecord keeps its id if that is one word; other sequences without a name
    are "query" and "target". Sequences are DNA, or, with a substitution matrix in `scoring`, in the letters
    of that matrix. For a matrix, or if `scoring` masks lower-case letters, read files by
    `read_sequence("file.fa", scoring.alphabet)`. The score is an int, or, if `scoring` has numbers that are
    not whole, a Fraction. `backend` is "cpu", "cuda" or "auto": CUDA if there is a usable GPU, unless a pair
    is aligned before a GPU has started. `threads` is for the CPU, by default all processors. `devices` are
    CUDA device numbers. `memory` is how many bytes of host memory the whole process may take, by default four
    fifths of what is free at the call; even a pair of 10 kb asks for 320 MB, on a GPU 512 MB. `store_budget`
    is how many bytes the boundaries that the run keeps may take, on disk or, without a store, in memory.

    With `strand` "minus", the reverse complement of the query is aligned; with "both", the better of the two,
    plus if they score equally. `Alignment.strand` says which it was; the alignment's coordinates are those of
    the forward strand in any case. Only DNA has a minus strand.

    `store` is a directory: a run whose store holds unfinished work continues from there. With `start_states`
    "eager", the store also holds what `trace` needs. With `prune` "auto", cells of the matrix that no optimal
    alignment can visit are left out where that can be proved, which changes no result; "off" computes all of
    them. `cluster` is a Dask scheduler's address or file; its workers, which must see `store`, then perform
    phase 1. `emit` is called with each event (see the module `longalign.events`), also with notices, such as
    to try the other strand. If nothing aligns better than no letters at all, in a mode that permits this, the
    alignment has score 0 and no operations.

    Threads may align at the same time. A process that is forked while another thread compiles may hang;
    `multiprocessing` with the start method "spawn" does not.

    Raises InputError, UsageError, StoreError or BackendError.
    """
    mode = choose_mode(mode, free)
    spec = _spec("align", query, target, scoring, mode, strand, start_states, store, prune)
    using = resources(backend, threads, devices, memory, store_budget, cluster, spec)
    return _alignment(pipeline.run(spec, using, emit))


def align_many(
    pairs: Iterable[tuple[AnySequence, AnySequence]],
    *,
    scoring: Scoring | None = None,
    mode: Mode | ModeName = "local",
    free: Collection[EndName] | None = None,
    strand: StrandChoice = "plus",
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store: str | PathLike[str] | None = None,
    store_budget: int | None = None,
    prune: Prune = "auto",
    emit: Emit = ignore,
) -> Iterator[Alignment]:
    """The optimal alignment of each pair (query, target), in order; see `align` for the parameters.

    Pairs are taken from the iterable as they are needed. Small ones are computed some hundred at a time, on
    the first device, which is several times as fast as a call of `align` for each. The call
    checks the other arguments. An error in a pair ends the iteration, after the alignments of the pairs
    before it.

    In the directory `store`, each pair has a store of its own, whose name is the number of the pair, such as
    000000. The same call goes on where it was stopped. `resume` takes one of these stores. Stored pairs are
    computed one at a time.
    """
    using = resources(backend, threads, devices, memory, store_budget)
    specs = _specs("align", pairs, scoring, choose_mode(mode, free), strand, prune)
    folder = None if store is None else _folder(store)
    return (_alignment(outcome) for outcome in _run_many(specs, folder, using, emit))


def score_many(
    pairs: Iterable[tuple[AnySequence, AnySequence]],
    *,
    scoring: Scoring | None = None,
    mode: Mode | ModeName = "local",
    free: Collection[EndName] | None = None,
    strand: StrandChoice = "plus",
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store: str | PathLike[str] | None = None,
    prune: Prune = "auto",
    emit: Emit = ignore,
) -> Iterator[BestCell]:
    """The optimal score and end cell of each pair (query, target), in order; see `align_many` and `score`."""
    using = resources(backend, threads, devices, memory)
    specs = _specs("score", pairs, scoring, choose_mode(mode, free), strand, prune)
    folder = None if store is None else _folder(store)
    return (outcome.best for outcome in _run_many(specs, folder, using, emit))


def best_alignments(
    query: AnySequence,
    target: AnySequence,
    count: int,
    *,
    min_score: Number | None = None,
    scoring: Scoring | None = None,
    strand: Strand = "plus",
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store: str | PathLike[str] | None = None,
    store_budget: int | None = None,
    cluster: str | PathLike[str] | None = None,
    emit: Emit = ignore,
) -> list[Alignment]:
    """The best local alignments of two sequences, no two of which use the same letter pair.

    There are `count` of them in the order of decreasing scores, or fewer if no more have a positive score, or
    one of at least `min_score`. Each is the best one that uses no letter pair of those before it (M. S.
    Waterman and M. Eggert, J. Mol. Biol. 197:723, 1987). The other parameters and the errors are those of
    `align`. A store keeps the alignments that were found, and the lattice of the first one.
    """
    count = _whole_number("count", count, 1)
    spec = _spec("align", query, target, scoring, LOCAL, strand, store=store)
    spec = replace(spec, top=count, min_score=_exact("min_score", min_score))
    using = resources(backend, threads, devices, memory, store_budget, cluster, spec)
    return pipeline.run(spec, using, emit).alignments


def score(
    query: AnySequence,
    target: AnySequence,
    *,
    scoring: Scoring | None = None,
    mode: Mode | ModeName = "local",
    free: Collection[EndName] | None = None,
    strand: StrandChoice = "plus",
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    store: str | PathLike[str] | None = None,
    store_budget: int | None = None,
    start_states: StartStates = "lazy",
    prune: Prune = "auto",
    cluster: str | PathLike[str] | None = None,
    emit: Emit = ignore,
) -> BestCell:
    """The optimal score and the cell where an alignment with that score ends, in O(m + n) memory.

    Parameters are those of `align`; `store_budget` can be given with "eager" start states only. The end cell
    is given as the numbers of letters before it in `query` and `target`; those of the query are counted along
    the `strand` of the result, so on the minus strand from the query's end. The score is an int or a Fraction
    as in `align`. If nothing aligns in local mode or in "extend", the result is `BestCell()`, with score 0.
    """
    mode = choose_mode(mode, free)
    spec = _spec("score", query, target, scoring, mode, strand, start_states, store, prune)
    using = resources(backend, threads, devices, memory, store_budget, cluster, spec)
    return pipeline.run(spec, using, emit).best


def resume(
    store: str | PathLike[str],
    *,
    backend: str = "auto",
    threads: int | None = None,
    devices: Items[int] = (),
    memory: int | None = None,
    cluster: str | PathLike[str] | None = None,
    emit: Emit = ignore,
) -> Alignment | BestCell | list[Alignment]:
    """Continue the run of a store, on any back end.

    Returns an alignment, the end cell of a score, or, if more than one alignment or a least score were asked
    for, a list like that of `best_alignments`.

    The stores of many pairs are continued by the same call of `align_many` or `score_many`.

    Raises StoreError if there is no such store, if it is in use, or if a sequence file has changed;
    InputError if a sequence file cannot be read; UsageError if there is too little memory or disk;
    BackendError if a device or a cluster fails.
    """
    using = resources(backend, threads, devices, memory, cluster=cluster)
    outcome = pipeline.resume(_folder(store), using, emit)
    if outcome.spec.top > 1 or outcome.spec.min_score is not None:
        return outcome.alignments
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

    Phase 1 is not repeated, and the tile of that cell must be finished. The alignment starts where the mode
    lets it start. A sequence that the mode aligns to its end is cut at the cell: in global mode, the first
    `i` query letters are aligned with the first `j` target letters. Coordinates and coverage are those of the
    cut sequence, which begins at letter `offset` of its record. If the store is of the minus strand,
    query letters count from the query's end; a run over both strands has a store of each, `store/plus` and
    `store/minus`. Raises UsageError for a cell outside the matrix; StoreError if the store was made without
    `start_states="eager"` or lacks the tile; InputError if no local alignment ends there; BackendError if a
    device fails.
    """
    using = resources(backend, threads, devices, memory)
    cell = _whole_number("i", i), _whole_number("j", j)
    return _alignment(trace_cell(_folder(store), cell, using, emit=emit))


def _alignment(outcome: Outcome) -> Alignment:
    """The alignment of a run that was to find one."""
    assert outcome.alignment is not None
    return outcome.alignment


def _folder(store: str | PathLike[str]) -> Path:
    """The path of a store. Raises UsageError if it cannot be one."""
    name = fspath(store) if isinstance(store, str | PathLike) else store
    if not isinstance(name, str) or not name or not is_file_name(name):
        raise UsageError(f"store must be the path of a directory, not {store!r}")
    return Path(name)


def _specs(
    command: Command,
    pairs: Iterable[tuple[AnySequence, AnySequence]],
    scoring: Scoring | None,
    mode: Mode,
    strand: StrandChoice,
    prune: Prune,
) -> Iterator[RunSpec]:
    """The runs of all pairs, made one by one. The other arguments are checked by this call."""
    if not isinstance(pairs, Iterable):
        raise InputError(f"pairs: want tuples of query and target, not {pairs!r:.60}")

    def spec_of(query: AnySequence, target: AnySequence) -> RunSpec:
        return _spec(command, query, target, scoring, mode, strand, prune=prune)

    spec_of("", "")  # an empty pair: raises an error if one of the other arguments is invalid
    return (spec_of(*_query_and_target(pair)) for pair in pairs)


def _run_many(
    specs: Iterator[RunSpec], folder: Path | None, using: Resources, emit: Emit
) -> Iterator[Outcome]:
    """Run all pairs, each in a store of its own if there is a directory for them."""
    with ExitStack() as stack:
        if folder is not None:
            stores = stack.enter_context(PairStores.open(folder))
            specs = (replace(spec, store=stores.store(number)) for number, spec in enumerate(specs))
        for outcome in pipeline.run_all(specs, using, emit):
            emit(PairFinished(outcome.spec.query.name, outcome.spec.target.name, outcome.score))
            yield outcome


def _query_and_target(pair: object) -> tuple[AnySequence, AnySequence]:
    """Query and target of a pair."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(f"pairs: want a tuple of query and target, not {pair!r:.60}")
    query, target = pair
    return query, target


def _spec(
    command: Command,
    query: AnySequence,
    target: AnySequence,
    scoring: Scoring | None,
    mode: Mode,
    strand: StrandChoice,
    start_states: StartStates = "lazy",
    store: str | PathLike[str] | None = None,
    prune: Prune = "auto",
) -> RunSpec:
    _check_choice("strand", strand, tuple(STRANDS_OF))
    _check_choice("prune", prune, get_args(Prune))
    _check_choice("start_states", start_states, get_args(StartStates))
    scoring = _as_scoring(scoring)
    return RunSpec(
        _as_sequence(query, "query", scoring.alphabet, strand),
        _as_sequence(target, "target", scoring.alphabet, "plus"),
        scoring,
        mode,
        command,
        start_states,
        None if store is None else _folder(store),
        strand,
        prune=prune,
    )


def _check_choice(name: str, chosen: str, choices: tuple[str, ...]) -> None:
    if not isinstance(chosen, str) or chosen not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {chosen!r:.60}")


def _as_sequence(text: AnySequence, name: str, alphabet: Alphabet, strand: StrandChoice) -> Sequence:
    if isinstance(text, Sequence):
        if text.strand not in ("plus", strand):
            raise UsageError(
                f'{name}: is on its minus strand; strand="minus" aligns the reverse complement of the query'
            )
        return text
    identifier = getattr(text, "id", None)  # of Biopython's SeqRecord
    if isinstance(identifier, str) and is_name(identifier):
        name = identifier
    return Sequence.from_letters(name, text, alphabet=alphabet)


def _as_scoring(scoring: Scoring | None) -> Scoring:
    if not isinstance(scoring, Scoring | None):
        raise InputError(f"scoring: want a Scoring, not {type(scoring).__name__}")
    return scoring or Scoring()
