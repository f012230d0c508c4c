"""Helpers of the scripts: find genomes, and end with one line on an error of the user."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from longalign.errors import LongalignError


def genome(folder: Path, name: str) -> Path:
    """The file of a genome. Raises SystemExit if there is none."""
    file = folder / f"{name}.fa.gz"
    if not file.is_file():
        sys.exit(f"{folder}: no {file.name}")
    return file


def run_script(main: Callable[[], int]) -> NoReturn:
    """Run a script and exit with its code, or with the message of a LongalignError."""
    try:
        sys.exit(main())
    except LongalignError as error:
        sys.exit(str(error))
