"""What the scripts share: where genomes are found, and that what a user can cause ends them with a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from longalign.errors import LongalignError


def genome(folder: Path, name: str) -> Path:
    """The file of a genome; SystemExit if it is not there."""
    file = folder / f"{name}.fa.gz"
    if not file.is_file():
        sys.exit(f"{folder}: no {file.name}")
    return file


def run_script(main: Callable[[], int]) -> NoReturn:
    """Run a script, and leave with its exit code."""
    try:
        sys.exit(main())
    except LongalignError as error:
        sys.exit(str(error))
