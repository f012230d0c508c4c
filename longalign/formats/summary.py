"""The summary of a run as JSON: the sequences, the scoring, the result and the time taken.

Schema `longalign.summary/2`. Coordinates are 0-based and half-open and count from the start of the
whole record, on its forward strand, like those of the PAF output.

    schema      "longalign.summary/2"
    versions    {program or library: version}
    query       {name, length, sha256, source, offset, record_length}: `length` letters were aligned,
                from `offset` of a record of `record_length`; sha256 is that of the aligned letters in
                upper case; source is the specification that the user gave, with an absolute path if the
                run was resumed
    target      the same
    strand      "plus", or "minus" if the reverse complement of the query is aligned
    strand_scores  {"plus": score, "minus": score} of the strands that were asked for; null for one that is
                only known to score less than the other; empty if the user chose the end cell
    mode        "local", "global", "semiglobal", "overlap", "fit" or "extend"; if not all four
                ends of a semiglobal mode are free: "semiglobal:query-start,target-end"
    scoring     {match, mismatch, gap_open, gap_extend, convention}, or {matrix, gap_open, gap_extend,
                convention} where `matrix` is {name, letters, scores}, a row for each query letter; the
                convention is a sentence. Where they are not "mismatch", "error" and false, it also has
                `ambiguous`, `unknown` and `softmask`; and `scale`, if the numbers are not whole: times this
                they are, and so is the score
    score       the optimal score. This and the numbers of the scoring are numbers of JSON, or a text such as
                "82/3" if no finite decimal spells them
    end         {query, target} where the alignment ends in the direction of the target, or null if nothing
                aligns; on the minus strand, `query` is thus the query_start of the alignment
    alignment   null if only the score was asked for or the alignment has no columns; else
                {query_start, query_end, target_start, target_end, columns, matches, mismatches, gaps,
                gap_letters, identity}: `gaps` counts runs, `identity` is matches per column, 0..1
    statistics  null where `alignment` is; else an object with the fields of
                `longalign.model.statistics.Statistics` but the significance
    significance  {bit_score, e_value, lambda, k, h, gapped, score_step}, the fields of
                `longalign.model.karlin_altschul`; {unknown} where these are not known: a sentence that says
                why; or null if no local score is positive
    next_best   [{score, the fields of `alignment`, statistics, significance}] of the next best alignments,
                if more were asked for
    backend     {word: description} of the hardware and software that computed the sweeps
    phases      [{name, cells, seconds, left_out, gcups}]: cells done, wall time, how many of the cells were
                left out because no optimal alignment visits them, 10^9 cells a second, those left out
                included, or null where the time is 0
    compile_seconds  for how long the run waited for the compiler; no phase counts this time

For many pairs, the file of `--json` is a list of such objects. That of a pair that was left out has only
`schema`, the `name` of `query` and `target`, and `error`: the reason.

Schema 1 had no `matrix`. A later version may add keys; a change of meaning increases the number after the
slash.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from longalign.events import PhaseFinished
from longalign.model.alignment import Alignment
from longalign.model.karlin_altschul import NOT_THE_BEST, Significance, significance
from longalign.model.mode import Mode, ModeName, as_mode
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.statistics import Statistics, statistics
from longalign.model.strand import Strand
from longalign.system.rationals import Number, as_json

SCHEMA = "longalign.summary/2"

_LIBRARIES = ("longalign", "numpy", "numba", "h5py", "pysam")


def summarize_left_out(query: str, target: str, reason: str) -> dict[str, object]:
    """What stands in a list of summaries for a pair of records that was left out, for this reason."""
    return {"schema": SCHEMA, "query": {"name": query}, "target": {"name": target}, "error": reason}


def summarize(
    *,
    query: Sequence,
    target: Sequence,
    scoring: Scoring,
    mode: Mode | ModeName,
    score: Number,
    end: tuple[int, int] | None,
    strand_scores: Mapping[Strand, Number | None] | None = None,
    alignment: Alignment | None = None,
    next_best: Iterable[Alignment] = (),
    backend: Mapping[str, str],
    phases: Iterable[PhaseFinished] = (),
    compile_seconds: float = 0.0,
) -> dict[str, object]:
    """A summary that `json.dumps` takes; the keys are those of the module's docstring.

    `query` is on the strand that is aligned. `end` is where the alignment ends, as letters of `query`, along
    its strand, and `target` before it; None if nothing aligns. `strand_scores` are those of
    `longalign.run.outcome.Outcome`. `alignment` is None after a run for the score alone.
    """
    end_given = alignment is not None and alignment.end_given
    lengths = query.length, target.length
    significant = NOT_THE_BEST if end_given else significance(score, scoring, as_mode(mode), *lengths)
    aligned = alignment if alignment is not None and len(alignment.ops) else None
    return {
        "schema": SCHEMA,
        "versions": _versions(),
        "query": _sequence(query),
        "target": _sequence(target),
        "strand": query.strand,
        "strand_scores": {
            strand: None if best is None else as_json(best) for strand, best in (strand_scores or {}).items()
        },
        "mode": mode,
        "scoring": _scoring(scoring),
        "score": as_json(score),
        "end": None if end is None else _end(query, target, *end),
        "alignment": None if aligned is None else _alignment(aligned),
        "next_best": [*map(describe, next_best)],
        "statistics": None if aligned is None else _statistics(statistics(aligned)),
        "significance": None if end is None else _significance(significant),
        "backend": dict(backend),
        "phases": [{**asdict(phase), "gcups": phase.gcups} for phase in phases],
        "compile_seconds": compile_seconds,
    }


def _scoring(scoring: Scoring) -> dict[str, object]:
    """The parameters in the units that the user gave."""
    numbers = {name: as_json(value) for name, value in scoring.given().items()}
    matrix, scale = scoring.matrix, {"scale": scoring.scale} if scoring.scale > 1 else {}
    convention = {**scoring.rules, **scale, "convention": scoring.convention}
    if matrix is None:
        return {**numbers, **convention}
    scores = [[as_json(score) for score in row] for row in matrix.scores]
    return {
        "matrix": {"name": matrix.name, "letters": matrix.letters, "scores": scores},
        **numbers,
        **convention,
    }


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:  # run from a source tree
            versions[library] = "not installed"
    return versions


def _end(query: Sequence, target: Sequence, i: int, j: int) -> dict[str, int]:
    return {"query": query.place_in_record(i), "target": target.place_in_record(j)}


def _sequence(sequence: Sequence) -> dict[str, object]:
    return {
        "name": sequence.name,
        "length": sequence.length,
        "sha256": sequence.sha256,
        "source": sequence.source,
        "offset": sequence.offset,
        "record_length": sequence.record_length,
    }


def _alignment(alignment: Alignment) -> dict[str, object]:
    return {
        "query_start": alignment.query.offset + alignment.query_start,
        "query_end": alignment.query.offset + alignment.query_end,
        "target_start": alignment.target.offset + alignment.target_start,
        "target_end": alignment.target.offset + alignment.target_end,
        "columns": alignment.columns,
        "matches": alignment.matches,
        "mismatches": alignment.mismatches,
        "gaps": alignment.gaps,
        "gap_letters": alignment.gap_letters,
        "identity": alignment.identity,
    }


def describe(alignment: Alignment) -> dict[str, object]:
    """An entry of `next_best` in a summary."""
    found = statistics(alignment)
    return {
        "score": as_json(alignment.score),
        **_alignment(alignment),
        "statistics": _statistics(found),
        "significance": _significance(found.significance),
    }


def _statistics(found: Statistics) -> dict[str, object]:
    fields = asdict(found)
    del fields["significance"]
    return fields


def _significance(found: Significance | str) -> dict[str, object]:
    if isinstance(found, str):
        return {"unknown": found}
    parameters = found.parameters
    return {
        "bit_score": found.bit_score,
        "e_value": found.e_value,
        "lambda": parameters.lambda_,
        "k": parameters.k,
        "h": parameters.h,
        "gapped": parameters.gapped,
        "score_step": parameters.score_step,
    }
