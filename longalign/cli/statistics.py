"""The statistics of an alignment, for `--stats`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from longalign.formats.summary import describe
from longalign.model.alignment import Alignment
from longalign.model.karlin_altschul import Significance
from longalign.model.statistics import Statistics, statistics


def print_statistics(alignment: Alignment, as_json: bool, title: str | None = None) -> None:
    """Print a few lines on stderr, or one JSON object: that of a next best alignment in a summary.

    The lines begin with the title, if there is one.
    """
    if as_json:
        names = {"query": alignment.query.name, "target": alignment.target.name}
        print(json.dumps({"event": "statistics", **names, **describe(alignment)}), file=sys.stderr)
        return
    for line in (*([title] if title else []), *_in_words(statistics(alignment))):
        print(f"longalign: {line}", file=sys.stderr)


def _in_words(found: Statistics) -> Iterator[str]:
    yield (
        f"identity {found.identity:.2%} of {found.columns:,} columns, {found.identity_without_gaps:.2%} "
        f"without gaps, {found.identity_gap_compressed:.2%} if each gap counts as one column"
    )
    yield f"{found.matches:,} matches, {found.mismatches:,} mismatches{_kinds(found)}"
    yield (
        f"insertions: {found.insertions:,} ({found.inserted_letters:,} letters), "
        f"deletions: {found.deletions:,} ({found.deleted_letters:,} letters)"
    )
    yield f"longest run of matches {found.longest_match:,}, longest gap {found.longest_gap:,}"
    yield f"{found.query_coverage:.2%} of the query aligned, {found.target_coverage:.2%} of the target"
    yield _significance(found.significance)


def _kinds(found: Statistics) -> str:
    if found.transitions is None:
        return ""
    return (
        f" ({found.transitions:,} transitions, {found.transversions:,} transversions, "
        f"{found.ambiguous_pairs:,} with an ambiguous letter)"
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
