"""`longalign align`, `score` and `resume` for one pair; outputs and their checks."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from longalign import api
from longalign.cli.reporting import reporting
from longalign.cli.statistics import print_statistics
from longalign.errors import InputError, StoreError, UsageError
from longalign.fasta.specs import is_read_from
from longalign.formats.output import STDOUT, check_output, open_output
from longalign.formats.registry import format_names, resolve_format
from longalign.formats.summary import summarize
from longalign.model.alphabet import is_nucleotides
from longalign.model.json_fields import shown
from longalign.model.mode import choose_mode
from longalign.model.scoring import Scoring
from longalign.model.sequence import MEMORY, Sequence
from longalign.model.strand import STRAND_SYMBOLS
from longalign.run import pipeline
from longalign.run.cost_model import format_share
from longalign.run.outcome import Outcome
from longalign.run.request import Resources
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore
from longalign.store.layout import MANIFEST_NAME, OWN_NAMES, first_store
from longalign.store.manifest import Command, Manifest
from longalign.store.pair_stores import is_pair_name
from longalign.system.paths import absolute_path
from longalign.system.rationals import Number, spell

#: How many letters of a sequence tell whether it may be a protein.
_LETTERS_LOOKED_AT = 1 << 16

#: So many letters of a protein are never all among A, C, G, T, U and N.
_TOO_MANY_FOR_CHANCE = 30


def run_pair(
    command: Command, options: Namespace, scoring: Scoring, query: Sequence, target: Sequence
) -> int:
    """Align one pair, or score it, as the options of the command say."""
    with reporting(options) as emit:
        store = Path(options.store) if options.store else None
        spec = spec_of(command, options, scoring, query, target, store)
        outcome = pipeline.run(spec, resources_of(options, spec), emit, note=_noting(options))
    write_outcome(outcome, options.output, options.json, options)
    return 0


def resources_of(options: Namespace, spec: RunSpec | None = None) -> Resources:
    """What a new run may use; `spec` is its only pair, if there is only one."""
    return api.resources(
        options.backend,
        options.threads,
        options.device,
        options.mem,
        options.store_budget,
        options.cluster,
        spec,
    )


def spec_of(
    command: Command,
    options: Namespace,
    scoring: Scoring,
    query: Sequence,
    target: Sequence,
    store: Path | None,
) -> RunSpec:
    """What a new run is asked for. Raises InputError for a pair that the scoring does not admit."""
    mode = choose_mode(options.mode, options.free)
    start_states, strand = options.start_states, options.strand
    several = {} if command == "score" else {"top": options.top, "min_score": options.min_score}
    return RunSpec(
        query, target, scoring, mode, command, start_states, store, strand, prune=options.prune, **several
    )


def resume_pair(options: Namespace) -> int:
    """Continue the run of one pair."""
    store = Path(options.store)
    manifest = DirectoryStore.attach(first_store(store)).manifest
    refuse_for_scores(options, manifest.command, store)
    output = manifest.output if options.output is None else options.output
    summary = manifest.summary if options.json is None else options.json
    if options.format is None and options.output is None:
        options.format = _noted_format(manifest, store)
    check_outputs(manifest.command, output, summary, sources_of(manifest), options.store, options.format)
    with reporting(options) as emit:
        using = api.resources(
            options.backend, options.threads, options.device, options.mem, cluster=options.cluster
        )
        outcome = pipeline.resume(store, using, emit)
    write_outcome(outcome, output, summary, options)
    return 0


def refuse_for_scores(options: Namespace, command: Command, store: Path) -> None:
    """Raise UsageError for options of `resume` that concern alignments, if the store is of scores alone."""
    for name in ("format", "stats"):
        if command == "score" and getattr(options, name):
            raise UsageError(f"{store}: a run for the score alone has no alignment: leave --{name} out")


def _noted_format(manifest: Manifest, store: Path) -> str | None:
    """The format that a store's manifest notes. Raises StoreError if there is none of that name."""
    noted = manifest.output_format
    if noted is not None and noted not in format_names():
        raise StoreError(
            f"{first_store(store) / MANIFEST_NAME}: damaged: output_format: no format is called "
            f"{shown(noted)}"
        )
    return noted


def _noting(options: Namespace) -> pipeline.Note:
    """Notes in the manifest of a store which files a resumed run writes, and in which format."""
    output = absolute(options.output)
    summary = None if options.json is None else absolute(options.json)
    return partial(replace, output=output, output_format=options.format, summary=summary)


def absolute(path: str) -> str:
    """The absolute path of an output, valid in every working directory; stdout stays "-".

    Raises InputError if there is no working directory any more.
    """
    try:
        return path if path == STDOUT else absolute_path(path)
    except OSError as error:
        raise InputError(f"{path}: the working directory does not exist any more") from error


def sources_of(manifest: Manifest) -> list[str]:
    """The specifications of the sequences in a store, except for sequences that came from memory."""
    return [record.source for record in (manifest.query, manifest.target) if record.source != MEMORY]


def check_outputs(
    command: Command,
    output: str,
    summary: str | None,
    inputs: Collection[str],
    store: str | None,
    output_format: str | None,
) -> None:
    """Raise UsageError or InputError before the run for outputs that could not be written after it.

    `inputs` are specifications of sequences, or files; `store` need not exist yet. `output_format` is the
    argument of `--format`, if it is given.
    """
    if command == "align":
        resolve_format(output_format, output)
    if store is not None:
        absolute(store)  # an error if the working directory is gone
    if command == "align" and output == summary == STDOUT:
        raise UsageError("alignment and summary cannot both go to stdout: give -o FILE or --json FILE")
    check_output(output)
    if summary is not None:
        check_output(summary)
        if summary != STDOUT and os.path.realpath(summary) == os.path.realpath(output):
            raise UsageError(f"-o and --json name one file, {output}")
    for path in (output, summary):
        if path is not None and path != STDOUT:
            _refuse_overwriting(path, inputs)
            if store is not None and _belongs_to(store, path):
                raise UsageError(f"{path}: cannot be written: it belongs to the store {store}")


def _belongs_to(store: str, path: str) -> bool:
    """Whether `path` is a file of the store, or the store itself or one of its parent directories."""
    folder, file = Path(os.path.realpath(store)), Path(os.path.realpath(path))
    if file.is_relative_to(folder) and file != folder:
        name = file.relative_to(folder).parts[0]
        return name in OWN_NAMES or is_pair_name(name)
    return folder.is_relative_to(file)


def _refuse_overwriting(output: str, inputs: Collection[str]) -> None:
    for spec in inputs:
        if is_read_from(spec, output):
            raise UsageError(f"{output}: cannot be written: the input {spec} is read from this file")


def write_outcome(outcome: Outcome, output: str, summary: str | None, options: Namespace) -> None:
    """Write the alignment, or the score line, and the summary; report the result on stderr."""
    # `trace` aligns in the store of a score, and `align` may find no alignment that scores enough.
    if outcome.spec.command == "align" or outcome.alignment is not None:
        with open_output(output) as file:
            resolve_format(options.format, output).write_all(outcome.alignments, file)
    elif not output == summary == STDOUT:
        with open_output(output) as file:
            file.write(score_line(outcome))
    if summary is not None:
        with open_output(summary) as file:
            json.dump(summary_of(outcome), file, indent=2)
            file.write("\n")
    if not options.quiet and options.progress != "json":
        print(f"longalign: {in_words(outcome)}{_advice(outcome.spec)}", file=sys.stderr)
    if options.stats:
        print_statistics(outcome.alignments, options.progress == "json")


def summary_of(outcome: Outcome) -> dict[str, object]:
    end = outcome.end
    return summarize(
        query=outcome.spec.query,
        target=outcome.spec.target,
        scoring=outcome.spec.scoring,
        mode=outcome.spec.mode,
        score=outcome.score,
        end=None if outcome.is_empty else (end.i, end.j),
        strand_scores=outcome.strand_scores,
        alignment=outcome.alignment,
        next_best=outcome.alignments[1:],
        backend=outcome.backend,
        phases=outcome.phases,
        compile_seconds=outcome.compile_seconds,
    )


def score_line(outcome: Outcome) -> str:
    """Query, target, mode, score, the end in each record, and the strand, separated by tabs.

    The ends are forward coordinates.
    """
    spec, end = outcome.spec, outcome.end
    query, target = spec.query, spec.target
    ends = ("*", "*", "*")
    if not outcome.is_empty:
        strand = STRAND_SYMBOLS[query.strand]
        ends = (str(query.place_in_record(end.i)), str(target.place_in_record(end.j)), strand)
    return "\t".join(map(str, (query.name, target.name, spec.mode, spell(outcome.score), *ends))) + "\n"


def _with_commas(score: Number) -> str:
    """An exact score with its digits before the point in groups of three."""
    found = re.match(r"(-?)(\d+)(.*)", spell(score))
    assert found is not None
    sign, whole, rest = found.groups()
    return f"{sign}{int(whole):,}{rest}"


def _reason_for_nothing(spec: RunSpec) -> str:
    """What may be the reason that nothing aligns."""
    if spec.scoring.highest == 0:
        return ", because no letter pair has one: --mode global aligns by costs alone"
    for sequence in (spec.query, spec.target):
        if spec.scoring.softmask and _is_masked(sequence):
            return f", because all letters of {sequence.name} are masked or ambiguous"
    return ""


def _is_masked(sequence: Sequence) -> bool:
    """Whether there are letters and all are N or X, as lower-case letters are read with `softmask`."""
    letters = sequence.letters
    return len(letters) > 0 and bool(((letters == ord("N")) | (letters == ord("X"))).all())


def _advice(spec: RunSpec) -> str:
    """A hint where the letters do not seem to be what the scoring is for."""
    pair, matrix = (spec.query, spec.target), spec.scoring.matrix
    if matrix is None and any(map(_may_be_protein, pair)):
        return "; if the sequences are proteins, give --matrix BLOSUM62 --gap-open 10 --gap-extend 1"
    if matrix is not None and not is_nucleotides(matrix.letters) and all(map(_may_be_dna, pair)):
        return f"; if the sequences are DNA, {matrix.name} is not for them: leave out --matrix"
    return ""


def _may_be_protein(sequence: Sequence) -> bool:
    """Whether most of the first letters are neither bases nor N, which is rare in nucleotide sequences."""
    bases, letters = _bases_among_first(sequence)
    return 2 * bases < letters


def _may_be_dna(sequence: Sequence) -> bool:
    """Whether the sequence is not very short, and hardly any of its first letters is another one."""
    bases, letters = _bases_among_first(sequence)
    return letters >= _TOO_MANY_FOR_CHANCE and 20 * bases > 19 * letters


def _bases_among_first(sequence: Sequence) -> tuple[int, int]:
    """How many of the first letters are bases or N, and how many there are."""
    first = sequence.letters[:_LETTERS_LOOKED_AT]
    return int(np.isin(first, np.frombuffer(b"ACGTUN", np.uint8)).sum()), len(first)


def _on_strand(outcome: Outcome) -> str:
    """The strand, where it is not the usual one or was not known before, and the score of the other."""
    strand = outcome.spec.query.strand
    others = [
        f"{'less' if score is None else _with_commas(score)} on {other}"
        for other, score in outcome.strand_scores.items()
        if other != strand
    ]
    if strand == "plus" and not others:
        return ""
    return f" on the {strand} strand{''.join(f' ({other})' for other in others)}"


def in_words(outcome: Outcome) -> str:
    """An outcome in one line for a reader."""
    if outcome.is_empty:
        return f"no alignment has a positive score{_reason_for_nothing(outcome.spec)}"
    parts = [f"{outcome.spec.mode} score {_with_commas(outcome.score)}{_on_strand(outcome)}"]
    if outcome.alignment is not None:
        alignment = outcome.alignment
        columns = f"{alignment.columns:,} column{'s' * (alignment.columns != 1)}"
        identity = f"identity {alignment.identity:.2%} over {columns}"
        parts.append(identity if alignment.columns else "no columns")
    elif outcome.spec.command == "align":
        parts.append("less than --min-score: no alignment is written")
    if outcome.further:
        lowest = _with_commas(outcome.further[-1].score)
        parts.append(f"{len(outcome.further):,} more, the last one with score {lowest}")
    parts += [f"{phase.name} {phase.seconds:.2f} s" for phase in outcome.phases]
    if outcome.compile_seconds:
        parts.append(f"compiling {outcome.compile_seconds:.2f} s")
    parts += [
        f"{phase.gcups:,.1f} {'effective ' * bool(phase.left_out)}GCUPS"
        for phase in outcome.phases
        if phase.name == "score" and phase.cells
    ]
    parts += [
        f"{format_share(1 - phase.left_out / phase.cells)} of the cells computed"
        for phase in outcome.phases
        if phase.left_out and outcome.spec.top == 1  # further alignments do not sweep everything again
    ]
    if workers := outcome.backend.get("workers"):
        parts.append(f"workers: {workers}")
    return ", ".join([*parts, outcome.backend["name"]])
