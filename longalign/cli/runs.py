"""`longalign align`, `score` and `resume`: whether they are about one pair or about many."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from longalign.cli.align import check_outputs, resume_pair, run_pair
from longalign.cli.many import every_pair, listed_pairs, resume_pairs, run_pairs
from longalign.cli.scoring import scoring_of
from longalign.cli.stdin import refuse_two_stdins
from longalign.fasta.specs import Sequences
from longalign.model.mode import choose_mode
from longalign.store.manifest import Command
from longalign.store.pair_stores import PairStores
from longalign.system.threads import short_turns


def run_align(options: Namespace) -> int:
    return _run("align", options)


def run_score(options: Namespace) -> int:
    return _run("score", options)


@short_turns()
def run_resume(options: Namespace) -> int:
    store = Path(options.store)
    return resume_pairs(options) if PairStores.are_in(store) else resume_pair(options)


@short_turns()
def _run(command: Command, options: Namespace) -> int:
    """Run the only pair that the arguments name, or all pairs of the records of two files."""
    given = {"QUERY": options.query, "TARGET": options.target, "--pairs": options.pairs}
    inputs = {name: value for name, value in given.items() if value is not None}
    refuse_two_stdins(**inputs)
    matrix = [] if options.matrix is None else [options.matrix]
    files = [*inputs.values(), *matrix]
    check_outputs(command, options.output, options.json, files, options.store, options.format)
    choose_mode(options.mode, options.free)  # ends that no mode has are refused before anything is read
    scoring = scoring_of(options)
    if options.pairs is not None:
        return run_pairs(command, options, scoring, listed_pairs(options, scoring.alphabet))
    queries = Sequences(options.query, scoring.alphabet)
    # One file is read and kept once.
    targets = queries if options.target == options.query else Sequences(options.target, scoring.alphabet)
    if len(queries.selectors) == len(targets.selectors) == 1:
        query, target = (one.sequence(*one.selectors) for one in (queries, targets))
        del queries, targets  # and the letters that they keep
        return run_pair(command, options, scoring, query, target)
    return run_pairs(command, options, scoring, every_pair(queries, targets))
