"""`longalign inspect`: which run a store belongs to, and how far that run has come."""

from __future__ import annotations

import json
import shlex
import stat
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from longalign.cli.command import as_argument
from longalign.cli.noted_options import checked_options
from longalign.errors import DamagedStore
from longalign.formats.output import STDOUT, open_output
from longalign.model.boundary import Waypoint
from longalign.model.geometry import Tile
from longalign.model.strand import STRANDS_OF
from longalign.phases.lattice import StoreLattice
from longalign.phases.left_out import LeftOut
from longalign.phases.problem import Problem
from longalign.phases.recompute import groups_of, segments_of
from longalign.phases.score import end_cell
from longalign.store import DirectoryStore
from longalign.store.base import NONE_FOUND, DamagedFile, TilePlace
from longalign.store.layout import first_store, holds_both_strands, is_store, strand_folder
from longalign.store.manifest import Command, Manifest
from longalign.store.pair_stores import PairList, PairStores, pair_store
from longalign.system.rationals import as_json

T = TypeVar("T")

SCHEMA = "longalign.store/2"
PAIRS_SCHEMA = "longalign.pairs/1"

#: Fields of a manifest that its file may have otherwise, or that take many lines.
_NOT_REPORTED = ("version", "sha256", "grid")


def run_inspect(options: Namespace) -> int:
    """Print the state of a store. The store is only read; a run may be using it."""
    path = Path(options.store)
    is_of_many = PairStores.are_in(path)
    report = inspect_pairs(path) if is_of_many else inspect(path)
    words = _pairs_in_words if is_of_many else _in_words
    with open_output(STDOUT) as file:
        print(json.dumps(report, indent=2) if options.json else words(report), file=file)
    return 0


def inspect_pairs(path: Path) -> dict[str, Any]:
    """The state of a directory of many stores as JSON-ready values. Raises StoreError for a damaged list."""
    noted = PairList.read(path)
    checked_options(noted, path)
    started, damaged = [], []
    for number in range(len(noted.pairs)):
        if is_store(first_store(store := pair_store(path, number))):
            try:
                started.append(inspect(store))
            except DamagedStore as error:
                damaged.append(str(error))
    return {
        "schema": PAIRS_SCHEMA,
        "path": str(path),
        "program": noted.program,
        "command": noted.command,
        "options": noted.options,
        "pairs": len(noted.pairs),
        "pairs_started": len(started) + len(damaged),
        "pairs_done": sum(_is_done(report, noted.command, noted.options.get("top", 1)) for report in started),
        "damaged": damaged + [text for report in started for text in report["damaged"]],
        "bytes": sum(report["bytes"] for report in started),
    }


def _is_done(report: dict[str, Any], command: Command, top: int) -> bool:
    """Whether a store holds all that was asked for: of an alignment that scores too little, the score."""
    parts = report["strands"].values() if report["strand"] == "both" else [report]
    is_scored = all(
        part is not None and part["cells_done"] + part["cells_left_out"] == part["cells"] for part in parts
    )
    is_aligned = any(
        part is not None
        and part["pieces_done"] == part["pieces"]
        and part["next_best_complete"]
        and part["top"] >= top
        for part in parts
    )
    scores_too_little = all(part is not None and part["below_min_score"] for part in parts)
    return is_scored and (command == "score" or is_aligned or scores_too_little)


def _pairs_in_words(report: dict[str, Any]) -> str:
    options = report["options"]
    lines = [
        f"{report['path']}: longalign {report['program']}, {report['command']}, {options['mode']}, pairs",
        f"query    {options['query']}",
        f"target   {options['target']}",
        f"output   {options['output']}",
        f"size     {report['bytes']:,} bytes",
        f"pairs    {report['pairs_done']} of {report['pairs']} done, {report['pairs_started']} started",
        *(f"damaged  {text}" for text in report["damaged"]),
    ]
    return "\n".join(lines)


def inspect(path: Path) -> dict[str, Any]:
    """The state of a store as JSON-ready values. Raises StoreError if there is none.

    Where there is a store for each strand, `strands` holds the states of both, by strand; that of minus is
    None before it is made. The other values are those of the two together. Of one of the two alone, `done`
    is None.
    """
    if not holds_both_strands(path):
        report = _inspect_one(path)
        done = None if report["of_both_strands"] else _is_done(report, report["command"], report["top"])
        return {**report, "done": done}
    folders = {strand: strand_folder(path, strand) for strand in STRANDS_OF["both"]}
    found = {strand: _inspect_one(folder) if is_store(folder) else None for strand, folder in folders.items()}
    made = [report for report in found.values() if report is not None]
    cells = sum(report["cells"] for report in made) * len(found) // len(made)
    sums = {name: sum(report[name] for report in made) for name in ("cells_done", "cells_left_out", "bytes")}
    both = {
        "schema": SCHEMA,
        "path": str(path),
        "strand": "both",
        "cells": cells,
        **sums,
        "damaged": [text for report in made for text in report["damaged"]],
        "strands": found,
    }
    return {**both, "done": _is_done(both, made[0]["command"], made[0]["top"])}


def _inspect_one(path: Path) -> dict[str, Any]:
    """The state of the store of one strand."""
    store = DirectoryStore.attach(path)
    manifest, grid = store.manifest, store.manifest.grid
    damaged: list[str] = []

    def read(step: Callable[[], T], nothing: T) -> T:
        """What a step reads, or `nothing` if a file is damaged, which is listed."""
        try:
            return step()
        except DamagedFile as damage:
            damaged.append(str(damage))
            return nothing

    def left_out_in(tile: Tile) -> int:
        store.check_tile(tile)
        return store.get_tile(tile).left_out

    read(store.sequences, None)
    present = [grid.tile(*place) for place in sorted(store.stored_tiles())]
    read_tiles = {tile: read(partial(left_out_in, tile), None) for tile in present}
    left_out_inside = {tile: cells for tile, cells in read_tiles.items() if cells is not None}
    damaged += map(str, store.get_findings()[1])
    left_out = read(store.get_left_out, set[TilePlace]())
    cells_left_out = sum(grid.tile(*place).cells for place in left_out) + sum(left_out_inside.values())
    cells_done = sum(tile.cells for tile in left_out_inside) - sum(left_out_inside.values())
    is_enough = partial(manifest.scoring.reaches, least=manifest.min_score)
    best: int | None = None
    if cells_done + cells_left_out == grid.cells:
        with suppress(DamagedFile):
            best = _end_value(store, left_out)
    nothing: tuple[list[Waypoint], bool] = ([], False)
    waypoints, complete = read(store.get_path, nothing)
    groups = len(groups_of(segments_of(waypoints))) if complete else None
    pieces_done = sum(read(partial(store.get_piece, k), None) is not None for k in range(groups or 0))
    next_best = read(store.get_next_best, NONE_FOUND)
    return {
        "schema": SCHEMA,
        "path": str(path),
        "strand": manifest.strand,
        **{key: value for key, value in manifest.to_json().items() if key not in _NOT_REPORTED},
        "letter_scores": manifest.scoring.letter_scores,
        "chunks": [len(grid.row_cuts) - 1, len(grid.col_cuts) - 1],
        "tiles": list(grid.shape),
        "tiles_done": len(left_out_inside),
        "cells": grid.cells,
        "cells_done": cells_done,
        "tiles_left_out": len(left_out),
        "cells_left_out": cells_left_out,
        "score": _known_score(manifest, best),
        "below_min_score": best is not None and not is_enough(best),
        "waypoints": len(waypoints),
        "path_complete": complete,
        "pieces": groups,
        "pieces_done": pieces_done,
        "next_best_complete": len(waypoints) == 1 or next_best.suffice(manifest.top, is_enough),
        "next_best": sum(is_enough(path.end.value) for path in next_best.paths),
        "damaged": damaged,
        "bytes": sum(map(_size, path.rglob("*"))),
    }


def _known_score(manifest: Manifest, best: int | None) -> int | float | str | None:
    """The best score, in the units that the user gave, from the best value of a matrix that is swept.

    None if it is not swept. In a pruned matrix, values below the bound are not those of alignments.
    """
    if best is None or (manifest.pruned_with is not None and best < manifest.pruned_with.score):
        return None
    return as_json(manifest.scoring.unscaled(best))


def _end_value(store: DirectoryStore, left_out: set[TilePlace]) -> int:
    """The scaled score of the best alignment, from a store whose matrix is swept."""
    manifest = store.manifest
    problem = Problem.of(*store.sequences(), manifest.scoring, manifest.mode)
    return end_cell(StoreLattice(problem, manifest.grid, store, manifest.is_eager, LeftOut(left_out))).value


def _size(path: Path) -> int:
    """Bytes of a file; 0 for a directory, and for a path that cannot be read, such as a file just renamed."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _in_words(report: dict[str, Any]) -> str:
    if report["strand"] != "both":
        return _one_in_words(report)
    parts = [f"{report['path']}: both strands, {_state(report)}"]
    for strand, part in report["strands"].items():
        parts.append(f"{strand}: not started" if part is None else _one_in_words(part))
    return "\n\n".join(parts)


def _state(report: dict[str, Any]) -> str:
    if report["done"]:
        return f"done{', but damaged' * bool(report['damaged'])}"
    path = Path(report["path"])
    store = str(path.parent if PairStores.are_in(path.parent) else path)
    again = shlex.join(["longalign", "resume", as_argument(store)])
    return f"not done; if no process is running it, go on with: {again}"


def _next_best_in_words(report: dict[str, Any]) -> str:
    complete = ", complete" if report["next_best_complete"] else ""
    return f"next best {report['next_best']} of at most {report['top'] - 1}{complete}"


def _percent(part: int, whole: int) -> str:
    percent = 100 * part / whole if whole else 100.0
    return f"{percent:.1f}%" if percent >= 1 or part == 0 else f"{percent:.1g}%"


def _one_in_words(report: dict[str, Any]) -> str:
    query, target = report["query"], report["target"]
    rows, cols = report["tiles"]
    done, left_out = (_percent(report[name], report["cells"]) for name in ("cells_done", "cells_left_out"))
    swept = f"{report['tiles_done']} of {rows * cols} tiles"
    score = f"{swept} ({done} of the cells)"
    best = "" if report["score"] is None else f"; best score {report['score']}"
    if report["pruning"] is not None:
        score = (
            f"{swept}, {report['tiles_left_out']} left out; {done} of the cells computed, {left_out} left out"
        )
    pieces = "?" if report["pieces"] is None else report["pieces"]
    lines = [
        f"{report['path']}: longalign {report['program']}, {report['command']}, {report['mode']}, "
        f"{report['start_states']} start states, {report['strand']} strand",
        f"query    {query['name']}, {query['length']:,} letters, {query['source']}",
        f"target   {target['name']}, {target['length']:,} letters, {target['source']}",
        f"scoring  {report['letter_scores']}, {report['gap_convention']}",
        f"output   {report['output']}" + f", {report['output_format']}" * bool(report["output_format"]),
        *([] if report["summary"] is None else [f"summary  {report['summary']}"]),
        *([] if report.get("done") is None else [f"state    {_state(report)}"]),
        f"size     {report['bytes']:,} bytes, {report['chunks'][0]} x {report['chunks'][1]} chunks",
        f"score    {score}{best}",
        f"stitch   {report['waypoints']} waypoints{', complete' if report['path_complete'] else ''}",
        f"recompute {report['pieces_done']} of {pieces} pieces",
        *([_next_best_in_words(report)] if report["top"] > 1 else []),
        *(f"damaged  {text}" for text in report["damaged"]),
    ]
    return "\n".join(lines)
