"""The statistics of an alignment, for `--stats`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

from longalign.formats.summary import describe
from longalign.model.alignment import Alignment
from longalign.model.karlin_altschul import Significance
from longalign.model.statistics import Statistics, statistics
from longalign.system.rationals import spell


def print_statistics(alignments: Sequence[Alignment], as_json: bool, pair: str = "") -> None:
    """Print the statistics of the alignments of a pair on stderr, the best one first.

    Each gets a few lines, under a title if there are several or if the `pair` is named. With `as_json`, each
    is one line, an object of "event", "query", "target", "strand", "rank" (1 is the best), and what a summary
    has for a next best alignment.
    """
    for rank, alignment in enumerate(alignments, 1):
        if as_json:
            names = {"query": alignment.query.name, "target": alignment.target.name}
            place = {**names, "strand": alignment.strand, "rank": rank}
            lines = [json.dumps({"event": "statistics", **place, **describe(alignment)})]
        else:
            number = f"alignment {rank}, score {spell(alignment.score)}" if len(alignments) > 1 else ""
            title = ", ".join(filter(None, (pair, number)))
            texts = [*([f"{title}:"] if title else []), *_in_words(statistics(alignment))]
            lines = [f"longalign: {text}" for text in texts]
        print(*lines, sep="\n", file=sys.stderr)


def _in_words(found: Statistics) -> Iterator[str]:
    yield (
        f"identity {found.identity:.2%} of {found.columns:,} columns, {found.identity_without_gaps:.2%} "
        f"without gaps, {found.identity_gap_compressed:.2%} if each gap counts as one column"
    )
    yield f"matches {found.matches:,}, mismatches {found.mismatches:,}{_kinds(found)}"
    yield (
        f"insertions {found.insertions:,}, inserted letters {found.inserted_letters:,}, "
        f"deletions {found.deletions:,}, deleted letters {found.deleted_letters:,}"
    )
    yield f"longest run of matches {found.longest_match:,}, longest gap {found.longest_gap:,}"
    yield f"{found.query_coverage:.2%} of the query aligned, {found.target_coverage:.2%} of the target"
    yield _significance(found.significance)


def _kinds(found: Statistics) -> str:
    if found.transitions is None:
        return ""
    return (
        f" (transitions {found.transitions:,}, transversions {found.transversions:,}, "
        f"with an ambiguous letter {found.ambiguous_pairs:,})"
    )


def _significance(found: Significance | str) -> str:
    if isinstance(found, str):
        return found
    used = found.parameters
    kind = "gapped" if used.gapped else "ungapped"
    return (
        f"{found.bit_score:,.1f} bits, E-value {found.e_value:.2g} "
        f"({kind} lambda {used.lambda_:.4g}, K {used.k:.3g}, H {used.h:.3g})"
    )
