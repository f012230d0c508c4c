"""`longalign align`, `score` and `resume` for many pairs: one after the other, into one output.

A pair that cannot be aligned is reported in one line and left out. With a store, each pair has a store of its
own, and the list of the pairs beside these notes what was asked for: `resume` takes the options from there,
and pairs whose stores are complete are only read.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TextIO, get_args

from longalign._version import __version__
from longalign.cli.align import (
    absolute,
    check_outputs,
    refuse_for_scores,
    resources_of,
    score_line,
    spec_of,
    summary_of,
)
from longalign.cli.command import in_one_line
from longalign.cli.noted_options import checked_options
from longalign.cli.reporting import reporting
from longalign.cli.scoring import SCORING_OPTIONS
from longalign.cli.statistics import print_statistics
from longalign.errors import DamagedStore, InputError, LongalignError, UsageError
from longalign.events import Emit, Notice, PairFinished, PairsStarted
from longalign.fasta.pair_list import NamedPair, read_pairs
from longalign.fasta.source import shown_name
from longalign.fasta.specs import Sequences, can_read_again, split_spec, with_absolute_path
from longalign.formats.output import STDOUT, open_output
from longalign.formats.registry import resolve_format
from longalign.formats.summary import summarize_left_out
from longalign.model.alphabet import Alphabet
from longalign.model.mode import EndName
from longalign.model.scoring import Scoring
from longalign.run import pipeline
from longalign.run.outcome import Outcome
from longalign.run.spec import RunSpec
from longalign.store.manifest import Command
from longalign.store.pair_stores import PairList, PairStores
from longalign.system.rationals import spell

#: Options of a command that a list of pairs does not note: those of the machine and of one call.
_NOT_NOTED = frozenset(
    (
        "backend",
        "threads",
        "device",
        "mem",
        "cluster",
        "progress",
        "quiet",
        "interrupts",
        "run",
        "store",
        "pairs",
        "stats",
    )
)

#: The phases of a run, in their order. Some pairs may lack some.
_PHASES = "seed", "score", "stitch", "recompute"

#: Noted options that may be others when a run goes on.
_MAY_DIFFER = frozenset(("output", "json", "format", "strict", "store_budget", "top", "min_score"))


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The records of two files, and the pairs of them that are wanted; `words` say which these are."""

    queries: Sequences
    targets: Sequences
    pairs: Sequence[NamedPair]
    words: str

    @property
    def kept_letters(self) -> int:
        """How many letters are kept in memory besides those of the pair at work."""
        files = {id(side): side for side in (self.queries, self.targets)}
        return sum(side.kept_letters for side in files.values())


def every_pair(queries: Sequences, targets: Sequences) -> Inputs:
    """Each query record with each target record."""
    pairs = [NamedPair(*pair, line=0) for pair in product(queries.selectors, targets.selectors)]
    words = f"{len(queries.selectors):,} query x {len(targets.selectors):,} target records: {_counted(pairs)}"
    return Inputs(queries, targets, pairs, words)


def _counted(pairs: Sequence[NamedPair]) -> str:
    return "1 pair" if len(pairs) == 1 else f"{len(pairs):,} pairs"


def listed_pairs(options: Namespace, alphabet: Alphabet) -> Inputs:
    """The pairs in the file of --pairs. Raises InputError, naming file and line, if it is no such list."""
    pairs = read_pairs(options.pairs)
    return _inputs(options, alphabet, pairs, f"{_counted(pairs)} of {options.pairs}")


def _inputs(options: Namespace, alphabet: Alphabet, pairs: Sequence[NamedPair], words: str) -> Inputs:
    """Some pairs of the records of two files. If these are one file, it is read once."""
    queries, targets = ([getattr(pair, side) for pair in pairs] for side in ("query", "target"))
    if options.query == options.target:
        both = Sequences(options.query, alphabet, [*queries, *targets])
        return Inputs(both, both, pairs, words)
    first, second = Sequences(options.query, alphabet, queries), Sequences(options.target, alphabet, targets)
    return Inputs(first, second, pairs, words)


def run_pairs(command: Command, options: Namespace, scoring: Scoring, inputs: Inputs) -> int:
    """Run all pairs; returns 1 if one was left out, else 0."""
    with ExitStack() as stack:
        stores = None
        if options.store is not None:
            asked = _asked(command, options, scoring, inputs)
            stores = stack.enter_context(PairStores.open(Path(options.store)))
            stores.note(asked, _MAY_DIFFER)
        return _run(command, options, scoring, inputs, stores)


def resume_pairs(options: Namespace) -> int:
    """Go on with the pairs of a directory of stores; returns what `run_pairs` returns."""
    from longalign.cli.parser import build_parser  # which imports this module when a command runs

    folder = Path(options.store)
    noted = PairList.read(folder)
    refuse_for_scores(options, noted.command, folder)
    if noted.command == "align" and options.output is not None and options.format is None:
        options.format = resolve_format(None, options.output).name
    listed = checked_options(noted, folder)
    scoring = listed.pop("scoring")
    of_command = build_parser().parse_args([noted.command, "", ""])
    given = {name: value for name, value in vars(options).items() if value is not None}
    asked = Namespace(**{**vars(of_command), **listed, **given})
    pairs = [NamedPair(*pair, line=0) for pair in noted.pairs]
    files = [asked.query, asked.target]
    check_outputs(noted.command, asked.output, asked.json, files, options.store, asked.format)
    # The pairs name the records, and the regions, that QUERY and TARGET named.
    whole = Namespace(query=split_spec(asked.query)[0], target=split_spec(asked.target)[0])
    inputs = _inputs(whole, scoring.alphabet, pairs, f"{_counted(pairs)} of {folder}")
    with PairStores.open(folder) as stores:
        return _run(noted.command, asked, scoring, inputs, stores)


def _asked(command: Command, options: Namespace, scoring: Scoring, inputs: Inputs) -> PairList:
    """The list of pairs and options to note in a directory of stores."""
    for spec in (options.query, options.target):
        if not can_read_again(spec):
            raise UsageError(f"{spec}: cannot be read again: for many pairs, --store needs files")
    noted = {name: value for name, value in vars(options).items() if name not in _NOT_NOTED | SCORING_OPTIONS}
    noted["scoring"] = scoring.to_json()
    for name in ("query", "target"):
        noted[name] = with_absolute_path(noted[name])
    if noted.get("min_score") is not None:
        noted["min_score"] = spell(noted["min_score"])
    if noted["free"] is not None:  # the ends in their own order, each once
        noted["free"] = [end for end in get_args(EndName) if end in noted["free"]]
    for name in ("output", "json"):
        if noted[name] is not None:
            noted[name] = absolute(noted[name])
    return PairList(command, noted, tuple((pair.query, pair.target) for pair in inputs.pairs), __version__)


def _run(
    command: Command, options: Namespace, scoring: Scoring, inputs: Inputs, stores: PairStores | None
) -> int:
    limits = Namespace(**vars(options))
    if options.mem is not None:
        limits.mem = max(0, options.mem - inputs.kept_letters)
    with reporting(options) as emit, _writing(command, options) as (write, left_out):
        using = resources_of(limits)
        emit(Notice(inputs.words))
        emit(PairsStarted(len(inputs.pairs)))
        pairs = _Pairs(command, options, scoring, inputs, stores, emit, left_out)
        for outcome in pipeline.run_all(pairs.specs(), using, emit, refused=pairs.refuse):
            write(outcome)
            pairs.finish(outcome)
    if not options.quiet and options.progress != "json":
        print(f"longalign: {pairs.in_words()}", file=sys.stderr)
    return 1 if pairs.left_out else 0


#: Writes a pair that was left out, and the reason, to the summary.
WriteLeftOut = Callable[[NamedPair, str], None]


@dataclass(slots=True)
class _Pairs:
    """The pairs of a run: what is asked for, which of them are at work, and what became of the others.

    `_pending` has the pairs at work in their order and, between them, those that will be left out, with the
    reason: what became of a pair is told after what became of those before it.
    """

    command: Command
    options: Namespace
    scoring: Scoring
    inputs: Inputs
    stores: PairStores | None
    emit: Emit
    write_left_out: WriteLeftOut
    aligned: int = 0
    empty: int = 0
    below: int = 0
    left_out: int = 0
    _pending: deque[tuple[NamedPair, str | None]] = field(default_factory=deque)
    _said: set[str] = field(default_factory=set)
    _seconds: dict[str, float] = field(default_factory=dict)
    _backend: str = ""

    def specs(self) -> Iterator[RunSpec]:
        """The runs of the pairs whose records can be used."""
        for number, pair in enumerate(self.inputs.pairs):
            store = None if self.stores is None else self.stores.store(number)
            try:
                query = self.inputs.queries.sequence(pair.query)
                target = self.inputs.targets.sequence(pair.target)
            except InputError as error:
                self._leave_out(pair, str(error))
                continue
            try:
                spec = spec_of(self.command, self.options, self.scoring, query, target, store)
            except InputError as error:
                self._leave_out(pair, f"{query.source} and {target.source}: {error}")
                continue
            self._pending.append((pair, None))
            yield spec

    def refuse(self, spec: RunSpec, error: LongalignError) -> None:
        """Leave out the first pair at work."""
        pair, _ = self._pending[0]
        reason = f"{spec.query.source} and {spec.target.source}: {error}"
        if isinstance(error, DamagedStore):
            reason += f" of this pair: remove {spec.store} and go on"
        self._refuse_if_strict(pair, reason)
        self._pending[0] = pair, reason
        self._tell_left_out()

    def finish(self, outcome: Outcome) -> None:
        """Count the outcome of the first pair at work."""
        self._pending.popleft()
        is_below = self.command == "align" and not outcome.is_empty and outcome.alignment is None
        self.below += is_below
        self.empty += outcome.is_empty
        self.aligned += not (outcome.is_empty or is_below)
        for phase in outcome.phases:
            self._seconds[phase.name] = self._seconds.get(phase.name, 0.0) + phase.seconds
        workers = outcome.backend.get("workers")
        self._backend = (f"workers: {workers}, " if workers else "") + outcome.backend["name"]
        names = outcome.spec.query.name, outcome.spec.target.name
        self.emit(PairFinished(*names, outcome.score))
        self._tell_left_out()

    def in_words(self) -> str:
        """What became of the pairs, and how long it took."""
        done = "aligned" if self.command == "align" else "scored"
        parts = [f"{self.aligned:,} of {len(self.inputs.pairs):,} pairs {done}"]
        parts += [f"nothing to align in {self.empty:,}"] * (self.empty > 0)
        parts += [f"less than --min-score in {self.below:,}"] * (self.below > 0)
        parts += [f"{self.left_out:,} left out"] * (self.left_out > 0)
        in_order = sorted(self._seconds.items(), key=lambda item: _PHASES.index(item[0]))
        parts += [f"{name} {seconds:.2f} s" for name, seconds in in_order]
        return ", ".join([*parts, *[self._backend] * bool(self._backend)])

    def _leave_out(self, pair: NamedPair, reason: str) -> None:
        """Leave out a pair that cannot be put to work. With --strict, raise InputError."""
        self._refuse_if_strict(pair, reason)
        self._pending.append((pair, reason))
        self._tell_left_out()

    def _refuse_if_strict(self, pair: NamedPair, reason: str) -> None:
        if self.options.strict:
            raise InputError(f"{self._place(pair)}{reason}")

    def _place(self, pair: NamedPair) -> str:
        return f"{shown_name(self.options.pairs)}: line {pair.line}: " if pair.line else ""

    def _tell_left_out(self) -> None:
        """Say why pairs are left out, once for each record at fault, up to the next pair at work."""
        while self._pending and (reason := self._pending[0][1]) is not None:
            pair, _ = self._pending.popleft()
            self.left_out += 1
            self.write_left_out(pair, reason)
            if reason not in self._said:
                self._said.add(reason)
                text = in_one_line(f"{self._place(pair)}{reason}; left out")
                shows_no_notices = self.options.quiet and self.options.progress in ("auto", "none")
                if shows_no_notices:  # errors are said all the same
                    print(f"longalign: {text}", file=sys.stderr)
                else:
                    self.emit(Notice(text))
            self.emit(PairFinished(pair.query, pair.target, None))


@contextmanager
def _writing(
    command: Command, options: Namespace
) -> Iterator[tuple[Callable[[Outcome], None], WriteLeftOut]]:
    """Functions that write an outcome, and a pair that was left out.

    An outcome goes to the output, and both go to the summary, a list, if there is one.
    """
    output, summary = options.output, options.json
    options.finished_pairs = 0
    with ExitStack() as last, ExitStack() as first:
        summaries = _Summaries(last.enter_context(open_output(summary)) if summary is not None else None)
        lines = None
        if not output == summary == STDOUT:  # then only the summary is written
            lines = first.enter_context(open_output(output))
        known = resolve_format(options.format, output) if command == "align" else None
        if lines is not None and known is not None:
            lines.write(known.header)

        def write(outcome: Outcome) -> None:
            if lines is not None and known is not None:
                for alignment in outcome.alignments:
                    known.write(alignment, lines)
            elif lines is not None:
                lines.write(score_line(outcome))
            if lines is not None and output == STDOUT:
                lines.flush()  # the reader sees each pair when it is done
            summaries.add(lambda: summary_of(outcome))
            if options.stats:
                query, target = outcome.spec.query.name, outcome.spec.target.name
                print_statistics(outcome.alignments, options.progress == "json", f"{query} and {target}")
            options.finished_pairs += 1

        def write_left_out(pair: NamedPair, reason: str) -> None:
            summaries.add(lambda: summarize_left_out(pair.query, pair.target, reason))

        yield write, write_left_out
        first.close()
        summaries.end()


class _Summaries:
    """A list of summaries as JSON, written to `file`, if there is one, entry by entry.

    A file that cannot be written is an error only at the end, when the output is complete.
    """

    def __init__(self, file: TextIO | None) -> None:
        self._file, self._before = file, "[\n"
        self._failure: OSError | None = None

    def add(self, summarize: Callable[[], dict[str, object]]) -> None:
        """Write what `summarize` returns. It is not called if nothing can be written."""
        if self._file is None or self._failure is not None:
            return
        try:
            self._file.write(self._before + json.dumps(summarize(), indent=2))
        except OSError as error:
            self._failure = error
        self._before = ",\n"

    def end(self) -> None:
        """End the list. Raises the OSError that a write has raised."""
        if self._failure is not None:
            raise self._failure
        if self._file is not None:
            self._file.write("[\n]\n" if self._before == "[\n" else "\n]\n")
