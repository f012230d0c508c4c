"""`longalign inspect`: which run a store belongs to, and how far that run has come."""

from __future__ import annotations

import json
import stat
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from longalign.formats.output import STDOUT, open_output
from longalign.phases.recompute import groups_of, segments_of
from longalign.store import DirectoryStore
from longalign.store.base import DamagedFile

SCHEMA = "longalign.store/2"


def run_inspect(options: Namespace) -> int:
    """Print the state of a store. The store is only read; a run may be using it."""
    report = inspect(Path(options.store))
    with open_output(STDOUT) as file:
        print(json.dumps(report, indent=2) if options.json else _in_words(report), file=file)
    return 0


def inspect(path: Path) -> dict[str, object]:
    """The state of a store as JSON-ready values. Raises StoreError if there is none."""
    store = DirectoryStore.attach(path)
    manifest, grid = store.manifest, store.manifest.grid
    damaged: list[str] = []

    def sound(check: Callable[[], object]) -> bool:
        try:
            return check() is not None
        except DamagedFile as damage:
            damaged.append(str(damage))
            return False

    present = [tile for tile in grid.tiles() if store.has_tile(tile)]
    done = [tile for tile in present if sound(partial(store.check_tile, tile))]
    waypoints, complete = store.get_path() if sound(store.get_path) else ([], False)
    groups = len(groups_of(segments_of(waypoints))) if complete else None
    pieces = [number for number in range(groups or 0) if sound(partial(store.get_piece, number))]
    return {
        "schema": SCHEMA,
        "path": str(path),
        **{key: value for key, value in manifest.to_json().items() if key != "grid"},
        "letter_scores": manifest.scoring.letter_scores,
        "chunks": [len(grid.row_cuts) - 1, len(grid.col_cuts) - 1],
        "tiles": list(grid.shape),
        "tiles_done": len(done),
        "cells": grid.cells,
        "cells_done": sum(tile.cells for tile in done),
        "waypoints": len(waypoints),
        "path_complete": complete,
        "pieces": groups,
        "pieces_done": len(pieces),
        "damaged": damaged,
        "bytes": sum(map(_size, path.rglob("*"))),
    }


def _size(path: Path) -> int:
    """Bytes of a file; 0 for a directory, and for a path that cannot be read, such as a file just renamed."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _in_words(report: dict[str, Any]) -> str:
    query, target = report["query"], report["target"]
    rows, cols = report["tiles"]
    percent = 100 * report["cells_done"] / report["cells"] if report["cells"] else 100.0
    pieces = "?" if report["pieces"] is None else report["pieces"]
    lines = [
        f"{report['path']}: longalign {report['program']}, {report['command']}, {report['mode']}, "
        f"{report['start_states']} start states",
        f"query    {query['name']}, {query['length']:,} letters, {query['source']}",
        f"target   {target['name']}, {target['length']:,} letters, {target['source']}",
        f"scoring  {report['letter_scores']}, {report['gap_convention']}",
        f"output   {report['output']}" + f", {report['output_format']}" * bool(report["output_format"]),
        *([] if report["summary"] is None else [f"summary  {report['summary']}"]),
        f"size     {report['bytes']:,} bytes, {report['chunks'][0]} x {report['chunks'][1]} chunks",
        f"score    {report['tiles_done']} of {rows * cols} tiles ({percent:.1f} % of the cells)",
        f"stitch   {report['waypoints']} waypoints{', complete' if report['path_complete'] else ''}",
        f"recompute {report['pieces_done']} of {pieces} pieces",
        *(f"damaged  {text}" for text in report["damaged"]),
    ]
    return "\n".join(lines)
