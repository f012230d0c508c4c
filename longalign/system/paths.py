"""Paths that stay valid when the working directory is another one, or gone."""

from __future__ import annotations

import os
from pathlib import Path


def absolute_path(path: str) -> str:
    """The absolute path. Names before ".." are left out, so that their directories may vanish.

    Links are followed only in a path with "..", where they decide what it names. Raises OSError if there is
    no working directory any more.
    """
    absolute = Path(path).absolute()
    if ".." not in absolute.parts:
        return str(absolute)
    return str(Path(os.path.realpath(absolute.parent)) / absolute.name)
